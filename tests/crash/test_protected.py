"""Raw values of protected columns are nowhere on disk: after a success, a failure, or a kill at any named point."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash.bytes_on_disk import found, spellings
from tests.crash.herd import KILLED, LOCAL
from tests.crash.scene import LEASE_AND_A_BIT_MS, Play, by_chance, page
from tests.scale import scale

if TYPE_CHECKING:
    from tests.crash.scene import Scene, Stagehand

AT_ONCE = 3
THE_COMMIT = "before put_all #1"
ENVIRON = {"CONTEXTFUL_PEPPER": "a long secret text to keep"}
NAMES = ("email", "phone", "name", "card", "salary", "notes")
CLASSES = (
    'columns = { email = { class = "hash" }, phone = { class = "drop" }, name = { class = "null" }, '
    'card = { class = "hash" }, salary = { class = "null" }, notes = { class = "hash" } }'
)
pytestmark = [
    pytest.mark.parametrize("profile", LOCAL),
    pytest.mark.clause("run.journal.recorded-batch", "run.journal.prepared-replay"),
]


def planted(number: int) -> dict[str, Any]:
    """Values of one row that must not be found again."""
    return {
        "email": f"planted.hash.{number:04}@example.com",
        "phone": f"planted/drop/+49 30 {number:04}",
        "name": f"plänted “null” {number:04} ✓",
        "card": 4_111_222_233_330_000 + number,
        "salary": 987_654_321_980_000 + number,
        "notes": f"planted nested {number:04}",
    }


def people(*numbers: int, **other: Any) -> tuple[dict[str, Any], ...]:
    """A page of people; their notes lie deep in a nested value."""
    rows = zip(page(*numbers), map(planted, numbers), strict=True)
    return tuple(row | own | {"notes": {"a": [{"b": own["notes"]}]}} | other for row, own in rows)


LONG = "long " * 250_000
GOOD = Play("protected", f'primary_key = ["email"]\n{CLASSES}', (people(1, 2), people(3, 4), people(5), people(1, 6)))
BARE = replace(GOOD, declared='primary_key = ["email"]')
BLOB = replace(GOOD, pages=(people(1, 2, long=LONG), people(3)))
MIXED = replace(GOOD, pages=(people(1, 2), (*people(3), *({**row, "card": "planted.typed.0004"} for row in people(4)))))
FAILS = replace(GOOD, pages=(people(1, 2), (*people(3), *people(4, amount="no amount"))))
ALL = [value for number in range(1, 7) for value in planted(number).values()] + ["planted.typed.0004"]


def test_the_search_finds_each_value_of_a_table_without_classes(stagehand: Stagehand, profile: str) -> None:
    scene = stagehand.scene(BARE, profile)
    assert scene.start(at=THE_COMMIT).ended() == KILLED

    pending = found(scene.root, planted(3).values())
    scene.finished(offset_ms=LEASE_AND_A_BIT_MS)
    landed = found(scene.root / ".contextful" / "corpus", planted(3).values())

    for value in map(repr, planted(3).values()):
        assert any(value in told and told.startswith(".contextful/staged/") for told in pending), value
        assert any(value in told and not told.startswith(".contextful/staged/") for told in pending), value
        assert any(value in told and ".parquet" in told for told in landed), value
    assert all(len(spelling) >= 8 for value in ALL for _, spelling in spellings(value))


@pytest.mark.parametrize(
    ("play", "code"), [(GOOD, 0), (BLOB, 0), (MIXED, 1), (FAILS, 1)], ids=["good", "blob", "mixed", "fails"]
)
def test_a_run_leaves_no_raw_value_on_disk_or_on_its_standard_streams(
    stagehand: Stagehand, profile: str, play: Play, code: int
) -> None:
    scene = stagehand.scene(play, profile)

    ran = _contextful(scene, "pipeline", "run", "p", "--json")
    listed = _contextful(scene, "run", "list", "--json")

    assert (ran.returncode, listed.returncode) == (code, 0), ran.stderr
    _saved(scene, ran.stdout, ran.stderr, listed.stdout, listed.stderr)
    assert found(scene.root, ALL) == []
    if play is MIXED:
        assert "value withheld: the column is protected" in ran.stderr
        assert "items.card" in ran.stderr


def test_a_run_killed_at_any_point_leaves_no_raw_value_and_neither_does_its_resumption(
    stagehand: Stagehand, profile: str
) -> None:
    whole = stagehand.scene(GOOD, profile)
    every = [point for point in whole.finished(environ=ENVIRON)["points"] if not by_chance(point)]
    points = every[LOCAL.index(profile) :: scale(short=len(every) // 4, full=1)]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        leaks = [leak for leaked in pool.map(lambda point: _leaked(stagehand, whole, point), points) for leak in leaked]

    print(f"{profile}: {len(points)} kills at {len(every)} points")
    assert not leaks, "\n".join(leaks[:20])


def _leaked(stagehand: Stagehand, whole: Scene, point: str) -> list[str]:
    """What is found of the planted values once a run was killed at `point`, and again once it was resumed."""
    scene = stagehand.scene(GOOD, whole.profile)
    assert scene.start(at=point, environ=ENVIRON).ended() == KILLED, point
    leaks = [f"killed {point}: {leak}" for leak in found(scene.root, ALL)]
    told = scene.finished("resume", offset_ms=LEASE_AND_A_BIT_MS, watched=False, environ=ENVIRON)
    _saved(scene, str(told), scene.herd.complaints())
    assert {row["email"] for row in scene.rows()} == {row["email"] for row in whole.rows()}, point
    return leaks + [f"resumed after {point}: {leak}" for leak in found(scene.root, ALL)]


def _saved(scene: Scene, *texts: str) -> None:
    """Lay what was printed beside what was written, so that one search sees both."""
    (scene.root / "printed").write_text("\n".join(texts), encoding="utf-8")


def _contextful(scene: Scene, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = os.environ | ENVIRON | {"CONTEXTFUL_STORAGE_PROFILE": scene.profile}
    script = Path(sys.executable).with_name("contextful")
    return subprocess.run(
        [script, *arguments], cwd=scene.root, env=environ, capture_output=True, text=True, timeout=60, check=False
    )
