"""What a pending run pins of the connectors shipped here (run.own.admission-pin).

`hash` names the code of a connector. It is a constant so that it is the same however the package was installed; a
test computes it from the modules listed in `MODULES` and says when to change it here.
"""

from __future__ import annotations

from typing import Final

from engine.shapes import Connector

MODULES: Final = {
    "http": ("answers", "fetching", "http", "links", "paging", "placeholders"),
    "file": ("answers", "delimited", "file", "jsonl", "lines", "parquet", "placeholders"),
}
"""The modules of this package whose text each connector's hash stands for."""

HTTP: Final = Connector(id="http", version="1", hash="c3e83a02c37a331c3907862795db9fbcf813eccd30d29722292c2214a1ac67f9")
FILE: Final = Connector(id="file", version="1", hash="8548dc388b493f24c24d83ee71ce3bf0dc5ae82273b6ceb44645ffbaffd8b337")
