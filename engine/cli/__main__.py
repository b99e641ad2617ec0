"""The console script: it hears Ctrl-C from its first lines on, long before the command line is imported.

An interrupt inside an import shows whoever asked for it a traceback through the standard library, and some libraries
abort the process or take it for another failure. So one that comes there waits until the import is over.
"""

import sys
import time

TYPE_CHECKING = False

if TYPE_CHECKING:
    from types import FrameType

AGAIN_S = 0.001
"""How long an interrupt waits before it looks again."""
LONGEST_S = 3.0
"""How long it waits in all: an import that hangs can be left."""

_BUILDS = "engine.pipeline.manifest.models"
"""Whose calls build a validator, in a library that tells an interrupt as an error of what it builds."""

_waiting: list[float] = []


def main() -> int:
    """Run the command line on this process's arguments and return its exit code: 130 where Ctrl-C ended it."""
    try:
        _heed()
        from engine.cli.main import main as command

        if _waiting:
            _waiting.clear()
            raise KeyboardInterrupt
        return command()
    except KeyboardInterrupt:
        from engine.cli.main import interrupted

        return interrupted(sys.argv[1:])
    finally:
        _ending()


def _heed() -> None:
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGALRM, _interrupt)
        signal.signal(signal.SIGINT, _interrupt)
        sys.unraisablehook = _unraised


def _interrupt(number: int, frame: "FrameType | None") -> None:
    """Raise `KeyboardInterrupt`, later where it would break an import; an alarm that nothing waits for says nothing."""
    import signal

    if number == signal.SIGALRM and not _waiting:
        return
    if _breaks(frame) and time.monotonic() - (_waiting or [time.monotonic()])[0] < LONGEST_S:
        _later()
        return
    _waiting.clear()
    raise KeyboardInterrupt


def _breaks(frame: "FrameType | None") -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>" or frame.f_globals.get("__name__") == _BUILDS:
            return True
        frame = frame.f_back
    return False


def _later() -> None:
    import signal

    if not _waiting:
        _waiting.append(time.monotonic())
    signal.setitimer(signal.ITIMER_REAL, AGAIN_S)


def _unraised(lost: "sys.UnraisableHookArgs") -> None:
    """Repeat an interrupt that struck where none can be raised, as in a library's callback: it would be lost."""
    if lost.exc_type is KeyboardInterrupt:
        _later()
    else:
        sys.__unraisablehook__(lost)


def _ending() -> None:
    """Let Ctrl-C end what is left, which is Python's own end, without a word: all is written."""
    import signal

    if signal.getsignal(signal.SIGINT) is _interrupt:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main())
