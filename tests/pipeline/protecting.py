"""What protected columns are tried on: customers, the classes of their columns, and a pepper."""

from __future__ import annotations

import hmac
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine.host import Engine, Settings
from engine.pipeline.declaration import Column
from engine.pipeline.manifest.hashing import hashed
from engine.shapes import RunStatus
from tests.stores import PROJECT

if TYPE_CHECKING:
    from engine.pipeline.declaration import Table
    from engine.runs import RunRow
    from tests.pipeline.conftest import Shop

PEPPER = "a long secret text"
CLASSES = {"email": "hash", "phone": "drop", "name": "null"}


def digest(text: str, pepper: str = PEPPER) -> str:
    return hmac.digest(pepper.encode(), text.encode(), "sha256").hex()[:32]


def engine(shop: Shop, *, pepper: str | None = PEPPER) -> Engine:
    """A process of its own in effect, which knows the pepper."""
    opened = Engine(shop.store.profile(), Settings(PROJECT, "site-1", pepper=pepper), clock=shop.store.clock)
    shop.store.opened.append(opened.keeper.stop)
    return opened


def protected(shop: Shop, classes: dict[str, str] = CLASSES, **declared: Any) -> Table:
    columns = {name: Column(treatment=treatment) for name, treatment in classes.items()}  # type: ignore[arg-type] # a test's spelling
    return hashed(replace(shop.table(**declared), columns=columns))


def run(shop: Shop, table: Table | None = None, *, pepper: str | None = PEPPER, look: Any = None) -> RunRow:
    """Run the protected table once; what refuses it is raised."""
    asked = {} if look is None else {"look": look}
    outcome = shop.fire(table or protected(shop), engine=engine(shop, pepper=pepper), **asked)
    for refusal in outcome.refusals:
        raise refusal
    return outcome.runs[0]


def customers(*ids: int) -> list[dict[str, Any]]:
    return [{"id": i, "email": f"c{i}@example.com", "phone": f"+49 {i}", "name": f"Ada {i}"} for i in ids]


def pending(shop: Shop, table: Table | None = None, *, pepper: str = PEPPER) -> None:
    """A first pull is recorded, the second fails and leaves the owner pending."""
    shop.feed.serves(customers(1), customers(2))
    shop.feed.failures = {1: ValueError("second page")}
    assert run(shop, table, pepper=pepper).status is RunStatus.FAILED
    assert shop.feed.read[0] == 0
    shop.feed.read.clear()
