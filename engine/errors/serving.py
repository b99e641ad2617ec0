"""What stands in the way of serving."""

from __future__ import annotations

from engine.errors.base import NamedError, named
from engine.errors.failures import Config


@named
class AddressUnusable(NamedError, Config):
    """An address that cannot be listened on."""

    host: str
    port: int
    reason: str
    says = "{host} port {port} cannot be listened on: {reason}"
    remedy = "choose another with --host and --port"
