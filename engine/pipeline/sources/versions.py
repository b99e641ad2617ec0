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

HTTP: Final = Connector(id="http", version="1", hash="5ce41eda4624a23637729e910befbe53af7b74670da0bb701f10fd3810b85c5b")
SQL: Final = Connector(id="sql", version="1", hash="a45cde62c8c6cba27c52ab902ca1d90b9c0a121b4ffb4f3e92a107bf511ef287")
FILE: Final = Connector(id="file", version="1", hash="7394c75e8053da11732dd7a17ac0e84e38063fcefdcf033fd6bf2a8c1a2e3f64")
