"""Every way to get a manifest wrong is told with its key path, what was found and what is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import ManifestInvalid, RunRetryTagUnretryable
from engine.pipeline.manifest import load

if TYPE_CHECKING:
    from pathlib import Path

PROJECT = '[project]\nname = "shop"\n'
PIPELINE = '[[pipeline]]\nid = "issues"\n'
SOURCE = '[pipeline.source]\nkind = "http"\nurl = "https://api.example.com/v1/issues"\n'
TABLE = '[[pipeline.table]]\nname = "issues"\n'
GOOD = PROJECT + PIPELINE + SOURCE + TABLE
AT = 'pipeline[0] "issues".'
IN_SOURCE = AT + "source."
IN_TABLE = AT + 'table[0] "issues".'
IN_EXPORT = 'export[0] "out".'


def source(line: str) -> str:
    return PROJECT + PIPELINE + SOURCE + line + "\n" + TABLE


def table(line: str) -> str:
    return GOOD + line + "\n"


def of_kind(lines: str) -> str:
    return PROJECT + PIPELINE + "[pipeline.source]\n" + lines + "\n" + TABLE


def destination(lines: str) -> str:
    return GOOD + '[[destination]]\nname = "pay"\nkind = "http"\nurl = "https://pay.example.com"\n' + lines + "\n"


def export(lines: str) -> str:
    return destination('[[export]]\nname = "out"\ndestination = "pay"\n' + lines)


BAD = {
    "no project": (PIPELINE + SOURCE + TABLE, "project", "nothing", "a table"),
    "no project name": ("[project]\n" + PIPELINE + SOURCE + TABLE, "project.name", "nothing", "64 letters"),
    "project name": (GOOD.replace('"shop"', '"-shop"'), "project.name", '"-shop"', "first a letter or digit"),
    "unknown project key": (GOOD.replace('"shop"\n', '"shop"\nsiteid = "x"\n'),
        "project.siteid", '"site_id"', "root"),
    "root": (GOOD.replace('"shop"\n', '"shop"\nroot = ""\n'), "project.root", '""', "a folder"),
    "root placeholder": (GOOD.replace('"shop"\n', '"shop"\nroot = "${HOME}"\n'),
        "project.root", "HOME", "only in url"),
    "unknown table": (GOOD + "[pipelines]\n", "pipelines", 'mean "pipeline"', "destination, export, pipeline, project"),
    "jobs": (GOOD + '[[job]]\nname = "j"\n', "job", "a list", "not supported by this release"),
    "datasets": (GOOD + '[[dataset]]\nname = "j"\n', "dataset", "a list", "not supported by this release"),
    "one export": (GOOD + '[export]\nname = "j"\n', "export", "a table", "[[export]]"),
    "one pipeline table": (PROJECT + '[pipeline]\nid = "a"\n', "pipeline", "a table", "[[pipeline]]"),
    "pipeline id": (GOOD.replace('id = "issues"', 'id = ".."'), 'pipeline[0] "..".id', '".."', "first a letter"),
    "pipeline id's type": (GOOD.replace('id = "issues"', "id = 7"), "pipeline[0].id", "7", "1 to 128"),
    "no pipeline id": (GOOD.replace('id = "issues"', ""), "pipeline[0].id", "nothing", "1 to 128"),
    "same pipeline id": (
        GOOD + PIPELINE.replace("issues", "Issues") + SOURCE + TABLE.replace("issues", "b"),
        'pipeline[1] "Issues".id', '"Issues" again', "more than case",
    ),
    "no source": (PROJECT + PIPELINE + TABLE, AT + "source", "nothing", "a table"),
    "no kind": (of_kind('url = "https://x"'), IN_SOURCE + "kind", "nothing", '"http", "file", "sql", "python"'),
    "kind": (of_kind('kind = "htp"'), IN_SOURCE + "kind", '"htp"', '"http", "file", "sql", "python"'),
    "no dsn": (of_kind('kind = "sql"\nfrom = "t"'), IN_SOURCE + "dsn", "nothing", "sqlite:///path"),
    "dsn's scheme": (of_kind('kind = "sql"\nfrom = "t"\ndsn = "mysql://u:hunter2@h/d"'),
        IN_SOURCE + "dsn", 'begins with "mysql://"', "postgresql://"),
    "dsn without a scheme": (of_kind('kind = "sql"\nfrom = "t"\ndsn = "shop.db"'),
        IN_SOURCE + "dsn", "without a scheme", "sqlite:///path"),
    "dsn with spaces": (of_kind('kind = "sql"\nfrom = "t"\ndsn = "host=h password=hunter2"'),
        IN_SOURCE + "dsn", "not shown here", "sqlite:///path"),
    "dsn's placeholder": (of_kind('kind = "sql"\nfrom = "t"\ndsn = "postgresql://u:${hunter-2@h/d"'),
        IN_SOURCE + "dsn", "not shown here", "${NAME}"),
    "query and from": (of_kind('kind = "sql"\ndsn = "sqlite:///a"\nfrom = "t"\nquery = "SELECT 1"'),
        IN_SOURCE + "from", "query and from", "one of the two"),
    "neither query nor from": (of_kind('kind = "sql"\ndsn = "sqlite:///a"'),
        IN_SOURCE + "from", "neither query nor from", "one of the two"),
    "batch": (of_kind('kind = "sql"\ndsn = "sqlite:///a"\nfrom = "t"\nbatch = 0'),
        IN_SOURCE + "batch", "0", "from 1"),
    "meter": (source("meter = { limit = 5 }"), IN_SOURCE + "meter.every", "nothing", "a duration"),
    "meter's limit": (source('meter = { limit = 0, every = "1m" }'), IN_SOURCE + "meter.limit", "0", "from 1"),
    "no tables": (PROJECT + PIPELINE + SOURCE, AT + "table", "nothing", "[[pipeline.table]]"),
    "one table": (PROJECT + PIPELINE + SOURCE + '[pipeline.table]\nname = "a"',
        AT + "table", "a table", "[[pipeline.ta"),
    "unknown source key": (source('recods = "items"'), IN_SOURCE + "recods", 'mean "records"', "paginate, params"),
    "another kind's key": (source('path = "a.csv"'), IN_SOURCE + "path", "of kind file, not of kind http", "records"),
    "a table's key": (source('primary_key = ["id"]'), IN_SOURCE + "primary_key", "only [[pipeline", "url"),
    "since_param in the source": (source('since_param = "s"'), IN_SOURCE + "since_param", "only [[pipeline", "url"),
    "no url": (of_kind('kind = "http"'), IN_SOURCE + "url", "nothing", "an http or https URL"),
    "url": (of_kind('kind = "http"\nurl = "ftp://x"'), IN_SOURCE + "url", '"ftp://x"', "an http or https URL"),
    "url's brackets": (of_kind('kind = "http"\nurl = "http://[x"'), IN_SOURCE + "url", "[x", "an http or https URL"),
    "url's port": (of_kind('kind = "http"\nurl = "http://x:99999"'),
        IN_SOURCE + "url", "99999", "an http or https URL"),
    "table's url": (table('url = "http://[x"'), IN_TABLE + "url", "[x", "relative to the source's"),
    "records": (source('records = "a..b"'), IN_SOURCE + "records", '"a..b"', "keys joined by dots"),
    "method": (source('method = "PUT"'), IN_SOURCE + "method", '"PUT"', '"GET", "POST"'),
    "body with GET": (source("body = { a = 1 }"), IN_SOURCE + "body", "method GET", 'method = "POST"'),
    "body's values": (source('method = "POST"\nbody = { a = 1979-05-27 }'), IN_SOURCE + "body", "a table", "texts"),
    "headers": (source('headers = "x"'), IN_SOURCE + "headers", '"x"', "a table"),
    "header's value": (source("headers = { A = 5 }"), IN_SOURCE + "headers.A", "5", "a text of one line"),
    "header's line": (source('headers = { A = "x\\ny" }'), IN_SOURCE + "headers.A", "x\\ny", "a text of one line"),
    "header's name": (source('headers = { "a b" = "x" }'),
        IN_SOURCE + 'headers."a b"', '"a b"', "the name of a header"),
    "header twice": (source('headers = { A = "x", a = "y" }'), IN_SOURCE + "headers.a", '"a" again', '"A"'),
    "params": (source("params = { a = [1] }"), IN_SOURCE + "params.a", "a list", "a text, a number"),
    "param's date": (source("params = { a = 1979-05-27 }"), IN_SOURCE + "params.a", "1979-05-27", "quote a date"),
    "timeout": (source('timeout = "30"'), IN_SOURCE + "timeout", '"30"', '"500ms", "30s"'),
    "no timeout": (source('timeout = "0s"'), IN_SOURCE + "timeout", '"0s"', "above zero"),
    "paginate": (source("paginate = 3"), IN_SOURCE + "paginate", "3", "a table"),
    "paginate.by": (source('paginate = { by = "nxt" }'),
        IN_SOURCE + "paginate.by", '"nxt"', '"next-url", "link-header"'),
    "no paginate.by": (source('paginate = { field = "n" }'), IN_SOURCE + "paginate.by", "nothing", '"next-url"'),
    "next-url": (source('paginate = { by = "next-url" }'), IN_SOURCE + "paginate.field", "nothing", "joined by dots"),
    "link-header": (source('paginate = { by = "link-header", field = "x" }'),
        IN_SOURCE + "paginate.field", "unknown", "by"),
    "page": (source('paginate = { by = "page" }'), IN_SOURCE + "paginate.param", "nothing", "a request parameter"),
    "page's start": (source('paginate = { by = "page", param = "p", start = -1 }'),
        IN_SOURCE + "paginate.start", "-1", "from 0"),
    "page's size": (source('paginate = { by = "page", param = "p", size_param = "s" }'),
        IN_SOURCE + "paginate.size", "nothing", "beside size_param"),
    "offset": (source('paginate = { by = "offset", param = "o", limit = 5 }'),
        IN_SOURCE + "paginate.limit_param", "nothing", "a request parameter"),
    "offset's limit": (source('paginate = { by = "offset", param = "o", limit_param = "l", limit = 0 }'),
        IN_SOURCE + "paginate.limit", "0", "from 1"),
    "token": (source('paginate = { by = "token", field = "f" }'),
        IN_SOURCE + "paginate.param", "nothing", "a request parameter"),
    "attempts": (source("retry = { attempts = 0 }"), IN_SOURCE + "retry.attempts", "0", "from 1"),
    "attempts' type": (source("retry = { attempts = true }"), IN_SOURCE + "retry.attempts", "true", "a whole number"),
    "base_ms": (source("retry = { base_ms = -1 }"), IN_SOURCE + "retry.base_ms", "-1", "from 0"),
    "factor": (source("retry = { factor = 0.5 }"), IN_SOURCE + "retry.factor", "0.5", "from 1"),
    "factor's infinity": (source("retry = { factor = inf }"), IN_SOURCE + "retry.factor", "Infinity", "from 1"),
    "backoff": (source('retry = { backoff = "linear" }'), IN_SOURCE + "retry.backoff", '"linear"', '"fixed"'),
    "no retry_on": (source("retry = { retry_on = [] }"),
        IN_SOURCE + "retry.retry_on", "an empty list", '"Transient"'),
    "retry key": (source("retry = { tries = 3 }"), IN_SOURCE + "retry.tries", "an unknown key", "attempts"),
    "table name": (table("").replace('name = "issues"', 'name = "_a"'),
        AT + 'table[0] "_a".name', '"_a"', "first a letter"),
    "long table name": (table("").replace('name = "issues"', f'name = "{"a" * 65}"'), ".name", '"aaaa', "1 to 64"),
    "same table name": (GOOD + TABLE.replace("issues", "Issues"),
        AT + 'table[1] "Issues".name', "again", "more than case"),
    "table's kind": (table('kind = "file"'), IN_TABLE + "kind", "only [pipeline.source] takes", "primary_key"),
    "unknown table key": (table('primarykey = ["id"]'), IN_TABLE + "primarykey", 'mean "primary_key"', "incremental"),
    "primary_key": (table('primary_key = "id"'), IN_TABLE + "primary_key", '"id"', "a list of column names"),
    "empty primary_key": (table("primary_key = []"), IN_TABLE + "primary_key", "an empty list", "at least one"),
    "injected key": (table('primary_key = ["id", "_Run_ID"]'), IN_TABLE + "primary_key[1]", '"_Run_ID"', "_row_seq"),
    "key twice": (table('primary_key = ["id", "ID"]'), IN_TABLE + "primary_key[1]", '"ID" again', "more than case"),
    "dropped key": (table('primary_key = ["id"]\ncolumns = { id = { class = "drop" } }'),
        IN_TABLE + "columns.id.class", '"drop"', "part of the primary key"),
    "dropped key in another case": (table('primary_key = ["ID"]\ncolumns = { id = { class = "null" } }'),
        IN_TABLE + "columns.id.class", '"null"', "part of the primary key"),
    "a list as class": (table("columns = { a = { class = [] } }"), IN_TABLE + "columns.a.class", "an empty", '"drop"'),
    "a list as by": (source("paginate = { by = [] }"), IN_SOURCE + "paginate.by", "an empty list", '"page"'),
    "a column called paginate": (table('columns = { paginate = { type = "x" } }'),
        IN_TABLE + "columns.paginate.type", '"x"', "json"),
    "a table's paginate": (table('paginate = { by = "page" }'),
        IN_TABLE + "paginate.param", "nothing", "a request parameter"),
    "write_mode": (table('write_mode = "merge"'), IN_TABLE + "write_mode", '"merge"', '"append", "replace"'),
    "replace with watermark": (table('write_mode = "replace"\nincremental = "u"'),
        IN_TABLE + "incremental", "replace", "no watermark"),
    "injected watermark": (table('incremental = "_ingested_at"'),
        IN_TABLE + "incremental", "_ingested_at", "of the source"),
    "since_param alone": (table('since_param = "since"'),
        IN_TABLE + "since_param", "without incremental", "beside incremental"),
    "until_param alone": (table('until_param = "until"'),
        IN_TABLE + "until_param", "without incremental", "beside incremental"),
    "lateness alone": (table('allowed_lateness = "5m"'),
        IN_TABLE + "allowed_lateness", "without incremental", "beside"),
    "lateness of numbers": (
        table('incremental = "u"\nallowed_lateness = "5m"\ncolumns = { u = { type = "decimal(9,2)" } }'),
        IN_TABLE + "allowed_lateness", "declared decimal(9,2)", "RFC 3339"),
    "lateness": (table('incremental = "u"\nallowed_lateness = 300'), IN_TABLE + "allowed_lateness", "300", '"5m"'),
    "since_param of a file": (of_kind('kind = "file"\npath = "a.csv"') + 'incremental = "u"\nsince_param = "s"',
        IN_TABLE + "since_param", "of kind http", "primary_key"),
    "skip_unchanged with a watermark": (table('skip_unchanged = true\nincremental = "u"'),
        IN_TABLE + "skip_unchanged", "true with incremental", "a watermark or a digest"),
    "skip_unchanged of a program": (
        of_kind('kind = "python"\nentry = "a:b"') + "skip_unchanged = true",
        IN_TABLE + "skip_unchanged", '"python"', '"file" or "http"'),
    "skip_unchanged": (table('skip_unchanged = "no"'), IN_TABLE + "skip_unchanged", '"no"', "true or false"),
    "column type": (table('columns = { a = { type = "int" } }'), IN_TABLE + "columns.a.type", '"int"', '"int64"'),
    "decimal": (table('columns = { a = { type = "decimal(39,2)" } }'), IN_TABLE + "columns.a.type", "39", "p <= 38"),
    "decimal's scale": (table('columns = { a = { type = "decimal(4,5)" } }'),
        IN_TABLE + "columns.a.type", "5", "s <= p"),
    "column class": (table('columns = { a = { class = "mask" } }'),
        IN_TABLE + "columns.a.class", '"mask"', '"drop", "null", "hash"'),
    "column key": (table('columns = { a = { typ = "bool" } }'), IN_TABLE + "columns.a.typ", 'mean "type"', "class"),
    "injected column": (table('columns = { _site_id = { type = "bool" } }'),
        IN_TABLE + "columns._site_id", "_site_id", "of the source"),
    "columns alike": (table('columns = { a = { type = "bool" }, A = { type = "bool" } }'),
        IN_TABLE + "columns.A", "again", '"a"'),
    "no pepper": (table('columns = { a = { class = "hash" } }'),
        IN_TABLE + "columns.a.class", "without a pepper", "CONTEXTFUL_PEPPER"),
    "placeholder elsewhere": (source('records = "${A}"'), IN_SOURCE + "records", "${A}", "only in url"),
    "placeholder in a key": (source('params = { "${A}" = 1 }'),
        IN_SOURCE + 'params."${A}"', "in a key", "only in url"),
    "misspelt placeholder": (source('headers = { A = "${1}" }'),
        IN_SOURCE + "headers.A", "${1}", "${NAME}, the name of"),
    "no path": (of_kind('kind = "file"'), IN_SOURCE + "path", "nothing", "path or glob"),
    "no suffix": (of_kind('kind = "file"\npath = "data/a.gz"'),
        IN_SOURCE + "format", "does not tell", '"csv", "jsonl"'),
    "format": (of_kind('kind = "file"\npath = "a"\nformat = "xml"'), IN_SOURCE + "format", '"xml"', '"parquet"'),
    "no entry": (of_kind('kind = "python"'), IN_SOURCE + "entry", "nothing", "package.module:callable"),
    "entry": (of_kind('kind = "python"\nentry = "shop.sources"'),
        IN_SOURCE + "entry", "shop", "package.module:callable"),
    "secrets": (of_kind('kind = "python"\nentry = "a:b"\nsecrets = ["1"]'),
        IN_SOURCE + "secrets", "a list", "a list of names"),
    "destination's kind": (
        destination("").replace('kind = "http"\nurl = "https://pay', 'kind = "smtp"\nurl = "https://pay'),
        'destination[0] "pay".kind', '"smtp"', '"http"',
    ),
    "destination's url": (destination("").replace("https://pay", "pay"),
        'destination[0] "pay".url', '"pay.', "http or https"),
    "destination's window": (destination('dedup_window = "1w"'), 'destination[0] "pay".dedup_window', '"1w"', '"1d"'),
    "destination's refusals": (destination("refusals = [200]"),
        'destination[0] "pay".refusals', "a list", "400 to 599"),
    "destination's header": (destination('idempotency_header = "a b"'),
        'destination[0] "pay".idempotency_header', "a b", "header"),
    "destination's headers": (destination("headers = { A = 5 }"),
        'destination[0] "pay".headers.A', "5", "a text of one line"),
    "destination's header twice": (destination('headers = { A = "x", a = "y" }'),
        'destination[0] "pay".headers.a', '"a" again', '"A"'),
    "destination's header of the key": (destination('headers = { idempotency-key = "x" }'),
        'destination[0] "pay".headers.idempotency-key', '"idempotency-key"', "carries the key"),
    "destination's own header of the key": (destination('idempotency_header = "X-Key"\nheaders = { x-key = "x" }'),
        'destination[0] "pay".headers.x-key', '"x-key"', "carries the key"),
    "destination's timeout": (destination('timeout = "0s"'), 'destination[0] "pay".timeout', '"0s"', "above zero"),
    "no export name": (export('table = "issues"').replace('name = "out"', ""), "export[0].name", "nothing", "1 to 128"),
    "export's name": (export('table = "issues"').replace('"out"', '"-"'),
        'export[0] "-".name', '"-"', "first a letter"),
    "same export": (export('table = "issues"\n[[export]]\nname = "OUT"\ndestination = "pay"\ntable = "issues"'),
        'export[1] "OUT".name', '"OUT" again', "more than case"),
    "no destination": (export('table = "issues"').replace('destination = "pay"', ""),
        IN_EXPORT + "destination", "nothing", "the name of a destination"),
    "another destination": (export('table = "issues"').replace('destination = "pay"', 'destination = "payments"'),
        IN_EXPORT + "destination", '"payments"', 'a destination of this manifest: "pay"'),
    "nothing exported": (export(""), IN_EXPORT + "table", "neither table nor statement", "a table, or a SELECT"),
    "two things exported": (export('table = "issues"\nstatement = "SELECT 1"'),
        IN_EXPORT + "statement", "table and statement", "one of the two"),
    "another table": (export('table = "issue"'), IN_EXPORT + "table", '"issue"', 'a table of this manifest: "issues"'),
    "empty statement": (export('statement = " "'), IN_EXPORT + "statement", '" "', "one SELECT"),
    "secret in a statement": (export('statement = "SELECT \'${TOKEN}\'"'),
        IN_EXPORT + "statement", "TOKEN", "only in url"),
    "export's batch": (export('table = "issues"\nbatch = 0'), IN_EXPORT + "batch", "0", "from 1 to 10000"),
    "export's long batch": (export('table = "issues"\nbatch = 10001'),
        IN_EXPORT + "batch", "10001", "from 1 to 10000"),
    "export's retry": (export('table = "issues"\nretry = { attempts = 0 }'),
        IN_EXPORT + "retry.attempts", "0", "from 1"),
    "export's key": (export('table = "issues"\nwindow = 1'), IN_EXPORT + "window", "unknown", "statement"),
    "destination's key": (destination("window = 1"), 'destination[0] "pay".window', "unknown", "dedup_window"),
}  # fmt: skip


def refusal(tmp_path: Path, text: str) -> ManifestInvalid:
    path = tmp_path / "contextful.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ManifestInvalid) as refused:
        load(path, {})
    return refused.value


@pytest.mark.parametrize("case", BAD)
def test_a_bad_manifest_is_told_with_file_key_path_found_and_allowed(tmp_path, case):
    text, place, found, allowed = BAD[case]

    error = refusal(tmp_path, text)

    told = [problem for problem in error.problems if f"{place}: found " in problem]
    assert len(told) == 1, error.problems
    said, permitted = told[0].split(": found ", 1)[1].split("; allowed: ", 1)
    assert found in said
    assert allowed in permitted
    assert str(tmp_path / "contextful.toml") in str(error)
    assert error.exit_code == 2


@pytest.mark.parametrize("case", BAD)
def test_one_mistake_is_told_once(tmp_path, case):
    error = refusal(tmp_path, BAD[case][0])

    assert len(error.problems) == 1


def test_all_mistakes_of_a_file_are_told_at_once(tmp_path):
    text = table('incremental = "u"\nwrite_mode = "replace"\nprimary_key = "id"') + '[[destination]]\nname = "a"\n'
    text = text.replace('name = "shop"', 'name = "sh op"').replace("https://api", "ftp://api")

    error = refusal(tmp_path, text)

    places = [problem.split(": found ")[0] for problem in error.problems]
    assert sorted(places) == sorted([
        "project.name", 'destination[0] "a".kind', 'destination[0] "a".url', IN_TABLE + "primary_key",
        IN_TABLE + "incremental", IN_SOURCE + "url",
    ])  # fmt: skip


@pytest.mark.clause("run.retry.unretryable-tag")
def test_a_tag_that_no_schedule_retries_is_refused_in_an_export(tmp_path):
    path = tmp_path / "contextful.toml"
    path.write_text(export('table = "issues"\nretry = { retry_on = ["Permanent"] }'), encoding="utf-8")

    with pytest.raises(RunRetryTagUnretryable, match=r"retry\.retry_on\[0\]") as refused:
        load(path, {})

    assert refused.value.found == "Permanent"


@pytest.mark.clause("run.retry.unretryable-tag")
@pytest.mark.parametrize("tag", ["Permanent", "Storage", "transient"])
def test_a_tag_that_no_schedule_retries_is_refused_at_load(tmp_path, tag):
    path = tmp_path / "contextful.toml"
    path.write_text(source(f'retry = {{ retry_on = ["Transient", "{tag}"] }}'), encoding="utf-8")

    with pytest.raises(RunRetryTagUnretryable) as refused:
        load(path, {})

    assert refused.value.found == tag
    assert IN_SOURCE + "retry.retry_on[1]" in str(refused.value)


def test_an_unretryable_tag_among_other_mistakes_is_told_with_them(tmp_path):
    error = refusal(tmp_path, table('retry = { retry_on = ["Permanent"] }\nprimary_key = 1'))

    assert len(error.problems) == 2
    assert "no schedule retries" in error.problems[1]
