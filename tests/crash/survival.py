"""What must hold when a run's process has died and another one resumes it, checked from outside."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.crash.scene import LEASE_AND_A_BIT_MS

if TYPE_CHECKING:
    from collections import Counter

    from tests.crash.scene import Reference, Scene


@dataclass(frozen=True)
class Death:
    """What a death left, as files and requests tell."""

    published: bool
    asked: Counter[int]
    staged: dict[str, bytes]

    @classmethod
    def of(cls, scene: Scene, reference: Reference) -> Death:
        """The dead scene; its table is in the old state whole or in the new one."""
        commits = scene.commits()
        assert commits in (reference.before, reference.once), "the table is neither as before nor as after"
        return cls(commits == reference.once, scene.shelf.asked.copy(), scene.staged())


def resumed(scene: Scene, reference: Reference, *, deaths: int = 1, torn: bool = False) -> dict[str, Any]:
    """Resume a dead scene in a process `deaths` leases later and hold everything against the reference.

    `torn`: it may have died half way through a write, or while it staged again or discarded what it had replayed.
    """
    death = Death.of(scene, reference)
    told = scene.finished("resume", offset_ms=deaths * LEASE_AND_A_BIT_MS, watched=False)
    assert told["exit"] == 0, told["ran"]
    _staged_is_recorded(death, told["found"], torn=torn)
    assert scene.commits() == (reference.twice if death.published else reference.once)
    _asked_rightly(scene, death, told, deaths=deaths)
    _left_tidy(scene, told)
    return told


def _staged_is_recorded(death: Death, found: dict[str, Any], *, torn: bool) -> None:
    """Staged part number n holds the bytes of the n-th recorded pull, and each was staged once it was recorded."""
    recorded = [digest for _, digest in sorted(_pulls(found).items())]
    staged = [hashlib.sha256(content).hexdigest() for _, content in sorted(death.staged.items())]
    if found["owners"]:  # a journal apart from the catalog may be half collected once its owner is retired
        whole = staged[:-1] if torn and staged else staged
        assert whole == recorded[: len(whole)]
        assert torn or len(recorded) - len(whole) <= 1


def _asked_rightly(scene: Scene, death: Death, told: dict[str, Any], *, deaths: int) -> None:
    """Recorded pages are never asked again; of the others at most the one in flight at a death had been asked."""
    again = scene.shelf.asked - death.asked
    pages = range(len(scene.shelf.pages))
    recorded = set(_pulls(told["found"]))
    if death.published:
        assert all(again[number] == 1 for number in pages), "a new run reads the source once"
        return
    assert not recorded & set(again), f"recorded {sorted(recorded)}, asked again {dict(again)}"
    assert all(again[number] == 1 for number in pages if number not in recorded)
    twice = [number for number in pages if scene.shelf.asked[number] > 1 and _answers_rows(scene, number)]
    assert len(twice) <= deaths, f"asked more than once: {twice}"
    assert told["ran"]["runs"][-1]["replayed"] == len(recorded)


def _answers_rows(scene: Scene, number: int) -> bool:
    """Whether the page has rows for this run: an empty pull is not recorded, so every attempt asks for it."""
    rows = scene.shelf.pages[number]
    before = [row["updated"] for page in scene.play.before for row in page]
    return any(row["updated"] >= max(before, default="") for row in rows)


def _left_tidy(scene: Scene, told: dict[str, Any]) -> None:
    found, left = told["found"], told["left"]
    assert left["owners"] == []
    assert left["entries"] == 0, "the journal is empty once its owner is retired"
    was = {run["run_id"]: run["status"] for run in found["runs"]}
    now = {run["run_id"]: run["status"] for run in left["runs"]}
    last = told["ran"]["runs"][-1]["run_id"]
    assert now.pop(last) == "success"
    assert now == {run_id: "partial_failure" if status == "running" else status for run_id, status in was.items()}
    recorded = left["history"]
    assert recorded[last] == "success"
    assert all(recorded[run_id] == status for run_id, status in now.items() if was[run_id] == "running")
    ((_, seq, _, _, _),) = left["cursor"]
    assert seq == len(scene.commits())
    assert not [name for name in left["listed"] if "/." in f"/{name}"], "no half-written file has an object's name"
    assert scene.leftovers() == []


def _pulls(look: dict[str, Any]) -> dict[int, str]:
    """Digest of the recorded bytes by the number of the pull."""
    return {int(step.removeprefix("pull:")): digest for step, digest in look["recorded"].items()}
