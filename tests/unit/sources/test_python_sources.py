from __future__ import annotations

import hashlib
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import httpx
import pytest

import engine
from engine import errors
from engine.errors import (
    AuthExpired,
    ContextfulError,
    Permanent,
    RateLimited,
    SourceShape,
    Transient,
    UnknownConnector,
)
from engine.pipeline.declaration import PythonSource, Table
from engine.pipeline.source import Ask, Secrets
from engine.pipeline.sources import open_source
from engine.shapes import CursorKind, FailureTag, Pull

if TYPE_CHECKING:
    from pathlib import Path

Written = Callable[[str], str]


@pytest.fixture
def written(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Written]:
    """Writes a module of the test's own into the manifest's folder and gives its name."""
    name = "user_" + hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:12]
    path = list(sys.path)

    def write(text: str) -> str:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        return name

    yield write
    sys.path[:] = path
    sys.modules.pop(name, None)


def test_a_generator_is_asked_from_the_position_and_its_pulls_pass_as_they_are(
    tmp_path: Path, written: Written
) -> None:
    module = written("""
        from engine.shapes import Pull

        def tickets(ask):
            for page in range(ask.position or 0, 3):
                yield Pull(rows=[{"page": page}], position=page + 1, more=page < 2, skipped=page)
    """)

    pulls = _pulls(tmp_path, f"{module}:tickets", position=1)

    assert pulls == [
        Pull(rows=[{"page": 1}], position=2, more=True, skipped=1), Pull(rows=[{"page": 2}], position=3, skipped=2),
    ]  # fmt: skip


@pytest.mark.clause("run.advance.cursor-kind", "run.journal.opt-out", "run.own.admission-pin")
def test_the_mark_names_version_journaling_and_cursor(tmp_path: Path, written: Written) -> None:
    module = written("""
        from engine.pipeline.sources.python import source
        from engine.shapes import CursorKind

        @source("tickets", version="7", unjournaled="its window moves", cursor_kind=CursorKind.SNAPSHOT_ID)
        def marked(ask):
            yield

        def plain(ask):
            yield

        class holder:
            inner = plain
    """)
    marked, plain, watched = (
        open_source(_table(tmp_path, f"{module}:marked")),
        open_source(_table(tmp_path, f"{module}:holder.inner")),
        open_source(_table(tmp_path, f"{module}:plain", incremental="at")),
    )
    code = hashlib.sha256((tmp_path / f"{module}.py").read_bytes()).hexdigest()

    assert (marked.connector.id, marked.connector.version, marked.connector.hash) == ("python:tickets", "7", code)
    assert (marked.journaled, plain.journaled) == (False, True)
    assert marked.cursor_kind is CursorKind.SNAPSHOT_ID
    assert plain.cursor_kind is CursorKind.OPAQUE_TOKEN
    assert watched.cursor_kind is CursorKind.MONOTONIC
    assert plain.connector.id == f"python:{module}:holder.inner"


def test_the_manifests_folder_comes_last_on_the_import_path(tmp_path: Path, written: Written) -> None:
    written("")
    (tmp_path / "json.py").write_text("raise AssertionError('must not replace an installed module')")

    with pytest.raises(UnknownConnector, match="tickets of json is nothing"):
        open_source(_table(tmp_path, "json:tickets"))

    assert sys.path[-1] == str(tmp_path)
    assert sys.path.count(str(tmp_path)) == 1


@pytest.mark.parametrize(
    ("text", "entry", "said"),
    [
        ("", "no colon", "package.module:callable"),
        ("", "absent_package.sources:tickets", "No module named 'absent_package'"),
        ("import absent_thing", "{module}:tickets", r"absent_thing.*\.py:1"),
        ("def (", "{module}:tickets", "SyntaxError"),
        ("1 / 0", "{module}:tickets", r"ZeroDivisionError.*\.py:1"),
        ("", "{module}:tickets", "tickets of {module} is nothing"),
        ("tickets = 3", "{module}:tickets", "is a int"),
        ("from engine.pipeline.sources.python import source\n@source('x')\ndef other(ask): yield\n",
         "{module}:tickets", "marked as sources there: other"),
    ],
)  # fmt: skip
@pytest.mark.clause("run.retry.failure-taxonomy")
def test_an_entry_that_names_no_callable_is_an_unknown_connector(
    tmp_path: Path, written: Written, text: str, entry: str, said: str
) -> None:
    module = written(text)

    with pytest.raises(UnknownConnector, match=said.replace("{module}", module)) as refusal:
        open_source(_table(tmp_path, entry.replace("{module}", module)))

    assert refusal.value.tag is FailureTag.UNKNOWN_CONNECTOR


@pytest.mark.parametrize(
    ("body", "path", "found"),
    [
        ("return [1]", "the returned value", "a list"),
        ("return None", "the returned value", "a NoneType"),
        ("yield {'rows': []}", "yielded value 1", "a dict"),
        ("yield Pull()\n    yield 3", "yielded value 2", "a int"),
    ],
)
def test_what_is_no_generator_of_pulls_is_named_with_its_type(
    tmp_path: Path, written: Written, body: str, path: str, found: str
) -> None:
    module = written(f"from engine.shapes import Pull\ndef tickets(ask):\n    {body}\n")

    with pytest.raises(SourceShape) as refusal:
        _pulls(tmp_path, f"{module}:tickets")

    assert (refusal.value.place, refusal.value.path, refusal.value.found) == (f"{module}:tickets", path, found)


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        ("errors.RateLimited('wait', wait_ms=5)", RateLimited),
        ("httpx.ConnectError('refused')", Transient),
        ("httpx.ReadTimeout('late')", Transient),
        ("httpx.HTTPStatusError('x', request=REQUEST, response=httpx.Response(401))", AuthExpired),
        ("httpx.HTTPStatusError('x', request=REQUEST, response=httpx.Response(502))", Transient),
        ("KeyError('id')", Permanent),
        ("OSError('disk')", Permanent),
        ("SystemExit(3)", Permanent),
    ],
)
@pytest.mark.clause("run.retry.failure-taxonomy")
def test_what_the_users_code_raises_comes_under_its_tag(
    tmp_path: Path, written: Written, raised: str, error: type[ContextfulError]
) -> None:
    module = written(f"""
        import httpx
        from engine import errors
        REQUEST = httpx.Request("GET", "http://h")

        def tickets(ask):
            raise {raised}
            yield
    """)

    with pytest.raises(error) as refusal:
        _pulls(tmp_path, f"{module}:tickets")

    assert type(refusal.value) is error


def test_a_failure_of_the_users_code_names_type_message_and_line_and_no_secret(
    tmp_path: Path, written: Written
) -> None:
    module = written("""
        def tickets(ask):
            yield from inner(ask)

        def inner(ask):
            raise LookupError("no ticket for " + ask.secrets["KEY"])
            yield
    """)

    with pytest.raises(Permanent) as refusal:
        _pulls(tmp_path, f"{module}:tickets", secrets={"KEY": "s3cr3t"})

    place = tmp_path / f"{module}.py"
    assert str(refusal.value) == f"{module}:tickets: LookupError: no ticket for ${{KEY}} ({place}:6)"


def _table(base: Path, entry: str, *, incremental: str | None = None) -> Table:
    return Table("tickets", "shop", PythonSource(entry=entry, base=base), content_hash="", incremental=incremental)


def _pulls(base: Path, entry: str, *, position: object = None, secrets: dict[str, str] | None = None) -> list[Pull]:
    with httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200))) as client:
        ask = Ask(client=lambda: client, position=position, secrets=Secrets(secrets or {}))
        return list(open_source(_table(base, entry)).pulls(ask))


@pytest.mark.clause("run.journal.escape-hatch")
def test_a_source_leaves_the_journal_only_with_an_argument():
    with pytest.raises(errors.Config, match="why asking again is harmless"):
        engine.source("tickets", unjournaled=" ")
