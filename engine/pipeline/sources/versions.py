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

HTTP: Final = Connector(id="http", version="1", hash="e6438fdffa3b48dc89c38e6b9a49c9223bbcba7b4564eb1913d18dceee3e2017")
FILE: Final = Connector(id="file", version="1", hash="d43ec8eb6e4ed85edadc06aad06790856327a908290df407b5afde1f9063a8ed")
