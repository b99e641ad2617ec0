"""What a walk that begins anew owes to the one before it: a wait that was noted under a pull which is asked no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.execution.steps import Steps
    from engine.shapes import EntryKey


def carry_wait(steps: Steps, *, to: EntryKey) -> None:
    """Note the waits of pulls that stand under other keys on `to`, with the attempts they have used.

    Behind a checkpoint a watermark's walk begins anew, and its first pull has another key than the one that was told to
    wait; who told it so is the same (run.retry.not-before, run.retry.resume-at). Interrupted, it is done again.
    """
    entries = steps.journal.entries(to.execution_id)
    ours = next((entry for entry in entries if entry.key == to), None)
    waits = [entry for entry in entries if entry.next_attempt_at and entry.key != to]
    if not waits or (ours and ours.recorded):
        return  # of this walk are the waits behind a pull of it that is recorded
    if ours is None or not ours.attempts:
        latest = max(waits, key=lambda entry: entry.next_attempt_at or 0)
        steps.note(to, attempts=latest.attempts, due=latest.next_attempt_at)
    for entry in waits:
        steps.note(entry.key, attempts=0, due=None)
