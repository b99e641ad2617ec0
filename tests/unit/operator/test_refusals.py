"""How refused credentials are counted, and which keys are looked at."""

from __future__ import annotations

import pytest

from d1.guards.refusals import KEPT_DAYS, Tally
from worker.operator_keys import AGAIN_MS, FAILED_MS, FRESH_MS, Certs, own_keys, published, team

MINUTE = 60_000
NOW = 30_000_000 * MINUTE
KEY = "A" * 43


def counted(tally: Tally, *instants: int, reason: str = "expired") -> list[tuple[int, int]]:
    """What is written of refusals at these instants: minute and count."""
    calls = [each for at in instants for each in tally.count(reason, "shop", now=at)]
    return [
        (each.arguments["minute"], each.arguments["count"])
        for each in calls
        if each.statement.name == "count_operator_refusals"
    ]


def test_the_first_refusal_is_written_at_once():
    assert counted(Tally(), NOW) == [(NOW // MINUTE, 1)]


def test_a_flood_of_refusals_in_a_minute_costs_few_writes():
    written = counted(Tally(), *[NOW] * 100_000)

    assert len(written) == 17
    assert 50_000 <= sum(count for _, count in written) <= 100_000


@pytest.mark.parametrize("count", range(1, 40))
def test_no_count_that_stands_is_less_than_half_of_what_came(count: int):
    assert 2 * sum(written for _, written in counted(Tally(), *[NOW] * count)) >= count


def test_what_a_minute_left_unwritten_goes_with_the_next_ones_first():
    tally = Tally()
    counted(tally, *[NOW] * 7)

    assert counted(tally, NOW + MINUTE) == [(NOW // MINUTE, 3), (NOW // MINUTE + 1, 1)]
    assert len(tally.seen) == len(tally.written) == 1
    assert counted(tally, NOW + 2 * MINUTE) == [(NOW // MINUTE + 2, 1)]


def test_reasons_are_counted_apart_and_old_counts_forgotten():
    tally = Tally()

    assert counted(tally, NOW) == counted(tally, NOW, reason="malformed")
    counted(tally, *[NOW] * 6)
    assert counted(tally, NOW, reason="wrong-issuer") == [(NOW // MINUTE, 1)]
    [forgotten] = [
        call for call in tally.count("missing", "shop", now=NOW) if call.statement.name == "forget_operator_refusals"
    ]
    assert forgotten.arguments["before"] == NOW // MINUTE - KEPT_DAYS * 24 * 60


def test_keys_are_read_by_name_and_what_is_none_is_left_out():
    text = f"laptop:{KEY} \n ci:{KEY}  short:QUJD :{KEY} bare other:{'!' * 43}"

    assert set(own_keys(text)) == {"laptop", "ci"}
    assert own_keys("") == {}


@pytest.mark.parametrize(
    ("url", "audience", "pinned"),
    [
        ("https://shop.cloudflareaccess.com", "aud", True),
        ("https://shop.cloudflareaccess.com/", "aud", True),
        ("http://127.0.0.1:8080", "aud", True),
        ("http://shop.cloudflareaccess.com", "aud", False),
        ("https://shop.cloudflareaccess.com/path", "aud", False),
        ("https://shop.cloudflareaccess.com", "", False),
        ("shop.cloudflareaccess.com", "aud", False),
        ("ftp://127.0.0.1", "aud", False),
        ("https:", "aud", False),
        ("", "", False),
    ],
)
def test_a_team_is_pinned_by_its_address_and_an_application_or_not_at_all(url: str, audience: str, pinned: bool):
    assert (team(url, audience) is not None) is pinned


def test_a_teams_page_is_read_hourly_and_for_an_unknown_key_once_a_minute():
    certs = Certs({"known": {}}, read_at=NOW)

    assert Certs().due("known", now=NOW)
    assert not certs.due("known", now=NOW + FRESH_MS - 1)
    assert certs.due("known", now=NOW + FRESH_MS)
    assert not certs.due("new", now=NOW + AGAIN_MS - 1)
    assert certs.due("new", now=NOW + AGAIN_MS)


def test_a_teams_page_that_is_away_is_asked_for_every_few_seconds_whatever_comes():
    certs = Certs()

    certs.failed("the page is away", now=NOW)

    for key in ("known", "new"):
        assert not certs.due(key, now=NOW + FAILED_MS - 1)
        assert certs.due(key, now=NOW + FAILED_MS)
    certs.read({"known": {}}, now=NOW + FAILED_MS)
    assert certs.problem is None
    certs.failed("away again", now=NOW + FRESH_MS)
    assert certs.keys == {"known": {}}
    assert certs.due("known", now=NOW + FRESH_MS + FAILED_MS)


def test_of_a_teams_page_the_rsa_keys_are_taken():
    rsa = {"kid": "a", "kty": "RSA", "n": "AQ", "e": "AQAB", "d": "private", "alg": "none"}
    others = '{"kid": "b", "kty": "EC", "n": "AQ", "e": "AQ"}, 7, {"kty": "RSA"}'
    text = f'{{"keys": [{str(rsa).replace(chr(39), chr(34))}, {others}]}}'

    assert published(text) == {"a": {"kty": "RSA", "n": "AQ", "e": "AQAB", "alg": "RS256", "ext": True}}
    for wrong in ("[]", "{}", '{"keys": {}}', "nothing"):
        with pytest.raises(ValueError):  # noqa: PT011 - whatever is wrong with it
            published(wrong)
