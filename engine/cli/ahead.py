"""The command line by a clock that may stand ahead of the machine's: the demonstration's second process."""

from __future__ import annotations

import sys

from engine.cli import session
from engine.cli.main import main
from engine.cli.options import duration_ms
from engine.clock import SystemClock


def run(arguments: list[str]) -> int:
    """Run a command; `--clock-ahead 31s` before it moves the clock of this process alone."""
    if arguments[:1] == ["--clock-ahead"]:
        session.clock.set(SystemClock(duration_ms(arguments[1])))
        arguments = arguments[2:]
    return main(arguments)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
