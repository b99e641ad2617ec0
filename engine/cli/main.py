"""The command line's entry: every command by its name, and what each way of ending one means to the shell."""

from __future__ import annotations

import gc
import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from engine.cli import commands, output
from engine.cli.confirm import Declined
from engine.cli.parsing import truth
from engine.errors import Canceled, ContextfulError, described

if TYPE_CHECKING:
    from collections.abc import Sequence

DEBUG: Final = "CONTEXTFUL_DEBUG"
COLLECTED_EVERY: Final = 20_000
"""Objects made before the collector looks for cycles. Python's own 700 has it look hundreds of times while imports run,
which make no cycles that end."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1, 2, 75 or 130 (errors.exit_code)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    output.opened()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal of another encoding is shown escapes, not a traceback
            stream.reconfigure(errors="backslashreplace")
    gc.set_threshold(COLLECTED_EVERY)
    # An optional part of httpx imports a terminal kit for its own command: a third of a second nobody here asked for.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type] # None is how an import is ruled out
    try:
        code = _ran(arguments)
        with output.written():
            sys.stdout.flush()
    except output.OutputUnwritable as lost:
        output.abandoned()
        return _refuse(output.refused(lost), {}, code=lost.exit_code, json=False)
    return code


def interrupted(arguments: Sequence[str]) -> int:
    """Tell that the command of `arguments` was interrupted, and return its exit code."""
    stop = Canceled("interrupted", remedy="what was recorded stays: the same command goes on from there")
    return _refuse(output.refused(stop), described(stop), code=stop.exit_code, json=_wants_json(arguments))


def _ran(arguments: list[str]) -> int:
    json = _wants_json(arguments)
    try:
        return commands.run(arguments, os.environ)
    except output.OutputUnwritable:
        raise
    except Declined:
        return 1
    except ContextfulError as error:
        return _refuse(output.refused(error), described(error), code=error.exit_code, json=json)
    except KeyboardInterrupt:
        return interrupted(arguments)
    except Exception as defect:  # the last line of defense: a defect is named, never thrown at a user
        return _defective(defect, json=json)


def _refuse(line: str, error: dict[str, Any], *, code: int, json: bool) -> int:
    output.say(line)
    if json:
        output.document({"error": error})
    return code


def _defective(defect: Exception, *, json: bool) -> int:
    if os.environ.get(DEBUG):
        import traceback

        traceback.print_exception(defect)
    told = f"{type(defect).__name__}: {defect}".splitlines()[0]
    text = f"a defect of contextful, not of yours: {told}; {DEBUG}=1 shows where, please report it"
    error = {"name": "InternalError", "tag": "Permanent", "message": text}
    return _refuse(f"InternalError: {text}", error, code=1, json=json)


def _wants_json(arguments: Sequence[str]) -> bool:
    """Whether errors are told as JSON too; asked before anything is parsed, since parsing may be what fails."""
    with suppress(ValueError):
        arguments = arguments[: arguments.index("--")]
    return "--json" in arguments or truth(os.environ.get("CONTEXTFUL_JSON", ""))
