from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from engine.errors import Config, SourceLoop, SourceShape
from engine.pipeline.declaration import Paginate
from engine.pipeline.sources import open_source
from engine.pipeline.sources.links import next_link, with_params
from engine.shapes import CursorKind, canonical_json

if TYPE_CHECKING:
    from tests.unit.sources.conftest import Came, Reader, Site

NEXT = Paginate(by="next-url", field="next")
LINK = Paginate(by="link-header")
PAGE = Paginate(by="page", param="page", start=1)
OFFSET = Paginate(by="offset", param="offset", limit_param="limit", limit=3)
TOKEN = Paginate(by="token", field="meta.token", param="token")

MARK = "a column that nothing else in the process is called"


def test_without_paging_one_answer_is_everything(site: Site, reader: Reader) -> None:
    site.lay("/rows?per_page=100", [{"id": 1}, {"id": 2**70}])

    assert reader.rows(params={"per_page": "100"}) == [{"id": 1}, {"id": 2**70}]


@pytest.mark.clause("run.advance.snapshot-completion")
def test_next_links_may_be_relative_to_the_page_they_stand_on(site: Site, reader: Reader) -> None:
    site.lay("/api/rows?size=2", {"items": [{"id": 1}], "next": "more?after=1"})
    site.lay("/api/more?after=1", {"items": [], "next": f"{site.url}/api/last#end"})
    site.lay("/api/last", {"items": [{"id": 2}], "next": ""})

    assert reader.rows("/api/rows", records="items", paginate=NEXT, params={"size": "2"}) == [{"id": 1}, {"id": 2}]


def test_a_page_is_let_go_before_the_next_is_asked_for(site: Site, reader: Reader) -> None:
    """A page's objects take several times its bytes: two of them at once would double what a run needs."""
    alive: list[int] = []

    def answer(came: Came) -> Any:
        # Nested values make a row something that the collector lists.
        alive.append(sum(type(found) is dict and MARK in found for found in gc.get_objects()))
        number = int(came.target.rpartition("=")[2])
        return {"items": [{MARK: [number]}] * 3, "next": f"/rows?page={number + 1}" if number < 3 else None}

    for number in range(4):
        site.answer(f"/rows?page={number}", answer)
    for pull in reader.pulls("/rows?page=0", records="items", paginate=NEXT):
        assert len(pull.rows) == 3
        del pull

    assert alive == [0, 0, 0, 0]


@pytest.mark.parametrize("last", [{"next": None}, {"next": ""}, {}])
def test_a_null_empty_or_absent_link_ends_the_walk(site: Site, reader: Reader, last: dict[str, Any]) -> None:
    site.lay("/rows", {"items": [{"id": 1}], **last})

    assert reader.rows(records="items", paginate=NEXT) == [{"id": 1}]


@pytest.mark.parametrize("field", ["links.next", "@odata.nextLink"])
def test_a_field_is_a_path_or_a_key_that_holds_dots(site: Site, reader: Reader, field: str) -> None:
    site.lay("/rows", {"items": [{"id": 1}], "links": {"next": "/last"}, "@odata.nextLink": "/last"})
    site.lay("/last", {"items": [{"id": 2}]})

    assert len(reader.rows(records="items", paginate=Paginate(by="next-url", field=field))) == 2


def test_a_next_field_that_is_no_text_is_named_with_what_stood_there(site: Site, reader: Reader) -> None:
    site.lay("/rows", {"items": [], "next": {"href": "/more"}})

    with pytest.raises(SourceShape) as refusal:
        reader.rows(records="items", paginate=NEXT)

    assert refusal.value.path == "next"
    assert refusal.value.found == "an object with the keys href"
    assert refusal.value.place == f"GET {site.url}/rows"


def test_a_link_to_something_that_is_no_page_is_refused(site: Site, reader: Reader) -> None:
    site.lay("/rows", {"items": [], "next": "file:///etc/passwd"})

    with pytest.raises(SourceShape, match="file:///etc/passwd"):
        reader.rows(records="items", paginate=NEXT)


def test_the_link_header_is_followed_until_there_is_none(site: Site, reader: Reader) -> None:
    site.lay("/rows", [{"id": 1}], Link='</rows>; rel="prev", </rows?p=2,3>; title="a, \\"b\\" <c>"; rel="last next"')
    site.lay("/rows?p=2,3", [{"id": 2}], Link='</rows>; rel="first"')

    assert reader.rows(paginate=LINK) == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize(
    ("headers", "target"),
    [
        (['<a>; rel=next'], "a"),
        (['<a>; rel="prev"', '<b>; REL="NEXT"'], "b"),
        (['<a>; rel="next-archive", <b>; title="rel=next"'], None),
        (['<a>; rel="prev"; rel="next"'], None),
        (['<a;b,c>;rel = "next" ,<d>;rel=next'], "a;b,c"),
        (["nonsense", ""], None),
        (["<a>; rel='next'"], "a"),
        (["<a>; title='b; c'; rel='prev next'"], "a"),
        (["<a>;; foo; rel=next;"], "a"),
        (["<a>; rel=prev; title=next"], None),
        ([], None),
    ],
)  # fmt: skip
def test_the_first_link_related_as_next_counts(headers: list[str], target: str | None) -> None:
    assert next_link(headers) == target


@pytest.mark.parametrize("header", ["/rows?p=2; rel=next", '</rows?p=2>; rel="next', "</a>, rel=next", "</a> rel=NEXT"])
def test_a_link_that_cannot_be_read_is_no_last_page(site: Site, reader: Reader, header: str) -> None:
    site.lay("/rows", [{"id": 1}], Link=header)

    with pytest.raises(SourceShape) as refusal:
        reader.rows(paginate=LINK)

    assert (refusal.value.path, header in refusal.value.found) == ("Link", True)


def test_page_numbers_go_on_past_a_short_page_until_an_empty_one(site: Site, reader: Reader) -> None:
    pages = {0: [1, 2], 1: [3], 2: [4, 5], 3: []}
    for number, ids in pages.items():
        site.lay(f"/rows?page={number}&size=2", [{"id": one} for one in ids])
    paging = Paginate(by="page", param="page", start=0, size_param="size", size=2)

    assert [row["id"] for row in reader.rows(paginate=paging)] == [1, 2, 3, 4, 5]


def test_offsets_advance_by_the_rows_that_came_not_by_the_limit(site: Site, reader: Reader) -> None:
    site.lay("/rows?offset=0&limit=3", [{"id": 1}, {"id": 2}])
    site.lay("/rows?offset=2&limit=3", [{"id": 3}])
    site.lay("/rows?offset=3&limit=3", [])

    assert [row["id"] for row in reader.rows(paginate=OFFSET)] == [1, 2, 3]


@pytest.mark.parametrize("token", ["a b&c=d", 7, "ü"])
def test_a_token_comes_back_as_it_was_given(site: Site, reader: Reader, token: str | int) -> None:
    def page(came: Came) -> dict[str, Any]:
        asked = parse_qs(urlsplit(came.target).query).get("token")
        return {"rows": [{"asked": asked}], "meta": {"token": None if asked else token}}

    site.answer("/rows", page)
    for target in ("/rows?token=a%20b%26c%3Dd", "/rows?token=7", "/rows?token=%C3%BC"):
        site.answer(target, page)

    assert reader.rows(records="rows", paginate=TOKEN) == [{"asked": None}, {"asked": [str(token)]}]


@pytest.mark.parametrize(
    ("paging", "positions"),
    [
        (NEXT, [None, {"url": "{site}/rows?n=1"}, {"url": "{site}/rows?n=2"}]),
        (PAGE, [None, {"page": 2}, {"page": 3}]),
        (OFFSET, [None, {"offset": 1}, {"offset": 2}]),
        (TOKEN, [None, {"token": "1"}, {"token": "2"}]),
    ],
)
@pytest.mark.clause("run.advance.cursor-bytes")
def test_a_walk_goes_on_from_every_position_it_gave(
    site: Site, reader: Reader, paging: Paginate, positions: list[Any]
) -> None:
    _three_pages(site)
    expected = [canonical_json(position).replace("{site}", site.url) for position in positions]

    whole = list(reader.pulls(records="items", paginate=paging))

    assert [canonical_json(pull.position) for pull in whole[:2]] == expected[1:]
    for read, pull in enumerate(whole[:-1], start=1):
        rest = list(reader.pulls(records="items", paginate=paging, position=pull.position))
        assert rest == whole[read:]


@pytest.mark.parametrize("paging", [NEXT, PAGE, TOKEN])
def test_a_position_of_another_way_of_paging_is_refused_before_any_request(
    site: Site, reader: Reader, paging: Paginate
) -> None:
    with pytest.raises(Config, match="no position"):
        reader.rows(paginate=paging, position={"offset": 3})

    assert site.came == []


@pytest.mark.parametrize(
    ("paging", "first", "second"),
    [
        (NEXT, "/rows?since=2026-01-01&n=1", "/rows?n=1"),
        (PAGE, "/rows?since=2026-01-01&page=1", "/rows?since=2026-01-01&page=2"),
        (OFFSET, "/rows?since=2026-01-01&offset=0&limit=3", "/rows?since=2026-01-01&offset=1&limit=3"),
        (TOKEN, "/rows?since=2026-01-01", "/rows?since=2026-01-01&token=1"),
    ],
)
def test_since_is_asked_on_every_page_but_those_a_link_leads_to(
    site: Site, reader: Reader, paging: Paginate, first: str, second: str
) -> None:
    first = first.replace("&n=1", "")
    site.lay(first, {"items": [{"id": 1}], "next": "/rows?n=1", "meta": {"token": "1"}})
    site.lay(second, {"items": []})

    reader.rows(records="items", paginate=paging, since="2026-01-01", since_param="since")

    assert site.targets == [first, second]


def test_since_replaces_the_parameter_that_the_url_itself_holds(site: Site, reader: Reader) -> None:
    site.lay("/rows?a=%20x&b&since=12.5", [])

    reader.rows("/rows?a=%20x&since=0&b", since=12.5, since_param="since")

    assert site.targets == ["/rows?a=%20x&b&since=12.5"]


def test_a_posted_body_carries_what_paging_and_since_ask(site: Site, reader: Reader) -> None:
    site.answer("/rows?v=1", lambda came: {"items": [{"got": came.body}] if came.body["offset"] < 1 else []})

    rows = reader.rows("/rows", records="items", method="POST", body={"q": {"state": "open"}}, paginate=OFFSET,
                       since=5, since_param="since", params={"v": "1"})  # fmt: skip

    assert rows == [{"got": {"q": {"state": "open"}, "since": 5, "offset": 0, "limit": 3}}]
    assert [came.method for came in site.came] == ["POST", "POST"]


@pytest.mark.parametrize("links", [["/rows"], ["/b", "/rows"], ["/b", "/c", "/b"]])
def test_a_page_that_leads_back_is_an_error_not_an_endless_loop(site: Site, reader: Reader, links: list[str]) -> None:
    for page, link in zip(["/rows", *links], links, strict=False):
        site.lay(page, {"items": [{"id": page}], "next": link})

    with pytest.raises(SourceLoop) as refusal:
        reader.rows(records="items", paginate=NEXT)

    assert site.url + links[-1] in refusal.value.position
    assert len(site.came) == len(links)


def test_a_token_that_comes_again_is_a_loop(site: Site, reader: Reader) -> None:
    for target in ("/rows", "/rows?token=x"):
        site.lay(target, {"items": [{"id": 1}], "meta": {"token": "x"}})

    with pytest.raises(SourceLoop, match='"token":"x"'):
        reader.rows(records="items", paginate=TOKEN)


@pytest.mark.parametrize("paging", [PAGE, OFFSET])
def test_a_server_that_ignores_the_page_number_is_a_loop(site: Site, reader: Reader, paging: Paginate) -> None:
    for target in ("page=1", "page=2", "offset=0&limit=3", "offset=1&limit=3"):
        site.lay(f"/rows?{target}", [{"id": 1}])

    with pytest.raises(SourceLoop, match="the rows of the page before it"):
        reader.rows(paginate=paging)


def test_pages_that_python_takes_for_equal_are_no_loop(site: Site, reader: Reader) -> None:
    for number, rows in enumerate([[{"on": True}], [{"on": 1}], [{"on": 1.0}], []], start=1):
        site.lay(f"/rows?page={number}", rows)

    assert [type(row["on"]) for row in reader.rows(paginate=PAGE)] == [bool, int, float]


@pytest.mark.clause("run.advance.cursor-kind")
def test_the_cursor_is_monotonic_with_a_watermark_and_opaque_without(reader: Reader) -> None:
    assert open_source(reader.table(incremental="at")).cursor_kind is CursorKind.MONOTONIC
    assert open_source(reader.table()).cursor_kind is CursorKind.OPAQUE_TOKEN


def test_parameters_join_a_query_without_touching_its_other_bytes() -> None:
    assert with_params("http://h/a?x=%2f&y", {"z": "1 +"}) == "http://h/a?x=%2f&y&z=1%20%2B"
    assert with_params("http://h/a?x=1&x=2", {"x": "3"}) == "http://h/a?x=3"
    assert with_params("http://h", {}) == "http://h"


def _three_pages(site: Site) -> None:
    """Three pages of one row under every way of paging at once, an empty one behind them."""
    targets = [
        ("/rows", "/rows?page=1", "/rows?offset=0&limit=3"),
        ("/rows?n=1", "/rows?page=2", "/rows?offset=1&limit=3", "/rows?token=1"),
        ("/rows?n=2", "/rows?page=3", "/rows?offset=2&limit=3", "/rows?token=2"),
        ("/rows?page=4", "/rows?offset=3&limit=3"),
    ]
    for page, spelled in enumerate(targets, start=1):
        last = page >= 3
        for target in spelled:
            site.lay(target, {
                "items": [{"id": page}] if page < 4 else [],
                "next": None if last else f"/rows?n={page}",
                "meta": {"token": None if last else str(page)},
            })  # fmt: skip
