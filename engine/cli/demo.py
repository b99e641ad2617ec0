"""`contextful demo`: see a run killed and resumed, in one screen."""

import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from engine.cli import output
from engine.cli.options import Json
from engine.cli.parsing import Option

SCREEN: Final = """\
data      {events} earthquakes of a week in 2018 from the U.S. Geological Survey, public domain, by a local API

1st run   asked for {before}
          killed with SIGKILL while a page was half sent; nothing of it had been committed
2nd run   replayed {replayed} from the journal, then asked for {after}
          {lease}

landed    {rows} rows, {distinct} distinct ids, {events} events in the data set
twice     {repeated} asked for again after being recorded; only the one in flight was asked for anew
verdict   {verdict} ({seconds} s)

try next
  cd {folder}
  {program} read "SELECT place, mag FROM quakes ORDER BY mag DESC LIMIT 5"
  {program} run list
"""

if TYPE_CHECKING:
    from engine.demo.api import Asked
    from engine.demo.story import Story

Fast = Annotated[
    bool, Option("--fast", envvar="CONTEXTFUL_DEMO_FAST", help="Without the throttle, the slow page shorter.")
]  # fmt: skip
RealTime = Annotated[
    bool,
    Option("--real-time", envvar="CONTEXTFUL_DEMO_REAL_TIME", help="Wait the dead run's 30 s lease out."),
]
Where = Annotated[
    Path | None,
    Option("--manifest", envvar="CONTEXTFUL_DEMO_MANIFEST", metavar="PATH",
           help="Where the demonstration's manifest is written; without it a new temporary folder."),
]  # fmt: skip


def demo(*, fast: Fast = False, real_time: RealTime = False, manifest: Where = None, json: Json = False) -> int:
    """Kill a run half way, resume it, and show that nothing was asked for or landed twice."""
    from engine.cli.signals import interruptible
    from engine.demo.api import Manners
    from engine.demo.story import told

    manifest = manifest or Path(tempfile.mkdtemp(prefix="contextful-demo-")) / "contextful.toml"
    manners = Manners(throttle_at=0, slow_s=0.3) if fast else Manners()
    output.say("a run begins against a local API; it is killed with SIGKILL half way and resumed …")
    with interruptible():
        story = told(manifest.absolute(), manners=manners, real_time=real_time)
    if json:
        output.document(_document(story))
    else:
        _print(story, real_time=real_time)
    return 0 if story.holds else 1


def _document(story: "Story") -> dict[str, object]:
    return {
        "manifest": str(story.manifest),
        "before": {"requests": len(story.before), "rows": sum(asked.rows for asked in story.before)},
        "after": {"requests": len(story.after), "rows": sum(asked.rows for asked in story.after)},
        "replayed": story.run["replayed"],
        "rows": story.run["rows"],
        "distinct": story.distinct,
        "repeated": story.repeated,
        "holds": story.holds,
        "seconds": round(story.seconds, 3),
    }


def _print(story: "Story", *, real_time: bool) -> None:
    from engine.demo.api import quakes

    lease = (
        "the dead run's lease of 30 s was waited out"
        if real_time
        else "(its clock stood 31 s ahead, so that nobody waits for the dead run's 30 s lease; --real-time waits)"
    )
    told = {
        "events": f"{len(quakes()):,}",
        "before": _asked(story.before),
        "after": _asked(story.after),
        "replayed": output.counted(story.run["replayed"], "page"),
        "lease": lease,
        "rows": f"{story.run['rows']:,}",
        "distinct": f"{story.distinct:,}",
        "repeated": output.counted(story.repeated, "page"),
        "verdict": "nothing was lost and nothing came twice" if story.holds else "THIS IS WRONG: please report it",
        "seconds": f"{story.seconds:.1f}",
        "folder": shlex.quote(str(story.manifest.parent)),
        "program": _program(),
    }
    for line in SCREEN.splitlines():
        output.text(line.format_map(told))


def _asked(asked: "tuple[Asked, ...]") -> str:
    pages = output.counted(sum(1 for one in asked if one.rows), "page")
    throttled = sum(one.status == 429 for one in asked)
    cut = sum(one.status == 200 and not one.rows for one in asked)
    notes = [*([f"{throttled} told to wait"] if throttled else []), *([f"{cut} cut off half way"] if cut else [])]
    rows = sum(one.rows for one in asked)
    return f"{pages} ({rows:,} rows){''.join(f', {note}' for note in notes)}"


def _program() -> str:
    """How a person at this shell calls the command line: by its name where the shell finds it."""
    return "contextful" if shutil.which("contextful") else shlex.quote(str(Path(sys.argv[0]).absolute()))
