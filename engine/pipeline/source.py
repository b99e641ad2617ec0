"""What a source is to the engine: a generator of pulls that can be started at any position it has ever given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from engine.errors import SecretNotFound

if TYPE_CHECKING:
    import httpx

    from engine.shapes import Connector, CursorKind, Pull


class Secrets(Mapping[str, str]):
    """The secrets a manifest names, by name. Printing it shows the names only."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> str:
        """The value of the secret `name`. Raise `SecretNotFound` when the environment holds none."""
        try:
            return self._values[name]
        except KeyError:
            raise SecretNotFound(name=name, path="the source") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Secrets({sorted(self._values)})"


@dataclass(frozen=True, slots=True)
class Ask:
    """What a source is asked.

    `position` is where the walk goes on: what an earlier pull carried, or None at the walk's start. `since` is the
    committed watermark's value, None where there is none; the engine drops what lies below it, a source may use it to
    ask for less. So with `until`, the end of the window that a backfill's chunk asks for: nothing at or after it lands.
    `client` gives the client of `http`, made when a source first asks for it: one that sends nothing pays
    for none.
    """

    client: Callable[[], httpx.Client]
    position: Any = None
    since: Any = None
    until: Any = None
    secrets: Secrets = field(default_factory=lambda: Secrets({}))

    @property
    def http(self) -> httpx.Client:
        """A client whose requests are ledgered and carry the step's idempotency key.

        It follows no redirect by itself and raises httpx errors as they are.
        """
        return self.client()


class Source(Protocol):
    """A connector at work for one table."""

    connector: Connector
    cursor_kind: CursorKind
    journaled: bool
    """False only for a source whose pre-pull cursor cannot name the content it reads (run.journal.opt-out)."""
    sends: bool
    """Whether every pull sends requests through the client of its `Ask`: the claim then writes their intent as well."""

    def pulls(self, ask: Ask) -> Iterator[Pull]:
        """Yield the pulls of the walk from `ask.position` on, one at a time, until one says there is no more.

        Raise the tagged failures of `engine.errors` and retry nothing: the step's schedule is the only retry layer
        (run.retry.one-layer). After a failure the engine starts a new generator at the position it had reached.
        """
