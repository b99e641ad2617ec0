"""What a pending run pins of the connectors shipped here (run.own.admission-pin).

`hash` names the code of a connector. It is a constant so that it is the same however the package was installed; a
test computes it from the modules listed in `MODULES` and says when to change it here.
"""

from __future__ import annotations

from typing import Final

from engine.shapes import Connector

MODULES: Final = {
    "http": ("answers", "fetching", "http", "inflating", "links", "paging", "placeholders", "unchanged"),
    "file": ("answers", "delimited", "file", "jsonl", "lines", "parquet", "placeholders", "unchanged"),
    "sql": ("dsn", "placeholders", "postgres", "relations", "sql", "sqlite"),
}
"""The modules of this package whose text each connector's hash stands for."""

HTTP: Final = Connector(id="http", version="1", hash="9a668cca0d91d09b47a7f9ba01f11e6a73d89071e07526c00e72672e556b99d9")
SQL: Final = Connector(id="sql", version="1", hash="a45cde62c8c6cba27c52ab902ca1d90b9c0a121b4ffb4f3e92a107bf511ef287")
FILE: Final = Connector(id="file", version="1", hash="407446bb7afdf46cfd8e768c82b0f5030e74d2f6f54ec67733d1f5b98348f51c")
