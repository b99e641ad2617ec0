"""What a store-driven run read: the bounds that name its input (run.record.sweep-bounds).

Instants are milliseconds in a record and RFC 3339 on every surface.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self

from engine.clock import instant

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class InputBounds:
    """The transaction-time bound of a run's input, the newest commit of each table it read, and its rows.

    A sweep's origin adds the bound of what was available at it, the sweep's id and the origin itself.
    """

    as_of: int
    snapshots: dict[str, str] = field(default_factory=dict)
    rows: int = 0
    available_as_of: int | None = None
    sweep_id: str | None = None
    origin: str | None = None

    @classmethod
    def from_record(cls, record: Mapping[str, Any] | None) -> Self | None:
        """The bounds of a recorded row, fields a later release added left out; None for a run that read no store."""
        if record is None:
            return None
        return cls(**{name: record[name] for name in cls.__dataclass_fields__ if name in record})

    @property
    def shown(self) -> dict[str, Any]:
        """The bounds as a surface shows them."""
        return asdict(self) | {"as_of": instant(self.as_of), "available_as_of": instant(self.available_as_of)}
