"""A Python source names the secrets it uses, and is handed those only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import SecretNotFound
from engine.pipeline.manifest import load, own_secrets, secrets_of

if TYPE_CHECKING:
    from pathlib import Path

    from engine.pipeline.declaration import Manifest

TEXT = """
[project]
name = "p"
[[pipeline]]
id = "tickets"
[pipeline.source]
kind = "python"
entry = "shop:tickets"
secrets = ["TOKEN", "ACCOUNT", "TOKEN"]
[[pipeline.table]]
name = "tickets"
[[pipeline.table]]
name = "authors"
secrets = ["OTHER"]
[[pipeline]]
id = "bare"
[pipeline.source]
kind = "python"
entry = "shop:bare"
[[pipeline.table]]
name = "bare"
"""
SET = {"TOKEN": "t-0k3n", "ACCOUNT": "acc", "OTHER": "0ther", "UNNAMED": "x"}


def manifest(tmp_path: Path, text: str = TEXT) -> Manifest:
    path = tmp_path / "contextful.toml"
    path.write_text(text, encoding="utf-8")
    return load(path, {})


def test_a_source_is_handed_the_secrets_it_names_and_no_others(tmp_path: Path) -> None:
    declared = manifest(tmp_path)

    secrets = secrets_of(declared, SET)

    handed = {t.name: dict(own_secrets(t.source, secrets)) for p in declared.pipelines for t in p.tables}
    assert handed == {"tickets": {"TOKEN": "t-0k3n", "ACCOUNT": "acc"}, "authors": {"OTHER": "0ther"}, "bare": {}}
    assert declared.secret_names == {"TOKEN", "ACCOUNT", "OTHER"}


def test_a_missing_one_is_told_with_its_place_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(SecretNotFound) as refusal:
        secrets_of(manifest(tmp_path), SET | {"OTHER": ""})

    assert (refusal.value.name, refusal.value.path) == ("OTHER", 'pipeline "tickets", table "authors": secrets')


@pytest.mark.clause("run.own.execution-owner", "run.journal.plan-pin")
def test_the_names_are_part_of_the_content_hash_and_their_order_is_not(tmp_path: Path) -> None:
    def content_hash(names: str) -> str:
        declared = manifest(tmp_path, TEXT.replace('["TOKEN", "ACCOUNT", "TOKEN"]', names))
        return declared.pipelines[0].tables[0].content_hash

    assert content_hash('["TOKEN", "ACCOUNT"]') == content_hash('["ACCOUNT", "TOKEN"]')
    assert content_hash('["TOKEN", "ACCOUNT"]') != content_hash('["TOKEN"]')
