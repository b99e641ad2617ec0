"""What must hold of every transition of the guard protocol, judged from the rows before and after it alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.model.guards_store import MOVING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.model.replay import Rows


class Told(NamedTuple):
    """Who made the transition: an attempt itself ("own"), a "takeover", an "operator", a "rewind", the "world".

    `sent` is the token under which a request left.
    """

    by: str
    name: str = ""
    sent: str | None = None


COLUMNS: Final[Mapping[str, str]] = {
    "holders": "id pid boot_id registered_at expires_at exited_at",
    "owners": "scope execution_id pins plan_ref input_hash asked_pins attempt holder lease_end wake_at opened_at "
    "finished_at",
    "journal": "execution_id step input run_id claim attempts next_attempt_at value digest bytes admitted_at doubts "
    "receipt destination",
    "guards": "protected token scope execution_id attempt holder step input idempotency_key kind destination window_ms "
    "admitted_at covered_until",
    "guard_audit": "id token evidence operator at execution_id step input guard",
}


class Seen:
    """The rows by name, for those who judge them."""

    def __init__(self, rows: Rows, now: int) -> None:
        self.now = now
        tables = {name: _named(name, rows) for name in COLUMNS}
        self.owner = next(iter(tables["owners"]), None)
        self.entry = next(iter(tables["journal"]), None)
        self.holders = {each["id"]: each for each in tables["holders"]}
        self.guards = {each["token"]: each for each in tables["guards"]}
        self.audits = {each["id"]: each for each in tables["guard_audit"]}

    def runs(self, attempt: str, holder: str) -> bool:
        """Whether the lease of an attempt runs."""
        owner = self.owner
        if owner is None or (owner["attempt"], owner["holder"]) != (attempt, holder):
            return False
        until = self.holders[holder]["expires_at"] if owner["lease_end"] is None else owner["lease_end"]
        return bool(self.now < until)

    def gone(self, holder: str) -> bool:
        """Whether a holder's exit is recorded."""
        return holder not in self.holders or self.holders[holder]["exited_at"] is not None

    @property
    def recorded(self) -> Any:
        """The value of the step, where it has one."""
        return self.entry and self.entry["value"]


def judged(before: Rows, after: Rows, told: Told, *, now: int) -> str | None:
    """What is wrong with the transition, or None."""
    was, is_ = Seen(before, now), Seen(after, now)
    checks = (_transferred, _released, _acquired, _audited, _recorded, _sent)
    return next(filter(None, (check(was, is_, told) for check in checks)), None)


def _named(table: str, rows: Rows) -> list[dict[str, Any]]:
    names = COLUMNS[table].split()
    return [dict(zip(names, row, strict=False)) for row in rows[MOVING.index(table)]]


def _replays(was: Seen, guard: dict[str, Any]) -> bool:
    """Whether a takeover may release the guard: gone, lapsed, covered."""
    covered = guard["covered_until"] is not None and was.now < guard["covered_until"]
    return was.gone(guard["holder"]) and not was.runs(guard["attempt"], guard["holder"]) and covered


def _transferred(was: Seen, is_: Seen, told: Told) -> str | None:
    if was.owner is None or not was.guards:
        return None
    if is_.owner is None or is_.owner["finished_at"] is not None:
        return f"the owner is retired past {_names(was.guards)}"
    holds = (is_.owner["attempt"], is_.owner["holder"])
    if is_.owner["attempt"] is None or holds == (was.owner["attempt"], was.owner["holder"]):
        return None
    if is_.guards:
        return f"{holds[0]} takes the owner past {_names(is_.guards)}"
    held = [guard for guard in was.guards.values() if not _replays(was, guard)]
    return f"{holds[0]} takes the owner and a guard that may not be replayed" if held else None


def _released(was: Seen, is_: Seen, told: Told) -> str | None:
    for token, guard in was.guards.items():
        if token in is_.guards:
            continue
        held = not was.gone(guard["holder"]) and was.runs(guard["attempt"], guard["holder"])
        lawful = {
            "own": guard["attempt"] == told.name,
            "takeover": _replays(was, guard),
            "operator": not held and _noted(was, is_) == [token],
        }
        if not lawful.get(told.by, False):
            return f"{token} is released by {told.by} {told.name}"
    return None


def _acquired(was: Seen, is_: Seen, told: Told) -> str | None:
    for token, guard in is_.guards.items():
        if is_.recorded is not None:
            return f"{token} stands though its entry is recorded"
        if token in was.guards:
            continue
        attempt, holder = guard["attempt"], guard["holder"]
        if was.gone(holder):
            return f"{token} is admitted for a holder that is gone"
        if not was.runs(attempt, holder):
            return f"{token} is admitted under a lease that has lapsed"
    return None


def _audited(was: Seen, is_: Seen, told: Told) -> str | None:
    for number in is_.audits.keys() - was.audits.keys():
        audit = is_.audits[number]
        guard = dict(was.guards.get(audit["token"], {}))
        record = {**json.loads(audit["guard"])}
        if [guard.pop("protected", None)] != record.pop("protected") or guard != record:
            return f"the audit row of {audit['token']} does not hold the guard as it stood"
        if not audit["evidence"] or not audit["operator"] or audit["at"] != was.now:
            return f"the audit row of {audit['token']} is not whole"
    return None


def _recorded(was: Seen, is_: Seen, told: Told) -> str | None:
    if is_.recorded is None or was.recorded is not None or told.by == "operator":
        return None
    active = was.owner and (was.owner["attempt"], was.owner["holder"])
    if told.by != "own" or active != (told.name, f"h-{told.name}"):
        return f"{told.name} records, superseded"
    return None


def _sent(was: Seen, is_: Seen, told: Told) -> str | None:
    if told.sent and told.sent not in was.guards:
        return f"a request leaves under {told.sent}, which does not stand"
    return None


def _noted(was: Seen, is_: Seen) -> list[str]:
    return [is_.audits[number]["token"] for number in is_.audits.keys() - was.audits.keys()]


def _names(guards: dict[str, Any]) -> str:
    return " and ".join(guards)
