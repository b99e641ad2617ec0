"""The demonstration, with real processes and a real kill."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from engine.demo.api import quakes
from engine.demo.story import PATIENCE_S

if TYPE_CHECKING:
    from tests.cli.conftest import Shell


def test_the_demonstration_loses_nothing_and_repeats_nothing(shell: Shell) -> None:
    ended = shell("demo", "--fast", "--manifest", "shown/contextful.toml", "--json")

    told = ended.document
    assert ended.code == 0
    assert (told["rows"], told["distinct"], told["repeated"]) == (len(quakes()), len(quakes()), 0)
    assert 0 < told["replayed"] < 35
    assert told["before"]["rows"] + told["after"]["rows"] == len(quakes())
    assert told["holds"] is True
    manifest = ["--manifest", str(told["manifest"])]
    assert shell.json("read", "SELECT count(*) FROM quakes", *manifest)["rows"] == [[len(quakes())]]
    assert [run["status"] for run in shell.json("run", "list", *manifest)["runs"]] == ["success", "partial_failure"]


def test_it_fits_on_one_screen_and_is_honest_about_its_clock(shell: Shell) -> None:
    ended = shell("demo", "--fast")

    assert ended.code == 0
    assert len(ended.out.splitlines()) <= 30
    assert "its clock stood 31 s ahead" in ended.out
    assert "--real-time waits" in ended.out
    assert "nothing was lost and nothing came twice" in ended.out


def test_a_first_run_that_ends_early_is_told_at_once_and_in_its_own_words(shell: Shell) -> None:
    shell.write("shown/.contextful", "a file where the state's folder would be")
    began = time.monotonic()

    ended = shell("demo", "--fast", "--manifest", "shown/contextful.toml")

    assert ended.code == 1
    assert "the first run never got half way: StorageUnusable: " in ended.err
    assert time.monotonic() - began < PATIENCE_S


def test_it_overwrites_no_manifest(shell: Shell) -> None:
    shell.orders()

    ended = shell("demo", "--fast", "--manifest", "contextful.toml")

    assert ended.code == 2
    assert "InitRefused: " in ended.err
