"""The site that a run writes as: resolved before anything is touched, and on its row and every row it lands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import ORDERS

if TYPE_CHECKING:
    from tests.cli.conftest import Shell

DECLARED = 'site_id = "laptop"'


@pytest.mark.clause("run.record.site-id-unresolved", "run.record.writing-site")
@pytest.mark.parametrize(
    ("declared", "options", "site"),
    [
        (DECLARED, (), "laptop"),
        ('site_id_env = "SITE"', (), "from-site"),
        (DECLARED, ("--site-id", "desk"), "desk"),
        (DECLARED, ("--site-id-env", "OTHER"), "from-other"),
        ("", ("--site-id", "desk"), "desk"),
    ],
)
def test_a_run_writes_as_the_site_that_its_option_or_else_the_manifest_names(
    shell: Shell, declared: str, options: tuple[str, ...], site: str
) -> None:
    shell.orders()
    shell.write("contextful.toml", ORDERS.replace(DECLARED, declared))
    shell.set("SITE", "from-site")
    shell.set("OTHER", "from-other")

    assert shell("pipeline", "run", "orders", "--run-id", "one", *options).code == 0

    assert shell.json("run", "show", "one")["site_id"] == site
    assert shell.json("read", "SELECT DISTINCT _site_id FROM orders")["rows"] == [[site]]


@pytest.mark.clause("run.record.site-id-unresolved")
@pytest.mark.parametrize(
    ("declared", "options"),
    [
        ("", ()),
        ('site_id_env = "UNSET"', ()),
        (DECLARED, ("--site-id", "desk", "--site-id-env", "SITE")),
        (DECLARED, ("--site-id-env", "UNSET")),
    ],
    ids=["nothing declares it", "its variable is not set", "two options", "the option's variable is not set"],
)
def test_a_run_that_knows_no_site_is_refused_at_its_start(
    shell: Shell, declared: str, options: tuple[str, ...]
) -> None:
    shell.orders()
    shell.write("contextful.toml", ORDERS.replace(DECLARED, declared))
    shell.set("SITE", "s")

    refused = shell("pipeline", "run", "orders", *options, "--json")

    assert (refused.code, refused.error["name"]) == (2, "SiteIdUnresolved")
    assert sorted(path.name for path in shell.folder.iterdir()) == ["contextful.toml", "orders.jsonl"]
