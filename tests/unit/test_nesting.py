"""How deep a text of JSON goes is known before it is parsed, whatever its texts hold."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.nesting import DEEPEST, depth, parsed

DOCUMENTS = st.recursive(
    st.none() | st.integers() | st.text(st.sampled_from('[]{}"\\,a\n∢')),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.sampled_from('[{"\\')), inner),
)


def nested(value: Any) -> int:
    if not isinstance(value, list | dict):
        return 0
    return 1 + max(map(nested, value.values() if isinstance(value, dict) else value), default=0)


@given(DOCUMENTS, st.booleans(), st.sampled_from([None, 2]))
def test_a_document_is_as_deep_as_it_is_nested(document: Any, ascii_only: bool, indent: int | None):
    text = json.dumps(document, ensure_ascii=ascii_only, indent=indent)

    assert depth(text) == nested(document)


@given(st.text(st.sampled_from('[]{}"\\,: a1')))
def test_whatever_comes_is_parsed_as_json_is_or_refused(text: str):
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError, match=r"\S"):
            parsed(text.encode())
    else:
        assert parsed(text.encode()) == expected


@pytest.mark.parametrize("opening", ["[", '{"a":', '["text ]]]",', '[{"\\"": "]", "b":'])
def test_a_document_may_go_so_deep_and_no_deeper(opening: str):
    levels = opening.count("[") + opening.count("{")
    closing = "".join({"[": "]", "{": "}"}[each] for each in reversed(opening) if each in "[{")
    fits = DEEPEST // levels

    assert depth(json.dumps(parsed((opening * fits + "1" + closing * fits).encode()))) == fits * levels
    with pytest.raises(ValueError, match=f"nested more than {DEEPEST} deep"):
        parsed((opening * (fits + 1) + "1" + closing * (fits + 1)).encode())


def test_brackets_beside_one_another_and_in_texts_are_not_deep():
    wide = json.dumps({"rows": [[n] for n in range(10 * DEEPEST)], "list": json.dumps([[1]] * 10 * DEEPEST)})

    assert len(parsed(wide.encode())["rows"]) == 10 * DEEPEST
    assert depth(wide) == 3


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32-le", "utf-8-sig"])
def test_a_text_in_another_encoding_is_none(encoding: str):
    # In another encoding the bytes of a letter may look like a quotation mark, behind which a bracket would not count.
    with pytest.raises(ValueError, match=r"\S"):
        parsed("[1]".encode(encoding))


def test_a_text_that_nothing_ends_takes_no_longer_the_more_marks_it_holds():
    began = time.process_time()

    for text in ('["' + '\\"' * 1_000_000, "[" * 200 + '"\\' * 1_000_000, '"' * 2_000_001):
        depth(text)

    assert time.process_time() - began < 20
