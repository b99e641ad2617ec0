"""Bodies that end where the connection does: nothing but their own end tells a whole one from one cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from engine.errors import SourceShape, Transient
from engine.pipeline.source import Ask, Secrets
from engine.pipeline.sources import open_source

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.sources.conftest import Reader


@pytest.fixture
def read(reader: Reader) -> Callable[[bytes], list[object]]:
    """The rows of a body that is sent without its length."""

    def rows(content: bytes) -> list[object]:
        transport = httpx.MockTransport(lambda _: httpx.Response(200, stream=httpx.ByteStream(content)))
        source = open_source(reader.table())
        with httpx.Client(transport=transport) as client:
            ask = Ask(client=lambda: client, secrets=Secrets({}))
            return [row for pull in source.pulls(ask) for row in pull.rows]

    return rows


def test_a_whole_body_needs_no_length(read: Callable[[bytes], list[object]]) -> None:
    assert read(b'[{"id": 1}]') == [{"id": 1}]


@pytest.mark.clause("run.retry.failure-taxonomy")
@pytest.mark.parametrize("content", [b'[{"id": 1}, {"id": 2', b""])
def test_one_without_its_end_broke_off_and_is_worth_another_try(
    read: Callable[[bytes], list[object]], content: bytes
) -> None:
    with pytest.raises(Transient, match=r"broke off: .*Input data was truncated.*, of no announced length"):
        read(content)


def test_one_that_is_something_else_is_not_asked_for_again(read: Callable[[bytes], list[object]]) -> None:
    with pytest.raises(SourceShape):
        read(b"<html>")
