"""Tables read by a Python generator of pulls, named `package.module:callable` in the manifest.

The manifest's folder is appended to the import path, never put first: nothing in it can replace an installed module.
The hash a pending run pins is that of the module's source file; what the module imports is not part of it.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from engine.clock import SystemClock
from engine.errors import Config, ContextfulError, NamedError, Permanent, SourceShape, Transient, UnknownConnector
from engine.pipeline.declaration import PythonSource, Table
from engine.pipeline.sources.answers import failure
from engine.pipeline.sources.placeholders import masked
from engine.pipeline.withheld import quotable, withholding
from engine.shapes import Connector, CursorKind, Pull

if TYPE_CHECKING:
    from types import ModuleType

    from engine.pipeline.source import Ask

_MARK: Final = "__contextful_source__"

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Marked:
    """What `source` says of a generator function."""

    name: str
    version: str
    unjournaled: str | None
    cursor_kind: CursorKind | None
    removes: tuple[str, ...] | bool = ()


def source(
    name: str,
    *,
    version: str = "1",
    unjournaled: str | None = None,
    cursor_kind: CursorKind | None = None,
    removes: tuple[str, ...] | bool = (),
) -> Callable[[F], F]:
    """Mark a generator of pulls as the source `name`.

    `unjournaled` is for a source whose position before a pull cannot name the content it will read
    (run.journal.opt-out): it is the argument why asking again on resume is harmless, and turns journaling off
    (run.journal.escape-hatch). `cursor_kind` None: monotonic for a table with `incremental`, else opaque
    (run.advance.cursor-kind). `removes` names the columns that must not be recorded: every table it serves declares a
    class for each of them, or its run is refused (run.journal.redacting-source). Raise `Config` for an empty argument.
    """
    if unjournaled is not None and not unjournaled.strip():
        raise Config(f"the source {name!r} is unjournaled for no reason", remedy="say why asking again is harmless")

    def mark(function: F) -> F:
        setattr(function, _MARK, Marked(name, version, unjournaled, cursor_kind, removes))
        return function

    return mark


class PythonPulls:
    """The pulls of a user's generator function, marked by `source` or plain."""

    sends = False

    def __init__(self, table: Table) -> None:
        """Import the entry. Raise `UnknownConnector` when it names no callable."""
        if not isinstance(table.source, PythonSource):
            raise TypeError(f"{table.name} is not read by Python")
        self._entry = table.source.entry
        self._function, module = _imported(table.source)
        mark = getattr(self._function, _MARK, Marked(self._entry, "1", unjournaled=None, cursor_kind=None))
        undeclared = CursorKind.MONOTONIC if table.incremental else CursorKind.OPAQUE_TOKEN
        self.connector = Connector(id=f"python:{mark.name}", version=mark.version, hash=_digest(module, self._entry))
        self.journaled = mark.unjournaled is None
        self.cursor_kind = mark.cursor_kind or undeclared
        self.removes = mark.removes

    def pulls(self, ask: Ask) -> Iterator[Pull]:
        """What the generator yields.

        Errors of `engine.errors` pass as they are, a broken connection is `Transient`, an HTTP status raised by httpx
        is what the status means, anything else `Permanent` naming type, message and line. Raise `SourceShape` when
        what it gives is no generator of pulls.
        """
        try:
            generator = self._function(ask)
            if not isinstance(generator, Iterator):
                raise self._misshapen("the returned value", generator, expected="a generator of engine.Pull")
            with _closing(generator):
                for count, pull in enumerate(generator):
                    if not isinstance(pull, Pull):
                        raise self._misshapen(f"yielded value {count + 1}", pull, expected="an engine.Pull")
                    yield pull
        except NamedError:
            raise
        except ContextfulError as error:
            if not withholding():
                raise
            raise error.saying(f"{self._entry}: {quotable(error.message)} ({_place(error)})") from None
        except (Exception, SystemExit) as error:  # whatever the user's code raises, or ends by; callers branch on tags
            raise self._failure(error, ask) from error

    def _misshapen(self, path: str, found: Any, *, expected: str) -> SourceShape:
        return SourceShape(place=self._entry, path=path, found=f"a {type(found).__name__}", expected=expected)

    def _failure(self, error: Exception | SystemExit, ask: Ask) -> ContextfulError:
        import httpx  # noqa: PLC0415 - a source that makes no request does not pay for the import

        said = quotable(masked(str(error), ask.secrets))
        text = f"{self._entry}: {type(error).__name__}: {said} ({_place(error)})"
        if isinstance(error, httpx.HTTPStatusError):
            answered = error.response
            return failure(answered.status_code, text, retry_after=answered.headers.get("retry-after"),
                           now=SystemClock().now())  # fmt: skip
        return Transient(text) if isinstance(error, httpx.TransportError) else Permanent(text)


@contextmanager
def _closing(generator: Iterator[Any]) -> Iterator[None]:
    """Close `generator`, where it can be, so that what its own `finally` raises reaches whoever closes this."""
    try:
        yield
    finally:
        if isinstance(generator, Generator):
            generator.close()


def _imported(declared: PythonSource) -> tuple[Callable[..., Any], ModuleType]:
    name, colon, path = declared.entry.partition(":")
    if not (colon and name and path):
        raise UnknownConnector(f'source.entry is {declared.entry!r}, expected "package.module:callable"')
    if str(declared.base) not in sys.path:
        sys.path.append(str(declared.base))
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:  # importing runs the user's module, which may raise whatever it likes
        said = f"{type(error).__name__}: {error} ({_place(error)})"
        remedy = f"it is looked for in the installed packages, then in {declared.base}"
        raise UnknownConnector(f"source.entry {declared.entry!r} cannot be imported: {said}", remedy=remedy) from error
    found: Any = module
    for part in path.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        held = ", ".join(sorted(key for key, value in vars(module).items() if hasattr(value, _MARK))) or "none"
        stood = "nothing" if found is None else f"a {type(found).__name__}"
        raise UnknownConnector(f"source.entry {declared.entry!r}: {path} of {name} is {stood}, expected a generator "
                               f"function; marked as sources there: {held}")  # fmt: skip
    return found, module


def _digest(module: ModuleType, entry: str) -> str:
    if not module.__file__:
        raise UnknownConnector(f"source.entry {entry!r}: {module.__name__} has no source file to pin")
    return hashlib.sha256(Path(module.__file__).read_bytes()).hexdigest()


def _place(error: BaseException) -> str:
    """File and line of the last frame that is not of this package: where the user's own code stood."""
    here = str(Path(__file__).parent)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith((here, "<frozen"))]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "no line"
