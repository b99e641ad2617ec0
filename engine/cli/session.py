"""What a command works with: the project its manifest names, in the environment and by the clock of this process."""

from __future__ import annotations

import difflib
import os
import sys
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from engine.errors import ExportUnknown, PipelineUnknown, TableUnknown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from engine.clock import Clock
    from engine.host import Engine
    from engine.pipeline.declaration import Export, Manifest, Pipeline, Table
    from engine.project import Project

clock: ContextVar[Clock | None] = ContextVar("clock", default=None)
"""The clock of this process where it is not the machine's: the demonstration's second half runs one ahead."""


@contextmanager
def project(manifest: Path | None) -> Iterator[Project]:
    """The project of `manifest`, closed with the block; its profile is opened at first use."""
    from engine.project import Project

    with Project.find(manifest, environ=os.environ, clock=clock.get()) as found:
        yield found


@contextmanager
def store(manifest: Path | None) -> Iterator[Project]:
    """The project with its store looked over: initialized if nobody has used it, refused if it lost something."""
    from engine.storage import preflight

    with project(manifest) as found:
        found.initialize_if_new()
        preflight(found.profile, project=found.manifest.project)
        yield found


@contextmanager
def state(manifest: Path | None) -> Iterator[Project]:
    """As `store`, of which the machine state alone is looked over: nothing is asked of a bucket."""
    from engine.storage import require_state

    with project(manifest) as found:
        found.initialize_if_new()
        require_state(found.profile, project=found.manifest.project)
        yield found


@contextmanager
def engine(found: Project, **options: Any) -> Iterator[Engine]:
    """An engine over the project; whatever ends the block, its holder's exit is recorded."""
    from engine import spans

    spans.configured(found.environ)
    with aside(), found.engine(**options) as opened:
        yield opened


def aside() -> AbstractContextManager[object]:
    """What a source of the user's prints goes to standard error: standard output is the command's answer alone."""
    return redirect_stdout(sys.stderr)


def pipeline(declared: Manifest, named: str) -> Pipeline:
    """The pipeline `named`. Raise `PipelineUnknown` with the names there are."""
    known = {each.id: each for each in declared.pipelines}
    if named not in known:
        raise PipelineUnknown(pipeline=named, hint=_hint(named, list(known)))
    return known[named]


def tables(chosen: Pipeline, named: str | None) -> tuple[Table, ...]:
    """The tables asked for: all, or the one `named`. Raise `TableUnknown` with the names there are."""
    if named is None:
        return chosen.tables
    known = {each.name: each for each in chosen.tables}
    if named not in known:
        raise TableUnknown(table=named, place=f"pipeline {chosen.id}", hint=_hint(named, list(known)))
    return (known[named],)


def export(declared: Manifest, named: str) -> Export:
    """The export `named`. Raise `ExportUnknown` with the names there are."""
    known = {each.name: each for each in declared.exports}
    if named not in known:
        raise ExportUnknown(export=named, hint=_hint(named, list(known)))
    return known[named]


def table_unknown(named: str, *, known: list[str], place: str) -> TableUnknown:
    """The refusal of a table that neither manifest nor corpus has."""
    return TableUnknown(table=named, place=place, hint=_hint(named, known))


def _hint(named: str, known: list[str]) -> str:
    near = difflib.get_close_matches(named, known, n=1)
    guess = f"did you mean {near[0]}? " if near else ""
    return f"{guess}there are: {', '.join(known)}" if known else "there are none yet"
