"""What ends an effect from outside: no failure of it, and no crash either, for its process goes on."""

from __future__ import annotations

import sys
from typing import Final

_ALWAYS: Final = (KeyboardInterrupt, SystemExit, GeneratorExit)


def interruptions() -> tuple[type[BaseException], ...]:
    """The exceptions that end an effect from outside; asyncio's own only where somebody has imported that."""
    asyncio = sys.modules.get("asyncio")
    return _ALWAYS if asyncio is None else (*_ALWAYS, asyncio.CancelledError)
