"""Blobs and corpus objects: R2 under `/v1/objects`, bodies as they are, conditions as R2 keeps them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import js
from pyodide.ffi import JsException, jsnull, to_js
from workers import Response

from worker.answers import answer, problem

if TYPE_CHECKING:
    from workers import Request

_BLOB = re.compile(r"blobs/([0-9a-f]{64})")
_PAGE = 1000
_DIGEST = "(10037)"
"""What R2 says of contents that do not have the digest sent with them."""


async def served(bucket: Any, method: str, key: str, request: Request) -> Response:
    """Answer a request for the object `key`."""
    if wrong := _wrong_key(key):
        return problem("unacceptable", wrong, status=400)
    try:
        match method:
            case "GET":
                return _whole(await bucket.get(key), key)
            case "HEAD":
                return _head(await bucket.head(key))
            case "PUT":
                return await _put(bucket, key, request)
            case "DELETE":
                return await _delete(bucket, key, request)
    except JsException as failed:
        return problem("unavailable", failed.message, status=503)
    return problem("method", f"objects take GET, HEAD, PUT and DELETE, not {method}", status=405)


async def listed(bucket: Any, query: dict[str, list[str]]) -> Response:
    """Answer a page of the objects under a prefix, sorted by key; `cursor` continues it."""
    options = {"prefix": query.get("prefix", [""])[0], "limit": _limit(query)}
    if cursor := query.get("cursor"):
        options["cursor"] = cursor[0]
    try:
        page = await bucket.list(_options(options))
    except JsException as failed:
        return problem("unavailable", failed.message, status=503)
    found = [{"key": each.key, **_facts(each)} for each in page.objects]
    return answer({"objects": found, "cursor": page.cursor if page.truncated else None})


async def _put(bucket: Any, key: str, request: Request) -> Response:
    headers = request.headers
    options: dict[str, Any] = {}
    if headers.get("if-none-match") == "*":
        options["onlyIf"] = {"etagDoesNotMatch": "*"}
    elif headers.get("if-none-match") is not None:
        return problem("unacceptable", "If-None-Match takes only *", status=400)
    elif etag := headers.get("if-match"):
        options["onlyIf"] = {"etagMatches": etag.strip('"')}
    if blob := _BLOB.fullmatch(key):
        options["sha256"] = blob[1]
    try:
        written = await bucket.put(key, await request.buffer(), _options(options))
    except JsException as failed:
        if _DIGEST not in failed.message:
            raise
        return problem("digest", f"the body of {key} does not have that SHA-256", status=422)
    if _absent(written):
        return problem("precondition", f"{key} is not as the condition says", status=412)
    return _etagged(answer(_facts(written)), written)


async def _delete(bucket: Any, key: str, request: Request) -> Response:
    if request.headers.get("if-match") or request.headers.get("if-none-match"):
        return problem("unacceptable", "R2 deletes without conditions", status=400)
    await bucket.delete(key)
    return Response(None, status=204)


def _whole(found: Any, key: str) -> Response:
    if _absent(found):
        return problem("missing", f"there is no object {key}", status=404)
    headers = {"content-type": "application/octet-stream", "etag": found.httpEtag}
    return Response(found.body, headers=headers)


def _head(found: Any) -> Response:
    if _absent(found):
        return Response(None, status=404)
    return Response(None, headers={"etag": found.httpEtag, "object-size": str(found.size)})


def _absent(found: Any) -> bool:
    # An object of size 0 is falsy on this side of the bridge.
    return found is None or found is jsnull


def _etagged(response: Response, found: Any) -> Response:
    response.js_object.headers.set("etag", found.httpEtag)
    return response


def _facts(found: Any) -> dict[str, Any]:
    return {"size": found.size, "etag": found.etag, "uploaded": int(found.uploaded.getTime())}


def _limit(query: dict[str, list[str]]) -> int:
    asked = query.get("limit", [""])[0]
    return min(int(asked), _PAGE) if asked.isdecimal() and int(asked) else _PAGE


def _wrong_key(key: str) -> str | None:
    if not 1 <= len(key.encode("utf-8", "replace")) <= 1024:
        return "a key has 1 to 1024 bytes"
    if key.startswith("blobs/") and not _BLOB.fullmatch(key):
        return f"{key} is no blob: they are called blobs/ and the 64 hexadecimal digits of their SHA-256"
    return None


def _options(options: dict[str, Any]) -> Any:
    return to_js(options, dict_converter=js.Object.fromEntries)
