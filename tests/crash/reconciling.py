"""An operator's process that reconciles a guard of a store whose entries are files, and kills itself at a named point.

Started as `python -m tests.crash.reconciling JOB`, the job in JSON: the root and instant of the store, the token, the
evidence, the value, and the point.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from engine.guards.desk import Desk
from engine.profile import open_profile
from tests.clocks import SettableClock
from tests.crash.points import Points


def main() -> None:
    """Do the job in this process."""
    job = json.loads(sys.argv[1])
    root = Path(job["root"])
    Points(root, at=job["at"]).watch()
    profile = open_profile("file", root, clock=SettableClock(job["now"]), environ={})
    value = None if job["value"] is None else job["value"].encode()
    Desk(profile.database, profile.admission).reconcile(
        job["token"], evidence=job["evidence"], operator="ops", value=value
    )


if __name__ == "__main__":
    main()
