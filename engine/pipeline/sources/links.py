"""URLs: whose origin they are of, what a link means from where it stands, how a parameter joins a query."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, quote, unquote, unquote_plus, urljoin, urlsplit, urlunsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PORTS: Final = {"http": 80, "https": 443}

_LINK: Final = re.compile(r'<([^<>]*)>((?:[^",<]|"(?:[^"\\]|\\.)*")*)')
_PARAMETER: Final = re.compile(r';\s*([^\s=;,"]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|\'([^\';,"]*)\'|([^\s";,]+))')
_WHOLE: Final = re.compile(
    r'<[^<>]*>(?:\s*;\s*(?:[^\s=;,"<>]+(?:\s*=\s*(?:"(?:[^"\\]|\\.)*"|\'[^\';,"<>]*\'|[^\s";,<>]*))?)?)*'
)
_NEXT: Final = re.compile(r"(?<![\w-])next(?![\w-])", re.IGNORECASE)


def origin(url: str) -> str:
    """Scheme, host and port of `url`, the scheme's own port spelled out. Raise ValueError when it has none."""
    parts = urlsplit(url)
    found = _origin(parts.scheme, parts.netloc.rpartition("@")[2])
    if found is None:
        raise ValueError(f"{url} is no http or https URL")
    return found


@lru_cache
def _origin(scheme: str, netloc: str) -> str | None:
    """The origin of a scheme, a host and its port: the same on every page of a walk. No credential is kept here."""
    parts = SplitResult(scheme, netloc, "", "", "")
    if scheme not in _PORTS or not parts.hostname:
        return None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{scheme}://{host}:{parts.port or _PORTS[scheme]}"


def absolute(base: str, link: str) -> str:
    """Where `link` leads from the page `base`, without fragment and `user@`. Raise ValueError when not to http(s)."""
    parts = urlsplit(urljoin(base, link.strip()))
    target, _ = without_user(urlunsplit(parts._replace(fragment="")))
    origin(target)
    return target


def without_user(url: str) -> tuple[str, tuple[str, str] | None]:
    """`url` without `user:password@`, and the pair it held."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    name, _, word = user.partition(":")
    return urlunsplit(parts._replace(netloc=host)), (unquote(name), unquote(word))


def with_params(url: str, params: Mapping[str, str]) -> str:
    """`url` with `params` in its query: one that it names already is replaced, the others stay byte for byte."""
    parts = urlsplit(url)
    kept = [pair for pair in parts.query.split("&") if pair and _name(pair) not in params]
    added = [f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in params.items()]
    return urlunsplit(parts._replace(query="&".join(kept + added)))


def param_names(url: str) -> frozenset[str]:
    """The names of the parameters in the query of `url`."""
    return frozenset(_name(pair) for pair in urlsplit(url).query.split("&") if pair)


def next_link(headers: Iterable[str]) -> str | None:
    """The target of the first link whose relation types hold `next` (RFC 8288), of all `Link` headers given.

    Relations in single quotes are understood, too. Raise ValueError with a header in which `next` stands where no link
    has it: to take that for the last page would end a walk early without a word.
    """
    for header in headers:
        for target, parameters in _LINK.findall(header):
            if "next" in _relations(parameters):
                return str(target).strip()
        if _NEXT.search(_WHOLE.sub("", header)):
            raise ValueError(header)
    return None


def _relations(parameters: str) -> list[str]:
    for name, quoted, single, plain in _PARAMETER.findall(parameters):
        if name.lower() == "rel":
            return re.sub(r"\\(.)", r"\1", quoted or single or plain).lower().split()
    return []


def _name(pair: str) -> str:
    return unquote_plus(pair.partition("=")[0])
