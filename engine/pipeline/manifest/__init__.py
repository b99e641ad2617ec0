"""The manifest `contextful.toml`: found, read, checked against its grammar and resolved into a declaration.

Importing this package is cheap; the validator comes with the first `load`.
"""

from engine.pipeline.manifest.environment import missing_secrets, own_secrets, secrets_of
from engine.pipeline.manifest.reading import NAME, find, load

__all__ = ["NAME", "find", "load", "missing_secrets", "own_secrets", "secrets_of"]
