"""What is unfinished, and the verb that moves it on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.cli import session
from engine.clock import SystemClock
from engine.project import Project
from engine.shapes import Awakeable
from tests.cli.conftest import QUAKES

if TYPE_CHECKING:
    from engine.demo.api import DemoApi
    from tests.cli.conftest import Shell


def killed(shell: Shell, api: DemoApi) -> str:
    """A run killed after two recorded pages; return its manifest."""
    manifest = QUAKES.format(url=api.url)
    shell.write("contextful.toml", manifest)
    process = shell.start("pipeline", "run", "quakes", "--run-id", "dead")
    assert api.slow_page.wait(30)
    process.kill()
    process.wait()
    return manifest


def test_nothing_unfinished_is_said(shell: Shell) -> None:
    shell.orders()

    assert shell("status").out == "nothing is unfinished\n"
    assert shell.json("status") == {"pending": []}


def test_a_live_attempt_shows_its_lease_and_how_to_wait(shell: Shell, slow_third_page: DemoApi) -> None:
    killed(shell, slow_third_page)

    (pending,) = shell.json("status")["pending"]

    assert (pending["scope"], pending["state"], pending["attempt"]) == ("table:quakes", "running", "dead")
    assert pending["lease_until"].endswith("Z")
    follows = "contextful pipeline run quakes --table quakes --wait 60s follows it"
    assert pending["next"].endswith(f"{follows}, contextful run stop {pending['attempt']} ends it")


def test_once_its_lease_has_lapsed_the_next_run_is_the_verb(shell: Shell, slow_third_page: DemoApi) -> None:
    killed(shell, slow_third_page)
    session.clock.set(SystemClock(31_000))

    (pending,) = shell.json("status")["pending"]

    assert (pending["state"], pending["recorded"], pending["steps"]) == ("pending", 2, 3)
    assert pending["next"] == "contextful pipeline run quakes --table quakes"
    assert "2 of 3 steps" in shell("status").out


def test_a_changed_declaration_shows_both_ways_on(shell: Shell, slow_third_page: DemoApi) -> None:
    manifest = killed(shell, slow_third_page)
    session.clock.set(SystemClock(31_000))
    shell.write("contextful.toml", manifest.replace("updated_after", "starttime"))

    (pending,) = shell.json("status")["pending"]

    assert "restore the declaration" in pending["next"]
    assert f"contextful run rewind {pending['execution_id']} --reason TEXT --force" in pending["next"]


def test_a_wait_for_an_outside_party_is_shown(shell: Shell) -> None:
    shell.orders()
    with Project.find().engine() as engine:
        execution = engine.open("score", plan="plan-a")
        execution.step("one", lambda _: 1)
        now = engine.profile.database.now()
        awaited = Awakeable("t" * 32, execution.execution_id, "approval", now, now + 60_000)
        engine.profile.awakeables.mint(awaited)
    session.clock.set(SystemClock(31_000))

    (pending,) = shell.json("status")["pending"]

    assert (pending["scope"], pending["state"]) == ("host:score", "waiting")
    assert pending["waits"][0]["step"] == "approval"
    assert "resolve what it waits for" in pending["next"]
