"""The recovery identity: what tells that a database and a bucket belong together (run.journal.d1-recovery).

D1's Time Travel takes the database back and leaves the bucket where it is; a restore may bring back only one of them.
The bucket's frontier object names project, schema and generation of the database it goes with.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from engine.errors import ExecutionRecoveryMismatch
from engine.shapes import canonical_json

if TYPE_CHECKING:
    from engine.ports import Objects
    from engine.profile import Identity

NAME: Final = "recovery.json"
"""The frontier object: no table's, so that neither readers nor sweeps look at it."""


class Frontier:
    """A `Recovery` among the objects of the corpus."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def bind(self, identity: Identity) -> None:
        """Bind the bucket; the one that stands is replaced only where it names another state."""
        content = canonical_json(asdict(identity)).encode()
        if not self._objects.create(NAME, content) and self._objects.get(NAME) != content:
            self._objects.put(NAME, content)

    def check(self, identity: Identity) -> None:
        """Name everything in which the bucket's identity differs."""
        content = self._objects.get(NAME)
        if content is None:
            raise ExecutionRecoveryMismatch(found=f"the bucket lacks {NAME}, which binds it to the database")
        bound = _parsed(content)
        if differing := [
            f"its {name} is {value!r} and the bucket's {bound.get(name)!r}"
            for name, value in asdict(identity).items()
            if bound.get(name) != value
        ]:
            raise ExecutionRecoveryMismatch(found=f"database and bucket part: {', '.join(differing)}")


def _parsed(content: bytes) -> dict[str, object]:
    try:
        document = json.loads(content)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
