"""What a manifest may say of protected columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import ManifestInvalid
from engine.pipeline.manifest import load

if TYPE_CHECKING:
    from pathlib import Path

PEPPERED = {"CONTEXTFUL_PEPPER": "a long secret text"}
MANIFEST = """
[project]
name = "shop"
[[pipeline]]
id = "p"
source = {{ kind = "file", path = "a.csv" }}
[[pipeline.table]]
name = "t"
{declared}
"""


def declare(folder: Path, declared: str) -> Path:
    path = folder / "contextful.toml"
    path.write_text(MANIFEST.format(declared=declared), encoding="utf-8")
    return path


@pytest.mark.parametrize("treatment", ["drop", "null", "hash"])
@pytest.mark.parametrize("spelled", ["at", "AT"])
def test_the_watermarks_column_takes_no_class(tmp_path: Path, treatment: str, spelled: str) -> None:
    path = declare(tmp_path, f'incremental = "at"\ncolumns = {{ {spelled} = {{ class = "{treatment}" }} }}')

    with pytest.raises(ManifestInvalid) as refusal:
        load(path, PEPPERED)

    said = str(refusal.value)
    assert f'table[0] "t".columns.{spelled}.class' in said
    assert f'"{treatment}"' in said
    assert "the column is the watermark, which is recorded as it is" in said


def test_a_key_may_be_hashed_and_another_column_beside_the_watermark_classed(tmp_path: Path) -> None:
    path = declare(
        tmp_path,
        'incremental = "at"\nprimary_key = ["email"]\n'
        'columns = { email = { class = "hash", type = "string" }, phone = { class = "drop" } }',
    )

    table = load(path, PEPPERED).pipelines[0].tables[0]

    assert {name: column.treatment for name, column in table.columns.items()} == {"email": "hash", "phone": "drop"}


def test_the_key_a_database_is_paged_by_takes_no_class(tmp_path: Path) -> None:
    path = declare(tmp_path, 'primary_key = ["Email"]\ncolumns = { email = { class = "hash" } }')
    text = path.read_text(encoding="utf-8").replace(
        'kind = "file", path = "a.csv"', 'kind = "sql", dsn = "sqlite:///a", from = "t"'
    )
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ManifestInvalid) as refusal:
        load(path, PEPPERED)

    assert "kind sql reads on from the key, and its position is recorded as is" in str(refusal.value)


def test_a_table_that_only_drops_needs_no_pepper(tmp_path: Path) -> None:
    path = declare(tmp_path, 'columns = { phone = { class = "drop" }, name = { class = "null" } }')

    assert load(path, {}).pipelines[0].tables[0].columns["phone"].treatment == "drop"
