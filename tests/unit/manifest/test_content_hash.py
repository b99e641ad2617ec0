"""A pending run is pinned to its table's declaration, and to nothing that does not change its rows."""

from __future__ import annotations

import pytest

from engine.pipeline.manifest import load

BASE = """
[project]
name = "shop"
site_id = "laptop"
[[pipeline]]
id = "issues"
[pipeline.source]
kind = "http"
url = "https://api.example.com/issues"
records = "items"
paginate = { by = "page", param = "page" }
headers = { Authorization = "Bearer ${API_TOKEN}" }
params = { state = "open", per_page = 100 }
timeout = "30s"
retry = { attempts = 5 }
[[pipeline.table]]
name = "issues"
primary_key = ["id", "repo"]
write_mode = "append"
incremental = "updated_at"
since_param = "since"
allowed_lateness = "5m"
skip_unchanged = false
columns = { price = { type = "decimal(18,4)" }, open = { type = "bool" } }
[[pipeline.table]]
name = "users"
url = "users"
"""

KEEPS = {
    "retry": ("attempts = 5", "attempts = 9"),
    "timeout": ('timeout = "30s"', 'timeout = "5s"'),
    "a comment": ('timeout = "30s"', 'timeout = "30s" # patience'),
    "key order": ('params = { state = "open", per_page = 100 }', 'params = { per_page = 100, state = "open" }'),
    "columns' order": (
        '{ price = { type = "decimal(18,4)" }, open = { type = "bool" } }',
        '{ open = { type = "bool" }, price = { type = "decimal(18,4)" } }',
    ),
    "a default spelled out": ('param = "page" }', 'param = "page", start = 1 }'),
    "another table": ('url = "users"', 'url = "people"\nprimary_key = ["id"]'),
    "another pipeline": (
        "[[pipeline]]",
        ('[[pipeline]]\nid = "a"\n[pipeline.source]\nkind = "file"\npath = "a.csv"\n[[pipeline.table]]\n'
        'name = "a"\n[[pipeline]]'),
    ),
    "site": ('site_id = "laptop"', 'site_id_env = "SITE"'),
    "root": ('site_id = "laptop"', 'root = "elsewhere"'),
    "project": ('name = "shop"', 'name = "store"'),
}  # fmt: skip

MOVES = {
    "url": ("example.com/issues", "example.com/tickets"),
    "records": ('"items"', '"rows"'),
    "paginate": ('param = "page"', 'param = "p"'),
    "no paginate": ('paginate = { by = "page", param = "page" }', ""),
    "headers": ("Bearer", "Token"),
    "a secret's name": ("API_TOKEN", "OTHER_TOKEN"),
    "params": ('state = "open"', 'state = "all"'),
    "method": ("timeout", 'method = "POST"\ntimeout'),
    "table name": ('name = "issues"', 'name = "tickets"'),
    "pipeline id": ('id = "issues"', 'id = "tickets"'),
    "primary key": ('["id", "repo"]', '["id"]'),
    "primary key order": ('["id", "repo"]', '["repo", "id"]'),
    "write mode": ('write_mode = "append"\nincremental = "updated_at"\nsince_param = "since"\nallowed_lateness = "5m"',
                   'write_mode = "replace"'),
    "incremental": ('"updated_at"', '"changed_at"'),
    "since_param": ('"since"', '"after"'),
    "until_param": ('since_param = "since"', 'since_param = "since"\nuntil_param = "before"'),
    "lateness": ('"5m"', '"6m"'),
    "skip_unchanged": (
        'incremental = "updated_at"\nsince_param = "since"\nallowed_lateness = "5m"\nskip_unchanged = false',
        "skip_unchanged = true"),
    "a column's type": ("decimal(18,4)", "decimal(18,2)"),
    "a column's class": ('type = "bool"', 'class = "null"'),
}  # fmt: skip


def content_hash(tmp_path, text: str) -> str:
    path = tmp_path / "contextful.toml"
    path.write_text(text, encoding="utf-8")
    tables = [table for pipeline in load(path, {}).pipelines for table in pipeline.tables]
    return next(table.content_hash for table in tables if table.name in {"issues", "tickets"})


@pytest.mark.clause("run.own.execution-owner", "run.journal.plan-pin")
@pytest.mark.parametrize("what", KEEPS)
def test_what_changes_no_row_leaves_the_content_hash(tmp_path, what):
    assert KEEPS[what][0] in BASE

    changed = content_hash(tmp_path, BASE.replace(*KEEPS[what], 1))

    assert changed == content_hash(tmp_path, BASE)


@pytest.mark.clause("run.own.execution-owner", "run.journal.plan-pin")
@pytest.mark.parametrize("what", MOVES)
def test_what_changes_rows_changes_the_content_hash(tmp_path, what):
    assert MOVES[what][0] in BASE

    changed = content_hash(tmp_path, BASE.replace(*MOVES[what], 1))

    assert changed != content_hash(tmp_path, BASE)


def test_moving_the_folder_leaves_the_content_hash(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    text = BASE.replace('kind = "http"', 'kind = "file"\npath = "a.csv"')
    text = "\n".join(line for line in text.splitlines() if line.split(" ")[0] not in {
        "url", "records", "paginate", "headers", "params", "timeout", "since_param"})  # fmt: skip

    assert content_hash(here, text) == content_hash(there, text)


def test_a_content_hash_is_what_it_was_in_earlier_releases(tmp_path):
    """A pending run of an earlier release resumes only under an equal hash."""
    assert content_hash(tmp_path, BASE) == "ae286cbe1390ce82ce9aae1061bafc42562412ad940c0898655b8c7376105872"
