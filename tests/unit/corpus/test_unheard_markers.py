"""A marker whose creation got no answer, while nobody tells what stands either."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import StorageBindingUnavailable
from engine.local.folder import FolderObjects

if TYPE_CHECKING:
    from tests.unit.corpus.conftest import Corpus


class Silent(FolderObjects):
    """A store that falls silent as it is asked to create something, and has done it."""

    def create(self, name: str, content: bytes) -> bool:
        assert super().create(name, content)
        self.silent = True
        raise StorageBindingUnavailable(place=name, reason="no answer to the write", applied="unknown")

    silent = False

    def get(self, name: str) -> bytes | None:
        if self.silent:
            raise StorageBindingUnavailable(place=name, reason="no answer to the look", applied="no")
        return super().get(name)


@pytest.mark.clause("run.journal.d1-transport", "run.advance.commit-with-rows")
def test_a_marker_that_nobody_tells_of_is_unknown_and_its_parts_stay(corpus: Corpus) -> None:
    corpus.objects = Silent(corpus.root / "corpus")

    with pytest.raises(StorageBindingUnavailable, match="no answer to the write") as lost:
        corpus.land("r-1", [{"id": 1, "v": "a"}])

    assert lost.value.applied == "unknown"
    corpus.objects = FolderObjects(corpus.root / "corpus")
    assert corpus.read("SELECT id FROM t").rows == [(1,)]
