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

HTTP: Final = Connector(id="http", version="1", hash="2900f60ff1009ff8d1505eb2db0faa1d2158152b649e2ed43c2dfe4e9d58ca91")
SQL: Final = Connector(id="sql", version="1", hash="a45cde62c8c6cba27c52ab902ca1d90b9c0a121b4ffb4f3e92a107bf511ef287")
FILE: Final = Connector(id="file", version="1", hash="e21a3195a01e98b0da495c50a18a6ddff3078f97d1b79b817866ba5a64daf3b2")
