"""A peer that misbehaves on request: it drops, stalls, cuts short or dribbles, and answers well in the end."""

from __future__ import annotations

import json
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket


@dataclass
class Peer:
    """A server that does with each request what the next word of its script says, and answers well at the end."""

    listener: socket.socket
    script: list[Any] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    connections: list[int] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def serve(self) -> None:
        while True:
            try:
                accepted, (_, port) = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(accepted, port), daemon=True).start()

    def _talk(self, accepted: socket.socket, port: int) -> None:
        with suppress(OSError), closing(accepted), accepted.makefile("rb") as reader:
            while head := reader.readline():
                length = 0
                while (line := reader.readline().strip()) != b"":
                    name, _, value = line.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                body = reader.read(length)
                self.connections.append(port)
                self.requests.append({"head": head.decode(), **json.loads(body or b"{}")})
                if not self._does(accepted, self.script.pop(0) if self.script else 200):
                    return

    def _does(self, accepted: socket.socket, act: Any) -> bool:
        match act:
            case "drop":
                return False
            case "stall":
                time.sleep(1)
                return False
            case "cut":
                accepted.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{")
                return False
            case "dribble":
                accepted.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
                for _ in range(60):
                    accepted.sendall(b" ")
                    time.sleep(0.1)
                return False
            case int(status):
                results = [{"rows": [], "changes": 0, "rows_read": 0, "rows_written": 0}]
                count = len(self.requests[-1].get("statements", []))
                return self._answers(accepted, status, {"results": results * count, "text": "why"})
            case status, document:
                return self._answers(accepted, status, document)
        raise AssertionError(act)

    @staticmethod
    def _answers(accepted: socket.socket, status: int, document: Any) -> bool:
        body = json.dumps(document).encode()
        accepted.sendall(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n" % (status, len(body)) + body)
        return True
