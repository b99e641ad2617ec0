"""What a project's Worker answers, read back: guards, and the errors that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.errors import OperatorCredentialRefused, OperatorEndpointUnreachable
from engine.guards.guard import LEASE, OWNER, Guard, Standing
from engine.guards.rules import Kind
from engine.instants import read
from engine.operator.claims import SKEW_S, Reason
from engine.operator.named import KNOWN

if TYPE_CHECKING:
    import httpx

    from engine.errors import ContextfulError, NamedError


def document(answer: httpx.Response) -> dict[str, Any]:
    """The JSON object of an answer, an empty one where it holds none."""
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def standing(told: dict[str, Any], *, now: str) -> Standing:
    """The guard that a Worker tells, with what else decides about it at its instant `now`."""
    window = told["window"]
    guard = Guard(
        token=told["token"],
        protected=(*(OWNER + each for each in told["scopes"]), *(LEASE + each for each in told["leases"])),
        scope=told["scope"],
        execution_id=told["execution_id"],
        attempt=told["attempt"],
        holder=told["holder"],
        step=told["entry"]["step"],
        input=told["entry"]["input"],
        idempotency_key=told["idempotency_key"],
        kind=Kind(told["kind"]),
        destination=told["destination"],
        window_ms=None if window is None else round(window * 1000),
        admitted_at=read(told["admitted_at"]),
        covered_until=_instant(told["covered_until"]),
    )
    lease_until = _instant(told["owner_lease_expires_at"]) or 0
    return Standing(guard, lease_until, _instant(told["holder_exited_at"]), read(now))


def refusal(answer: httpx.Response, said: dict[str, Any], *, endpoint: str, now_s: int) -> ContextfulError:
    """The error that an answer other than 200 is; `now_s` is this machine's second, `said` the answer's document."""
    error = said.get("error")
    known = KNOWN.get(str(error.get("name"))) if isinstance(error, dict) else None
    if known is None or not isinstance(error, dict):
        return OperatorEndpointUnreachable(endpoint=endpoint, found=_strange(answer, error))
    if known is OperatorCredentialRefused and error.get("reason") in {Reason.EXPIRED, Reason.EARLY}:
        error["found"] += _apart(now_s - int(said.get("now_s", now_s)))
    return _again(known, error)


def _again(known: type[NamedError], error: dict[str, Any]) -> ContextfulError:
    facts = {name: error[name] for name in known._declared if name in error}  # noqa: SLF001 - as it was told
    for name, value in facts.items():
        if name.endswith(("_until", "_at")) and isinstance(value, str):
            facts[name] = read(value)
    raised = known(**facts)
    raised.remedy = error.get("remedy")
    return raised


def _apart(ahead_s: int) -> str:
    """What to say of this machine's clock, where it is far from the Worker's."""
    if abs(ahead_s) <= SKEW_S:
        return ""
    return f"; this machine's clock is {abs(ahead_s)} s {'ahead of' if ahead_s > 0 else 'behind'} it: set it"


def _strange(answer: httpx.Response, error: object) -> str:
    """What an answer is that no Worker of this release gives."""
    if 300 <= answer.status_code < 400:
        return (
            f"it sends to {answer.headers.get('location', 'another place')[:80]}: Cloudflare Access lets nobody "
            "through without its own token, see cloudflared access token"
        )
    if isinstance(error, dict) and error.get("message"):
        return str(error["message"])
    return f"HTTP {answer.status_code}, which is no answer of this release's Worker: is the address right?"


def _instant(text: str | None) -> int | None:
    return None if text is None else read(text)
