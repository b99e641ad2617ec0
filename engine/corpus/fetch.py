"""The local files of many objects at once: where they lie in a bucket, a read waits for requests and little else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from engine.ports import Objects

AT_ONCE: Final = 8
"""Objects under way at a time. Drivers keep as many connections, and each content is in memory until it is a file."""


def fetched(objects: Objects, names: Sequence[str]) -> dict[str, Path]:
    """The file of each of `names`, in their order; of one that is gone, a path at which nothing is.

    The first failure is raised, and nothing more is begun after it.
    """
    left = iter(names)
    files: dict[str, Path] = {}

    def fetch() -> None:
        for name in left:
            try:
                files[name] = objects.local(name)
            except BaseException:
                list(left)  # the others find nothing left
                raise

    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="fetch") as pool:
        for worker in [pool.submit(fetch) for _ in names[:AT_ONCE]]:
            worker.result()
    return {name: files[name] for name in names}
