"""What is true behind every fire of a schedule, read from the corpus and the catalog beside the vendor's own books."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq

from engine import lateness
from engine.corpus.marker import history
from engine.corpus.read import ReadFace
from engine.pipeline.waits import waiting
from engine.shapes import RunStatus

if TYPE_CHECKING:
    from engine.corpus.marker import Marker
    from tests.simulation.machine import Machine
    from tests.simulation.vendor import Answer, Row

READ: Final = 4
"""Of as many schedules one is read through the read face too, which costs as much as all the rest of it."""


@dataclass
class Books:
    """Follows the commits of a machine's table: each is read once.

    `landed` are the numbers of the answers that landed, in order; `written_off` how many answers may have been lost to
    interruptions so far.
    """

    machine: Machine
    markers: list[Marker] = field(default_factory=list)
    landed: list[int] = field(default_factory=list)
    written_off: int = 0
    executions: set[str] = field(default_factory=set)
    _counted: int = 0

    def check(self) -> None:
        """Everything that holds behind any fire, interrupted or not."""
        for marker in history(self._profile.objects, "orders", after=len(self.markers)):
            self._follow(marker)
        self._check_owner()
        self._write_off()
        assert self.machine.vendor.early == [], "the vendor was asked before the instant it named"

    def check_quiet(self) -> None:
        """What holds once a fire completed and nothing arrives any more: no row lost, none twice, nothing left over."""
        engine = self.machine.engine
        assert engine.owners.all() == []
        assert [entry for each in self.executions for entry in self._profile.journal.entries(each)] == []
        assert list(self._profile.scratch.rglob("*.arrow")) == []
        statuses = {run.status for run in engine.runs.since(0, ceiling=1_000)}
        assert statuses.isdisjoint({RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING}), statuses
        self._check_rows()
        self._check_requests()

    @property
    def _profile(self) -> Any:
        return self.machine.engine.profile

    @property
    def _opaque(self) -> bool:
        return self.machine.plan.kind == "opaque"

    def _follow(self, marker: Marker) -> None:
        """One more commit: its rows are whole answers that go on from the one before, its position is the last one."""
        before = self.markers[-1].position if self.markers else None
        rows = [row for part in marker.parts for row in self._part(part.name)]
        numbers = list(dict.fromkeys(row["answer"] for row in rows))
        assert not set(numbers) & set(self.landed), "an answer landed twice"
        if numbers and self._checkpointed:
            self._check_frontier(self.machine.vendor.answers[numbers[0]], before)
        for number in numbers:
            answer = self.machine.vendor.answers[number]
            found = [(row["id"], row["at"], row["version"]) for row in rows if row["answer"] == number]
            wanted = [(row.id, row.clock, row.version) for row in self._admitted(answer)]
            assert found == wanted, f"answer {number} landed in part"
            self._goes_on(answer, before)
            self.landed.append(number)
        self._check_position(marker, before, [row["at"] for row in rows])
        self.markers.append(marker)

    def _part(self, name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = (
            pq.ParquetFile(self._profile.objects.local(name)).read(use_threads=False).to_pylist()
        )
        return rows

    def _admitted(self, answer: Answer) -> list[Row]:
        floor = answer.since if not self._opaque and answer.since is not None else ""
        return [row for row in answer.rows if row.clock >= floor]

    def _goes_on(self, answer: Answer, before: Any) -> None:
        """An answer follows the one that landed before it, but for answers without rows; or it begins a walk anew."""
        if self._begins(answer):
            assert answer.since == self._floor(before), f"answer {answer.number} was asked from another floor"
            return
        reached = self._reached(before)
        assert answer.asked in reached, f"answer {answer.number} was asked at {answer.asked}, not at {reached}"

    def _check_frontier(self, answer: Answer, before: Any) -> None:
        """Where a walk goes on behind a checkpoint, its next page lies past it: no instant is parted by two commits."""
        if answer.asked == self.machine.vendor.answers[self.landed[-1]].carried:
            assert min(row.clock for row in answer.rows) > before["at"], "a checkpoint parts the rows of an instant"

    def _begins(self, answer: Answer) -> bool:
        return answer.asked is None and not (self._opaque and self.landed)

    def _reached(self, before: Any) -> list[Any]:
        """Where a walk may stand behind the last answer that landed: what it carried, or that of empty ones since."""
        last = self.machine.vendor.answers[self.landed[-1]] if self.landed else None
        reached = [last.carried if last else None]
        for answer in self.machine.vendor.answers[last.number + 1 if last else 0 :]:
            if self._admitted(answer):
                continue
            if answer.asked in reached or (self._begins(answer) and answer.since == self._floor(before)):
                reached.append(answer.carried)
        return reached

    def _floor(self, position: Any) -> Any:
        if self._opaque or position is None:
            return None
        window = self.machine.plan.lateness_ms
        return lateness.floor(position["at"], window_ms=window, table="orders", field="at")

    def _check_position(self, marker: Marker, before: Any, clocks: list[str]) -> None:
        if self._opaque:
            assert marker.position in self._reached(before), "the position is not where the walk stands"
            return
        stands = before["at"] if before else ""
        assert marker.position == {"field": "at", "at": max([stands, *clocks])}, "position and rows part"

    def _check_owner(self) -> None:
        """Whoever is pending has a waker: a lease that lapses, an instant, or the next fire."""
        engine, now = self.machine.engine, self.machine.store.clock.now()
        for owner in engine.owners.all():
            self.executions.add(owner.execution_id)
            run = engine.runs.get(owner.attempt) if owner.attempt else None
            waits = run is not None and run.status is RunStatus.WAITING
            assert waits == (owner.wake_at is not None), (owner, run)
            if waits and run is not None:
                assert (run.next_attempt_at, owner.lease_until) == (owner.wake_at, 0)
                assert [due.run_id for due in waiting(engine)] == [run.run_id]
            elif owner.attempt:
                assert run is not None
                assert run.status is RunStatus.RUNNING
                assert owner.lease_until > 0, f"{owner.attempt} holds its owner for ever at {now}"

    def _write_off(self) -> None:
        """Count the answers that may be lost: the one in flight, or all behind a checkpoint of a watermark's walk."""
        machine = self.machine
        if machine.crashes + machine.stops == self._counted and not self._checkpointed:
            return
        fresh = machine.crashes + machine.stops - self._counted
        self._counted += fresh
        landed = set(self.landed)
        pending = sum(1 for a in machine.vendor.answers if self._admitted(a) and a.number not in landed)
        self.written_off = max(pending if self._checkpointed else 0, self.written_off + fresh)

    @property
    def _checkpointed(self) -> bool:
        return not self._opaque and bool(self.markers) and not self.markers[-1].by.final

    def _check_rows(self) -> None:
        vendor = self.machine.vendor
        seen: dict[int, int] = {}
        for number in self.landed:
            for row in self._admitted(vendor.answers[number]):
                seen[row.id] = max(seen.get(row.id, 0), row.version)
        lost = [row for row in vendor.rows.values() if self._due(row) and seen.get(row.id) != row.version]
        assert lost == [], "rows are lost"
        if not self.landed or self.machine.plan.seed % READ:
            return
        read = ReadFace(self._profile.objects).read("SELECT id, version FROM orders").rows
        if self.machine.plan.kind == "keyed":
            assert dict(read) == seen
            assert len(read) == len(seen), "a key is read twice"
        else:
            assert len(read) == sum(len(self._admitted(vendor.answers[number])) for number in self.landed)

    def _due(self, row: Row) -> bool:
        """Whether the row must have landed: it came in time, or a walk began behind it from a floor below it."""
        if not row.late or self._opaque:
            return not row.late
        begun = [answer for answer in self.machine.vendor.answers[row.since :] if answer.asked is None]
        return any(answer.since is None or answer.since <= row.clock for answer in begun)

    def _check_requests(self) -> None:
        """Every answer that had anything to land has landed, but for what interruptions cost."""
        landed = set(self.landed)
        wasted = [a.number for a in self.machine.vendor.answers if self._admitted(a) and a.number not in landed]
        assert len(wasted) <= self.written_off, f"answers {wasted} came to nothing"
