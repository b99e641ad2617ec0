from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from engine.errors import ContextfulError, Permanent, SecretNotFound, SourceLoop, SourceOriginRefused, SourceShape
from engine.pipeline.declaration import Paginate
from engine.pipeline.source import Ask, Secrets
from engine.pipeline.sources import open_source
from engine.pipeline.sources.links import absolute, origin
from engine.pipeline.sources.placeholders import filled, masked

if TYPE_CHECKING:
    from tests.unit.sources.conftest import Reader, Site

SECRET = 's3cr3t/"é +'
ENCODED = "s3cr3t%2F%22%C3%A9%20%2B"
SECRETS = {"API_TOKEN": SECRET}
NEXT = Paginate(by="next-url", field="next")
SECRET_HEADER: dict[str, Any] = {
    "headers": {"Authorization": "Bearer ${API_TOKEN}"},
    "secrets": {"API_TOKEN": "s3cr3t"},
}
SECRET_PARAM: dict[str, Any] = {"params": {"key": "${API_TOKEN}"}, "secrets": SECRETS}


def test_placeholders_are_filled_in_url_headers_params_and_body(site: Site, reader: Reader) -> None:
    site.answer("/t1/rows?key=s3cr3t", lambda came: [{"auth": came.headers["authorization"], "body": came.body}])

    rows = reader.rows("/${TENANT}/rows", method="POST", body={"a": ["${API_TOKEN}", 1]},
                       headers={"authorization": "Bearer ${API_TOKEN}"}, params={"key": "${API_TOKEN}"},
                       secrets={"API_TOKEN": "s3cr3t", "TENANT": "t1"})  # fmt: skip

    assert rows == [{"auth": "Bearer s3cr3t", "body": {"a": ["s3cr3t", 1]}}]


def test_a_missing_secret_is_named_with_its_place_before_any_request(site: Site, reader: Reader) -> None:
    with pytest.raises(SecretNotFound) as refusal:
        reader.rows(headers={"X-Key": "${API_TOKEN}"})

    assert (refusal.value.name, refusal.value.path) == ("API_TOKEN", "site.source.headers.X-Key")
    assert site.came == []


@pytest.mark.parametrize(
    "credentials",
    [
        SECRET_HEADER,
        SECRET_PARAM,
        {"method": "POST", "body": {"key": "${API_TOKEN}"}, "secrets": SECRETS},
        {"headers": {"Authorization": "Bearer written-out"}},
        {"headers": {"cookie": "session=1"}},
    ],
)
@pytest.mark.parametrize("way", ["link", "redirect"])
def test_credentials_never_leave_the_sources_own_origin(
    site: Site, elsewhere: Site, reader: Reader, credentials: dict[str, Any], way: str
) -> None:
    target = f"{elsewhere.url}/more"
    first = f"/rows?key={ENCODED}" if "params" in credentials else "/rows"
    if way == "link":
        site.lay(first, {"items": [], "next": target})
    else:
        site.lay(first, status=307, Location=target)

    with pytest.raises(SourceOriginRefused) as refusal:
        reader.rows(records="items", paginate=NEXT, **credentials)

    assert (refusal.value.origin, refusal.value.target) == (site.url, elsewhere.url)
    assert elsewhere.came == []


def test_a_position_at_another_origin_is_refused_too(site: Site, elsewhere: Site, reader: Reader) -> None:
    with pytest.raises(SourceOriginRefused):
        reader.rows(records="items", paginate=NEXT, position={"url": f"{elsewhere.url}/more"}, **SECRET_HEADER)

    assert elsewhere.came == []


def test_without_credentials_links_and_redirects_lead_anywhere(site: Site, elsewhere: Site, reader: Reader) -> None:
    site.lay("/rows", {"items": [{"id": 1}], "next": f"{elsewhere.url}/more"})
    elsewhere.lay("/more", status=302, Location=f"{site.url}/last")
    site.lay("/last", {"items": [{"id": 2}]})

    assert len(reader.rows(records="items", paginate=NEXT, headers={"X-Plain": "1"})) == 2


def test_a_redirect_from_https_to_http_with_secrets_is_refused(reader: Reader) -> None:
    transport = httpx.MockTransport(
        lambda request: httpx.Response(302, headers={"location": f"http://{request.url.host}/"})
    )
    source = open_source(reader.table(url="https://api.test/rows", headers={"K": "${API_TOKEN}"}))

    with httpx.Client(transport=transport) as client, pytest.raises(SourceOriginRefused) as refusal:
        list(source.pulls(Ask(client=lambda: client, secrets=Secrets({"API_TOKEN": "s3cr3t"}))))

    assert (refusal.value.origin, refusal.value.target) == ("https://api.test:443", "http://api.test:80")


def test_on_its_own_origin_every_page_gets_the_secrets(site: Site, reader: Reader) -> None:
    key = f"key={ENCODED}"
    site.lay(f"/rows?plain=1&{key}", {"items": [{"id": 1}], "next": "/rows?p=2"})
    site.lay(f"/rows?p=2&{key}", {"items": [{"id": 2}], "next": f"/rows?{key}&p=3"})
    site.lay(f"/rows?{key}&p=3", {"items": [{"id": 3}]})

    pulls = list(reader.pulls(records="items", paginate=NEXT, params={"plain": "1", "key": "${API_TOKEN}"},
                              secrets=SECRETS))  # fmt: skip

    assert [pull.rows for pull in pulls] == [[{"id": 1}], [{"id": 2}], [{"id": 3}]]
    assert pulls[0].position == {"url": f"{site.url}/rows?p=2"}


def test_a_password_in_the_url_becomes_a_header_that_links_keep(site: Site, reader: Reader) -> None:
    site.lay("/rows", {"items": [], "next": f"{site.url.replace('//', '//user@')}/last"})
    site.lay("/last", {"items": []})

    pulls = list(reader.pulls(url=site.url.replace("//", "//me:p%2Bw+${API_TOKEN}@") + "/rows", records="items",
                              paginate=NEXT, secrets={"API_TOKEN": "pw"}))  # fmt: skip

    expected = f"Basic {b64encode(b'me:p+w+pw').decode()}"
    assert [came.headers["authorization"] for came in site.came] == [expected, expected]
    assert pulls[0].position == {"url": f"{site.url}/last"}


@pytest.mark.parametrize(
    ("status", "method", "after"),
    [(301, "POST", "GET"), (302, "POST", "GET"), (303, "POST", "GET"), (307, "POST", "POST"), (308, "POST", "POST"),
     (301, "GET", "GET"), (307, "GET", "GET")],
)  # fmt: skip
def test_redirects_keep_or_drop_the_method_as_http_has_it(
    site: Site, reader: Reader, status: int, method: str, after: str
) -> None:
    body = {"q": 1} if method == "POST" else None
    site.lay("/a/rows", status=status, Location="../b/rows?x=1")
    site.answer("/b/rows?x=1", lambda came: [{"method": came.method, "body": came.body}])

    rows = reader.rows("/a/rows", method=method, body=body)

    assert rows == [{"method": after, "body": body if after == "POST" else None}]


def test_links_are_resolved_from_where_the_redirect_led(site: Site, reader: Reader) -> None:
    site.lay("/rows", status=301, Location="/v2/rows")
    site.lay("/v2/rows", {"items": [{"id": 1}], "next": "last"})
    site.lay("/v2/last", {"items": [{"id": 2}]})

    assert len(reader.rows(records="items", paginate=NEXT)) == 2


def test_a_page_that_links_to_where_its_redirect_led_is_a_loop(site: Site, reader: Reader) -> None:
    site.lay("/rows", status=301, Location="/v2/rows")
    site.lay("/v2/rows", {"items": [{"id": 1}], "next": "/v2/rows"})

    with pytest.raises(SourceLoop):
        reader.rows(records="items", paginate=NEXT)

    assert site.targets == ["/rows", "/v2/rows"]


def test_redirects_that_go_round_are_a_loop_and_more_than_ten_an_error(site: Site, reader: Reader) -> None:
    site.lay("/rows", status=302, Location="/b")
    site.lay("/b", status=302, Location="/rows")
    for hop in range(12):
        site.lay(f"/hop{hop}", status=302, Location=f"/hop{hop + 1}")
    site.lay("/hop12", [])

    with pytest.raises(SourceLoop):
        reader.rows()
    with pytest.raises(Permanent, match="more than 10"):
        reader.rows("/hop0")
    assert reader.rows("/hop2") == []


def test_a_redirect_without_a_place_to_go_is_permanent(site: Site, reader: Reader) -> None:
    site.lay("/rows", status=302)
    site.lay("/odd", status=302, Location="ftp://h/x")

    with pytest.raises(Permanent, match="302"):
        reader.rows()
    with pytest.raises(SourceShape, match="ftp://h/x"):
        reader.rows("/odd")


@pytest.mark.parametrize(
    "lay",
    [
        {"status": 400, "raw": f'{{"echo": "{SECRET}"}}'.encode()},
        {"status": 500},
        {"status": 401, "raw": SECRET.encode()},
        {"raw": f"<html>{SECRET}".encode()},
        {"body": {"items": [SECRET]}},
        {"body": {"items": [], "next": f"ftp://h/?k={SECRET}"}},
        {"body": {"items": [], "next": f"/rows?key={ENCODED}"}},
        {"status": 302, "Location": f"ftp://h/{SECRET}".encode().decode("latin-1")},
    ],
)  # fmt: skip
def test_no_error_holds_a_secret(site: Site, reader: Reader, lay: dict[str, Any]) -> None:
    site.lay(f"/rows?key={ENCODED}", **lay)

    with pytest.raises(ContextfulError) as refusal:
        reader.rows(records="items", paginate=NEXT, **SECRET_PARAM)

    text = f"{refusal.value} {refusal.value.facts}"
    assert "s3cr3t" not in text
    assert "${API_TOKEN}" in text


@pytest.mark.parametrize("value", ["two\nlines", "snowman ☃"])
def test_a_secret_that_no_header_can_hold_is_not_quoted(site: Site, reader: Reader, value: str) -> None:
    with pytest.raises(Permanent, match="cannot be sent") as refusal:
        reader.rows(headers={"K": "${API_TOKEN}"}, secrets={"API_TOKEN": value})

    assert value not in repr(refusal.value)
    assert refusal.value.__cause__ is None


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("HTTP://Api.Test/x", "http://api.test:80"), ("https://me:pw@api.test:8443", "https://api.test:8443"),
        ("http://[::1]:80/", "http://[::1]:80"), ("http://api.test\\@evil.test/", "http://evil.test:80"),
    ],
)  # fmt: skip
def test_an_origin_is_scheme_host_and_port(url: str, expected: str) -> None:
    assert origin(url) == expected


@pytest.mark.parametrize("url", ["ftp://h/", "/rows", "http://", "http://h:x/", "javascript:alert(1)", "http://[/"])
def test_what_is_no_http_url_has_no_origin(url: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the standard library's own words differ
        origin(url)


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("?page=2", "http://h/a/b?page=2"), ("c#top", "http://h/a/c"), ("//other/x", "http://other/x"),
        (" /x ", "http://h/x"), ("http://me:pw@h/x", "http://h/x"), ("../../../x", "http://h/x"),
    ],
)  # fmt: skip
def test_a_link_is_resolved_without_fragment_and_password(link: str, target: str) -> None:
    assert absolute("http://h/a/b?page=1", link) == target


def test_masking_finds_every_spelling_and_the_longest_first() -> None:
    secrets = {"A": "abc", "B": "abcd/é", "EMPTY": "", "C": "A"}

    assert masked('abcd/é abcd%2F%C3%A9 "abcd/\\u00e9" abc', secrets) == '${B} ${B} "${B}" ${A}'
    assert filled({"x": ["${A}-${A}", 3]}, secrets, path="p") == {"x": ["abc-abc", 3]}
