"""What a step may return, and that it reads back as it was recorded."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ValueUnsupported
from engine.execution import values


@dataclass
class Record:
    a: int = 1


class Colour(enum.Enum):
    RED = "red"


class Word(str):
    __slots__ = ()


FOREIGN = [
    float("nan"), float("inf"), b"x", {1, 2}, frozenset(), {1: 2}, {None: 1}, {b"k": 1}, uuid.UUID(int=7), Record(),
    decimal.Decimal("1.5"), Colour.RED, dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.date(2026, 1, 1),
    dt.timedelta(1), object(), bytearray(b"x"), memoryview(b"x"), 1j,
]  # fmt: skip


@pytest.mark.clause("run.journal.step-output")
@pytest.mark.parametrize("foreign", FOREIGN, ids=lambda each: type(each).__name__)
def test_what_is_no_json_is_refused_wherever_it_stands(foreign: Any) -> None:
    for value, place in (([foreign], "it[0]"), ({"k": [0, foreign]}, "it['k'][1]")):
        with pytest.raises(ValueUnsupported) as refused:
            values.encode(value, step="charge")

        assert place in str(refused.value)
        assert values.plain(value) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(JSON)
def test_json_comes_back_as_it_was(value: Any) -> None:
    assert values.decode(values.encode(value, step="s")) == value


@pytest.mark.parametrize(
    ("value", "same"),
    [
        ((1, (2,)), [1, [2]]),
        (Word("w"), "w"),
        (OrderedDict(a=1), {"a": 1}),
        ({"a": "half a pair \ud800"}, {"a": "half a pair \ud800"}),
        (10**400, 10**400),
    ],
    ids=["tuples", "a text of a class of its own", "an ordered mapping", "a lone surrogate", "a long number"],
)
def test_what_only_looks_foreign_is_recorded_as_what_it_means(value: Any, same: Any) -> None:
    assert values.decode(values.encode(value, step="s")) == same
