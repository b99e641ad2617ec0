"""Every command by its name."""

from __future__ import annotations

import typer

from engine.cli import init, pipeline, pipeline_run, read, run_history


def application() -> typer.Typer:
    """The command line."""
    app = _group("Data pipelines that survive crashes, lost answers and replaced machines.")
    app.command("init")(init.init)
    app.command("read")(read.read)
    app.add_typer(_pipeline(), name="pipeline")
    app.add_typer(_run(), name="run")
    return app


def _pipeline() -> typer.Typer:
    group = _group("Check, try and run the pipelines of the manifest.")
    group.command("validate")(pipeline.validate)
    group.command("list")(pipeline.show)
    group.command("run")(pipeline_run.run)
    return group


def _run() -> typer.Typer:
    group = _group("The history of runs.")
    group.command("list")(run_history.show)
    group.command("show")(run_history.one)
    group.command("export")(run_history.export)
    return group


def _group(purpose: str) -> typer.Typer:
    return typer.Typer(
        help=purpose,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
