"""The one way past the journal for a program: it says why."""

from __future__ import annotations

import pytest

from engine.errors import Config


@pytest.mark.clause("run.journal.escape-hatch")
def test_an_unsafe_read_is_read_again_on_every_replay(store):
    read = []

    for _ in range(2):
        with store.engine() as engine, engine.open("report", plan="p") as x:
            x.journal.unsafe("today", lambda: read.append("once more"), because="it only reads the calendar")

    assert read == ["once more"] * 2


@pytest.mark.clause("run.journal.escape-hatch")
def test_an_unsafe_read_without_an_argument_is_refused_before_it_reads(store):
    with store.engine() as engine, engine.open("report", plan="p") as x, pytest.raises(Config, match="no reason"):
        x.journal.unsafe("today", lambda: pytest.fail("it read"), because=" ")
