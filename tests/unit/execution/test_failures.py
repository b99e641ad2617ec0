"""What an effect raises, as the one tagged failure that crosses every port."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from engine.clock import Chance
from engine.errors import AuthExpired, ContextfulError, Permanent, RateLimited, Transient
from engine.execution.failures import failure_of
from engine.schedule import RETRYABLE, Schedule
from engine.shapes import FailureTag

REQUEST = httpx.Request("POST", "https://user:hidden@vendor.test/charges?key=hidden")


def answered(status: int, **headers: str) -> ContextfulError:
    """The failure behind an answer that an effect raised for."""
    response = httpx.Response(status, headers={"retry-after": headers["wait"]} if headers else {}, request=REQUEST)
    with pytest.raises(httpx.HTTPStatusError) as raised:
        response.raise_for_status()
    return failure_of(raised.value)


@pytest.mark.clause("run.retry.failure-taxonomy")
def test_the_tags_are_those_of_the_contract_and_two_of_them_retry() -> None:
    assert {str(tag) for tag in FailureTag} == {
        "Transient", "RateLimited", "Permanent", "SchemaIncompatible", "AuthExpired", "Config", "Storage",
        "UnknownConnector", "SecretNotFound", "Canceled",
    }  # fmt: skip
    assert {str(tag) for tag in RETRYABLE} == {"Transient", "RateLimited"}


@pytest.mark.clause("run.retry.failure-taxonomy")
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((status, AuthExpired) for status in (401, 403)),
        *((status, Permanent) for status in (400, 404, 409, 422)),
        *((status, Transient) for status in (408, 425, 500, 502, 503, 504, 599)),
        (429, RateLimited),
    ],
)
def test_an_answer_that_an_effect_raises_for_comes_under_the_tag_of_its_status(
    status: int, kind: type[ContextfulError]
) -> None:
    failure = answered(status)

    assert type(failure) is kind
    assert str(failure).startswith(f"POST https://vendor.test/charges answered {status}")
    assert "hidden" not in str(failure)


@pytest.mark.clause("run.retry.failure-taxonomy")
@pytest.mark.parametrize(
    "raised", [httpx.ConnectError("away"), httpx.ReadTimeout("late"), httpx.RemoteProtocolError("")]
)
def test_a_connection_that_an_effect_loses_is_transient(raised: httpx.TransportError) -> None:
    failure = failure_of(raised)

    assert type(failure) is Transient
    assert str(failure) == f"{type(raised).__name__}: {raised}"


def test_a_connection_that_is_lost_is_told_with_what_was_asked_for() -> None:
    failure = failure_of(httpx.ConnectError("away", request=REQUEST))

    assert type(failure) is Transient
    assert str(failure) == "POST https://vendor.test/charges: ConnectError: away"


@pytest.mark.clause("run.retry.one-layer")
@pytest.mark.parametrize("status", [429, 503])
def test_a_wait_of_seconds_in_an_answer_that_an_effect_raises_for_goes_with_its_failure(status: int) -> None:
    failure = answered(status, wait="7")

    assert isinstance(failure, RateLimited)
    assert failure.wait_ms == 7_000


@pytest.mark.clause("run.retry.one-layer")
@pytest.mark.parametrize("status", [429, 503])
def test_a_wait_until_a_date_in_an_answer_that_an_effect_raises_for_goes_with_its_failure(status: int) -> None:
    failure = answered(status, wait=format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True))

    assert isinstance(failure, RateLimited)
    assert failure.wait_ms is not None
    assert 3_500_000 < failure.wait_ms <= 3_600_000


@pytest.mark.clause("run.retry.one-layer")
def test_a_wait_that_says_nothing_is_none() -> None:
    failure = answered(429, wait="soon")

    assert isinstance(failure, RateLimited)
    assert failure.wait_ms is None
    assert type(answered(503, wait="soon")) is Transient
    assert type(answered(404, wait="7")) is Permanent


@pytest.mark.clause("run.retry.default-policy")
def test_the_default_schedule_is_the_contracts_and_its_jitter_fills_what_lies_below_the_ceiling() -> None:
    default = Schedule()

    assert (default.backoff, default.base_ms, default.factor, default.attempts) == ("exponential", 100, 2.0, 5)
    assert (default.max_delay_ms, default.jitter_ms, default.retry_on) == (30_000, 250, RETRYABLE)
    draws = {Chance.seeded(seed).jitter(default.jitter_ms) for seed in range(20_000)}
    assert draws == set(range(250))
    assert {Chance.seeded(7).jitter(250) for _ in range(9)} == {Chance.seeded(7).jitter(250)}
    assert len({Chance().jitter(1 << 40) for _ in range(9)}) == 9
