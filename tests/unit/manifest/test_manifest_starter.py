"""What `contextful init` writes loads as it is, and replaces nothing."""

from __future__ import annotations

import json

import pytest

from engine.errors import InitRefused
from engine.pipeline.declaration import FileSource
from engine.pipeline.manifest import load, models
from engine.pipeline.manifest.starter import write_starter


@pytest.mark.parametrize("example", [False, True])
def test_a_starter_loads_without_problems(tmp_path, example):
    *_, manifest = write_starter(tmp_path / "new", example=example)

    loaded = load(manifest, {})

    assert manifest == tmp_path / "new" / "contextful.toml"
    assert loaded.pipelines[0].tables[0].incremental == "updated_at"
    assert loaded.site_id == "laptop"


def test_a_starter_names_every_key_of_the_grammar(tmp_path):
    (manifest,) = write_starter(tmp_path, example=False)

    text = manifest.read_text(encoding="utf-8")

    keys = set().union(*models.source_keys().values()) | {
        "name", "site_id", "site_id_env", "root", "primary_key", "write_mode", "incremental", "allowed_lateness",
        "skip_unchanged", "columns", "idempotency_header", "dedup_window", "refusals", "attempts", "base_ms", "factor",
        "max_delay_ms", "jitter_ms", "backoff", "retry_on", "type", "class", "field", "param", "start", "size_param",
        "size", "limit_param", "limit", "every", "destination", "table", "statement", "batch",
    }  # fmt: skip
    assert [key for key in sorted(keys) if f"{key} = " not in text] == []


def test_every_commented_line_of_the_starter_is_right_when_uncommented(tmp_path):
    (manifest,) = write_starter(tmp_path, example=False)
    text = manifest.read_text(encoding="utf-8")
    for key in ("root", "headers", "retry", "meter", "allowed_lateness", "skip_unchanged"):
        assert f"\n# {key} = " in text
        text = text.replace(f"\n# {key} = ", f"\n{key} = ")
    text = text.replace("\n# method = ", "\nmethod = ").replace("\n# body = ", "\nbody = ")
    head, tail = text.split("# [[destination]]")
    manifest.write_text(head + "[[destination]]" + tail.replace("\n# ", "\n"), encoding="utf-8")

    loaded = load(manifest, {})

    assert loaded.secret_names == {"API_TOKEN"}
    assert loaded.destinations[0].refusals == (503,)
    assert [(export.name, export.table, export.batch) for export in loaded.exports] == [("new-issues", "issues", 100)]


def test_the_example_brings_its_own_rows(tmp_path):
    data, manifest = write_starter(tmp_path, example=True)

    rows = [json.loads(line) for line in data.read_text(encoding="utf-8").splitlines()]

    source = load(manifest, {}).pipelines[0].tables[0].source
    assert isinstance(source, FileSource)
    assert source.base / source.path == data
    assert len(rows) > len({row["id"] for row in rows}) == 24
    assert [row["updated_at"] for row in rows] == sorted(row["updated_at"] for row in rows)


@pytest.mark.parametrize("standing", ["contextful.toml", "data/orders.jsonl"])
def test_a_starter_overwrites_nothing(tmp_path, standing):
    file = tmp_path / standing
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine", encoding="utf-8")

    with pytest.raises(InitRefused) as refused:
        write_starter(tmp_path, example=True)

    assert refused.value.file == str(file)
    assert file.read_text(encoding="utf-8") == "mine"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file]
    assert refused.value.exit_code == 2


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(InitRefused, match="is not written"):
        write_starter(tmp_path / "file" / "inner", example=False)
