"""`contextful pipeline apply` as an operator meets it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.conftest import ORDERS

if TYPE_CHECKING:
    from tests.cli.conftest import Shell


def test_apply_numbers_the_manifest_and_tells_what_changed(shell: Shell) -> None:
    shell.orders()

    first = shell.json("pipeline", "apply", "--by", "ada")
    shell.write("contextful.toml", ORDERS.replace('primary_key = ["id"]', 'primary_key = ["id", "at"]'))
    second = shell.json("pipeline", "apply", "--by", "bob")

    (added,), (changed,) = first["changes"], second["changes"]
    assert (first["number"], first["applied"], first["by"], added["change"]) == (1, True, "ada", "added")
    assert (second["number"], second["by"], changed["table"], changed["change"]) == (2, "bob", "orders", "changed")
    assert changed["before"] == added["after"] != changed["after"]


def test_applying_what_stands_is_no_new_number(shell: Shell) -> None:
    shell.orders()
    shell.json("pipeline", "apply", "--by", "ada")

    shell.write("contextful.toml", "# a comment moves nothing\n" + ORDERS)
    again = shell.json("pipeline", "apply", "--by", "bob")

    assert (again["number"], again["applied"], again["by"], again["changes"]) == (1, False, "ada", [])
    assert "snapshot 1 stands, applied by ada" in shell("pipeline", "apply").out


def test_a_person_reads_the_same(shell: Shell) -> None:
    shell.orders()

    ended = shell("pipeline", "apply")

    assert ended.code == 0
    assert ended.out.startswith("snapshot 1 applied: 1 table differs\n  orders added  ")
