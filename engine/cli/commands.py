"""Every command by its name."""

from __future__ import annotations

import typer

from engine.cli import demo, init, pipeline, pipeline_run, preview, read, reset, rewind, run_history, status, storage


def application() -> typer.Typer:
    """The command line."""
    app = _group("Data pipelines that survive crashes, lost answers and replaced machines.")
    app.command("init")(init.init)
    app.command("read")(read.read)
    app.command("status")(status.status)
    app.command("demo")(demo.demo)
    app.add_typer(_pipeline(), name="pipeline")
    app.add_typer(_table(), name="table")
    app.add_typer(_run(), name="run")
    app.add_typer(_storage(), name="storage")
    app.add_typer(_catalog(), name="catalog")
    return app


def _pipeline() -> typer.Typer:
    group = _group("Check, try and run the pipelines of the manifest.")
    group.command("validate")(pipeline.validate)
    group.command("list")(pipeline.show)
    group.command("preview")(preview.preview)
    group.command("run")(pipeline_run.run)
    group.command("reset")(reset.reset)
    return group


def _table() -> typer.Typer:
    group = _group("The tables of the corpus.")
    group.callback()(_alone)
    group.command("drop")(reset.drop)
    return group


def _run() -> typer.Typer:
    group = _group("The history of runs.")
    group.command("list")(run_history.show)
    group.command("show")(run_history.one)
    group.command("export")(run_history.export)
    group.command("rewind")(rewind.rewind)
    return group


def _storage() -> typer.Typer:
    group = _group("The store: state and corpus.")
    group.command("initialize")(storage.initialize)
    group.command("check")(storage.check)
    return group


def _catalog() -> typer.Typer:
    group = _group("The catalog, a cache of what the corpus holds.")
    group.callback()(_alone)
    group.command("rebuild")(storage.rebuild)
    return group


def _alone() -> None:
    """Keep a group of one command a group: Typer would fold it into its command."""


def _group(purpose: str) -> typer.Typer:
    return typer.Typer(
        help=purpose,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
