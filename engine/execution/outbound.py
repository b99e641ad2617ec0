"""The way out: an HTTP client that names every request after the step that makes it and keeps the ledger of them."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from engine.errors import Canceled, EffectOverdue, StorageBindingUnavailable
from engine.execution.intent import Intent, Within
from engine.guards.rules import Ending, ending
from engine.shapes import canonical_json
from engine.sql import call

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx

    from engine.clock import Chance
    from engine.execution.cover import Cover
    from engine.ports import Call, Database
    from engine.secrets import SecretGuard
    from engine.shapes import Attempt, EntryKey

T = TypeVar("T")

DEFAULT_HEADER: Final = "Idempotency-Key"

_CONNECTED: Final = ("write", "read")
_ALL: Final = ("pool", "connect", *_CONNECTED)


class Outbound:
    """One execution's requests.

    A step *enters* before each try of its effect; the ledger's intent is written before the first request leaves, with
    the claim where the effect is known to send, and the settlement goes ahead of the record in its batch
    (run.journal.ledger-settles-first). `in_doubt` says whether an effect failed of which a request went unanswered: its
    key must not be lost.
    """

    def __init__(self, database: Database, chance: Chance, *, attempt: Attempt, guard: SecretGuard) -> None:
        self._db = database
        self._guard = guard
        self._chance = chance
        self._attempt = attempt
        self._current = threading.local()
        self.in_doubt = False

    def enter(self, key: EntryKey, *, header: str = DEFAULT_HEADER, cover: Cover | None = None) -> None:
        """Begin a try of the effect of `key` on this thread; under a guard each request asks its `cover` first.

        A try that was begun ahead goes on.
        """
        begun = getattr(self._current, "intent", None)
        if begun and begun.ahead and begun.key == key and cover is None:
            begun.ahead = False
        else:
            self._current.intent = Intent(key, header, cover)

    def within(self) -> Within:
        """Come back to the try this thread is in, if it is in one, once the block has run a step inside it."""
        return Within(self._current)

    def begin(self, key: EntryKey) -> Call:
        """Begin the next try of the effect of `key` ahead: return its intent's statement, for the claim's batch."""
        self._current.intent = Intent(key, DEFAULT_HEADER, None, ahead=True)
        return self._intend()

    def leave(self) -> None:
        """End the try this thread is in: whoever keeps the client of a call that has returned sends nothing more."""
        self._intent.over = True

    def call_off(self, *, written: bool) -> None:
        """End the try that was begun ahead: the claim failed, or its entry is recorded, a sibling's or not yet due.

        What is `written` of it is settled as having sent nothing. An intent that stays open, for the answer of its
        batch or of this was lost, says that requests may have left: nothing worse than asking once more.
        """
        self._intent.ahead = False
        if written:
            with suppress(StorageBindingUnavailable):
                self._db.run(*self.settlement())

    def _intend(self) -> Call:
        intent = self._intent
        intent.id = self._chance.token()
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
        if not intent.written:
            return ()
        with intent.turn:
            return (call("settle_requests", id=intent.id, sent=canonical_json(intent.sent)),)

    def settle(self) -> None:
        """Settle at once: the effect failed, so no record will carry the settlement."""
        left = self.statuses
        self.in_doubt = self.in_doubt or (bool(left) and ending(left, refusals=()) is Ending.UNANSWERED)
        if settlement := self.settlement():
            self._db.run(*settlement)

    def carried(self, work: Callable[[], T]) -> Callable[[], T]:
        """`work` for another thread to do: what it sends belongs to this thread's intent."""
        intent = self._intent

        def carrying() -> T:
            self._current.intent = intent
            return work()

        return carrying

    def abandon(self) -> None:
        """Give this thread's try up while another thread still works at it.

        It sends nothing more, and what it has sent without an answer settles as abandoned (run.cancel.abandoned-work).
        """
        intent = self._intent
        with intent.turn:
            intent.abandoned = True
            for request in intent.sent:
                if "status" not in request:
                    request["abandoned"] = True

    @property
    def sent(self) -> int:
        """How many requests this thread's effect has sent."""
        return len(self._intent.sent)

    @property
    def statuses(self) -> list[int | None]:
        """The HTTP status each request that left for this thread's effect was answered with, None where it was not."""
        with self._intent.turn:
            return [request.get("status") for request in self._intent.sent if "unsent" not in request]

    @property
    def ours(self) -> bool:
        """Whether this thread's effect has asked for the client: what it sends it sends through it."""
        return self._intent.ours

    @property
    def by_other_means(self) -> bool:
        """Whether this thread's effect has been let send by means of its own."""
        return self._intent.let_go

    def let_go(self) -> None:
        """Note that this thread's effect may now send by means of its own."""
        self._intent.let_go = True

    def taken(self) -> httpx.Client:
        """The client, for this thread's effect."""
        self._intent.ours = True
        return self.client

    @cached_property
    def client(self) -> httpx.Client:
        """The execution's client: no redirects by itself, no proxies of the environment, kept open between pulls."""
        # Imported here: a run without requests does not pay for it.
        import httpx  # noqa: PLC0415

        from engine.execution.transports import LateTls, Telling, plain  # noqa: PLC0415

        return httpx.Client(
            follow_redirects=False,
            trust_env=False,
            transport=Telling(LateTls(), unsent=self._unsent),
            mounts={"http://": Telling(plain(), unsent=self._unsent)},
            event_hooks={"request": [self._named], "response": [self._noted]},
        )

    def close(self) -> None:
        """Close the client, if one was ever made."""
        if "client" in self.__dict__:
            self.client.close()

    @property
    def _intent(self) -> Intent:
        intent: Intent = self._current.intent
        return intent

    def _named(self, request: httpx.Request) -> None:
        intent = self._intent
        target, _ = self._guard.text(_resource(request.url))
        with intent.turn:
            if intent.abandoned:
                raise Canceled("what this request is for has been stopped")
            if intent.cover is not None:
                # The guard is the intent that was written ahead.
                intent.check(request, phases=_ALL)
                request.extensions = {**request.extensions, "trace": self._asked_again(intent, request)}
            elif not intent.written:
                self._db.run(self._intend())
                intent.written = True
            intent.sent.append({"method": request.method, "url": target})
        # Several requests of one effect may be told apart behind the key; a key of another origin would not come again.
        if not request.headers.get(intent.header, "").startswith(intent.key.idempotency_key):
            request.headers[intent.header] = intent.key.idempotency_key

    def _asked_again(self, intent: Intent, request: httpx.Request) -> Callable[[str, Any], Any]:
        """What asks the cover once more when there is a connection: to find and to reach a host takes any time."""
        told = request.extensions.get("trace")

        def trace(event: str, facts: Any) -> Any:
            if event.endswith("send_request_headers.started"):
                try:
                    intent.check(request, phases=_CONNECTED)
                except EffectOverdue:
                    self._unsent()
                    raise
            return told(event, facts) if told else None

        return trace

    def _unsent(self) -> None:
        intent = self._intent
        with intent.turn:
            if not intent.abandoned:
                intent.sent[-1]["unsent"] = True

    def _noted(self, response: httpx.Response) -> None:
        intent = self._intent
        with intent.turn:
            if not intent.abandoned:
                intent.sent[-1]["status"] = response.status_code


def _resource(url: httpx.URL) -> str:
    """What the ledger names of `url`: neither its query nor its `user:password@`, which may hold a secret."""
    path, _, _ = url.raw_path.partition(b"?")
    return f"{url.scheme}://{(url.netloc + path).decode('ascii')}"
