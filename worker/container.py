"""The engine's container as a Durable Object."""

from __future__ import annotations

import time
from typing import Any

import js
from pyodide.ffi import jsnull, to_js
from workers import DurableObject

from worker.environment import HOST, environment
from worker.life import Life

_TERM = 15


class EngineContainer(DurableObject):
    """One engine: starts its container, listens whether it lives, and drains it.

    What its container asks of the private binding carries this object's name in the binding's props, which the
    container can neither see nor set.
    """

    async def wake(self, name: str, command: list[str]) -> bool:
        """Start the engine `name` with `command` unless it runs; tell whether this call did."""
        await self.ctx.storage.put("name", name)
        return await self._life.wake(list(command), now=_now())

    async def heard(self) -> None:
        """Note that the engine was heard at the private binding."""
        await self._life.heard(now=_now())

    async def stop(self) -> None:
        """Ask the engine to end what it does and exit."""
        await self._life.stop(now=_now())

    async def alarm(self, _info: Any = None) -> None:
        """Look after the container."""
        await self._life.beat(now=_now())

    @property
    def _life(self) -> Life:
        if "life" not in self.__dict__:
            self.__dict__["life"] = Life(PlatformContainer(self.ctx, self.env))
        life: Life = self.__dict__["life"]
        return life


class PlatformContainer:
    """A container as the platform's API moves it, and the object's storage."""

    def __init__(self, ctx: Any, env: Any) -> None:
        self._ctx = ctx
        self._env = env
        self._name = ""

    @property
    def running(self) -> bool:
        """Whether the platform says that it runs."""
        return bool(self._ctx.container.running)

    async def intercept(self) -> None:
        """Route the private binding's host to `Outbound`, whose props say who calls."""
        self._name = await self._ctx.storage.get("name")
        outbound = self._ctx.exports.Outbound(props=_object({"caller": self._name}))
        await self._ctx.container.interceptOutboundHttp(HOST, outbound)

    def start(self, command: list[str]) -> None:
        """Start it: its sources are on the internet, its state behind the binding."""
        env = environment(lambda name: getattr(self._env, name, None), name=self._name)
        self._ctx.container.start(enableInternet=True, entrypoint=to_js(["contextful", *command]), env=_object(env))

    def terminate(self) -> None:
        """Send TERM, on which the engine stops at the next step."""
        self._ctx.container.signal(_TERM)

    async def destroy(self) -> None:
        """End it at once."""
        await self._ctx.container.destroy()

    async def recall(self, name: str) -> int | None:
        """An instant that was kept."""
        kept = await self._ctx.storage.get(name)
        return None if kept is None or kept is jsnull else int(kept)

    async def keep(self, name: str, instant: int | None) -> None:
        """Keep an instant, or forget it."""
        if instant is None:
            await self._ctx.storage.delete(name)
        else:
            await self._ctx.storage.put(name, instant)

    async def look_again(self, at: int) -> None:
        """Set the object's alarm."""
        await self._ctx.storage.setAlarm(at)


def _object(values: dict[str, Any]) -> Any:
    return to_js(values, dict_converter=js.Object.fromEntries)


def _now() -> int:
    return int(time.time() * 1000)
