"""The files `contextful init` writes: a manifest that explains itself, or an example that runs on its own data."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Final

from engine.errors import InitRefused
from engine.pipeline.manifest.reading import NAME

if TYPE_CHECKING:
    from pathlib import Path

_PLAIN: Final = {NAME: "contextful.toml"}
_EXAMPLE: Final = {"data/orders.jsonl": "orders.jsonl", NAME: "example.toml"}


def write_starter(folder: Path, *, example: bool) -> list[Path]:
    """Write a manifest into `folder`, with `example` one beside its own data, and return the files, manifest last.

    Raise `InitRefused` where one of them is already there, before anything is written: no file is ever overwritten.
    """
    texts = {folder / name: _template(source) for name, source in (_EXAMPLE if example else _PLAIN).items()}
    for file in texts:
        if file.exists():
            raise InitRefused(file=str(file), reason="it is already there, and no file is overwritten")
    for file, text in texts.items():
        _write(file, text)
    return list(texts)


def _template(name: str) -> str:
    return resources.files("engine").joinpath("cli", "templates", name).read_text(encoding="utf-8")


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8", newline="\n") as fresh:
            fresh.write(text)
    except OSError as error:
        raise InitRefused(file=str(file), reason=str(error.strerror or error)) from error
