"""What publishing refuses."""

from __future__ import annotations

from engine.errors.base import NamedError, named
from engine.errors.failures import Config


@named
class ExportUnknown(NamedError, Config):
    """The manifest declares no such export; `hint` names those it does."""

    export: str
    hint: str
    says = "the manifest has no export {export!r}"
    remedy = "{hint}"


@named
class ExportColumnsAmbiguous(NamedError, Config):
    """The statement of an export gives two columns one name: a row is published as an object."""

    columns: str
    says = "the statement names more than one column {columns}"
    remedy = "give each column a name of its own with AS"
