"""Forks the parts of a drama, see `forks`: a part may tell things while it plays, events of the name `told`.

Started as `python -m tests.drama.troupe`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

# What a part imports late is imported here, before any fork.
import cryptography.hazmat.primitives.asymmetric.ed25519  # noqa: F401
import httpx
import pyarrow.parquet  # noqa: F401

import d1.profile  # noqa: F401
import engine.cli.export
import engine.cli.exporting
import engine.cli.guards
import engine.cli.run_history
import engine.cli.status
import engine.execution.transports
import engine.operator.places
import engine.status  # noqa: F401
from tests.drama import parts
from tests.forks import VOICE, say, serve

if TYPE_CHECKING:
    from tests.forks import Job

httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200))).close()


def plays(job: Job) -> int:
    """Play the part in this process and return its exit code."""
    os.environ.clear()
    os.environ.update(job["environ"])
    os.chdir(job["folder"])

    def tell(**facts: Any) -> None:
        say(job["number"], "told", **facts)

    return int(getattr(parts, job["part"])(job | {"voice": VOICE}, tell))


if __name__ == "__main__":
    serve(plays)
