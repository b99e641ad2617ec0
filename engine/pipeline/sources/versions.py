"""What a pending run pins of the connectors shipped here (run.own.admission-pin).

`hash` names the code of a connector. It is a constant so that it is the same however the package was installed; a
test computes it from the modules listed in `MODULES` and says when to change it here.
"""

from __future__ import annotations

from typing import Final

from engine.shapes import Connector

MODULES: Final = {
    "http": ("answers", "fetching", "http", "links", "paging", "placeholders"),
    "file": ("delimited", "file", "jsonl", "lines", "parquet"),
}
"""The modules of this package whose text each connector's hash stands for."""

HTTP: Final = Connector(id="http", version="1", hash="")
FILE: Final = Connector(id="file", version="1", hash="")
