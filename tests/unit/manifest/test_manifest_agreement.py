"""The manifest's own spellings, kept apart so that reading one imports little, are those of the corpus."""

from __future__ import annotations

import pytest

from engine.corpus.schema import INJECTED
from engine.corpus.types import logical_type
from engine.pipeline.manifest import load, rules

TYPES = ["string", "int64", "float64", "bool", "date", "timestamp", "bytes", "json", "decimal(38,0)", "decimal( 4, 4 )"]


def test_the_columns_added_to_every_table_are_the_corpus_own():
    assert rules.INJECTED == INJECTED


@pytest.mark.parametrize("spelling", TYPES)
def test_a_columns_type_is_one_of_the_corpus_in_its_spelling(tmp_path, spelling):
    path = tmp_path / "contextful.toml"
    path.write_text(
        '[project]\nname = "p"\n[[pipeline]]\nid = "p"\n[pipeline.source]\nkind = "file"\npath = "a.csv"\n'
        f'[[pipeline.table]]\nname = "t"\ncolumns = {{ a = {{ type = "{spelling}" }} }}\n',
        encoding="utf-8",
    )

    assert load(path, {}).pipelines[0].tables[0].columns["a"].type == logical_type(spelling)
