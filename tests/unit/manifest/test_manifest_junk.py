"""Whatever a file holds, loading it ends in a manifest or in an error that names it."""

from __future__ import annotations

import json
import tempfile
from datetime import date, datetime
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.errors import Config
from engine.pipeline.manifest import load

KEYS = (
    "project name site_id root pipeline id source kind url records paginate by field param start headers params",
    "method timeout retry attempts factor retry_on table primary_key write_mode incremental since_param",
    "body page columns type class destination dedup_window refusals path format entry job [key]",
    "export statement batch idempotency_header",
)

WORDS = [
    "http", "file", "python", "sql", "https://x.example/a", "a", "${A}", "${", "next-url", "page", "offset", "token",
    "replace", "drop", "hash", "decimal(4,2)", "30s", "Transient", "Permanent", "_run_id", "//[", "https://[", "",
]  # fmt: skip

scalars = st.one_of(
    st.sampled_from(WORDS),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.dates(),
    st.datetimes(),
)
keys = st.one_of(st.sampled_from(" ".join(KEYS).split()), st.text(st.characters(exclude_categories=["Cs"]), max_size=4))
values: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5), max_leaves=12
)
sources = st.dictionaries(keys, values, max_size=6)
shaped = st.fixed_dictionaries(
    {"project": st.one_of(st.just({"name": "p"}), values)},
    optional={
        "pipeline": st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "id": st.one_of(st.sampled_from("ab"), values),
                    "source": st.builds(
                        lambda kind, rest: {**rest, "kind": kind},
                        st.sampled_from(["http", "file", "python", 3]),
                        sources,
                    ),
                    "table": st.lists(st.one_of(sources, values), max_size=3),
                },
            ),
            max_size=2,
        ),
        "destination": st.lists(st.one_of(sources, values), max_size=2),
        "export": st.lists(st.one_of(sources, values), max_size=2),
    },
)


def toml(value: Any) -> str:
    """`value` as inline TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(key)} = {toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime | date):
        return value.isoformat()
    return quoted(value) if isinstance(value, str) else repr(value)


def quoted(text: str) -> str:
    return json.dumps(text).replace("\x7f", "\\u007f") if text.isascii() else '"' + "".join(map(escaped, text)) + '"'


def escaped(char: str) -> str:
    return f"\\U{ord(char):08x}"


def outcome(path: Path) -> str:
    """The path of what loaded, or the refusal's text; any other error ends the test."""
    try:
        return str(load(path, {}).path)
    except Config as error:
        return str(error)


@settings(max_examples=50, deadline=None)
@given(st.one_of(shaped, st.dictionaries(keys, values, max_size=5)))
@example({"project": {"name": "p"}, "pipeline": [{"id": "a", "source": {"kind": ["http"]}, "table": [{"url": "//["}]}]})
def test_junk_is_refused_by_name_or_loads(document):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "contextful.toml"
        path.write_text(
            "".join(f"{quoted(key)} = {toml(value)}\n" for key, value in document.items()), encoding="utf-8"
        )

        told = outcome(path)

        assert str(path) in told
        assert "no TOML" not in told


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=64))
def test_bytes_that_are_no_manifest_are_refused_by_name(content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "contextful.toml"
        path.write_bytes(content)

        assert str(path) in outcome(path)
