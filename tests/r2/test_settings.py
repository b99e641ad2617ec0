"""What a bucket needs to be told, and what it says where it was not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.buckets import open_bucket
from engine.errors import StorageBindingUnavailable, StorageCapabilityMissing, StorageUnusable
from r2.s3 import Settings, _client

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.clause("run.journal.storage-incomplete")
@pytest.mark.parametrize(
    ("name", "environ", "says"),
    [
        ("r2-binding", {}, "CONTEXTFUL_BINDING_URL is not set"),
        ("r2-s3", {}, "CONTEXTFUL_S3_BUCKET is not set"),
        ("r2-s3", {"CONTEXTFUL_S3_BUCKET": "b", "CONTEXTFUL_S3_ACCESS_KEY_ID": "id"}, "go together"),
        ("r2-s3", {"CONTEXTFUL_S3_BUCKET": "b", "CONTEXTFUL_S3_ENDPOINT": "here"}, "'here' and must be an address"),
        ("r3", {}, "known: r2-binding, r2-s3"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, name: str, environ: dict[str, str], says: str) -> None:
    with pytest.raises(StorageCapabilityMissing, match=says):
        open_bucket(name, tmp_path, environ=environ)


def test_r2_is_sent_no_checksum_it_does_not_take() -> None:
    environ = {"BUCKET": "b", "ENDPOINT": "https://a.r2.cloudflarestorage.com", "ACCESS_KEY_ID": "i",
               "SECRET_ACCESS_KEY": "s", "PREFIX": "/shop/"}  # fmt: skip
    settings = Settings.of({f"CONTEXTFUL_S3_{name}": value for name, value in environ.items()})

    config = _client(settings).meta.config

    assert (settings.region, settings.prefix) == ("auto", "shop/")
    assert config.request_checksum_calculation == config.response_checksum_validation == "when_required"
    assert config.signature_version == "s3v4"


@pytest.mark.clause("run.journal.d1-transport")
def test_a_bucket_that_nobody_answers_for_says_so(tmp_path: Path, free_address: str) -> None:
    environ = {"CONTEXTFUL_BINDING_URL": free_address, "CONTEXTFUL_S3_ENDPOINT": free_address,
               "CONTEXTFUL_S3_BUCKET": "b", "CONTEXTFUL_S3_ACCESS_KEY_ID": "i",
               "CONTEXTFUL_S3_SECRET_ACCESS_KEY": "s"}  # fmt: skip
    for name in ("r2-binding", "r2-s3"):
        bucket = open_bucket(name, tmp_path, environ=environ)

        with pytest.raises(StorageBindingUnavailable, match=r"CONTEXTFUL_(BINDING_URL|S3_ENDPOINT)") as read:
            bucket.objects.get("t/a")
        with pytest.raises(StorageBindingUnavailable):
            bucket.objects.create("t/a", b"")
        assert read.value.applied == "no"
        bucket.close()


@pytest.mark.clause("run.journal.storage-incomplete")
def test_a_bucket_that_is_not_there_is_none_that_is_empty(tmp_path: Path, s3_environ: dict[str, str]) -> None:
    bucket = open_bucket("r2-s3", tmp_path, environ=s3_environ | {"CONTEXTFUL_S3_BUCKET": "another"})
    objects = bucket.objects

    for use in (lambda: objects.get("t/a"), lambda: list(objects.list("")), lambda: objects.put("t/a", b"")):
        with pytest.raises(StorageUnusable, match=r"NoSuchBucket.*correct CONTEXTFUL_S3_BUCKET"):
            use()
    bucket.close()
