"""What an effect is handed: the key to send, the attempt it is, and what stops it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import httpx

    from engine.execution.cancellation import Cancellation
    from engine.execution.cover import Cover
    from engine.execution.outbound import Outbound
    from engine.execution.subprocesses import Finished
    from engine.shapes import EntryKey


@dataclass(frozen=True, slots=True)
class Call:
    """One attempt of a step's effect.

    The idempotency key is the same on every re-entry of this effect, so a vendor that honours keys acts once
    (run.journal.idempotency-key); `attempt` counts from 1 over every process that has tried.
    """

    key: EntryKey
    attempt: int
    cancellation: Cancellation
    outbound: Outbound
    cover: Cover | None = None

    def check(self, *, timeout_ms: float = 0) -> None:
        """Raise `EffectOverdue` unless a request that takes up to `timeout_ms` may leave now (rule G3).

        `call.http` and `call.run` ask by themselves; an effect that sends by other means asks right before each
        request, and from then on may have sent.
        """
        if self.cover is not None:
            self.cover.check(timeout_ms=timeout_ms)
            self.outbound.let_go()

    @property
    def idempotency_key(self) -> str:
        """The key to send, the same however often this step is tried."""
        return self.key.idempotency_key

    @property
    def http(self) -> httpx.Client:
        """A client whose requests carry the key in the destination's header and are in the ledger."""
        return self.outbound.taken()

    def run(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        stdin: bytes = b"",
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        output_limit: int = 1 << 20,
        kill_after_ms: int = 10_000,
    ) -> Finished:
        """Run a program, without a shell, and return how it ended: `.code`, `.out`, `.err`; `.checked()` wants a 0.

        Its variables are this process's, or `env`, and CONTEXTFUL_IDEMPOTENCY_KEY; under a guard it must send within
        the CONTEXTFUL_SEND_WITHIN_MS milliseconds from its start, or not at all. `output_limit` bytes are kept of each
        stream. A stop of the run ends the program and whatever it started: TERM, and KILL after `kill_after_ms`.
        """
        self.check()
        # Imported here: a program without children does not pay for it.
        from engine.execution import subprocesses  # noqa: PLC0415

        variables = {**(os.environ if env is None else env), "CONTEXTFUL_IDEMPOTENCY_KEY": self.idempotency_key}
        if self.cover is not None:
            variables["CONTEXTFUL_SEND_WITHIN_MS"] = str(self.cover.left_ms)
        return subprocesses.run(
            argv,
            cancellation=self.cancellation,
            stdin=stdin,
            cwd=cwd,
            env=variables,
            output_limit=output_limit,
            kill_after_ms=kill_after_ms,
        )
