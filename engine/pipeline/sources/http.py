"""Tables read over HTTP: one page is one pull.

A `${NAME}` in a URL, header, parameter or body is filled at the moment of sending. A header or parameter that holds
one, and any `Authorization` or `Cookie` header or `user:password@` of the URL, goes to the source's own origin only.

With a `body`, what paging, `since_param` and `until_param` ask for joins the body's top level; without one it joins the
query. A page reached by a link is asked with the link's own query: of the declared parameters only those that hold a
secret and are missing there are added.

With `skip_unchanged` a position carries the digest of the pages up to it, and the last one is that digest alone. A walk
that has one to compare with reads every page before it gives the first (engine.pipeline.sources.unchanged).
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

from engine.clock import SystemClock
from engine.errors import Config, SourceLoop, SourceShape, Transient
from engine.pipeline.declaration import HttpSource, Table
from engine.pipeline.sources import answers, unchanged, versions
from engine.pipeline.sources.fetching import Answer, Fetcher, Request
from engine.pipeline.sources.inflating import CODINGS
from engine.pipeline.sources.links import origin, param_names, with_params, without_user
from engine.pipeline.sources.paging import Numbered, Position, way
from engine.pipeline.sources.placeholders import filled, holds_placeholder, masked
from engine.shapes import CursorKind, Pull, canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.clock import Clock
    from engine.pipeline.source import Ask

_Step = tuple[answers.Page, Position | None]
_MEND = "contextful pipeline preview shows the first page; mend `records`, `paginate` or the column types"
_CREDENTIALS = frozenset({"authorization", "cookie", "proxy-authorization"})


class HttpPages:
    """The pages of one declared URL."""

    connector = versions.HTTP
    journaled = True

    def __init__(self, table: Table, *, clock: Clock | None = None) -> None:
        if not isinstance(table.source, HttpSource):
            raise TypeError(f"{table.name} is not read over HTTP")
        self.cursor_kind = CursorKind.MONOTONIC if table.incremental else CursorKind.OPAQUE_TOKEN
        # A walk that compares before it gives anything asks for all its pages at once.
        self.sends = not table.skip_unchanged
        self._table = table
        self._declared = table.source
        self._paging = way(table.source.paginate)
        self._clock = clock or SystemClock()

    def pulls(self, ask: Ask) -> Iterator[Pull]:
        """One pull a page, each carrying the position of the next.

        Raise the tagged failures of HTTP, `SourceShape`, `SourceOriginRefused`, and `SourceLoop` when a page leads to
        one that this walk has asked before, or a numbered page repeats the rows of the one before it.
        """
        walk = _Walk(self._table, self._declared, ask, self._clock)
        mark, position = unchanged.parted(ask.position)
        pages: Iterable[_Step] = self._pages(walk, position)
        if not self._table.skip_unchanged:
            for page, after in pages:
                yield Pull(rows=page.rows, position=after, more=after is not None, snapshot_complete=after is None)
                del page  # gone before the next is asked for, unless a numbered one is to be compared with it
            return
        if unchanged.whole(ask.position):
            # Whether anything is new is known at the last page only, and none may be recorded before.
            pages = list(pages)
            if skip := unchanged.skipped(ask.position, sha256=_marked(pages)["sha256"]):
                yield skip
                return
        for page, after in pages:
            mark = unchanged.further(mark, sha256=page.sha256, rows=len(page.rows))
            position = mark if after is None else after | mark
            yield Pull(rows=page.rows, position=position, more=after is not None, snapshot_complete=after is None)

    def _pages(self, walk: _Walk, position: Position | None) -> Iterator[_Step]:
        """Each page from `position` on with where it leads."""
        numbered, rows = isinstance(self._paging, Numbered), None
        while True:
            page, after = self._step(walk, position)
            if numbered:
                if page.rows and _same(page.rows, rows):
                    raise SourceLoop(place=page.place, position="the rows of the page before it")
                rows = page.rows
            yield page, after
            del page
            if after is None:
                return
            position = after

    def _step(self, walk: _Walk, position: Position | None) -> _Step:
        try:
            url, params = self._paging.url(position), self._paging.params(position)
        except (KeyError, TypeError, ValueError):
            place = f"{self._table.pipeline_id}, table {self._table.name}"
            raise Config(f"{place}: {walk.shown(position)} is no position of its way of paging",
                         remedy=f"contextful pipeline reset {self._table.pipeline_id}") from None  # fmt: skip
        try:
            page = walk.page(position, url=url, params=params)
            after = self._paging.after(page, position)
        except SourceShape as shape:
            # What stood there may echo a credential of the request.
            told = SourceShape(**{name: walk.masked(text) for name, text in shape.facts.items()})
            raise told.advising(_MEND) from None
        walk.refuse_loop(page, after)
        return page, after


class _Walk:
    """A walk at work: the declaration filled with the secrets of one `Ask`."""

    def __init__(self, table: Table, declared: HttpSource, ask: Ask, clock: Clock) -> None:
        where, self._secrets = f"{table.pipeline_id}.source", ask.secrets
        self._declared, self._clock = declared, clock
        self._digested = table.skip_unchanged
        url, user = without_user(filled(declared.url, ask.secrets, path=f"{where}.url"))
        self._headers = _headers(filled(declared.headers, ask.secrets, path=f"{where}.headers"), user)
        self._params: dict[str, str] = filled(declared.params, ask.secrets, path=f"{where}.params")
        self._body: dict[str, Any] | None = filled(declared.body, ask.secrets, path=f"{where}.body")
        bounds = {table.since_param: ask.since, table.until_param: ask.until}
        self._bounds = {name: at for name, at in bounds.items() if name and at is not None}
        self._url = url
        private = user is not None or _holds_credentials(declared)
        home = _home(url, declared.url)
        self._fetcher = Fetcher(client=ask.http, home=home if private else None,
                                secrets=ask.secrets, timeout_ms=declared.timeout_ms, clock=clock)  # fmt: skip
        self._decoder = answers.decoder(table.columns)
        self._asked: set[bytes] = set()

    def page(self, position: Position | None, *, url: str | None, params: dict[str, Any]) -> answers.Page:
        """The page at `position`: the link `url`, or the declared URL with `params`."""
        request = self._request(position, self._target(url, params), params)
        answer = self._fetcher.fetch(request)
        self._asked |= {_key(position), _key({"url": request.url}), _key({"url": answer.url})}
        self._refuse_failure(answer, request.place)
        links = tuple(answer.headers.get_list("link"))
        sha256 = unchanged.of_content(answer.content) if self._digested else ""
        if answer.status == 204:
            return answers.Page(request.place, answer.url, links, None, [], sha256)
        body = self._document(answer, request.place)
        found = answers.rows(body, request.place, records=self._declared.records)
        return answers.Page(request.place, answer.url, links, body, found, sha256)

    def _document(self, answer: Answer, place: str) -> Any:
        content_type = answer.headers.get("content-type", "")
        try:
            return answers.document(
                answer.content, place, content_type=content_type, quote=self._quoted, decoder=self._decoder
            )
        except SourceShape as shape:
            if answer.ends_anywhere and answers.CUT in shape.facts["found"]:
                raise Transient(
                    f"{place} broke off: {self.masked(shape.facts['found'])}, of no announced length"
                ) from None
            raise

    def refuse_loop(self, page: answers.Page, after: Position | None) -> None:
        """Raise `SourceLoop` when `page` leads to a position that this walk has asked."""
        if after is not None and _key(after) in self._asked:
            raise SourceLoop(place=page.place, position=self.shown(after))

    def shown(self, position: Position | None) -> str:
        """`position` as a person may read it."""
        return self.masked(canonical_json(position))

    def masked(self, text: str) -> str:
        """`text` without secret values."""
        return masked(text, self._secrets)

    def _target(self, link: str | None, params: dict[str, Any]) -> str:
        if link is not None:
            present = param_names(link)
            missing = {name: self._params[name] for name, text in self._declared.params.items()
                       if holds_placeholder(text) and name not in present}  # fmt: skip
            return with_params(link, missing) if missing else link
        asked = {} if self._body is not None else {**self._bounds, **params}
        return with_params(self._url, {**self._params, **{name: _text(value) for name, value in asked.items()}})

    def _request(self, position: Position | None, url: str, params: dict[str, Any]) -> Request:
        method = self._declared.method
        place = f"{method} {self.masked(url)}"
        if self._body is None:
            return Request(place, method, url, self._headers)
        content = msgspec.json.encode({**self._body, **self._bounds, **params})
        if position is not None:
            place = f"{place} at {self.shown(position)}"
        return Request(place, method, url, {"content-type": "application/json", **self._headers}, content)

    def _refuse_failure(self, answer: Answer, place: str) -> None:
        if not 200 <= answer.status < 300:
            raise answers.failure(answer.status, place, text=self._quoted(answer.content), now=self._clock.now(),
                                  retry_after=answer.headers.get("retry-after"))  # fmt: skip

    def _quoted(self, content: bytes) -> str:
        return self.masked(content[:8192].decode("utf-8", "backslashreplace"))


def _same(rows: list[dict[str, Any]], before: Any) -> bool:
    """Whether two pages hold the same rows, as JSON tells them apart: to Python, true is 1 and 1.0."""
    return rows == before and repr(rows) == repr(before)


def _marked(pages: Iterable[_Step]) -> dict[str, Any]:
    mark = None
    for page, _ in pages:
        mark = unchanged.further(mark, sha256=page.sha256, rows=len(page.rows))
    return mark or {}


def _headers(declared: dict[str, str], user: tuple[str, str] | None) -> dict[str, str]:
    lowered = {name.lower(): value for name, value in declared.items()}
    basic = {"authorization": f"Basic {b64encode(':'.join(user).encode()).decode()}"} if user else {}
    return {"accept": "application/json", "accept-encoding": ", ".join(CODINGS), **basic, **lowered}


def _holds_credentials(declared: HttpSource) -> bool:
    texts = (declared.url, declared.headers, declared.params, declared.body)
    return any(map(holds_placeholder, texts)) or any(name.lower() in _CREDENTIALS for name in declared.headers)


def _home(url: str, declared: str) -> str:
    try:
        return origin(url)
    except ValueError:
        raise Config(f"source.url is {declared!r}, which is no http or https URL") from None


def _key(position: Position | None) -> bytes:
    """What tells positions apart, short: a URL counts by its origin as servers compare it."""
    if position is not None and "url" in position:
        url = str(position["url"])
        position = {"url": [origin(url), *url.split("/", 3)[3:]]}
    return blake2b(canonical_json(position).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
