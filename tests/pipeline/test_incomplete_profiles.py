"""A profile from elsewhere that lacks a part is refused before anything is admitted."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from importlib import metadata
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any

import pytest

from d1.profile import CAPABILITIES
from engine import profile as profiles
from engine.errors import StorageCapabilityMissing, StorageProfileUnsupported
from engine.local.profiles import sqlite
from engine.profile import NEEDED
from engine.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from engine.profile import Profile
    from tests.clocks import SettableClock

MANIFEST = '[project]\nname = "shop"\nsite_id = "laptop"\n'


@dataclass
class Partial:
    """The default profile, changed as a test says, under the name `partial`."""

    changes: dict[str, Any]
    closed: list[str] = field(default_factory=list)

    def __call__(self, root: Path, **settings: Any) -> Profile:
        whole = sqlite(root, **settings)

        def close() -> None:
            self.closed.append("partial")
            whole.close()

        return replace(whole, name="partial", close=close, **self.changes)


def project(tmp_path: Path, clock: SettableClock, name: str = "partial") -> Project:
    path = tmp_path / "contextful.toml"
    path.write_text(MANIFEST)
    return Project.find(path, environ={"CONTEXTFUL_STORAGE_PROFILE": name}, clock=clock)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Installs a profile as a third party's distribution would."""

    def install(partial: Partial) -> None:
        point = EntryPoint("partial", "elsewhere:partial", profiles.GROUP)
        monkeypatch.setattr(EntryPoint, "load", lambda _: partial)
        monkeypatch.setattr(metadata, "entry_points", lambda **_: [point])

    return install


@pytest.mark.clause("run.journal.storage-incomplete")
@pytest.mark.parametrize("part", ["database", "journal", "admission", "awakeables", "objects"])
def test_a_profile_without_a_part_is_refused_and_closed_again(
    tmp_path: Path, clock: SettableClock, installed: Any, part: str
) -> None:
    partial = Partial({part: None})
    installed(partial)

    with pytest.raises(StorageCapabilityMissing, match=part) as refusal:
        project(tmp_path, clock).engine()

    assert refusal.value.profile == "partial"
    assert partial.closed == ["partial"]
    assert not (tmp_path / ".contextful/corpus").exists()


@pytest.mark.clause("run.journal.storage-incomplete")
def test_every_missing_capability_is_named_at_once(tmp_path: Path, clock: SettableClock, installed: Any) -> None:
    installed(Partial({"capabilities": frozenset({"journal", "blobs"})}))

    lacking = "it lacks awakeables, owners, corpus, outbox, strict-guards"
    with pytest.raises(StorageCapabilityMissing, match=lacking) as refusal:
        project(tmp_path, clock).engine()

    assert (refusal.value.exit_code, refusal.value.tag) == (2, "Storage")


@pytest.mark.clause("run.journal.storage-incomplete")
@pytest.mark.parametrize("lacking", ["strict-guards", "outbox"])
def test_state_that_everybody_shares_is_refused_without_strict_guards_or_an_outbox(
    tmp_path: Path, clock: SettableClock, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    monkeypatch.setattr("d1.profile.CAPABILITIES", CAPABILITIES - {lacking})
    monkeypatch.setenv("CONTEXTFUL_BINDING_URL", "http://127.0.0.1:9")
    shared = project(tmp_path, clock, "cloudflare-d1")

    with pytest.raises(StorageCapabilityMissing, match=f"cloudflare-d1.*it lacks {lacking}"):
        replace(shared, environ=dict(os.environ) | dict(shared.environ)).engine()


@pytest.mark.clause("run.journal.storage-incomplete")
@pytest.mark.parametrize("name", ["sqlite", "file"])
def test_a_profile_of_one_machine_owns_to_be_cooperative_and_has_an_outbox(
    tmp_path: Path, clock: SettableClock, name: str
) -> None:
    with project(tmp_path, clock, name).engine() as engine:
        engine.profile.require("outbox")
        engine.profile.require("cooperative-admission")


@pytest.mark.clause("run.journal.storage-incomplete")
@pytest.mark.parametrize("admission", ["strict-guards", "cooperative-admission"])
def test_a_profile_with_what_is_needed_and_no_more_is_admitted(
    tmp_path: Path, clock: SettableClock, installed: Any, admission: str
) -> None:
    installed(Partial({"capabilities": frozenset({*NEEDED, admission})}))

    with project(tmp_path, clock).engine() as engine:
        assert engine.open("job", plan="p").step("one", lambda _: 1) == 1


@pytest.mark.clause("run.journal.storage-unsupported")
def test_an_unknown_profile_falls_back_to_none(tmp_path: Path, clock: SettableClock) -> None:
    with pytest.raises(StorageProfileUnsupported, match=r"known: .*file, .*sqlite"):
        project(tmp_path, clock, "sqllite").engine()

    assert not (tmp_path / ".contextful").exists()
