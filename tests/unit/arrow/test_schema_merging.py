from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from engine.corpus.schema import INJECTED, Column, Schema, cast, refuse_names
from engine.errors import ColumnNameRefused, LateType, StoreSchemaIncompatible

EXACT = 2**53
WIDE = "decimal(38,0)"


def one(type_: str, largest: int | None = None) -> Schema:
    return Schema((Column("x", type_, largest),))


def merged(standing: Schema, found: Schema) -> Schema:
    return standing.merged(found, table="t", place="page 2")


@pytest.mark.clause("run.own.stage-schema")
@pytest.mark.parametrize(
    ("standing", "found", "result"),
    [
        (one("string"), one("string"), one("string")),
        (one("int64", 3), one("int64", 9), one("int64", 9)),
        (one("int64", 9), one("int64", 3), one("int64", 9)),
        (one("int64", EXACT), one("float64"), one("float64")),
        (one("float64"), one("int64", EXACT), one("float64")),
        (one("int64", 3), one(WIDE, 2**70), one(WIDE, 2**70)),
        (one(WIDE, 2**70), one("int64", 2**63), one(WIDE, 2**70)),
        (Schema((), ("x",)), one("bool"), Schema((Column("x", "bool"),), ("x",))),
    ],
)
def test_types_widen_as_long_as_every_value_stays_exact(standing: Schema, found: Schema, result: Schema) -> None:
    assert merged(standing, found) == result


@pytest.mark.clause("run.own.stage-schema")
@pytest.mark.parametrize(
    ("standing", "found"),
    [
        (one("int64", EXACT + 1), one("float64")),
        (one("float64"), one("int64", EXACT + 1)),
        (one(WIDE, 2**70), one("float64")),
        (one("float64"), one(WIDE, 2**70)),
        (one("string"), one("int64", 1)),
        (one("bool"), one("int64", 1)),
        (one("string"), one("json")),
        (one("date"), one("timestamp")),
        (one("decimal(10,2)"), one("decimal(12,2)")),
        (one("decimal(10,2)"), one("int64", 1)),
    ],
)
def test_types_that_would_change_a_value_are_refused(standing: Schema, found: Schema) -> None:
    with pytest.raises(StoreSchemaIncompatible) as refusal:
        merged(standing, found)

    facts = refusal.value.facts
    assert (facts["table"], facts["column"], facts["place"]) == ("t", "x", "page 2")
    assert facts["standing"].startswith(standing["x"].type)
    assert facts["found"].startswith(found["x"].type)


def test_integers_no_float_holds_are_named_in_the_refusal() -> None:
    with pytest.raises(StoreSchemaIncompatible, match=r"int64 up to 9007199254740993 and cannot take float64"):
        merged(one("int64", EXACT + 1), one("float64"))


def test_new_columns_go_behind_and_the_merge_does_not_depend_on_repetition() -> None:
    first = Schema((Column("b", "string"), Column("a", "bool")))
    second = Schema((Column("c", "date"), Column("a", "bool")))

    both = merged(first, second)

    assert both.names == ("b", "a", "c")
    assert merged(both, second) == both
    assert merged(both, first) == both


def test_a_type_declared_late_is_refused_even_once_the_column_has_one() -> None:
    staged = merged(Schema((), ("x",)), one("int64", 1))

    with pytest.raises(LateType, match=r"t.x was staged without a type and is now declared int64"):
        staged.refuse_late_types({"x": "int64"}, table="t")


def test_a_type_declared_for_a_column_not_seen_before_is_in_time() -> None:
    merged(Schema((), ("x",)), one("int64", 1)).refuse_late_types({"y": "int64"}, table="t")


def test_what_a_commit_publishes_forgets_the_untyped_names() -> None:
    assert Schema((Column("a", "bool"),), ("x",)).landed() == Schema((Column("a", "bool"),))


@pytest.mark.parametrize("schema", [Schema(), one(WIDE, 2**90), Schema((Column("ä", "json"),), ("x", "y"))])
def test_a_schema_survives_its_json(schema: Schema) -> None:
    assert Schema.from_json(schema.to_json()) == schema


def test_the_json_of_a_newer_release_is_refused() -> None:
    with pytest.raises(ValueError, match="'uint128' is no column type"):
        Schema.from_json({"columns": [{"name": "a", "type": "uint128"}]})


@pytest.mark.parametrize("name", [*INJECTED, "_RUN_ID", "", "  ", "\ud800"])
def test_injected_empty_and_undecodable_names_are_refused(name: str) -> None:
    with pytest.raises(ColumnNameRefused) as refusal:
        refuse_names(["a", name], table="t", place="page 1")

    assert refusal.value.facts["column"] == name
    assert refusal.value.facts["place"] == "page 1"


def test_names_equal_but_for_case_are_refused_within_and_across_pages() -> None:
    with pytest.raises(ColumnNameRefused, match=r"'ID'.*differs from 'id' in case only"):
        refuse_names(["id", "ID"], table="t", place="page 1")
    with pytest.raises(ColumnNameRefused, match="page 2"):
        merged(Schema((Column("id", "string"),)), Schema((Column("Id", "string"),)))


def test_a_cast_adds_orders_and_widens_exactly() -> None:
    batch = pa.RecordBatch.from_pydict({"n": [EXACT, None], "w": [2**62, 1], "s": ["a", "b"]})
    schema = Schema((Column("s", "string"), Column("new", "date"), Column("w", WIDE, 2**70), Column("n", "float64")))

    result = cast(batch, schema)

    assert result.schema == schema.arrow()
    assert [{k: v for k, v in row.items() if v is not None} for row in result.to_pylist()] == [
        {"s": "a", "w": 2**62, "n": float(EXACT)},
        {"s": "b", "w": 1},
    ]


def test_a_cast_that_would_round_or_drop_raises() -> None:
    batch = pa.RecordBatch.from_pydict({"n": [EXACT + 1]})

    with pytest.raises(pa.ArrowInvalid):
        cast(batch, Schema((Column("n", "float64"),)))
    with pytest.raises(ValueError, match="lacks columns of the batch: n"):
        cast(batch, Schema((Column("m", "int64", 0),)))


@pytest.mark.parametrize("schema", [Schema(), one("string")])
def test_a_cast_keeps_the_rows_of_a_batch_without_columns(schema: Schema) -> None:
    empty: Any = pa.RecordBatch.from_pydict({"gone": [1, 2, 3]}).select([])

    assert cast(empty, schema).num_rows == 3
