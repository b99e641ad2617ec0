"""R2 over the Worker's private binding: `/v1/objects`, as the contract's protocol 1 has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote, urlencode

from engine.binding import ADDRESS, Exchange, Patience, document
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

CONTENT: Final = "application/octet-stream"
"""What the binding calls every content: a page that somebody else answers with is called by its own name."""

_REFUSALS: Final = {
    (400, "unacceptable"),
    (404, "unknown"),
    (405, "method"),
    (412, "precondition"),
    (422, "digest"),
}
"""The binding's own errors that tell that nothing was applied."""


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
        if answer.status_code == 404 and "content-type" not in answer.headers:  # it has no document, as a page has one
            return None
        size = answer.headers.get("object-size", "")
        if answer.status_code == 200 and "etag" in answer.headers and size.isdecimal():
            return Facts(key, int(size), _etag(answer), 0)
        raise self._failure(answer, key, applied="no")

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
        if answer.status_code != 204:
            raise self._failure(answer, key, applied="unknown")
        return True

    def list(self, prefix: str) -> Iterator[Facts]:
        """GET page after page."""
        query = {"prefix": prefix, "limit": str(PAGE)}
        while True:
            answer = self._http.ask("GET", f"/v1/objects?{urlencode(query)}")
            page = _page(document(answer), prefix) if answer.status_code == 200 else None
            if page is None or page.cursor == query.get("cursor", ""):
                raise self._failure(answer, prefix, applied="no")
            yield from page.facts
            if page.cursor is None:
                return
            query["cursor"] = page.cursor

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _found(self, answer: httpx.Response, key: str) -> bool:
        if answer.status_code == 200 and "etag" in answer.headers and answer.headers.get("content-type") == CONTENT:
            return True
        if answer.status_code == 404 and _error(answer) == "missing":
            return False
        raise self._failure(answer, key, applied="no")

    def _written(self, answer: httpx.Response, key: str) -> bool:
        if answer.status_code == 200 and "etag" in document(answer):
            return True
        if answer.status_code == 412 and _error(answer) == "precondition":
            return False
        raise self._failure(answer, key, applied="unknown")

    def _failure(
        self, answer: httpx.Response, key: str, *, applied: Literal["no", "unknown"]
    ) -> StorageUnusable | StorageBindingUnavailable:
        """What an error means: the binding's own may be a refusal; after any other a write's outcome is not known."""
        place = f"{self._http.url}{_path(key)}"
        error = _error(answer)
        text = str(document(answer).get("text"))
        if (answer.status_code, error) in _REFUSALS:
            return StorageUnusable(place=place, reason=text)
        if (answer.status_code, error) == (503, "unavailable"):
            return StorageBindingUnavailable(place=place, reason=text, applied=applied)
        reason = f"it answered HTTP {answer.status_code}, which is none of the binding's answers"
        return StorageBindingUnavailable(place=place, reason=reason, applied=applied).advising(ADDRESS)


@dataclass(frozen=True, slots=True)
class _Page:
    facts: list[Facts]
    cursor: str | None


def _page(said: dict[str, Any], prefix: str) -> _Page | None:
    """The page of a listing that `said` is; None where it is of another shape, which the binding never says."""
    match said:
        case {"objects": list(objects), "cursor": str() | None as cursor}:
            facts = [each for each in map(_facts, objects) if each and each.key.startswith(prefix)]
            return _Page(facts, cursor or None) if len(facts) == len(objects) else None
    return None


def _facts(said: object) -> Facts | None:
    match said:
        case {"key": str(key), "size": int(size), "etag": str(etag), "uploaded": int(uploaded)}:
            return Facts(key, size, etag, uploaded)
    return None


def _path(key: str) -> str:
    return f"/v1/objects/{quote(key, safe='/')}"


def _etag(answer: httpx.Response) -> str:
    return str(answer.headers["etag"]).removeprefix("W/").strip('"')


def _error(answer: httpx.Response) -> str | None:
    error = document(answer).get("error")
    return error if isinstance(error, str) else None
