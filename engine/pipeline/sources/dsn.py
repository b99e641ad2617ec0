"""Which database a dsn names, its secrets filled in, and its driver loaded when a table first needs it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast
from urllib.parse import quote, unquote, urlsplit

from engine.errors import Config
from engine.pipeline.manifest.placeholders import PLACEHOLDER
from engine.pipeline.sources.placeholders import filled, masked, sample

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.pipeline.declaration import SqlSource
    from engine.pipeline.sources.relations import Opened

_DRIVERS = {"sqlite": ("sqlite", "SqliteRelation"), "postgresql": ("postgres", "PostgresRelation"),
            "postgres": ("postgres", "PostgresRelation")}  # fmt: skip


def opened(source: SqlSource, secrets: Mapping[str, str], *, place: str) -> Opened:
    """The relation `source` declares, to be entered; `place` names it in errors.

    A secret is written into a URL as it is, without escapes: they are added here, unless it begins the dsn and so may
    be all of it. Raise `Config` for a dsn of no known kind.
    """
    whole = PLACEHOLDER.match(source.dsn) or source.dsn.startswith("sqlite:")
    escaped = dict(secrets) if whole else {name: quote(secrets[name], safe="") for name in secrets}
    dsn = filled(source.dsn, escaped, path=f"{place}: dsn")
    scheme = dsn.partition("://")[0]
    if scheme not in _DRIVERS:
        raise Config(f"{place}: its dsn is of no known kind", remedy="sqlite:///path and postgresql://… are known")
    module, name = _DRIVERS[scheme]
    relation = getattr(import_module(f"engine.pipeline.sources.{module}"), name)
    return cast("Opened", relation(source, dsn, place=place, quoted=_quoted(dsn, secrets)))


def _quoted(dsn: str, secrets: Mapping[str, str]) -> Callable[[str], str]:
    """What makes a driver's words fit to be read: no secret and no password of the dsn in them, on one line."""
    try:
        password = urlsplit(dsn).password or ""
    except ValueError:  # a malformed address; its driver refuses it
        password = ""
    hidden = {"PASSWORD": unquote(password), "DSN": dsn, **secrets}
    return lambda text: sample(masked(text, hidden))
