"""The console script: it hears Ctrl-C from its first lines on, long before the command line is imported.

An interrupt inside an import shows whoever asked for it a traceback through the standard library. So one that comes
while the command line is imported is kept until that is done, and then ends the command as any later one does.
"""

import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> int:
    """Run the command line on this process's arguments and return its exit code: 130 where Ctrl-C ended it."""
    try:
        return _imported()()
    except KeyboardInterrupt:
        from engine.cli.main import interrupted

        return interrupted(sys.argv[1:])
    finally:
        _ending()


def _imported() -> "Callable[[], int]":
    """The command line. Raise `KeyboardInterrupt` once it is imported, where one came meanwhile."""
    import signal

    heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    kept: list[int] = []
    if heeded:
        signal.signal(signal.SIGINT, lambda number, _: kept.append(number))
    from engine.cli.main import main as command

    sys.unraisablehook = _unraised
    if heeded:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if kept:
        raise KeyboardInterrupt
    return command


def _unraised(lost: "sys.UnraisableHookArgs") -> None:
    """Repeat an interrupt that struck where none can be raised, as in a library's callback: it would be lost."""
    import signal
    import threading

    if lost.exc_type is KeyboardInterrupt:
        again = (threading.main_thread().ident, signal.SIGINT)
        threading.Timer(0.01, signal.pthread_kill, again).start()
    else:
        sys.__unraisablehook__(lost)


def _ending() -> None:
    """Let Ctrl-C end what is left, which is Python's own end, without a word: all is written."""
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main())
