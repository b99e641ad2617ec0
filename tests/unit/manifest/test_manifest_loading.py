"""What a good manifest resolves to."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from engine.pipeline.declaration import Column, FileSource, HttpSource, Manifest, Paginate, PythonSource
from engine.pipeline.manifest import load
from engine.schedule import Schedule
from engine.shapes import FailureTag, WriteMode

SURFACE = """
[project]
name = "shop"
site_id = "laptop"

[[pipeline]]
id = "issues"

[pipeline.source]
kind = "http"
url = "https://api.example.com/v1/issues?per_page=100"
records = "items"
paginate = { by = "next-url", field = "next" }
headers = { Authorization = "Bearer ${API_TOKEN}", Accept = "application/json" }
params = { per_page = 100, open = true, ratio = 0.5 }
timeout = "30s"
retry = { attempts = 3, base_ms = 200, factor = 2, max_delay_ms = 1000, jitter_ms = 0 }

[[pipeline.table]]
name = "issues"
primary_key = ["id"]
incremental = "updated_at"
since_param = "since"
allowed_lateness = "5m"
columns = { email = { class = "hash" }, price = { type = "decimal( 18, 4 )" } }

[[pipeline.table]]
name = "users"
url = "users?all=1"
records = "data.users"
headers = { authorization = "Token ${USER_TOKEN}" }
params = { per_page = "50" }
paginate = { by = "page", param = "page" }
timeout = "500ms"
retry = { attempts = 1, retry_on = ["RateLimited"], backoff = "fixed" }
write_mode = "replace"
skip_unchanged = true

[[destination]]
name = "payments"
kind = "http"
url = "https://pay.example.com/${ACCOUNT}"
dedup_window = "24h"
refusals = [503]
headers = { Authorization = "Bearer ${PAY_TOKEN}" }
timeout = "5s"

[[export]]
name = "new-users"
destination = "payments"
table = "users"
batch = 7
retry = { attempts = 2 }

[[export]]
name = "totals"
destination = "payments"
statement = "SELECT COUNT(*) AS n FROM users"
"""


def loaded(tmp_path, text: str) -> Manifest:
    path = tmp_path / "contextful.toml"
    path.write_text(text, encoding="utf-8")
    return load(path, {"CONTEXTFUL_PEPPER": "pepper"})


def http(tmp_path, source: str, table: str = "") -> HttpSource:
    head = '[project]\nname = "p"\n[[pipeline]]\nid = "p"\n[pipeline.source]\nkind = "http"\n'
    source_of = (
        loaded(tmp_path, f'{head}{source}\n[[pipeline.table]]\nname = "t"\n{table}\n').pipelines[0].tables[0].source
    )
    assert isinstance(source_of, HttpSource)
    return source_of


def test_a_table_takes_its_source_and_its_own_keys(tmp_path):
    table = loaded(tmp_path, SURFACE).pipelines[0].tables[0]

    assert (table.name, table.pipeline_id, table.primary_key) == ("issues", "issues", ("id",))
    assert (table.write_mode, table.incremental, table.since_param) == (WriteMode.APPEND, "updated_at", "since")
    assert table.allowed_lateness_ms == 300_000
    assert table.columns == {"email": Column(treatment="hash"), "price": Column(type="decimal(18,4)")}
    assert table.schedule == Schedule(attempts=3, base_ms=200, factor=2.0, max_delay_ms=1000, jitter_ms=0)
    assert table.source == HttpSource(
        url="https://api.example.com/v1/issues?per_page=100",
        records="items",
        paginate=Paginate(by="next-url", field="next"),
        headers={"Authorization": "Bearer ${API_TOKEN}", "Accept": "application/json"},
        params={"per_page": "100", "open": "true", "ratio": "0.5"},
        timeout_ms=30_000,
    )


def test_a_table_overrides_its_source_key_by_key(tmp_path):
    table = loaded(tmp_path, SURFACE).pipelines[0].tables[1]

    assert (table.write_mode, table.skip_unchanged) == (WriteMode.REPLACE, True)
    assert table.schedule == Schedule(attempts=1, backoff="fixed", retry_on=frozenset({FailureTag.RATE_LIMITED}))
    assert table.source == HttpSource(
        url="https://api.example.com/v1/users?all=1",
        records="data.users",
        paginate=Paginate(by="page", param="page", start=1),
        headers={"Accept": "application/json", "authorization": "Token ${USER_TOKEN}"},
        params={"per_page": "50", "open": "true", "ratio": "0.5"},
        timeout_ms=500,
    )


def test_the_rest_of_the_manifest_resolves(tmp_path):
    manifest = loaded(tmp_path, SURFACE)

    assert (manifest.project, manifest.site_id, manifest.site_id_env) == ("shop", "laptop", None)
    assert manifest.path == tmp_path / "contextful.toml"
    assert manifest.root == tmp_path / ".contextful"
    assert manifest.secret_names == {"API_TOKEN", "USER_TOKEN", "ACCOUNT", "PAY_TOKEN"}
    (destination,) = manifest.destinations
    assert (destination.idempotency_header, destination.dedup_window_ms) == ("Idempotency-Key", 86_400_000)
    assert (destination.refusals, destination.timeout_ms) == ((503,), 5_000)
    assert destination.headers == {"Authorization": "Bearer ${PAY_TOKEN}"}


def test_the_exports_of_a_manifest_resolve(tmp_path):
    users, totals = loaded(tmp_path, SURFACE).exports

    assert (users.name, users.destination, users.table, users.statement) == ("new-users", "payments", "users", None)
    assert (users.batch, users.schedule.attempts) == (7, 2)
    assert (totals.table, totals.statement) == (None, "SELECT COUNT(*) AS n FROM users")
    assert (totals.batch, totals.schedule.attempts) == (100, 5)


@pytest.mark.clause("run.journal.plan-pin")
def test_an_exports_plan_changes_with_what_is_published_and_to_whom_alone(tmp_path):
    plan = loaded(tmp_path, SURFACE).exports[0].content_hash

    same = loaded(tmp_path, SURFACE.replace("batch = 7", "batch = 8").replace("attempts = 2", "attempts = 3"))
    other = loaded(tmp_path, SURFACE.replace('table = "users"\n', 'statement = "FROM users"\n'))
    away = SURFACE + '[[destination]]\nname = "b"\nkind = "http"\nurl = "https://b.example.com"\n'
    elsewhere = loaded(tmp_path, away.replace('destination = "payments"', 'destination = "b"'))

    assert same.exports[0].content_hash == plan
    assert len({plan, other.exports[0].content_hash, elsewhere.exports[0].content_hash}) == 3


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ('{ by = "link-header" }', Paginate(by="link-header")),
        ('{ by = "page", param = "p", start = 0, size_param = "s", size = 10 }',
         Paginate(by="page", param="p", start=0, size_param="s", size=10)),
        ('{ by = "offset", param = "o", limit_param = "l", limit = 50 }',
         Paginate(by="offset", param="o", limit_param="l", limit=50)),
        ('{ by = "token", field = "meta.next", param = "cursor" }',
         Paginate(by="token", field="meta.next", param="cursor")),
    ],
)  # fmt: skip
def test_each_way_of_paging_carries_its_fields(tmp_path, declared, expected):
    source = http(tmp_path, f'url = "https://x"\npaginate = {declared}')

    assert source.paginate == expected


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("24h", 86_400_000), ("1d", 86_400_000)],
)
def test_durations_become_milliseconds(tmp_path, text, milliseconds):
    assert http(tmp_path, f'url = "https://x"\ntimeout = "{text}"').timeout_ms == milliseconds


@pytest.mark.parametrize(
    ("source", "table", "expected"),
    [
        ("https://a/v1/x?q=1", "y", "https://a/v1/y"),
        ("https://a/v1/x", "/y", "https://a/y"),
        ("https://a/v1/", "?page=2", "https://a/v1/?page=2"),
        ("https://a/v1/x", "https://b/y", "https://b/y"),
        ("${BASE}/x", "y", "${BASE}/y"),
        ("http://127.0.0.1:${PORT}/x", "y", "http://127.0.0.1:${PORT}/y"),
    ],
)
def test_a_tables_url_may_be_relative_to_its_sources(tmp_path, source, table, expected):
    assert http(tmp_path, f'url = "{source}"', f'url = "{table}"').url == expected


def test_a_table_alone_may_name_the_url(tmp_path):
    assert http(tmp_path, "", 'url = "https://a/y"').url == "https://a/y"


def test_a_body_goes_with_post(tmp_path):
    source = http(
        tmp_path, 'url = "https://a"', 'method = "POST"\nbody = { filter = { open = true, ids = [1, "${K}"] } }'
    )

    assert (source.method, source.body) == ("POST", {"filter": {"open": True, "ids": [1, "${K}"]}})


def test_files_and_callables_are_sources_too(tmp_path):
    manifest = loaded(tmp_path, """
[project]
name = "p"
root = "../state"
[[pipeline]]
id = "files"
[pipeline.source]
kind = "file"
path = "data/*.csv.gz"
[[pipeline.table]]
name = "a"
[[pipeline.table]]
name = "b"
path = "more/a"
format = "jsonl"
[[pipeline.table]]
name = "d"
path = "more/*"
[[pipeline]]
id = "code"
[pipeline.source]
kind = "python"
entry = "shop.sources:tickets"
[[pipeline.table]]
name = "c"
""")  # fmt: skip

    sources = [table.source for pipeline in manifest.pipelines for table in pipeline.tables]
    assert sources == [
        FileSource(path="data/*.csv.gz", base=tmp_path),
        FileSource(path="more/a", base=tmp_path, format="jsonl"),
        FileSource(path="more/*", base=tmp_path),
        PythonSource(entry="shop.sources:tickets", base=tmp_path),
    ]
    assert manifest.root == tmp_path / "../state"


def test_a_manifest_without_pipelines_serves_host_scopes(tmp_path):
    assert loaded(tmp_path, '\ufeff[project]\nname = "p"\n').pipelines == ()


def test_importing_the_package_leaves_the_validator_unloaded():
    code = "import sys, engine.pipeline.manifest; print([m for m in sys.modules if m.startswith('pydantic')])"

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.strip() == "[]"


def test_loading_a_manifest_leaves_pydantics_class_layer_unloaded(tmp_path):
    loaded(tmp_path, SURFACE)
    code = (
        "import sys; from pathlib import Path; from engine.pipeline.manifest import load;"
        "load(Path(sys.argv[1]), {'CONTEXTFUL_PEPPER': 'p'}); print('pydantic' in sys.modules)"
    )

    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "contextful.toml")], capture_output=True, text=True, check=True
    )

    assert run.stdout.strip() == "False"


def test_reading_a_manifest_again_takes_milliseconds(tmp_path):
    loaded(tmp_path, SURFACE)

    started = time.process_time()
    loaded(tmp_path, SURFACE)

    assert time.process_time() - started < 0.05
