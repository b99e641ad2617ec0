"""What a pending run pins of the connectors shipped here (run.own.admission-pin).

`hash` names the code of a connector. It is a constant so that it is the same however the package was installed; a
test computes it from the modules listed in `MODULES` and says when to change it here.
"""

from __future__ import annotations

from typing import Final

from engine.shapes import Connector

MODULES: Final = {
    "http": ("answers", "fetching", "http", "links", "paging", "placeholders", "unchanged"),
    "file": ("answers", "delimited", "file", "jsonl", "lines", "parquet", "placeholders", "unchanged"),
    "sql": ("dsn", "placeholders", "postgres", "relations", "sql", "sqlite"),
}
"""The modules of this package whose text each connector's hash stands for."""

HTTP: Final = Connector(id="http", version="1", hash="7a625fec2b29af1fe73fa195ef979a4ff678de058aed6df9f2546dbb4d6be953")
SQL: Final = Connector(id="sql", version="1", hash="314ccdd3675ad6a816c0016932dec2a86053999688c1a61c38dfad56e86f8104")
FILE: Final = Connector(id="file", version="1", hash="5aee37b2f17221e35a9c784bde6d6498b596e9be102896a5acc7010f72112d83")
