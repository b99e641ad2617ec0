"""The life of an engine's container: when it starts, that it is alive, how it ends. Pure: what it moves is given to it.

A container that says it runs may never have run its program, and one that ran is stopped without a word now and then.
So what counts as alive is that the engine was heard at the private binding, and what is durable is in D1, never here.
"""

from __future__ import annotations

from typing import Final, Protocol

BEAT_MS: Final = 60_000
"""How often the object looks at its container."""

SILENT_MS: Final = 15 * 60_000
"""How long an engine may be silent before its container counts as dead; a live one renews its leases far sooner."""

DRAIN_MS: Final = 15 * 60_000
"""How long an engine that was asked to end may take: what the platform itself would give it."""

HEARD_EVERY_MS: Final = 30_000
"""How often the binding tells an object that its engine was heard."""


class Container(Protocol):
    """The container of one object, and what the object keeps over its own restarts."""

    @property
    def running(self) -> bool:
        """Whether the platform says that it runs."""

    async def intercept(self) -> None:
        """Send what the container asks of the private binding's host to the Worker, in this object's name."""

    def start(self, command: list[str]) -> None:
        """Start it with its environment; it must not be running."""

    def terminate(self) -> None:
        """Ask its program to end."""

    async def destroy(self) -> None:
        """End it without a warning."""

    async def recall(self, name: str) -> int | None:
        """An instant kept under `name`."""

    async def keep(self, name: str, instant: int | None) -> None:
        """Keep an instant, or forget it."""

    async def look_again(self, at: int) -> None:
        """Have the object woken at an instant."""


class Life:
    """What an object does with its container."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._registered = False

    async def wake(self, command: list[str], *, now: int) -> bool:
        """Start the container with `command` unless it runs; tell whether this call did."""
        await self._returned()
        container = self._container
        if container.running:
            return False
        await container.intercept()
        self._registered = True
        await container.keep("heard", now)
        await container.keep("drained", None)
        container.start(command)
        await container.look_again(now + BEAT_MS)
        return True

    async def heard(self, *, now: int) -> None:
        """Note that the engine was heard: its program runs."""
        await self._returned()
        await self._container.keep("heard", now)

    async def stop(self, *, now: int) -> None:
        """Ask the engine to end; it keeps what it has and surrenders what it holds."""
        await self._returned()
        if self._container.running:
            self._container.terminate()
            await self._container.keep("drained", now + DRAIN_MS)
            await self._container.look_again(now + BEAT_MS)

    async def beat(self, *, now: int) -> None:
        """Look after the container: end one that is silent or overdue, and come again while it runs."""
        await self._returned()
        container = self._container
        if not container.running:
            return
        if await self._over(now):
            await container.destroy()
            return
        await container.look_again(now + BEAT_MS)

    async def _over(self, now: int) -> bool:
        drained, heard = await self._container.recall("drained"), await self._container.recall("heard")
        return (drained is not None and drained <= now) or (heard is not None and heard + SILENT_MS <= now)

    async def _returned(self) -> None:
        """Register the interception anew: this object was away, and its container ran on."""
        if not self._registered and self._container.running:
            await self._container.intercept()
            self._registered = True


class Hearing:
    """Which engines were told lately that they are heard; a Worker's instance forgets it with itself."""

    def __init__(self) -> None:
        self._told: dict[str, int] = {}

    def due(self, caller: str, *, now: int) -> bool:
        """Whether to tell the object of `caller` now; the next call within the interval says no."""
        if now - self._told.get(caller, -HEARD_EVERY_MS) < HEARD_EVERY_MS:
            return False
        self._told[caller] = now
        return True
