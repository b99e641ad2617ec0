"""Words for tests that publish: a store, a table of the corpus and a destination that counts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from engine.dump import rows, tables
from engine.exports.run import Exported, ExportRun, scope_of
from engine.guards.desk import Desk
from engine.pipeline.declaration import Destination, Export
from engine.pipeline.manifest.hashing import export_hash
from engine.schedule import Schedule
from tests.unit.corpus.conftest import Corpus

if TYPE_CHECKING:
    from engine.exports.outbox import Batch, Decision
    from engine.guards.guard import Standing
    from engine.host import Engine
    from engine.owners import Owner
    from engine.runs import RunRow
    from tests.exports.receiver import Receiver
    from tests.stores import Store

HOUR: Final = 3_600_000
ONCE: Final = Schedule(attempts=1)


def export(**changes: Any) -> Export:
    """The export `out` of table `t`, two rows a request, each tried once."""
    declared = replace(Export("out", "shop", "", table="t", batch=2, schedule=ONCE), **changes)
    plan = export_hash(destination=declared.destination, table=declared.table, statement=declared.statement)
    return replace(declared, content_hash=plan)


@dataclass
class Heard:
    """A watcher that keeps what it hears."""

    decisions: list[Decision] = field(default_factory=list)
    delivered_batches: list[tuple[int, bool]] = field(default_factory=list)
    runs: list[RunRow] = field(default_factory=list)

    def opened(self, run: RunRow) -> None:
        self.runs.append(run)

    def decided(self, decision: Decision) -> None:
        self.decisions.append(decision)

    def delivered(self, batch: Batch, *, replayed: bool) -> None:
        self.delivered_batches.append((batch.ordinal, replayed))

    def closed(self, run: RunRow) -> None:
        self.runs.append(run)


@dataclass
class Publishing:
    """A store that publishes to a receiver."""

    store: Store
    receiver: Receiver
    window_ms: int | None = HOUR
    refusals: tuple[int, ...] = ()
    headers: dict[str, str] = field(default_factory=dict)
    corpus: Corpus = field(init=False)
    heard: Heard = field(default_factory=Heard)
    landed: int = 0

    def __post_init__(self) -> None:
        self.corpus = Corpus(self.store.root)
        self.corpus.objects = self.store.here.profile.objects  # type: ignore[assignment] # of whichever profile

    @property
    def destinations(self) -> dict[str, Destination]:
        url = f"{self.receiver.url}/in"
        shop = Destination("shop", url, dedup_window_ms=self.window_ms, refusals=self.refusals, headers=self.headers)
        return {"shop": shop}

    def engine(self) -> Engine:
        """Another process, in effect."""
        return self.store.engine(destinations=self.destinations)

    def land(self, *ids: int, **how: Any) -> None:
        """Commit rows of these ids to table `t`."""
        self.landed += 1
        self.corpus.land(f"r-{self.landed}", [{"id": each, "v": f"v{each}"} for each in ids], **how)

    def run(self, engine: Engine | None = None, run_id: str | None = None, **changes: Any) -> Exported:
        engine = engine or self.engine()
        return ExportRun(engine, export(**changes), secrets={}, watcher=self.heard).run(run_id)

    @property
    def owner(self) -> Owner | None:
        return self.store.here.owners.read(scope_of("out"))

    @property
    def outbox(self) -> list[tuple[int, bool]]:
        """The number of each batch in the outbox, and whether it is marked delivered."""
        profile = self.store.here.profile
        [outbox] = [table for table in tables(profile.tables) if table.name == "outbox"]
        found = (dict(zip(outbox.columns, row, strict=True)) for row in rows(profile.database, outbox))
        return [(row["ordinal"], row["delivered_at"] is not None) for row in found]

    @property
    def guards(self) -> list[Standing]:
        return self.desk.guards()

    @property
    def desk(self) -> Desk:
        profile = self.store.here.profile
        return Desk(profile.database, profile.admission)
