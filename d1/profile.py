"""The profile `cloudflare-d1`: machine state in D1, blobs and corpus objects in a bucket (run.journal.d1-profile)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from d1.binding import Binding
from d1.database import D1Database
from d1.recovery import Frontier
from engine.awakeables import SqlAwakeables
from engine.binding import READ_S, WRITE_S, Exchange, Patience, is_address
from engine.buckets import CHOSEN, open_bucket
from engine.clock import SystemClock
from engine.errors import StorageCapabilityMissing
from engine.guards.admission import SqlAdmission
from engine.profile import STRICT, Profile
from engine.sealed import sealed_journal, sealed_objects
from engine.sql import TABLES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from engine.clock import Clock

NAME: Final = "cloudflare-d1"
URL: Final = "CONTEXTFUL_BINDING_URL"
BUCKET: Final = "r2-binding"

CAPABILITIES: Final = frozenset({"journal", "blobs", "awakeables", "owners", "corpus", "outbox", STRICT})


def cloudflare_d1(root: Path, *, clock: Clock, environ: Mapping[str, str]) -> Profile:
    """Open the profile behind `CONTEXTFUL_BINDING_URL`; under `root` are only copies whose loss costs nothing.

    The Worker's clock judges unless `clock` is an injected one. Raise `StorageCapabilityMissing` naming every setting
    that is missing or wrong (run.journal.storage-incomplete).
    """
    url, patience = _settings(environ)
    bucket = open_bucket(environ.get(CHOSEN, BUCKET), root / "objects", environ=environ)
    database = D1Database(Binding(Exchange(url, patience=patience)), clock=_injected(clock))
    journal = sealed_journal(database, bucket.blobs(database), environ)
    objects = sealed_objects(bucket.objects, environ, opened=root / "opened")

    def close() -> None:
        database.close()
        bucket.close()

    return Profile(
        name=NAME,
        database=database,
        journal=journal,
        admission=SqlAdmission(database, journal),
        awakeables=SqlAwakeables(database, journal),
        objects=objects,
        scratch=root / "staged",
        capabilities=CAPABILITIES,
        tables=TABLES,
        close=close,
        recovery=Frontier(objects),
    )


def _injected(clock: Clock) -> Clock | None:
    """`clock`, unless it is the machine's as it stands: then the Worker's judges."""
    return None if type(clock) is SystemClock and not clock.offset_ms else clock


def _settings(environ: Mapping[str, str]) -> tuple[str, Patience]:
    """Where the binding is and how long to wait for it; every wrong setting is named at once."""
    url, wrong = environ.get(URL, ""), []
    if not url:
        wrong.append(f"{URL} is not set; in a container it is http://store.internal")
    elif not is_address(url):
        wrong.append(f"{URL} is {url!r} and must be an address such as http://store.internal")
    longest = Patience()
    for name, most in ((READ_S, longest.read_s), (WRITE_S, None)):
        text = environ.get(name)
        if text is not None and (problem := _not_seconds(text, most=most)):
            wrong.append(f"{name} is {text!r} and must be {problem}")
    if wrong:
        raise StorageCapabilityMissing(profile=NAME, missing="; ".join(wrong))
    return url, Patience.of(environ)


def _not_seconds(text: str, *, most: float | None) -> str | None:
    """What `text` should have been, where it is not a number of seconds in bounds."""
    try:
        value = float(text)
    except ValueError:
        value = 0
    if value > 0 and (most is None or value <= most):
        return None
    return "a number of seconds" + ("" if most is None else f", at most {most:g}")
