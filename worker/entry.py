"""The Worker's main module: every class that Cloudflare calls is a name of it."""

from worker.container import EngineContainer
from worker.outbound import Outbound
from worker.public import Default

__all__ = ["Default", "EngineContainer", "Outbound"]
