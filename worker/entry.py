"""The Worker's main module: every class that Cloudflare calls is a name of it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from workers import Response, WorkerEntrypoint

from worker.outbound import Outbound

if TYPE_CHECKING:
    from workers import Request

__all__ = ["Default", "Outbound"]


class Default(WorkerEntrypoint):
    """The public side."""

    async def fetch(self, request: Request) -> Response:
        """Answer a request from outside."""
        if request.method == "GET" and urlsplit(request.url).path == "/healthz":
            return Response("ok\n", headers={"cache-control": "no-store"})
        return Response("not found\n", status=404)
