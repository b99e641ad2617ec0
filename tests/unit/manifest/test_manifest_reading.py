"""A manifest that cannot be found, read or parsed says so in the user's terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import ManifestInvalid
from engine.pipeline.manifest import find, load

if TYPE_CHECKING:
    from pathlib import Path


def refusal(tmp_path: Path, text: str) -> ManifestInvalid:
    path = tmp_path / "contextful.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ManifestInvalid) as refused:
        load(path, {})
    return refused.value


@pytest.mark.parametrize(
    ("text", "place"),
    [("[project]\nname = \n", "line 2, column 8"),
     ('[project]\nname = "a', "line 2, column 10"), ("a = [\n", "line 2, column 1")],
)  # fmt: skip
def test_a_syntax_error_names_line_and_column(tmp_path, text, place):
    assert place in str(refusal(tmp_path, text))


def test_a_file_that_is_no_text_is_told(tmp_path):
    path = tmp_path / "contextful.toml"
    path.write_bytes(b"a = '\xff'")

    with pytest.raises(ManifestInvalid, match="no UTF-8 at byte 5"):
        load(path, {})


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 5000, "a = " + "9" * 5000, f"a = 0x{'f' * 9000}", "[" + "a." * 3000 + "a]"]
)
def test_absurd_texts_are_refused_like_any_other(tmp_path, text):
    refusal(tmp_path, text)


def test_a_missing_file_names_what_writes_one(tmp_path):
    with pytest.raises(ManifestInvalid, match="contextful init"):
        load(tmp_path / "contextful.toml", {})


def test_the_nearest_manifest_upward_is_found(tmp_path):
    (tmp_path / "contextful.toml").touch()
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)

    assert find(inner) == tmp_path / "contextful.toml"


def test_where_no_manifest_is_found_the_search_is_told(tmp_path):
    with pytest.raises(ManifestInvalid, match="contextful init") as refused:
        find(tmp_path)

    assert str(tmp_path) in str(refused.value)
