"""A parsed manifest against the grammar: its values converted, and every problem of the file at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import SchemaValidator, ValidationError

from engine.pipeline.manifest import models
from engine.pipeline.manifest.placeholders import misplaced
from engine.pipeline.manifest.problems import MISSING, Loc, Problem, found_at, shown, unknown_key
from engine.pipeline.manifest.rules import broken

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_LISTS: Final = {"pipeline": "[[pipeline]]", "table": "[[pipeline.table]]", "destination": "[[destination]]",
                "export": "[[export]]"}  # fmt: skip


@dataclass(slots=True)
class Checked:
    """A manifest's values as the grammar converted them, fit for use only where there is no problem."""

    document: dict[str, Any]
    problems: list[Problem] = field(default_factory=list)


def checked(document: Mapping[str, Any], environ: Mapping[str, str]) -> Checked:
    """`document` with its values converted, and what is wrong with it: keys and values, then how they go together."""
    found = Checked({})
    found.document = dict(_validated(models.document(), document, (), found.problems) or {})
    found.document["pipeline"] = [
        _validated(models.pipeline(_kind(pipeline)), pipeline, ("pipeline", number), found.problems)
        for number, pipeline in enumerate(_listed(document.get("pipeline")))
        if isinstance(pipeline, Mapping)
    ]
    found.problems += [*misplaced(document), *broken(document, environ)]
    found.problems = list(dict.fromkeys(found.problems))
    return found


def _validated(validator: SchemaValidator, value: Any, loc: Loc, problems: list[Problem]) -> Any:
    try:
        return validator.validate_python(value, strict=True)
    except ValidationError as invalid:
        problems += [_problem(error, loc, value) for error in invalid.errors(include_url=False)]
        return None


def _problem(error: ErrorDetails, base: Loc, document: Any) -> Problem:
    inner, found = _place(error["loc"]), error["input"]
    loc = (*base, *inner)
    if error["type"] == "by":
        by = found.get("by", MISSING)
        return Problem((*loc, "by"), shown(by), error["msg"])
    if error["type"] == "key":
        return Problem(loc[:-1], f"the key {shown(loc[-2])}", error["msg"])
    if error["type"] == "unknown_key":
        return _unknown(loc, error["ctx"]["known"], document)
    return Problem(loc, found_at(loc, found), _allowed(error, loc))


def _place(loc: Loc) -> Loc:
    """`loc` without the way of paging that the validator puts behind `paginate`."""
    if loc[:2] == ("source", "paginate"):
        return (*loc[:2], *loc[3:])
    if loc[:1] == ("table",) and loc[2:3] == ("paginate",):
        return (*loc[:3], *loc[4:])
    return loc


def _unknown(loc: Loc, known: tuple[str, ...], pipeline: Any) -> Problem:
    key = loc[-1]
    in_source = loc[:1] == ("pipeline",) and loc[2:] == ("source", key)
    in_table = loc[:1] == ("pipeline",) and loc[2:3] == ("table",) and len(loc) == 5
    owners = [kind for kind, keys in models.source_keys().items() if key in keys]
    allowed = ", ".join(sorted(known))
    if in_table and key == "kind":
        return Problem(loc, "a key that only [pipeline.source] takes", allowed)
    if in_source and key in models.table_keys():
        return Problem(loc, "a key that only [[pipeline.table]] takes", allowed)
    if (in_source or in_table) and owners:
        return Problem(loc, f"a key of kind {owners[0]}, not of kind {_kind(pipeline)}", allowed)
    return unknown_key(loc, known)


def _allowed(error: ErrorDetails, loc: Loc) -> str:
    if error["type"] == "allowed":
        return error["msg"]
    if error["type"] in {"list_type", "too_short"}:
        return f"tables, each written {_LISTS[str(loc[-1])]}, at least one"
    return "a table"


def _kind(pipeline: Mapping[str, Any]) -> str | None:
    source = pipeline.get("source")
    kind = source.get("kind") if isinstance(source, Mapping) else None
    return kind if kind in models.KINDS else None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
