"""What manifests of these tests have in common."""

from __future__ import annotations

from typing import Final

ORDERS_OVER_HTTP: Final = """\
[project]
name = "shop"
site_id = "laptop"

[[pipeline]]
id = "orders"

[pipeline.source]
kind = "http"
url = "{url}/orders"
records = "items"
"""
"""A project up to its one source, a site at `url`: how that is paged and what lands follow."""
