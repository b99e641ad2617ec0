"""The tagged failure behind whatever an effect raised (run.retry.failure-taxonomy)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from engine.clock import SystemClock
from engine.errors import ContextfulError, Permanent, Transient

if TYPE_CHECKING:
    import httpx


def failure_of(raised: BaseException) -> ContextfulError:
    """The failure that `raised` stands for; an HTTP status it carries is read as a source's is."""
    if isinstance(raised, ContextfulError):
        return raised
    # Without importing httpx: an effect that never made a request raised none of its errors.
    names = {base.__name__ for base in type(raised).__mro__ if base.__module__.startswith("httpx")}
    if "HTTPStatusError" in names:
        return _of_status(cast("httpx.HTTPStatusError", raised).response)
    if "TransportError" in names:
        request = getattr(raised, "_request", None)  # its property raises where there is none
        return Transient(": ".join((*([_place(request)] if request else ()), type(raised).__name__, str(raised))))
    return Permanent(f"{type(raised).__name__}: {raised}")


def _of_status(response: httpx.Response) -> ContextfulError:
    from engine.pipeline.sources.answers import failure  # noqa: PLC0415 - only who met a status needs it

    wait = response.headers.get("Retry-After")
    text = response.text if response.is_closed else ""
    return failure(response.status_code, _place(response.request), text=text, retry_after=wait, now=SystemClock().now())


def _place(request: httpx.Request) -> str:
    """What was asked for, without its query, which may hold a secret."""
    return f"{request.method} {request.url.copy_with(query=None, username=None, password=None)}"
