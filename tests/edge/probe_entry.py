"""The Worker with a container that is made of Python, so that the object around it can be watched.

Only the platform's container is stood in for; the object, its storage and alarm, the loopback binding and its props are
the runtime's own.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from workers import Response

from worker import container, outbound, public

__all__ = ["Default", "EngineContainer", "Outbound"]

Outbound = outbound.Outbound


class FakeContainer:
    """Does nothing and remembers it."""

    def __init__(self) -> None:
        self.running = False
        self.calls: list[Any] = []
        self.outbound: Any = None

    async def interceptOutboundHttp(self, host: str, fetcher: Any) -> None:  # noqa: N802
        self.calls.append(["intercept", host])
        self.outbound = fetcher

    def start(self, **options: Any) -> None:
        self.running = True
        entrypoint, env = options["entrypoint"].to_py(), options["env"].to_py()
        self.calls.append(["start", entrypoint, env, options["enableInternet"]])

    def signal(self, number: int) -> None:
        self.calls.append(["signal", number])

    async def destroy(self) -> None:
        self.running = False
        self.calls.append(["destroy"])


class EngineContainer(container.EngineContainer):
    """The real object over the fake container."""

    def __init__(self, ctx: Any, env: Any) -> None:
        self.ctx = ctx
        self.env = env
        self.fake = FakeContainer()
        self.ctx.container = self.fake

    async def probe(self, verb: str) -> str:
        """Do one thing and tell what the container saw, when the object looks again, and what is asked of the store."""
        asked = None
        match verb:
            case "beat":
                await self.alarm()
            case "beat-in-silence":
                await self.ctx.storage.put("heard", 1)
                await self.alarm()
            case "come-back":
                del self.__dict__["life"]
            case "ask":
                answer = await self.fake.outbound.fetch("http://store.internal/v1/health")
                asked = json.loads(await answer.text())
        alarm = await self.ctx.storage.getAlarm()
        heard = await self.ctx.storage.get("heard")
        return json.dumps({"calls": self.fake.calls, "alarm": alarm, "heard": heard, "asked": asked}, default=str)


class Default(public.Default):
    """Reaches the object from a test."""

    async def fetch(self, request: Any) -> Response:
        """Answer `/<name>/<verb>`."""
        _, name, verb = request.url.removeprefix("http://").split("/")
        engine = self.env.ENGINE.getByName(name)
        if verb == "wake":
            await engine.wake(name, ["run", "resume-due"])
        elif verb == "stop":
            await engine.stop()
        elif verb == "cron":
            await self.scheduled(SimpleNamespace(cron="* * * * *"), None, None)
        return Response(await engine.probe(verb))
