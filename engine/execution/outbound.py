"""The way out: an HTTP client that names every request after the step that makes it and keeps the ledger of them."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from engine.shapes import canonical_json
from engine.sql import call

if TYPE_CHECKING:
    import httpx

    from engine.clock import Chance
    from engine.ports import Call, Database
    from engine.secrets import SecretGuard
    from engine.shapes import Attempt, EntryKey

DEFAULT_HEADER: Final = "Idempotency-Key"


class Outbound:
    """One execution's requests.

    A step *enters* before each try of its effect; the ledger's intent is written before the first request leaves, and
    the settlement goes ahead of the record in its batch (run.journal.ledger-settles-first).
    """

    def __init__(self, database: Database, chance: Chance, *, attempt: Attempt, guard: SecretGuard) -> None:
        self._db = database
        self._guard = guard
        self._chance = chance
        self._attempt = attempt
        self._current = threading.local()

    def enter(self, key: EntryKey, *, header: str = DEFAULT_HEADER) -> None:
        """Begin a try of the effect of `key` on this thread."""
        self._current.intent = _Intent(key, header)

    def intend(self) -> Call:
        """Return the statement that writes this thread's intent, for a claim whose effect is known to send."""
        intent = self._intent
        intent.id = self._chance.token()
        intent.written = True
        key = intent.key
        return call(
            "intend_requests",
            id=intent.id,
            execution_id=key.execution_id,
            run_id=self._attempt.run_id,
            step=key.step,
            input=key.input,
        )

    def settlement(self) -> tuple[Call, ...]:
        """Return the statement that settles this thread's intent; none where nothing was meant to be sent."""
        intent = self._intent
        return (call("settle_requests", id=intent.id, sent=canonical_json(intent.sent)),) if intent.written else ()

    def settle(self) -> None:
        """Settle at once: the effect failed, so no record will carry the settlement."""
        if settlement := self.settlement():
            self._db.run(*settlement)

    @property
    def sent(self) -> int:
        """How many requests this thread's effect has sent."""
        return len(self._intent.sent)

    @cached_property
    def client(self) -> httpx.Client:
        """The execution's client: no redirects by itself, no proxies of the environment, kept open between pulls."""
        # Imported here: a run without requests does not pay for it.
        import httpx  # noqa: PLC0415

        from engine.execution.transports import LateTls, plain  # noqa: PLC0415

        return httpx.Client(
            follow_redirects=False,
            trust_env=False,
            transport=LateTls(),
            mounts={"http://": plain()},
            event_hooks={"request": [self._named], "response": [self._noted]},
        )

    def close(self) -> None:
        """Close the client, if one was ever made."""
        if "client" in self.__dict__:
            self.client.close()

    @property
    def _intent(self) -> _Intent:
        intent: _Intent = self._current.intent
        return intent

    def _named(self, request: httpx.Request) -> None:
        intent = self._intent
        if not intent.written:
            self._db.run(self.intend())
        request.headers.setdefault(intent.header, intent.key.idempotency_key)
        # The query may hold a secret, so the ledger names the resource only.
        target, _ = self._guard.text(str(request.url.copy_with(query=None, username=None, password=None)))
        intent.sent.append({"method": request.method, "url": target})

    def _noted(self, response: httpx.Response) -> None:
        self._intent.sent[-1]["status"] = response.status_code


class _Intent:
    """What one try of an effect means to send, and what it has sent."""

    __slots__ = ("header", "id", "key", "sent", "written")

    def __init__(self, key: EntryKey, header: str) -> None:
        self.id = ""
        self.key = key
        self.header = header
        self.sent: list[dict[str, Any]] = []
        self.written = False
