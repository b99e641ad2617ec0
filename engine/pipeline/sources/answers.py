"""What an HTTP answer means: rows, or a tagged failure that says which page and what stood there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from engine.errors import AuthExpired, ContextfulError, Permanent, RateLimited, SourceShape, Transient
from engine.pipeline.sources.placeholders import sample

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.pipeline.declaration import Column

BODY: Final = "the body"
CUT: Final = "Input data was truncated"
"""How the decoder names JSON without its end."""

MISSING: Final = object()
"""Stands for a path that the document does not have."""

LONGEST_WAIT_MS: Final = 366 * 24 * 3600 * 1000
"""The longest wait that is taken from a `Retry-After`: a year."""

_DIGITS: Final = 12
_BOM: Final = b"\xef\xbb\xbf"
_ESCAPES: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)
"""Escapes of a JSON text; `half` is a surrogate without its other half."""

_JSON: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True)
class Page:
    """An answer understood. `place` names it in errors, `url` is where it was found at last, after redirects.

    `sha256` is the digest of its bytes, where the table asks for it.
    """

    place: str
    url: str
    links: tuple[str, ...]
    document: Any
    rows: list[dict[str, Any]]
    sha256: str = ""


def failure(
    status: int, place: str, *, text: str = "", retry_after: str | None = None, now: int = 0
) -> ContextfulError:
    """The failure that `status` stands for (run.retry.failure-taxonomy); `text` is quoted, `now` in milliseconds.

    401 and 403 are `AuthExpired`, 429 `RateLimited`, 408, 425 and 5xx `Transient`, the rest `Permanent`. A status
    worth another try that names the wait in `Retry-After` is `RateLimited` carrying it (run.retry.one-layer).
    """
    said = f"{place} answered {status}" + (f": {sample(text)}" if text.strip() else "")
    wait = waits(retry_after, now=now)
    if status in {401, 403}:
        return AuthExpired(said, remedy="check the source's credentials: the secrets that its manifest names")
    if status == 429 or (wait is not None and _worth_another_try(status)):
        return RateLimited(said, wait_ms=wait)
    if _worth_another_try(status):
        return Transient(said)
    return Permanent(said)


def waits(retry_after: str | None, *, now: int) -> int | None:
    """Milliseconds that a `Retry-After` of seconds or of an HTTP date asks for at `now`; None for any other text.

    At most `LONGEST_WAIT_MS`: whoever names more has slipped, and the store has no room for such an instant.
    """
    if retry_after is None:
        return None
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        # The digits are counted first: Python reads no number of more than some thousand.
        return min(int(text.lstrip("0")[:_DIGITS] or "0") * 1000, LONGEST_WAIT_MS)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return min(max(int(aware.timestamp() * 1000) - now, 0), LONGEST_WAIT_MS)


def decoder(columns: Mapping[str, Column]) -> msgspec.json.Decoder[Any]:
    """A JSON decoder for a table of `columns`: where one is decimal, numbers keep every digit they are written with."""
    if not any(column.type and column.type.startswith("decimal") for column in columns.values()):
        return _JSON
    from engine.pipeline.convert import Spelled  # noqa: PLC0415 - brings Arrow, which no other answer needs

    return msgspec.json.Decoder(float_hook=Spelled)


def document(
    content: bytes,
    place: str,
    *,
    content_type: str,
    quote: Callable[[bytes], str],
    decoder: msgspec.json.Decoder[Any] = _JSON,
) -> Any:
    """The JSON value of a body, integers exact at any size.

    Raise `SourceShape` with what stood there instead, as `quote` makes it fit to be read.
    """
    try:
        return decoder.decode(content.removeprefix(_BOM))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        begins, why = sample(quote(content)), unreadable(content, error)
        found = f"{content_type or 'no content type'}, {len(content)} bytes beginning {begins!r} ({why})"
        raise SourceShape(place=place, path=BODY, found=found, expected="JSON in UTF-8") from error


def rows(body: Any, place: str, *, records: str | None) -> list[dict[str, Any]]:
    """The list of objects at the dotted path `records` of `body`; None: the body itself. Raise `SourceShape`."""
    path = records or BODY
    found = body if records is None else dig(body, records, place=place)
    if not isinstance(found, list):
        stood = f"nothing, in {kind(body)}" if found is MISSING else kind(found)
        raise SourceShape(place=place, path=path, found=stood, expected="a list of objects")
    if set(map(type, found)) <= {dict}:
        return found
    index, row = next((index, row) for index, row in enumerate(found) if not isinstance(row, dict))
    raise SourceShape(place=place, path=f"{path}[{index}]", found=kind(row), expected="an object")


def dig(body: Any, path: str, *, place: str) -> Any:
    """The value at the dotted `path`, `MISSING` where it or an object around it is absent or null.

    A key that itself holds dots (`@odata.nextLink`) is found as it is spelled. Raise `SourceShape` where something
    other than an object stands in the way.
    """
    here, rest = body, path
    while True:
        if not isinstance(here, dict):
            raise SourceShape(place=place, path=path, found=kind(here), expected=f"an object around {rest}")
        if rest in here:
            return here[rest]
        head, dot, rest = rest.partition(".")
        here = here.get(head)
        if not dot or here is None:
            return MISSING


def unreadable(content: bytes, error: Exception) -> str:
    """Why the decoder, which raised `error`, could not read `content`.

    It stops at the first escape of half a character and may call that truncation, even where much follows it.
    """
    if not any(word in str(error) for word in ("surrogate", "truncated")):
        return str(error)
    for escape in _ESCAPES.finditer(content):
        half, rest = escape["half"], content[escape.end() :][:6]
        if half and not (len(rest) < 6 and (not rest or rest.startswith(b"\\"))):
            return f"{half.decode()} at byte {escape.start()} is half of a surrogate pair without its other half"
    return str(error)


def kind(value: Any) -> str:
    """A JSON value in words, shortened: what an error says stood there."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"an object with the keys {sample(', '.join(map(str, value)))}" if value else "an empty object"
    return f"the {'text' if isinstance(value, str) else 'number'} {sample(repr(value))}"


def _worth_another_try(status: int) -> bool:
    return status in {408, 425} or 500 <= status <= 599
