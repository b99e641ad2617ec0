"""Decimals keep every digit they are written with, all the way to the column."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, NoReturn

from engine.pipeline.declaration import Column, FileSource, Table
from engine.pipeline.shape import shape
from engine.pipeline.source import Ask
from engine.pipeline.sources import answers, open_source

if TYPE_CHECKING:
    from pathlib import Path

EXACT = "123456789012345678.1234567890"
COLUMNS = {"price": Column(type="decimal(28,10)")}


def test_a_declared_decimal_of_an_answer_keeps_the_digits_a_float_would_lose():
    body = f'{{"items": [{{"price": {EXACT}, "rate": 0.5}}]}}'.encode()

    document = answers.document(body, "page", content_type="", quote=str, decoder=answers.decoder(COLUMNS))

    batch = shape(document["items"], declared={"price": "decimal(28,10)"}, table="t", place="p").batch
    assert batch.to_pylist() == [{"price": Decimal(EXACT), "rate": 0.5}]


def test_a_declared_decimal_of_a_line_keeps_the_digits_a_float_would_lose(tmp_path: Path):
    (tmp_path / "rows.jsonl").write_text(f'{{"price": {EXACT}}}\n')
    table = Table("t", "p", FileSource("rows.jsonl", tmp_path), content_hash="", columns=COLUMNS)

    (pull,) = open_source(table).pulls(Ask(client=_no_client))

    batch = shape(pull.rows, declared={"price": "decimal(28,10)"}, table="t", place="p").batch
    assert batch.to_pylist() == [{"price": Decimal(EXACT)}]


def _no_client() -> NoReturn:
    raise AssertionError("files ask nothing")
