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
    "sql": ("dsn", "placeholders", "postgres", "relations", "sql", "sqlite"),
}
"""The modules of this package whose text each connector's hash stands for."""

HTTP: Final = Connector(id="http", version="1", hash="2ad84923c4ae3f10d13d2ff3f4fdb65d1af333ddf4203a67444e5e29ae5fca0e")
SQL: Final = Connector(id="sql", version="1", hash="a5ddacd8b43bf1eec6b51745105ac26b9af151af0863fe6c6e99cb08afd57916")
FILE: Final = Connector(id="file", version="1", hash="bba25f27ac8e6b896cb4b0ae2d293e2c510bc0b5032173681e8a643910864655")
