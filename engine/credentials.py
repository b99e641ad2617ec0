"""The shapes of well-known credentials, and what tells cheaply that a text may hold one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_START: Final = r"(?:(?<![A-Za-z0-9_])|(?<=\\[bfnrt]))"  # A key may stand behind an escape of JSON text.
_END: Final = r"(?![A-Za-z0-9])"
_PEM: Final = r"-----(?:BEGIN|END) [A-Z0-9 ]{0,30}PRIVATE KEY-----"
SHAPES: Final[Mapping[str, str]] = {
    "private_key": rf"{_PEM}(?:[\s\S]{{40,16384}}?{_PEM}|[A-Za-z0-9+/=\s\\]{{40,}})",
    "bearer": r"(?<=[Bb]earer )(?=[A-Za-z._~+/=-]*\d)[A-Za-z0-9._~+/-]{20,}=*",
    "jwt": rf"{_START}eyJ[A-Za-z0-9_-]{{15,}}\.[A-Za-z0-9_-]{{10,}}\.[A-Za-z0-9_-]{{10,}}",
    "aws": rf"{_START}A[KS]IA[A-Z0-9]{{16}}{_END}",
    "github": rf"{_START}(?:gh[oprsu]_[A-Za-z0-9]{{36,}}|github_pat_[A-Za-z0-9]{{20,}}_[A-Za-z0-9]{{20,}})",
    "gitlab": rf"{_START}glpat-[A-Za-z0-9_-]{{20,}}",
    "slack": rf"{_START}xox[abprs]-(?=[A-Za-z-]*\d)[A-Za-z0-9-]{{10,}}",
    "stripe": rf"{_START}[rs]k_(?:live|test)_[A-Za-z0-9]{{16,}}",
    "sk": rf"{_START}sk-(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{{20,}}",
    "google": rf"{_START}AIza[A-Za-z0-9_-]{{35}}",
    "npm": rf"{_START}npm_[A-Za-z0-9]{{36}}",
    "pypi": rf"{_START}pypi-AgE[A-Za-z0-9_-]{{50,}}",
}
"""The pattern of each kind."""

MARKS: Final = (
    *("PRIVATE KEY", "earer ", "eyJ", "KIA", "SIA", "gh", "hub_pat_", "glpat-"),
    *("xox", "k_live_", "k_test_", "sk-", "AIza", "npm_", "pypi-AgE"),
)
"""Texts of which every shape holds one."""

TRACES: Final = (
    *("PRIVATE KEY", "glpat-", "xox[abprs]-", "AIza", "AgE"),
    *("KIA[0-9A-Z]{6}", "SIA[0-9A-Z]{6}", "_[0-Za-z]{16}", "k-[-0-Z_a-z]{20}", "J[-0-Z_a-z]{15}"),
)
"""Patterns of which every shape but a bearer's fits one. Each begins with a literal, its first character as rare as can
be: RE2 then jumps from one such place to the next, many times faster than it reads a page for an alternation. They are
short and loose because each page compiles them anew, and mean the same to RE2 and to `re`."""

BEARER: Final = "(?i:bearer )"
"""What a bearer's token stands behind, as RE2 finds it fastest; `re` finds a literal faster than either case of one."""
