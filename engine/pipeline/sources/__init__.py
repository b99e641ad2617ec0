"""The sources of tables, one connector a kind, opened by what the manifest declares.

Each connector's module is imported when a table first needs it, so that a table of files never loads an HTTP client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

from engine.errors import UnknownConnector
from engine.pipeline import declaration

if TYPE_CHECKING:
    from engine.pipeline.source import Source

_CONNECTORS: Final = {
    declaration.HttpSource: ("http", "HttpPages"),
    declaration.FileSource: ("file", "Files"),
    declaration.SqlSource: ("sql", "SqlRows"),
    declaration.PythonSource: ("python", "PythonPulls"),
}
"""Module and class of the connector that reads each declared source."""


def open_source(table: declaration.Table) -> Source:
    """The connector of `table`'s source.

    Raise `UnknownConnector` when no connector reads such a source or a Python entry names no callable, `Config` when
    the declaration lacks what its way of paging needs.
    """
    connector = _CONNECTORS.get(type(table.source))
    if connector is None:
        raise UnknownConnector(
            f"pipeline {table.pipeline_id}, table {table.name}: no connector reads a {type(table.source).__name__}",
            remedy="declare source.kind as http, file, sql or python",
        )
    module, name = connector
    return cast("Source", getattr(import_module(f"{__name__}.{module}"), name)(table))
