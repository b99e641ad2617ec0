"""Finding, reading and checking a `contextful.toml`."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from engine.errors import ManifestInvalid, RunRetryTagUnretryable
from engine.pipeline.manifest.problems import key_path, leaves
from engine.schedule import RETRYABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from engine.pipeline.declaration import Manifest
    from engine.pipeline.manifest.problems import Problem

NAME: Final = "contextful.toml"
_REMEDY: Final = "write one with `contextful init`, or name another with --manifest PATH"


def find(start: Path | None = None) -> Path:
    """The nearest `contextful.toml` in `start`, or in the working directory, or in a folder above it.

    Raise `ManifestInvalid` where there is none.
    """
    folder = start.absolute() if start else _here()
    for candidate in (folder, *folder.parents):
        if (candidate / NAME).is_file():
            return candidate / NAME
    found = f"found no {NAME} in {folder} or any folder above it; {_REMEDY}"
    raise ManifestInvalid(file=str(folder / NAME), problems=(found,))


def load(
    path: Path, environ: Mapping[str, str], *, rule: Callable[[Mapping[str, Any]], Iterable[Problem]] | None = None
) -> Manifest:
    """The manifest at `path`, checked and resolved; `rule` tells what else must hold of it.

    Raise `ManifestInvalid` with every problem of the file, or `RunRetryTagUnretryable` for a file whose only fault
    is a tag that no schedule retries. Secrets that are not set are no problem here: `missing_secrets` tells them.
    """
    # Imported here, not above: the validator costs a command that reads no manifest 30 ms.
    from engine.pipeline.manifest.checking import checked  # noqa: PLC0415
    from engine.pipeline.manifest.resolve import manifest  # noqa: PLC0415

    document = _parsed(path)
    found = checked(document, environ)
    unretryable = list(_unretryable(document, path))
    problems = [*found.problems, *(rule(document) if rule else ())]
    if problems:
        told = [problem.told(document) for problem in problems]
        raise ManifestInvalid(file=str(path), problems=(*told, *(str(error) for error in unretryable)))
    if unretryable:
        raise unretryable[0]
    return manifest(found.document, path.absolute())


def placed(message: str, text: str) -> str:
    """A syntax error's text with line and column in every case: the parser says only "at end of document" for one."""
    lines = text.split("\n")
    end = f"(at line {len(lines)}, column {len(lines[-1]) + 1}, the end of the file)"
    return re.sub(r"\(at end of document\)", end, message)


def _here() -> Path:
    try:
        return Path.cwd()
    except OSError:
        gone = "the working directory is gone; go to one that is there, or name a manifest with --manifest PATH"
        raise ManifestInvalid(file=NAME, problems=(gone,)) from None


def _parsed(path: Path) -> dict[str, Any]:
    text = _text(path)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise _unreadable(path, "found values nested too deep to read; allowed: a few levels") from None
    except ValueError as error:  # TOMLDecodeError, and what int() says of a number with thousands of digits
        raise _unreadable(path, f"found what is no TOML: {placed(str(error), text)}") from None


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise _unreadable(path, f"no such file; {_REMEDY}") from None
    except OSError as error:
        raise _unreadable(path, f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise _unreadable(path, f"found no UTF-8 at byte {error.start}; allowed: UTF-8 text") from None


def _unreadable(path: Path, problem: str) -> ManifestInvalid:
    return ManifestInvalid(file=str(path), problems=(problem,))


def _unretryable(document: Mapping[str, Any], path: Path) -> Iterator[RunRetryTagUnretryable]:
    for loc, tag in leaves(document):
        keys = [part for part in loc if isinstance(part, str)]
        named = keys[-2:] == ["retry", "retry_on"] and (keys[0], len(keys)) in {("pipeline", 4), ("export", 3)}
        if named and isinstance(tag, str) and tag not in RETRYABLE:
            yield RunRetryTagUnretryable(found=tag, place=f"{path}: {key_path(loc, document)}")
