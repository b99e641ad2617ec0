"""Many objects at once: where they lie in a bucket, a read waits for requests and little else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from engine.corpus.marker import Part
    from engine.ports import Objects

T = TypeVar("T")
U = TypeVar("U")

AT_ONCE: Final = 8
"""Objects under way at a time; drivers keep as many connections. A part is in memory until it is a file, markers while
they are read."""


def contents(objects: Objects, names: Sequence[str]) -> dict[str, bytes | None]:
    """The content of each of `names`, in their order; None of one that is gone."""
    return dict(zip(names, _each(names, objects.get), strict=True))


def fetched(objects: Objects, parts: Sequence[Part]) -> dict[str, Path]:
    """The file of each of `parts` by its name, in their order; of one that is gone, a path at which nothing is."""
    files = _each(parts, lambda part: objects.local(part.name, sha256=part.sha256))
    return {part.name: file for part, file in zip(parts, files, strict=True)}


def _each(items: Sequence[T], ask: Callable[[T], U]) -> list[U]:
    """What `ask` gives of each, `AT_ONCE` at a time; the first failure is raised, and nothing is begun after it."""
    if len(items) < 2:
        return [ask(item) for item in items]
    left = iter(enumerate(items))
    answers: dict[int, U] = {}

    def work() -> None:
        for number, item in left:
            try:
                answers[number] = ask(item)
            except BaseException:
                list(left)  # the others find nothing left
                raise

    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="fetch") as pool:
        try:
            for worker in [pool.submit(work) for _ in items[:AT_ONCE]]:
                worker.result()
        except BaseException:
            list(left)  # an interrupt as well waits for no more than what is under way
            raise
    return [answers[number] for number in range(len(items))]
