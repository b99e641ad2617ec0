"""What a program may name its runs and host scopes, told before anything is written under the name."""

from __future__ import annotations

import re
from typing import Any, Final

from engine.errors import HostScopeUnusable, RunIdUnusable

RUN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
"""A run's id is part of the names of objects and folders."""

LONGEST_SCOPE: Final = 512
"""Characters of the longest host scope."""

TAKEN: Final = "export:"
"""What a host scope may not begin with: an export's runs are listed and stopped under such a name."""


def require_run_id(found: Any) -> None:
    """Raise `RunIdUnusable` unless `found` is what a run may be named."""
    if not (isinstance(found, str) and RUN_ID.fullmatch(found)):
        raise RunIdUnusable(found=_shown(found))


def require_host_scope(found: Any) -> None:
    """Raise `HostScopeUnusable` unless `found` is one line of text that people can read, tell apart and type again."""
    if not (isinstance(found, str) and 0 < len(found) <= LONGEST_SCOPE and found.isprintable() and found[0].isalnum()):
        raise HostScopeUnusable(found=_shown(found))
    if found.endswith(" ") or found.startswith(TAKEN):
        raise HostScopeUnusable(found=_shown(found))


def _shown(found: Any) -> str:
    text = ascii(found)
    return text if len(text) <= 60 else f"{text[:57]}..."
