"""The five ways of paging: which request a position stands for, and to which position a page leads.

A position is JSON and the source's own (run.advance.cursor-bytes): `{"url": …}`, `{"page": n}`, `{"offset": n}` or
`{"token": t}`; None is the walk's start. Servers shrink pages for reasons of their own, so a short page ends no walk:
one without a link or token does, and for numbered pages and offsets an empty one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from engine.errors import Config, SourceShape
from engine.pipeline.sources.answers import MISSING, dig, kind
from engine.pipeline.sources.links import absolute, next_link

if TYPE_CHECKING:
    from engine.pipeline.declaration import Paginate
    from engine.pipeline.sources.answers import Page

Position = dict[str, Any]
Params = dict[str, Any]


class Paging(Protocol):
    """A way of paging."""

    def url(self, position: Position | None) -> str | None:
        """The URL `position` is; None: the declared one, with `params`. Raise KeyError, TypeError or ValueError."""

    def params(self, position: Position | None) -> Params:
        """The parameters that ask for `position`. Raise KeyError, TypeError or ValueError when it is not this way's."""

    def after(self, page: Page, position: Position | None) -> Position | None:
        """Where `page`, asked at `position`, leads; None: the walk is complete. Raise `SourceShape`."""


def way(declared: Paginate | None) -> Paging:
    """The way of paging a manifest declares. Raise `Config` when it lacks what its way needs."""
    if declared is None:
        return SinglePage()
    if declared.by == "link-header":
        return LinkHeader()
    if declared.by == "next-url":
        return NextUrl(_needed(declared.field, "next-url", "field"))
    if declared.by == "page":
        start = 1 if declared.start is None else declared.start
        param, size = _needed(declared.param, "page", "param"), _sized(declared.size_param, declared.size)
        return Numbered("page", param, start, size)
    if declared.by == "offset":
        param, size = _needed(declared.param, "offset", "param"), _sized(declared.limit_param, declared.limit)
        return Numbered("offset", param, declared.start or 0, size)
    return Tokens(_needed(declared.field, "token", "field"), _needed(declared.param, "token", "param"))


@dataclass(frozen=True, slots=True)
class SinglePage:
    """Everything in one answer."""

    def url(self, position: Position | None) -> None:
        """The declared URL."""
        del position

    def params(self, position: Position | None) -> Params:
        """Nothing to add."""
        del position
        return {}

    def after(self, page: Page, position: Position | None) -> None:
        """Nowhere."""
        del page, position


class _Linked:
    """Pages that name the next one's URL."""

    __slots__ = ()

    def url(self, position: Position | None) -> str | None:
        """The link followed to get here."""
        return None if position is None else absolute(position["url"], "")

    def params(self, position: Position | None) -> Params:
        """None: the link carries everything."""
        del position
        return {}


@dataclass(frozen=True, slots=True)
class NextUrl(_Linked):
    """The body names the next page at the dotted path `field`."""

    field: str

    def after(self, page: Page, position: Position | None) -> Position | None:
        """The link, resolved from where the page was found; absent, null or empty: the end."""
        del position
        link = dig(page.document, self.field, place=page.place) if page.document is not None else MISSING
        if link is MISSING or link is None or link == "":
            return None
        if not isinstance(link, str):
            raise SourceShape(place=page.place, path=self.field, found=kind(link), expected="a URL, null or nothing")
        return _followed(page, self.field, link)


@dataclass(frozen=True, slots=True)
class LinkHeader(_Linked):
    """The header `Link` names the next page as `rel="next"` (RFC 8288)."""

    def after(self, page: Page, position: Position | None) -> Position | None:
        """The link, resolved from where the page was found; none: the end."""
        del position
        try:
            link = next_link(page.links)
        except ValueError as unread:
            expected = 'links as <URL>; rel="next"'
            raise SourceShape(place=page.place, path="Link", found=kind(str(unread)), expected=expected) from None
        return _followed(page, "Link", link) if link is not None else None


@dataclass(frozen=True, slots=True)
class Numbered:
    """A number asks for a page, from `start` on: its own where `by` is "page", its first row's where it is "offset"."""

    by: Literal["page", "offset"]
    param: str
    start: int
    size: Params

    def url(self, position: Position | None) -> None:
        """The declared URL."""
        del position

    def params(self, position: Position | None) -> Params:
        """The number, and the size declared."""
        return {self.param: self._number(position), **self.size}

    def after(self, page: Page, position: Position | None) -> Position | None:
        """The next number, until a page is empty; a row's is as much further as rows came, whatever the limit was."""
        step = 1 if self.by == "page" else len(page.rows)
        return {self.by: self._number(position) + step} if page.rows else None

    def _number(self, position: Position | None) -> int:
        return self.start if position is None else int(position[self.by])


@dataclass(frozen=True, slots=True)
class Tokens:
    """The body holds a token at the dotted path `field`, which `param` sends back."""

    field: str
    param: str

    def url(self, position: Position | None) -> None:
        """The declared URL."""
        del position

    def params(self, position: Position | None) -> Params:
        """The token, none at the start."""
        return {} if position is None else {self.param: position["token"]}

    def after(self, page: Page, position: Position | None) -> Position | None:
        """The page's token; absent, null or empty: the end."""
        del position
        token = dig(page.document, self.field, place=page.place) if page.document is not None else MISSING
        if token is MISSING or token is None or token == "":
            return None
        if isinstance(token, bool) or not isinstance(token, str | int):
            raise SourceShape(place=page.place, path=self.field, found=kind(token), expected="a text, a number or null")
        return {"token": token}


def _followed(page: Page, path: str, link: str) -> Position:
    try:
        return {"url": absolute(page.url, link)}
    except ValueError:
        expected = "a link to an http or https URL"
        raise SourceShape(place=page.place, path=path, found=kind(link), expected=expected) from None


def _sized(param: str | None, size: int | None) -> Params:
    return {param: size} if param is not None and size is not None else {}


def _needed(value: str | None, by: str, key: str) -> str:
    if value is None:
        raise Config(f'paginate by = "{by}" needs `{key}`, and the manifest declares none')
    return value
