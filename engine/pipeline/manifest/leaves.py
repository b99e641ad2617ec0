"""Single values of a manifest: each a schema that says what it allows, in the words the reader gets."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pydantic_core import core_schema as cs

from engine.pipeline.manifest.placeholders import PLACEHOLDER
from engine.pipeline.manifest.problems import MISSING, leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
LONGEST_MS: Final = 36_500 * UNIT_MS["d"]
_DURATION: Final = re.compile(r"([0-9]{1,15})(ms|s|m|h|d)", re.ASCII)
_DECIMAL: Final = re.compile(r"decimal\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)", re.ASCII)
_PLAIN_TYPES: Final = ("string", "int64", "float64", "bool", "date", "timestamp", "bytes", "json")
_DEEPEST_BODY: Final = 32
DSN: Final = '"sqlite:///path" or "postgresql://user:${PASSWORD}@host/database"'
INT64: Final = range(-(1 << 63), 1 << 63)


def leaf(schema: cs.CoreSchema, allowed: str) -> cs.CoreSchema:
    """`schema` whose every failure reads `allowed`."""
    return cs.custom_error_schema(schema, custom_error_type="allowed", custom_error_message=allowed)


def needed(schema: cs.CoreSchema) -> cs.CoreSchema:
    """A key that must be there: its absence fails as a wrong value would, and so reads the same."""
    return cs.with_default_schema(schema, default=MISSING, validate_default=True)


def read_by(read: Callable[[Any], Any], allowed: str) -> cs.CoreSchema:
    """A value converted by `read`, which raises `ValueError` for what it cannot take."""
    return leaf(cs.no_info_plain_validator_function(read), allowed)


def matching(pattern: str, allowed: str) -> cs.CoreSchema:
    """A text that `pattern` describes as a whole."""
    return leaf(_whole_text(pattern), allowed)


def key_matching(pattern: str, allowed: str) -> cs.CoreSchema:
    """A key that `pattern` describes as a whole; its failure is told apart from its value's."""
    return cs.custom_error_schema(_whole_text(pattern), custom_error_type="key", custom_error_message=allowed)


def one_of(*values: str) -> cs.CoreSchema:
    """One of a few words."""
    return leaf(cs.literal_schema(list(values)), ", ".join(f'"{value}"' for value in values))


def whole(least: int, most: int) -> cs.CoreSchema:
    """A whole number between two bounds, both allowed."""
    return leaf(cs.int_schema(ge=least, le=most), f"a whole number from {least} to {most}")


def several(item: cs.CoreSchema, allowed: str) -> cs.CoreSchema:
    """A list of at least one."""
    return leaf(cs.list_schema(item, min_length=1), allowed)


def duration(*, least_ms: int) -> cs.CoreSchema:
    """`"30s"` as milliseconds."""

    def read(value: Any) -> int:
        match = _DURATION.fullmatch(value) if isinstance(value, str) else None
        milliseconds = int(match[1]) * UNIT_MS[match[2]] if match else -1
        if not least_ms <= milliseconds <= LONGEST_MS:
            raise ValueError
        return milliseconds

    zero = "" if least_ms == 0 else ", above zero"
    return read_by(read, f'a duration such as "500ms", "30s", "5m", "24h" or "1d"{zero}, at most "36500d"')


def column_type() -> cs.CoreSchema:
    """A type of the corpus, a decimal's without spaces."""

    def read(value: Any) -> str:
        if isinstance(value, str) and value in _PLAIN_TYPES:
            return value
        match = _DECIMAL.fullmatch(value) if isinstance(value, str) else None
        if not match or not (1 <= int(match[1]) <= 38 and int(match[2]) <= int(match[1])):
            raise ValueError
        return f"decimal({int(match[1])},{int(match[2])})"

    plain = ", ".join(f'"{name}"' for name in _PLAIN_TYPES)
    return read_by(read, f'{plain} or "decimal(p,s)" with 1 <= p <= 38 and 0 <= s <= p')


def param() -> cs.CoreSchema:
    """A request parameter as the text that is sent."""

    def read(value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str) or (isinstance(value, int) and value in INT64) or _finite(value):
            return str(value)
        raise ValueError

    return read_by(read, "a text, a number or true or false (quote a date)")


def body() -> cs.CoreSchema:
    """A request body: a table of JSON values."""

    def read(value: Any) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise ValueError  # noqa: TRY004 - only a ValueError is a validation failure
        for loc, inner in leaves(value):
            sendable = isinstance(inner, str | bool) or (isinstance(inner, int) and inner in INT64) or _finite(inner)
            if not sendable or len(loc) > _DEEPEST_BODY:
                raise ValueError
        return value

    return read_by(read, f"a table of texts, numbers, true, false, lists and tables, {_DEEPEST_BODY} deep at most")


def is_url(text: str) -> bool:
    """Whether `text` is an http or https URL, or begins with a placeholder that stands for one."""
    if PLACEHOLDER.match(text):
        return True
    plain = PLACEHOLDER.sub("0", text)
    try:
        parts = urlsplit(plain)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 0) >= 0
    except ValueError:  # brackets that hold no address, or a port that is no number
        return False


def is_dsn(text: str) -> bool:
    """Whether `text` names a database of a known kind, or begins with a placeholder that stands for one."""
    scheme, parted, rest = text.partition("://")
    if PLACEHOLDER.match(text):
        return True
    return bool(parted) and (
        scheme in {"postgresql", "postgres"} or (scheme == "sqlite" and len(rest) > 1 and rest[0] == "/")
    )


def _whole_text(pattern: str) -> cs.CoreSchema:
    return cs.str_schema(pattern=f"^(?:{pattern})$")


def _finite(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)
