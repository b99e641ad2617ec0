"""What may become of a guard, and of the entry it protects: tables and pure functions of values and an instant.

    entry ──admit──▶ guard stands ──answered, recorded──────────▶ value
             ▲           │ ╲─ refused, or unsent ──▶ none in doubt ─┐
             │           │ ╲─ no answer, covered ──▶ one in doubt ──┤
             └───────────┼──────────────────────────────────────────┘
                         └─ no answer, not covered ──▶ stands ──replay │ manual──▶ gone

The engine, the Worker and the model checker ask the same functions; the statements of `engine/sql/guards.sql` say the
same once more where they must hold against everybody. Standard library only: the Worker runs this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


class Holder(StrEnum):
    """Whether the engine that holds a guard is known to be gone: only its recorded exit says so."""

    PRESENT = "present"
    GONE = "gone"


class Lease(StrEnum):
    """The lease of the attempt that a guard names; one that was cleared or ended has lapsed."""

    RUNS = "runs"
    LAPSED = "lapsed"


class Window(StrEnum):
    """The destination's deduplication window, counted from the entry's first admission."""

    COVERS = "covers"
    PASSED = "passed"
    NONE = "none"


class Kind(StrEnum):
    """What a callback does at its destination."""

    EFFECT = "effect"
    PUBLICATION = "publication"


class EvidenceClass(StrEnum):
    """What it takes to release a guard by hand (run.callback-guard.class)."""

    REPLAY_SAFE = "replay-safe"
    RECEIPT_REQUIRED = "receipt-required"
    UNKNOWN = "unknown"


class Transfer(StrEnum):
    """What a takeover of a protected row meets."""

    ALIVE = "alive"
    """The attempt's lease runs."""
    REPLAYS = "replays"
    """The guard goes with the takeover, and the key is sent again."""
    BLOCKED = "blocked"
    """Only an operator with evidence releases it."""


@dataclass(frozen=True, slots=True)
class Ways:
    """Who may release a guard as it stands: its holder, a takeover that replays, an operator."""

    release: bool
    replay: bool
    manual: bool
    transfer: Transfer


_HELD = Ways(release=True, replay=False, manual=False, transfer=Transfer.ALIVE)
_STALLED = Ways(release=True, replay=False, manual=True, transfer=Transfer.BLOCKED)
_ENDING = Ways(release=False, replay=False, manual=True, transfer=Transfer.ALIVE)
_SAFE = Ways(release=False, replay=True, manual=True, transfer=Transfer.REPLAYS)
_LEFT = Ways(release=False, replay=False, manual=True, transfer=Transfer.BLOCKED)

WAYS: Final[Mapping[tuple[Holder, Lease, Window], Ways]] = {
    (Holder.PRESENT, Lease.RUNS, Window.COVERS): _HELD,
    (Holder.PRESENT, Lease.RUNS, Window.PASSED): _HELD,
    (Holder.PRESENT, Lease.RUNS, Window.NONE): _HELD,
    (Holder.PRESENT, Lease.LAPSED, Window.COVERS): _STALLED,
    (Holder.PRESENT, Lease.LAPSED, Window.PASSED): _STALLED,
    (Holder.PRESENT, Lease.LAPSED, Window.NONE): _STALLED,
    (Holder.GONE, Lease.RUNS, Window.COVERS): _ENDING,
    (Holder.GONE, Lease.RUNS, Window.PASSED): _ENDING,
    (Holder.GONE, Lease.RUNS, Window.NONE): _ENDING,
    (Holder.GONE, Lease.LAPSED, Window.COVERS): _SAFE,
    (Holder.GONE, Lease.LAPSED, Window.PASSED): _LEFT,
    (Holder.GONE, Lease.LAPSED, Window.NONE): _LEFT,
}
"""The three ways out of a guard, and what a transfer meets (run.callback-guard.release, .replay, .manual)."""

CLASSES: Final[Mapping[tuple[Window, Kind], EvidenceClass]] = {
    (Window.COVERS, Kind.EFFECT): EvidenceClass.REPLAY_SAFE,
    (Window.COVERS, Kind.PUBLICATION): EvidenceClass.REPLAY_SAFE,
    (Window.PASSED, Kind.EFFECT): EvidenceClass.UNKNOWN,
    (Window.PASSED, Kind.PUBLICATION): EvidenceClass.RECEIPT_REQUIRED,
    (Window.NONE, Kind.EFFECT): EvidenceClass.UNKNOWN,
    (Window.NONE, Kind.PUBLICATION): EvidenceClass.RECEIPT_REQUIRED,
}


class Ending(StrEnum):
    """How an admitted callback ended, as far as its engine can tell."""

    RETURNED = "returned"
    """It returned a value."""
    REFUSED = "refused"
    """Every request was answered, and no answer says that the destination did anything."""
    UNSENT = "unsent"
    """No request left."""
    UNANSWERED = "unanswered"
    """Anything else: the destination may have acted, and no value says so."""


class Mark(StrEnum):
    """What an ending makes of the entry's count of admissions in doubt."""

    SETTLED = "settled"
    """The value is recorded: nothing is in doubt any more."""
    CLEARED = "cleared"
    """This admission is none in doubt."""
    WITHDRAWN = "withdrawn"
    """This admission never was; a first one does not begin the window."""
    STAYS = "stays"
    """This admission stays in doubt."""


@dataclass(frozen=True, slots=True)
class Settling:
    """What an ending makes of the guard and of the mark."""

    releases: bool
    mark: Mark


ENDINGS: Final[Mapping[tuple[Ending, bool], Settling]] = {
    (Ending.RETURNED, True): Settling(releases=True, mark=Mark.SETTLED),
    (Ending.RETURNED, False): Settling(releases=True, mark=Mark.SETTLED),
    (Ending.REFUSED, True): Settling(releases=True, mark=Mark.CLEARED),
    (Ending.REFUSED, False): Settling(releases=True, mark=Mark.CLEARED),
    (Ending.UNSENT, True): Settling(releases=True, mark=Mark.WITHDRAWN),
    (Ending.UNSENT, False): Settling(releases=True, mark=Mark.WITHDRAWN),
    (Ending.UNANSWERED, True): Settling(releases=True, mark=Mark.STAYS),
    (Ending.UNANSWERED, False): Settling(releases=False, mark=Mark.STAYS),
}
"""By the ending and whether the window still covers (rules G14 and G15 of the guard protocol)."""


class Admissible(StrEnum):
    """Whether an entry may be sent, or sent again."""

    SEND = "send"
    SETTLED = "settled"
    """A receipt settled it: it is not sent again."""
    UNSETTLED = "unsettled"
    """An earlier admission ended without an answer, and nothing covers a repetition here."""


def window(*, covered_until: int | None, now: int) -> Window:
    """Where the window stands at `now`: half-open, none where the destination declares none."""
    if covered_until is None:
        return Window.NONE
    return Window.COVERS if now < covered_until else Window.PASSED


def lease(*, until: int, now: int) -> Lease:
    """Whether a lease that ends at `until` runs."""
    return Lease.RUNS if now < until else Lease.LAPSED


def admissible(*, doubts: int, receipt: str | None, covered: bool, elsewhere: bool) -> Admissible:
    """Whether an entry is sent that has `doubts` admissions without an answer, or a receipt (rules G2 and G12).

    What is `covered` is covered at the destination of its first admission alone; `elsewhere` says that this is another.
    """
    if covered and not elsewhere:
        return Admissible.SEND
    if receipt is not None:
        return Admissible.SETTLED
    return Admissible.UNSETTLED if doubts else Admissible.SEND


def answers(status: int, *, refusals: Collection[int]) -> bool:
    """Whether an HTTP status is the destination's answer (rule G2): 2xx, 4xx but 408, and what it declares."""
    return 200 <= status < 300 or (400 <= status < 500 and status != 408) or status in refusals


def ending(statuses: Collection[int | None], *, refusals: Collection[int]) -> Ending:
    """How a callback ended that raised after requests with these `statuses`, None for one without a response.

    A 2xx that no value came of is no refusal: the destination has acted, and nothing says so (rule G15).
    """
    if not statuses:
        return Ending.UNSENT
    answered = all(status is not None and answers(status, refusals=refusals) for status in statuses)
    acted = any(status is not None and 200 <= status < 300 for status in statuses)
    return Ending.REFUSED if answered and not acted else Ending.UNANSWERED
