"""R2 over the Worker's private binding: `/v1/objects`, as the contract's protocol 1 has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote, urlencode

from engine.binding import Exchange, Patience
from engine.buckets import Bucket
from engine.errors import StorageBindingUnavailable, StorageCapabilityMissing, StorageUnusable
from r2.blobs import BucketBlobs
from r2.keys import Facts, Held
from r2.objects import BucketObjects

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import httpx

URL: Final = "CONTEXTFUL_BINDING_URL"
PAGE: Final = 1000
"""Keys of one page of a listing."""


def over_binding(cache: Path, *, environ: Mapping[str, str], patience: Patience | None = None) -> Bucket:
    """Open the bucket behind `CONTEXTFUL_BINDING_URL`; `cache` holds local copies of what is read by path."""
    if not environ.get(URL):
        raise StorageCapabilityMissing(profile="r2-binding", missing=f"{URL} is not set")
    keys = BindingKeys(Exchange(environ[URL], patience=patience or Patience.of(environ)))
    return Bucket(BucketObjects(keys, cache), lambda database: BucketBlobs(keys, database), keys.close)


class BindingKeys:
    """`Keys` behind the binding. The Worker checks the SHA-256 of every blob as it is written."""

    def __init__(self, exchange: Exchange) -> None:
        self._http = exchange

    def get(self, key: str) -> Held | None:
        """GET."""
        answer = self._http.ask("GET", _path(key))
        return Held(answer.content, _etag(answer)) if self._found(answer, key) else None

    def head(self, key: str) -> Facts | None:
        """HEAD. The instant of the writing is not told."""
        answer = self._http.ask("HEAD", _path(key))
        if not self._found(answer, key):
            return None
        return Facts(key, int(answer.headers["object-size"]), _etag(answer), 0)

    def put(self, key: str, content: bytes, *, replacing: str | None) -> bool:
        """PUT under `If-None-Match: *` or `If-Match`."""
        condition = {"If-None-Match": "*"} if replacing is None else {"If-Match": f'"{replacing}"'}
        return self._written(self._http.insist("PUT", _path(key), content=content, headers=condition), key)

    def create(self, key: str, content: bytes) -> bool:
        """PUT under `If-None-Match: *`, once."""
        return self._written(
            self._http.tell("PUT", _path(key), content=content, headers={"If-None-Match": "*"}), key
        )  # fmt: skip

    def delete(self, key: str) -> bool:
        """DELETE, once; a second try is the caller's to make."""
        answer = self._http.tell("DELETE", _path(key))
        if answer.status_code not in {204, 404}:
            raise self._failure(answer, key, applied="unknown")
        return True

    def list(self, prefix: str) -> Iterator[Facts]:
        """GET page after page."""
        query = {"prefix": prefix, "limit": str(PAGE)}
        while True:
            answer = self._http.ask("GET", f"/v1/objects?{urlencode(query)}")
            if answer.status_code != 200:
                raise self._failure(answer, prefix, applied="no")
            page: dict[str, Any] = answer.json()
            for each in page["objects"]:
                yield Facts(each["key"], each["size"], each["etag"], each["uploaded"])
            if not page["cursor"]:
                return
            query["cursor"] = page["cursor"]

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _found(self, answer: httpx.Response, key: str) -> bool:
        if answer.status_code not in {200, 404}:
            raise self._failure(answer, key, applied="no")
        return answer.status_code == 200

    def _written(self, answer: httpx.Response, key: str) -> bool:
        if answer.status_code not in {200, 412}:
            raise self._failure(answer, key, applied="unknown")
        return answer.status_code == 200

    def _failure(
        self, answer: httpx.Response, key: str, *, applied: Literal["no", "unknown"]
    ) -> StorageUnusable | StorageBindingUnavailable:
        """What an error means: below 500 it is a refusal; above, the outcome of a write is not known."""
        place = f"{self._http.url}{_path(key)}"
        reason = _said(answer)
        if answer.status_code < 500:
            return StorageUnusable(place=place, reason=reason)
        return StorageBindingUnavailable(place=place, reason=reason, applied=applied)


def _path(key: str) -> str:
    return f"/v1/objects/{quote(key, safe='/')}"


def _etag(answer: httpx.Response) -> str:
    return str(answer.headers["etag"]).removeprefix("W/").strip('"')


def _said(answer: httpx.Response) -> str:
    try:
        document = answer.json()
    except ValueError:
        document = None
    text = document.get("text") if isinstance(document, dict) else None
    return str(text or f"it answered HTTP {answer.status_code}")
