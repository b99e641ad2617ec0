"""A storage profile: the adapters one name stands for, opened together.

Profiles are entry points of the group `contextful.profiles`, so the engine opens adapters it never imports.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final, Protocol

from engine.errors import CapabilityUnwired, StorageProfileUnsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from engine.clock import Clock
    from engine.ports import Awakeables, Database, JournalStore, Objects

GROUP: Final = "contextful.profiles"
DEFAULT: Final = "sqlite"


@dataclass(frozen=True, slots=True)
class Profile:
    """Everything an engine stores through. `scratch` is a local folder whose loss costs nothing."""

    name: str
    database: Database
    journal: JournalStore
    awakeables: Awakeables
    objects: Objects
    scratch: Path
    capabilities: frozenset[str]
    tables: tuple[str, ...]
    close: Callable[[], None]

    def require(self, capability: str) -> None:
        """Raise `CapabilityUnwired` unless the profile wires `capability` (run.journal.unwired-capability)."""
        if capability not in self.capabilities:
            raise CapabilityUnwired(capability=capability, profile=self.name)


class OpenProfile(Protocol):
    """What an entry point names: opens the profile's stores under `root` without creating any table."""

    def __call__(self, root: Path, *, clock: Clock, environ: Mapping[str, str]) -> Profile:
        """Open the stores. Raise `StorageCapabilityMissing` naming every binding that is missing."""


def open_profile(name: str, root: Path, *, clock: Clock, environ: Mapping[str, str]) -> Profile:
    """Open the profile `name`. An unknown one is refused: no other is chosen in its place."""
    known = {point.name: point for point in entry_points(group=GROUP)}
    if name not in known:
        raise StorageProfileUnsupported(profile=name, known=", ".join(sorted(known)))
    opener: OpenProfile = known[name].load()
    return opener(root, clock=clock, environ=environ)
