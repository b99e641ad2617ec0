"""The trace a run belongs to, as W3C Trace Context names it (run.record.trace-context).

A command's caller hands its span over in TRACEPARENT and TRACESTATE. What is not spelled as the recommendation says
stands for no caller: the run then has a trace of its own, and no run was ever refused because of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

PARENT: Final = "TRACEPARENT"
STATE: Final = "TRACESTATE"

_PARENT: Final = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?P<rest>-.*)?",
    re.ASCII,
)
_MEMBERS: Final = 32
_KEY: Final = r"(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})"
_MEMBER: Final = re.compile(rf"(?P<key>{_KEY})=[ -+\--<>-~]{{0,255}}[!-+\--<>-~]", re.ASCII)


@dataclass(frozen=True, slots=True)
class Caller:
    """The span that called: ids in lower-case hex, `sampled` whether it is recorded, `state` what its vendors add."""

    trace_id: str
    span_id: str
    sampled: bool
    state: str = ""

    @property
    def parent(self) -> str:
        """The caller as TRACEPARENT spells it."""
        return f"00-{self.trace_id}-{self.span_id}-{int(self.sampled):02x}"


def caller(environ: Mapping[str, str]) -> Caller | None:
    """The caller that `environ` names; None where it names none, or not as the recommendation spells one.

    A version of the future is read as the one we know, provided it begins like it; `ff` is no version. A state that is
    misspelled is dropped without its parent.
    """
    found = _PARENT.fullmatch(environ.get(PARENT, "").strip(" \t"))
    if found is None or found["version"] == "ff" or (found["version"] == "00" and found["rest"] is not None):
        return None
    if not int(found["trace"], 16) or not int(found["span"], 16):
        return None
    sampled = bool(int(found["flags"], 16) & 1)
    return Caller(found["trace"], found["span"], sampled, _state(environ.get(STATE, "")))


def _state(text: str) -> str:
    members = [member for each in text.split(",") if (member := each.strip(" \t"))]
    keys = {found["key"] for member in members if (found := _MEMBER.fullmatch(member))}
    return ",".join(members) if len(keys) == len(members) <= _MEMBERS else ""
