"""The secrets of a Python source, from the manifest to what the run records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.corpus.marker import tail
from engine.corpus.read import ReadFace
from engine.pipeline.runner import Request, fire
from engine.project import Project
from engine.shapes import Pull
from tests.pipeline.conftest import Silent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.pipeline.source import Ask
    from tests.pipeline.conftest import Shop

MANIFEST = """\
[project]
name = "shop"
site_id = "laptop"
[[pipeline]]
id = "orders"
source = {{ kind = "python", entry = "{module}:pulls", secrets = ["TOKEN"] }}
[[pipeline.table]]
name = "orders"
"""
ENVIRON = {"TOKEN": "s3cr3t-value", "OTHER": "unnamed-value"}


def test_a_python_source_sees_its_own_secrets_and_their_values_are_masked(shop: Shop) -> None:
    path = shop.base / "contextful.toml"
    path.write_text(MANIFEST.format(module=shop.module.__name__))
    shop.feed.serves([{"id": 1, "echo": "signed with s3cr3t-value", "other": "unnamed-value"}])
    environ: dict[str, Any] = ENVIRON | {"CONTEXTFUL_STORAGE_PROFILE": shop.store.profile_name} | shop.store.settings()

    project = Project.find(path, environ=environ, clock=shop.store.clock)
    with project.engine() as engine:
        (pipeline,) = project.manifest.pipelines
        request = Request(pipeline, pipeline.tables)
        outcome = fire(engine, request, secrets=project.secrets(pipeline), watcher=Silent())
        rows = ReadFace(engine.profile.objects).read("SELECT echo, other FROM orders").rows

    assert dict(shop.feed.asks[0].secrets) == {"TOKEN": "s3cr3t-value"}
    assert rows == [("signed with ${TOKEN}", "unnamed-value")]
    assert outcome.runs[0].masked == 1


@pytest.mark.clause("run.advance.cursor-bytes")
def test_a_position_that_holds_a_secret_is_stored_by_its_name_and_handed_back_whole(shop: Shop) -> None:
    path = shop.base / "contextful.toml"
    path.write_text(MANIFEST.format(module=shop.module.__name__))
    asked: list[Any] = []

    def source(ask: Ask) -> Iterator[Pull]:
        asked.append(ask.position)
        yield Pull(rows=[{"id": len(asked)}], position={"link": "/next?token=s3cr3t-value"})

    shop.module.script = source
    environ: dict[str, Any] = ENVIRON | {"CONTEXTFUL_STORAGE_PROFILE": shop.store.profile_name} | shop.store.settings()

    project = Project.find(path, environ=environ, clock=shop.store.clock)
    with project.engine() as engine:
        (pipeline,) = project.manifest.pipelines
        request, secrets = Request(pipeline, pipeline.tables), project.secrets(pipeline)
        fires = [fire(engine, request, secrets=secrets, watcher=Silent()) for _ in range(2)]
        marker = tail(engine.profile.objects, "orders")

    assert asked == [None, {"link": "/next?token=s3cr3t-value"}]
    assert marker is not None
    assert marker.position == {"link": "/next?token=${TOKEN}"}
    assert [outcome.runs[0].masked for outcome in fires] == [1, 1]


def test_what_seals_and_peppers_a_project_is_kept_out_of_its_records_like_its_sources_secrets(shop: Shop) -> None:
    path = shop.base / "contextful.toml"
    path.write_text(MANIFEST.format(module=shop.module.__name__))
    keys = {"CONTEXTFUL_PEPPER": "p3pper-value", "CONTEXTFUL_SEAL_KEY": "s3al-key-value"}
    environ: dict[str, Any] = ENVIRON | keys | {"CONTEXTFUL_STORAGE_PROFILE": shop.store.profile_name}

    project = Project.find(path, environ=environ, clock=shop.store.clock)

    assert project.known_secrets() == keys | {"TOKEN": "s3cr3t-value"}
