"""The bucket of a test, once over the Worker's binding and once over S3; a folder stands beside them for the corpus."""

from __future__ import annotations

import logging
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest

from engine.binding import Exchange, Patience
from engine.local.folder import FolderObjects
from engine.local.sqlite import SqliteDatabase
from engine.sealed import Seal, SealedObjects
from engine.sql import TABLES, schema
from r2.binding import BindingKeys
from r2.objects import BucketObjects
from r2.s3 import S3Keys, Settings, _client
from tests.local_edge import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.ports import Objects
    from r2.keys import Keys
    from tests.clocks import SettableClock

_numbers = count()


@pytest.fixture(scope="session")
def s3_environ() -> Iterator[dict[str, str]]:
    """The settings of a bucket at a server of this worker's own."""
    logging.getLogger("botocore").setLevel(logging.WARNING)
    server = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("s3_server.py")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True,
    )  # fmt: skip
    try:
        assert server.stdout
        environ = {
            "CONTEXTFUL_S3_ENDPOINT": server.stdout.readline().strip(),
            "CONTEXTFUL_S3_BUCKET": "shop",
            "CONTEXTFUL_S3_ACCESS_KEY_ID": "id",
            "CONTEXTFUL_S3_SECRET_ACCESS_KEY": "secret",
            "CONTEXTFUL_S3_REGION": "us-east-1",
        }
        client = boto3.client("s3", endpoint_url=environ["CONTEXTFUL_S3_ENDPOINT"], region_name="us-east-1",
                              aws_access_key_id="id", aws_secret_access_key="secret")  # fmt: skip
        client.create_bucket(Bucket="shop")
        client.close()
        yield environ
    finally:
        server.terminate()
        server.communicate(timeout=10)


@pytest.fixture
def binding_keys(fresh_edge: Callable[[], dict[str, str]]) -> Iterator[Keys]:
    keys = BindingKeys(Exchange(fresh_edge()["CONTEXTFUL_BINDING_URL"], patience=Patience(pause_s=0.01)))
    yield keys
    keys.close()


@pytest.fixture
def s3_folder(s3_environ: dict[str, str]) -> dict[str, str]:
    """The settings of a folder of that bucket that nobody else has."""
    return s3_environ | {"CONTEXTFUL_S3_PREFIX": f"project-{next(_numbers)}"}


@pytest.fixture
def s3_keys(s3_folder: dict[str, str]) -> Iterator[Keys]:
    settings = Settings.of(s3_folder)
    keys = S3Keys(_client(settings), settings)
    yield keys
    keys.close()


@pytest.fixture(params=["binding", "s3"])
def keys(request: pytest.FixtureRequest) -> Keys:
    """A bucket over each protocol."""
    found: Keys = request.getfixturevalue(f"{request.param}_keys")
    return found


@pytest.fixture(params=["folder", "sealed", "binding", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    """The corpus of a test: in a folder, sealed there, and in a bucket over each protocol."""
    if request.param == "folder":
        return FolderObjects(tmp_path / "corpus")
    if request.param == "sealed":
        return SealedObjects(FolderObjects(tmp_path / "corpus"), seal=Seal(bytes(32)), opened=tmp_path / "opened")
    return BucketObjects(request.getfixturevalue(f"{request.param}_keys"), tmp_path / "copies")


@pytest.fixture
def database(tmp_path: Path, clock: SettableClock) -> Iterator[SqliteDatabase]:
    """Where the rows of blobs are."""
    opened = SqliteDatabase(tmp_path / "state.sqlite", clock=clock)
    opened.run(*schema(*TABLES))
    yield opened
    opened.close()


@pytest.fixture
def free_address() -> str:
    """Where nobody listens."""
    [port] = free_ports(1)
    return f"http://127.0.0.1:{port}"
