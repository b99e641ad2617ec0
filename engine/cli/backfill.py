"""`contextful pipeline backfill`: history in windows, each landed whole beside the live table."""

from typing import TYPE_CHECKING, Annotated, Any

from engine.cli import output, session
from engine.cli.options import Json, ManifestPath, PipelineId, SiteId, SiteIdEnv, TableName
from engine.cli.parsing import Misuse, Option
from engine.cli.pipeline_run import SHOWN, Wait
from engine.errors import described

if TYPE_CHECKING:
    from engine.pipeline.backfill import Backfilled, Chunked, Course
    from engine.pipeline.declaration import Pipeline
    from engine.project import Project
    from engine.runs import RunRow

From = Annotated[
    str,
    Option("--from", envvar="CONTEXTFUL_PIPELINE_FROM", metavar="A",
           help="Where the window begins, in values of the incremental column."),
]  # fmt: skip
To = Annotated[str, Option("--to", envvar="CONTEXTFUL_PIPELINE_TO", metavar="B", help="Where it ends; B is not in it.")]
Every = Annotated[
    str | None,
    Option("--every", envvar="CONTEXTFUL_PIPELINE_EVERY", metavar="1d",
           help="What one chunk spans: a duration, or a whole number where the column holds numbers."),
]  # fmt: skip
Rewind = Annotated[
    bool,
    Option("--rewind", envvar="CONTEXTFUL_PIPELINE_REWIND",
           help="Read nothing: give up the recorded work of unfinished chunks in the window."),
]  # fmt: skip
Reason = Annotated[
    str | None,
    Option("--reason", envvar="CONTEXTFUL_PIPELINE_REASON", metavar="TEXT",
           help="Why it is given up; it goes on the record."),
]  # fmt: skip
Force = Annotated[
    bool,
    Option("--force", envvar="CONTEXTFUL_PIPELINE_FORCE",
           help="Also where a repeat would resume it; what is alive is never retired, when giving up."),
]  # fmt: skip


def backfill(
    pipeline_id: PipelineId,
    *,
    start: From,
    end: To,
    every: Every = None,
    table: TableName = None,
    rewind: Rewind = False,
    reason: Reason = None,
    force: Force = False,
    site_id: SiteId = None,
    site_id_env: SiteIdEnv = None,
    wait: Wait = 0,
    manifest: ManifestPath = None,
    json: Json = False,
) -> int:
    """Land the rows of a window of history in chunks; repeated, it goes on with those that are not done."""
    from dataclasses import replace

    from engine.cli.signals import interruptible

    _refuse_mixed(every=every, rewind=rewind, reason=reason, force=force)
    with interruptible(), session.project(manifest) as project:
        chosen = session.pipeline(project.manifest, pipeline_id)
        chosen = replace(chosen, tables=session.tables(chosen, table))
        if rewind:
            rows = _rewound(project, chosen, (start, end), reason=str(reason), force=force)
            return _tell_rewound(rows, json=json)
        courses, ended = _backfilled(
            project, chosen, (start, end, str(every)), site=site_id, site_env=site_id_env, wait_ms=wait
        )
    for line in _complaints(ended):
        output.say(line)
    if json:
        output.document(_told(courses, ended))
    else:
        output.text(_summary(ended))
    return ended.exit_code


def _refuse_mixed(*, every: str | None, rewind: bool, reason: str | None, force: bool) -> None:
    if rewind and not reason:
        raise Misuse("--rewind needs --reason TEXT, which goes on the record")
    if rewind and every is not None:
        raise Misuse("--rewind takes the whole window: leave --every out")
    if not rewind and (reason is not None or force):
        raise Misuse("--reason and --force belong to --rewind")
    if not rewind and every is None:
        raise Misuse("--every says what one chunk spans: a duration such as 1d, or a number")


def _backfilled(
    project: "Project", chosen: "Pipeline", bounds: tuple[str, str, str], *, site: Any, site_env: Any, wait_ms: int
) -> "tuple[list[Course], Backfilled]":
    from engine.cli.chunk_progress import watching
    from engine.cli.firing import Patience
    from engine.cli.signals import stopping
    from engine.pipeline.backfill import Backfill

    secrets, (start, end, every) = project.secrets(chosen), bounds
    with (
        watching() as watcher,
        session.engine(project, site=site, site_env=site_env, noticed=watcher.retrying) as engine,
        stopping(engine.stop),
    ):
        patience = Patience(wait_ms, check=engine.stopping.check)
        asked = Backfill(engine, chosen, secrets, watcher, await_live=patience)
        courses = asked.course(chosen.tables, start, end, every=every)
        for course in courses:
            _say_overlaps(course)
        return courses, asked.run(courses)


def _rewound(
    project: "Project", chosen: "Pipeline", bounds: tuple[str, str], *, reason: str, force: bool
) -> "list[RunRow]":
    from engine.pipeline.backfill import spans_of
    from engine.rewind import rewind_window

    pipelines = {table.name: chosen.id for table in chosen.tables}
    with session.engine(project) as engine:
        spans = spans_of(engine, chosen.tables, *bounds, every=None)
        return [
            row
            for table, span in spans
            for row in rewind_window(engine, table.name, span.window, reason=reason, force=force, pipelines=pipelines)
        ]


def _tell_rewound(rows: "list[RunRow]", *, json: bool) -> int:
    if json:
        output.document({"retired": [row.projection() for row in rows]})
        return 0
    for row in rows:
        output.text(
            f"retired {row.execution_id}: {row.table} {row.chunk} is asked for afresh (recorded as {row.run_id})"
        )
    if not rows:
        output.text("no chunk of the window is unfinished")
    return 0


def _say_overlaps(course: "Course") -> None:
    done = [other for other in course.overlapping if other.state == "done"]
    left = len(course.overlapping) - len(done)
    if done:
        spans = f"{done[0].chunk.window.start} to {done[-1].chunk.window.end}"
        twice = "its rows land once more" + ("" if course.table.primary_key else ", and no primary key makes them one")
        chunks = output.counted(len(done), "chunk")
        output.say(f"{course.table.name}: another backfill has landed {chunks} of this window ({spans}): {twice}")
    if left:
        chunks = output.counted(left, "chunk")
        output.say(
            f"{course.table.name}: another backfill has {chunks} of this window pending; this is a plan of its own"
        )


def _complaints(ended: "Backfilled") -> list[str]:
    lines = []
    for chunk in ended.chunks:
        if chunk.refusal is not None:
            lines.append(f"{_named(chunk)}: {output.refused(chunk.refusal)}")
        elif chunk.run and chunk.run.error:
            error = chunk.run.projection()["error"]
            lines.append(f"{_named(chunk)}: {error['name']}: {error['message']}")
    failed = [_named(chunk) for chunk in ended.chunks if chunk.failed]
    if failed:
        lines.append(f"failed: {', '.join(failed)}")
    # A chunk whose failure itself names what must be done first only fails again.
    stuck = sum("remedy" in (chunk.run.error or ()) for chunk in ended.chunks if chunk.run)
    if ended.done + stuck < ended.total:
        lines.append("next: the same command goes on with what is not done")
    return lines


def _summary(ended: "Backfilled") -> str:
    return (
        f"{ended.done:,} of {output.counted(ended.total, 'chunk')} done, {output.counted(ended.rows, 'row')} landed now"
    )


def _named(chunk: "Chunked") -> str:
    return f"{chunk.planned.chunk.table} {chunk.planned.chunk.window.text}"


def _told(courses: "list[Course]", ended: "Backfilled") -> dict[str, Any]:
    """A backfill as `--json` tells it."""
    return {
        "fire_id": ended.fire_id,
        "state": str(ended.state),
        "chunks": {"done": ended.done, "total": ended.total},
        "rows": ended.rows,
        "overlapping": [
            {"table": other.chunk.table, "window": other.chunk.window.text, "state": str(other.state)}
            for course in courses
            for other in course.overlapping
        ],
        "windows": [_window(chunk) for chunk in ended.chunks],
    }


def _window(chunk: "Chunked") -> dict[str, Any]:
    window, run = chunk.planned.chunk.window, chunk.run.projection() if chunk.run else None
    return {
        "table": chunk.planned.chunk.table,
        "from": window.start,
        "to": window.end,
        "done": chunk.done,
        "failed": chunk.failed,
        "rows": chunk.rows,
        "run": run and {name: run[name] for name in SHOWN},
        "error": described(chunk.refusal) if chunk.refusal else None,
    }
