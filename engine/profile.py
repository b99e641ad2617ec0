"""A storage profile: the adapters one name stands for, opened together.

Those of other packages are entry points of the group `contextful.profiles`, so the engine opens adapters it never
imports.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol

from engine.errors import CapabilityUnwired, ContextfulError, StorageCapabilityMissing, StorageProfileUnsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from engine.clock import Clock
    from engine.ports import Admission, Awakeables, Database, JournalStore, Objects

GROUP: Final = "contextful.profiles"
DEFAULT: Final = "sqlite"
OWN: Final = {"file": "engine.local.profiles", "sqlite": "engine.local.profiles"}
"""The modules of the profiles of one machine, each opened by the function of its name. They are not looked up: reading
what is installed would cost every command 30 ms."""

NEEDED: Final = ("journal", "blobs", "awakeables", "owners", "corpus", "outbox")
"""The capabilities without which no execution is admitted (run.journal.storage-incomplete)."""

STRICT: Final = "strict-guards"
COOPERATIVE: Final = "cooperative-admission"
"""How guards hold: against everybody, or among the engines of one machine. A profile that does not own to be
cooperative must be strict."""


def _nothing() -> None:
    """Nothing is left to push, nor to look at."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose machine state a database holds: the project, the schema, and the generation drawn when it was made."""

    project: str
    schema: str
    generation: str


class Recovery(Protocol):
    """Binds machine state to the objects that lie apart from it, so that neither is used beside another's."""

    def bind(self, identity: Identity) -> None:
        """Write `identity` down among the objects: only `storage initialize` and a restore do."""

    def check(self, identity: Identity) -> None:
        """Raise `ExecutionRecoveryMismatch` unless the objects were bound to `identity`; write nothing."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Everything an engine stores through. `scratch` is a local folder whose loss costs nothing.

    `publish` pushes what the objects hold to where others find it, after every run that was open, failed ones included
    (run.record.failure-publishes); where objects are written there in the first place it has nothing to do. `max_steps`
    is how many steps one plan may come to where the work is done, None where nothing bounds it. `recovery` binds the
    objects to the database where the two can part. `require_paired` raises `StorageProfileUnsupported` or `SealBroken`
    where corpus and journal do not go together; `open_profile` sets it.
    """

    name: str
    database: Database
    journal: JournalStore
    admission: Admission
    awakeables: Awakeables
    objects: Objects
    scratch: Path
    capabilities: frozenset[str]
    tables: tuple[str, ...]
    close: Callable[[], None]
    publish: Callable[[], None] = _nothing
    max_steps: int | None = None
    recovery: Recovery | None = None
    require_paired: Callable[[], None] = _nothing

    def require(self, capability: str) -> None:
        """Raise `CapabilityUnwired` unless the profile wires `capability` (run.journal.unwired-capability)."""
        if capability not in self.capabilities:
            raise CapabilityUnwired(capability=capability, profile=self.name)

    def require_whole(self) -> None:
        """Raise `StorageCapabilityMissing` naming every part that is lacking (run.journal.storage-incomplete)."""
        parts = ("database", "journal", "admission", "awakeables", "objects")
        absent = [name for name in parts if getattr(self, name) is None]
        needed = (*NEEDED, *(() if COOPERATIVE in self.capabilities else (STRICT,)))
        unwired = [name for name in needed if name not in self.capabilities]
        if missing := list(dict.fromkeys([*absent, *unwired])):
            raise StorageCapabilityMissing(profile=self.name, missing=f"it lacks {', '.join(missing)}")


class OpenProfile(Protocol):
    """What an entry point names: opens the profile's stores under `root` without creating any table."""

    def __call__(self, root: Path, *, clock: Clock, environ: Mapping[str, str]) -> Profile:
        """Open the stores. Raise `StorageCapabilityMissing` naming every binding that is missing."""


def open_profile(name: str, root: Path, *, clock: Clock, environ: Mapping[str, str]) -> Profile:
    """Open the profile `name`. An unknown one is refused: no other is chosen in its place.

    Raise `StorageCapabilityMissing` when it lacks a part that every execution needs, `StorageProfileUnsupported` when
    it seals its corpus and not what it records; the profile is closed again.
    """
    from engine.paired import paired  # noqa: PLC0415 - it knows the journal, which the Worker's rules share

    profile = _opener(name)(root, clock=clock, environ=environ)
    try:
        profile.require_whole()
        return paired(profile)
    except ContextfulError:
        profile.close()
        raise


def _opener(name: str) -> OpenProfile:
    if name in OWN:
        own: OpenProfile = getattr(import_module(OWN[name]), name)
        return own
    from importlib.metadata import entry_points  # noqa: PLC0415 - it costs what OWN saves

    known = {point.name: point for point in entry_points(group=GROUP)}
    if name not in known:
        raise StorageProfileUnsupported(profile=name, known=", ".join(sorted({*OWN, *known})))
    installed: OpenProfile = known[name].load()
    return installed
