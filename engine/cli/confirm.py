"""Asking before something is taken away."""

from __future__ import annotations

import sys

from engine.cli import output
from engine.errors import ConfirmationNeeded


class Declined(Exception):
    """Whoever was asked said no: the command ends with 1, and nothing was changed."""


def confirm(action: str, *, yes: bool) -> None:
    """Return once `action` is confirmed: by `yes`, or by an answer on the terminal.

    Raise `ConfirmationNeeded` where nobody can be asked; `Declined` where the answer is no.
    """
    if not (yes or sys.stdin.isatty()):
        raise ConfirmationNeeded(action=action)
    output.say(action)
    if yes:
        return
    sys.stderr.write("go on? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        output.say("nothing was changed")
        raise Declined
