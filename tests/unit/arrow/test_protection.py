"""What the classes of columns do to a batch, type by type."""

from __future__ import annotations

import datetime as dt
import hmac
import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from engine.pipeline.protect import IDENTITIES, Protection, digests
from engine.pipeline.recording import PullMeta, decode, encode
from engine.pipeline.shape import shape

if TYPE_CHECKING:
    from engine.pipeline.declaration import Treatment

PEPPER = b"a long secret text"
VALUES: dict[str, tuple[Any, str]] = {
    "string": ("ada@example.com", "ada@example.com"),
    "int64": (42, "42"),
    "float64": (2.5, "2.5"),
    "decimal(9,2)": (Decimal("7.50"), "7.5"),
    "decimal(38,0)": (2**70, str(2**70)),
    "bool": (True, "true"),
    "date": (dt.date(2026, 1, 31), "2026-01-31"),
    "timestamp": ("2026-01-31T02:00:00.250+01:00", "2026-01-31T01:00:00.25Z"),
    "bytes": (b"\x00raw", "AHJhdw=="),
    "json": ({"b": [1, None], "a": "x"}, '{"a":"x","b":[1,null]}'),
}


def digest(text: str, pepper: bytes = PEPPER) -> str:
    return hmac.digest(pepper, text.encode(), "sha256").hex()[:32]


def prepared(
    rows: Any, treatment: Treatment, *, declared: dict[str, str] | None = None, name: str = "x"
) -> tuple[pa.RecordBatch, PullMeta]:
    protection = Protection({name: treatment}, PEPPER)
    found = shape(rows, declared=declared or {}, table="t", place="page 1", protected=protection.treatments)
    meta = PullMeta(types=declared or {}, schema=found.schema, downgrades=found.downgrades)
    return protection.batch(found.batch, found.schema), protection.meta(meta)


@pytest.mark.clause("run.journal.recorded-batch", "run.journal.prepared-replay")
@pytest.mark.parametrize("logical", VALUES)
def test_a_hashed_value_of_any_type_is_the_digest_of_its_canonical_text(logical: str) -> None:
    value, text = VALUES[logical]

    batch, meta = prepared([{"x": value}, {"x": None}, {}], "hash", declared={"x": logical})

    assert batch.to_pydict() == {"x": [digest(text), None, None]}
    assert meta.schema.to_json()["columns"] == [{"name": "x", "type": "string"}]
    assert meta.downgrades == ()
    assert meta.types == {}


@pytest.mark.clause("run.journal.recorded-batch")
@pytest.mark.parametrize("logical", VALUES)
def test_a_nulled_value_of_any_type_leaves_its_type_and_nothing_of_its_size(logical: str) -> None:
    value, _ = VALUES[logical]

    batch, meta = prepared([{"x": value}, {"x": None}, {}], "null", declared={"x": logical})

    assert batch.to_pydict() == {"x": [None, None, None]}
    assert meta.schema["x"].type == logical
    assert not meta.schema["x"].largest


@pytest.mark.clause("run.journal.recorded-batch")
@pytest.mark.parametrize("logical", VALUES)
def test_a_dropped_column_of_any_type_leaves_nothing_but_the_rows(logical: str) -> None:
    value, _ = VALUES[logical]

    batch, meta = prepared([{"x": value}, {}], "drop", declared={"x": logical})

    assert (batch.num_rows, batch.schema.names, meta.schema.names) == (2, [], ())


def test_a_dropped_column_is_left_out_even_where_its_values_go_in_no_column() -> None:
    batch, _ = prepared([{"x": 1, "y": 1}, {"x": "text", "y": 2}], "drop")

    assert batch.to_pydict() == {"y": [1, 2]}


@pytest.mark.parametrize("treatment", ["drop", "null", "hash"])
def test_an_arrow_table_is_prepared_as_rows_are(treatment: Treatment) -> None:
    rows: list[dict[str, Any]] = [{"x": "ada", "n": 1}, {"x": None, "n": 2}]

    from_rows, rows_meta = prepared(rows, treatment)
    from_arrow, arrow_meta = prepared(pa.Table.from_pylist(rows), treatment)

    assert encode(from_arrow, arrow_meta) == encode(from_rows, rows_meta)


@pytest.mark.parametrize("page", [[5, 7], [5, 7.5], [5, 2**70], [Decimal("5.00")]], ids=str)
def test_a_number_has_one_digest_however_its_page_is_typed(page: list[Any]) -> None:
    declared = {"x": "decimal(9,2)"} if isinstance(page[0], Decimal) else {}

    batch, _ = prepared([{"x": value} for value in page], "hash", declared=declared)

    assert batch.column("x")[0].as_py() == digest("5")


@pytest.mark.parametrize(
    ("value", "text"), [(-0.0, "0"), (1e21, "1" + 21 * "0"), (float("inf"), "inf"), (1e-7, "0.0000001")]
)
def test_a_float_is_written_out_in_full(value: float, text: str) -> None:
    batch, _ = prepared([{"x": value}], "hash")

    assert batch.to_pydict() == {"x": [digest(text)]}


def test_a_column_is_protected_whatever_the_case_its_source_writes() -> None:
    batch, meta = prepared([{"Email": "ada@example.com"}], "hash", name="email")

    assert batch.to_pydict() == {"Email": [digest("ada@example.com")]}
    assert meta.schema["Email"].type == "string"


def test_a_column_that_is_null_throughout_or_absent_has_no_digest() -> None:
    _, untyped = prepared([{"x": None, "y": 1}], "hash")
    batch, absent = prepared([{"y": 1}], "hash")

    assert (untyped.schema.untyped, absent.schema.untyped) == (("x",), ())
    assert batch.to_pydict() == {"y": [1]}
    assert Protection({"x": "hash"}, PEPPER).absent(["y"]) == ("x",)


@pytest.mark.parametrize("pepper", [b"", b"p", b"p" * 64, b"p" * 65, b"p" * 200], ids=len)
def test_the_digest_is_plain_hmac_for_a_pepper_of_any_length(pepper: bytes) -> None:
    assert digests(["", "naïve ✓", None], pepper=pepper) == [digest("", pepper), digest("naïve ✓", pepper), None]


def test_a_table_without_classes_is_recorded_byte_for_byte_as_before() -> None:
    found = shape([{"x": 1}], declared={}, table="t", place="p")
    meta = PullMeta(schema=found.schema)

    assert Protection().batch(found.batch, found.schema) is found.batch
    assert Protection().meta(meta) is meta
    assert b"prepared" not in encode(found.batch, meta)
    assert (Protection().identities, Protection().writer) == ((), None)


@pytest.mark.clause("run.journal.prepared-replay")
def test_a_recording_says_what_prepared_it() -> None:
    batch, meta = prepared([{"x": "ada"}], "hash")

    decoded, kept = decode(encode(batch, meta))

    assert decoded.equals(batch)
    assert kept.prepared == Protection({"x": "hash"}, PEPPER).writer


@pytest.mark.clause("run.journal.prepared-owner")
def test_every_identity_moves_with_what_it_names_and_none_tells_the_pepper() -> None:
    whole = Protection({"x": "hash"}, PEPPER)

    other_pepper = Protection({"x": "hash"}, b"another")
    other_class = Protection({"x": "null"}, PEPPER)
    other_column = Protection({"y": "hash"}, PEPPER)

    assert {name for name, _ in whole.identities} == {"shape", "normalization", "writer", "classes", "pepper"}
    assert _moved(whole, other_pepper) == {"pepper"}
    assert _moved(whole, other_class) == {"classes"}
    assert _moved(whole, other_column) == {"classes"}
    assert len({each.writer for each in (whole, other_pepper, other_class, other_column)}) == 4
    assert PEPPER.decode() not in repr((whole, whole.identities))
    assert PEPPER.hex() not in repr(whole.identities)


@pytest.mark.clause("run.journal.prepared-owner")
def test_the_versions_stand_for_what_they_stood_for_when_they_were_given() -> None:
    rows = [{name: value for name, (value, _) in VALUES.items()}]
    declared = {name: name for name in VALUES}
    protection = Protection(dict.fromkeys(VALUES, "hash"), PEPPER)
    found = shape(rows, declared=declared, table="t", place="p", protected=protection.treatments)

    (row,) = protection.batch(found.batch, found.schema).to_pylist()

    assert IDENTITIES == (("shape", "1"), ("normalization", "1"), ("writer", "1"))
    assert row == {name: digest(text) for name, (_, text) in VALUES.items()}, "raise a version, then this example"
    assert digests(["ada@example.com"], pepper=PEPPER) == [GOLDEN], "raise `normalization`, then this example"


GOLDEN = "986d1ad3dc0c79e059ab81b7ca3858e8"


def test_a_page_of_a_thousand_values_is_hashed_in_under_two_milliseconds() -> None:
    texts = [f"customer-{number}@example.com" for number in range(1000)]
    spent = []
    for _ in range(20):
        begun = time.thread_time()
        digests(texts, pepper=PEPPER)
        spent.append(time.thread_time() - begun)

    assert min(spent) < 0.002


def _moved(one: Protection, other: Protection) -> set[str]:
    return {name for name, value in one.identities if dict(other.identities)[name] != value}
