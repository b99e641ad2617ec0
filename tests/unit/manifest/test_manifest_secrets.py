"""Secrets stay text in the declaration and are looked up only where a run needs them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from engine.errors import SecretNotFound
from engine.pipeline.manifest import load, missing_secrets, secrets_of

if TYPE_CHECKING:
    from engine.pipeline.declaration import Manifest

TEXT = """
[project]
name = "p"
[[pipeline]]
id = "one"
[pipeline.source]
kind = "http"
url = "https://${HOST}/x"
headers = { Authorization = "Bearer ${TOKEN}" }
[[pipeline.table]]
name = "a"
params = { key = "${TOKEN}" }
[[pipeline]]
id = "two"
[pipeline.source]
kind = "http"
url = "https://x"
method = "POST"
body = { login = { password = "${PASSWORD}" } }
[[pipeline.table]]
name = "b"
[[destination]]
name = "pay"
kind = "http"
url = "https://pay/${ACCOUNT}"
headers = { Authorization = "Bearer ${PAY_TOKEN}" }
"""


@pytest.fixture
def manifest(tmp_path) -> Manifest:
    path = tmp_path / "contextful.toml"
    path.write_text(TEXT, encoding="utf-8")
    return load(path, {})


def test_every_missing_secret_is_told_at_once_with_its_place(manifest):
    with pytest.raises(SecretNotFound) as refused:
        secrets_of(manifest, {"HOST": "api.example.com", "TOKEN": ""})

    assert (refused.value.name, refused.value.path) == ("TOKEN", 'pipeline "one", table "a": headers.Authorization')
    assert refused.value.also == (
        ("PASSWORD", 'pipeline "two", table "b": body.login.password'),
        ("ACCOUNT", 'destination "pay": url'),
        ("PAY_TOKEN", 'destination "pay": headers.Authorization'),
    )
    assert str(refused.value).endswith("set the variables TOKEN, PASSWORD, ACCOUNT, PAY_TOKEN")
    assert refused.value.exit_code == 2


def test_missing_secrets_are_listed_without_an_error(manifest):
    assert missing_secrets(manifest, {"TOKEN": "t", "PASSWORD": "p", "ACCOUNT": "a", "PAY_TOKEN": "t"}) == (
        ("HOST", 'pipeline "one", table "a": url'),
    )


def test_a_manifest_narrowed_to_one_pipeline_asks_for_no_other_pipelines_secrets(manifest):
    narrowed = replace(manifest, pipelines=manifest.pipelines[:1], destinations=())

    secrets = secrets_of(narrowed, {"HOST": "h", "TOKEN": "t", "PASSWORD": "p"})

    assert dict(secrets) == {"HOST": "h", "TOKEN": "t", "PASSWORD": "p"}


def test_no_secret_value_reaches_the_declaration(tmp_path):
    path = tmp_path / "contextful.toml"
    path.write_text(TEXT, encoding="utf-8")

    manifest = load(path, dict.fromkeys(("HOST", "TOKEN", "PASSWORD", "ACCOUNT"), "s3cr3t"))

    assert "s3cr3t" not in repr(manifest)
    assert manifest == load(path, {})
