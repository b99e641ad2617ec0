"""The grammar of `contextful.toml`: which keys stand where, and what each may hold.

Built on pydantic's core, without the class layer above it: importing that layer and building the first class costs
every command 90 ms more, and the values become the engine's own frozen ones anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic_core import PydanticCustomError, SchemaValidator
from pydantic_core import core_schema as cs

from engine.pipeline.manifest.leaves import (
    DSN,
    UNIT_MS,
    body,
    column_type,
    duration,
    key_matching,
    leaf,
    matching,
    needed,
    one_of,
    param,
    read_by,
    several,
    whole,
)
from engine.pipeline.manifest.placeholders import NAME_PATTERN

if TYPE_CHECKING:
    from collections.abc import Mapping

KINDS: Final = ("http", "file", "sql", "python")
LATER_TABLES: Final = ("job", "dataset")

_BOUNDS: Final = frozenset({"since_param", "until_param"})
_DAY_MS: Final = UNIT_MS["d"]
_MANY: Final = 1_000_000_000
_NAME: Final = (r"[^\s\x00-\x1f](?:[^\x00-\x1f]*[^\s\x00-\x1f])?", "a name, no spaces around it")
_DOTTED: Final = (r"[^.\s][^.]*(?:\.[^.]+)*", 'keys joined by dots, such as "data.items", none of them empty')
_TOKEN: Final = "[A-Za-z0-9!#$%&'*+.^_`|~-]+"  # noqa: S105 - the grammar of a header's name
_ENTRY: Final = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
_SELECT: Final = matching(r"(?s:.*\S.*)", "one SELECT")
_URL: Final = matching(r"\S+", "an http or https URL without spaces")


def document() -> SchemaValidator:
    """The whole file, its pipelines still unread."""
    later = {name: _refused("not supported by this release; leave it out") for name in LATER_TABLES}
    fields = {
        "project": needed(_project()),
        "pipeline": _tables(cs.dict_schema()),
        "destination": _tables(_destination()),
        "export": _tables(_export()),
    }
    return SchemaValidator(_table({**fields, **later}, known=fields))


def pipeline(kind: str | None) -> SchemaValidator:
    """One pipeline whose source is of `kind`; None where the kind itself is the problem."""
    own = _source_keys(kind)
    fields = {
        "id": needed(_id()),
        "source": needed(_table({"kind": needed(_kind()), **own})),
        "table": needed(_tables(_table({**_table_keys(kind), **own}))),
    }  # fmt: skip
    return SchemaValidator(_table(fields))


def source_keys() -> dict[str, frozenset[str]]:
    """The keys of each kind of source, but for `kind` itself, with those that only tables of that kind take."""
    return {kind: frozenset(_source_keys(kind)) | (_BOUNDS & _table_keys(kind).keys()) for kind in KINDS}


def table_keys() -> frozenset[str]:
    """The keys that stand in tables only."""
    return frozenset(_table_keys(None))


def _id() -> cs.CoreSchema:
    allowed = "1 to 128 letters, digits, '.', '_' or '-', the first a letter or digit"
    return matching("[A-Za-z0-9][A-Za-z0-9._-]{0,127}", allowed)


def _project() -> cs.CoreSchema:
    text = leaf(cs.str_schema(min_length=1), "a text")
    return _table({
        "name": needed(matching("[A-Za-z0-9][A-Za-z0-9_-]{0,63}",
                                "1 to 64 letters, digits, '-' or '_', the first a letter or digit")),
        "site_id": text,
        "site_id_env": text,
        "root": _path("the path of a folder"),
    })  # fmt: skip


def _destination() -> cs.CoreSchema:
    return _table({
        "name": needed(_id()),
        "kind": needed(one_of("http")),
        "url": needed(_URL),
        "idempotency_header": matching(_TOKEN, "the name of a header"),
        "dedup_window": duration(least_ms=1),
        "refusals": several(cs.int_schema(ge=400, le=599), "a list of HTTP statuses from 400 to 599"),
        "headers": _headers(),
        "timeout": duration(least_ms=1),
    })  # fmt: skip


def _export() -> cs.CoreSchema:
    return _table({
        "name": needed(_id()),
        "destination": needed(leaf(cs.str_schema(), "the name of a destination")),
        "table": leaf(cs.str_schema(), "the name of a table"),
        "statement": _SELECT,
        "batch": whole(1, 10_000),
        "retry": _retry(),
    })  # fmt: skip


def _kind() -> cs.CoreSchema:
    return one_of(*KINDS)


def _source_keys(kind: str | None) -> dict[str, cs.CoreSchema]:
    keys: dict[str, dict[str, cs.CoreSchema]] = {
        "http": _http(),
        "file": {"path": _path("the path or glob of files"), "format": one_of("csv", "jsonl", "parquet")},
        "python": {
            "entry": matching(f"{_ENTRY}:{_ENTRY}", '"package.module:callable"'),
            "secrets": several(matching(NAME_PATTERN, "the name of a variable"), "a list of names, at least one"),
        },
        "sql": _sql(),
    }
    chosen = [keys[kind]] if kind else keys.values()
    own = {name: schema for group in chosen for name, schema in group.items()}
    return {**own, "retry": _retry(), "meter": _meter()}


def _http() -> dict[str, cs.CoreSchema]:
    return {
        "url": _URL,
        "records": matching(_DOTTED[0], f"{_DOTTED[1]} (leave it out for none)"),
        "paginate": _paginate(),
        "method": one_of("GET", "POST"),
        "headers": _headers(),
        "params": _named(key_matching(r"[^\x00-\x1f]+", "the name of a request parameter"), param()),
        "body": body(),
        "timeout": duration(least_ms=1),
    }


def _headers() -> cs.CoreSchema:
    header = leaf(cs.str_schema(pattern=r"^[^\x00-\x08\x0a-\x1f\x7f]*$"), "a text of one line")
    return _named(key_matching(_TOKEN, "the name of a header"), header)


def _sql() -> dict[str, cs.CoreSchema]:
    return {
        "dsn": matching(r"\S+", DSN),
        "query": _SELECT,
        "from": matching(
            r"[^\s.\x00-\x1f][^.\x00-\x1f]*(?:\.[^.\x00-\x1f]+){0,2}", "a table or view as the database spells it"
        ),
        "batch": whole(1, 1_000_000),
        "timeout": duration(least_ms=1),
    }


def _meter() -> cs.CoreSchema:
    return _table({"limit": needed(whole(1, 1_000_000)), "every": needed(duration(least_ms=1))})


def _paginate() -> cs.CoreSchema:
    word, field = matching(r"\S+", "the name of a request parameter"), matching(*_DOTTED)
    ways: dict[str, dict[str, cs.CoreSchema]] = {
        "next-url": {"field": needed(field)},
        "link-header": {},
        "page": {"param": needed(word), "start": whole(0, _MANY), "size_param": word, "size": whole(1, _MANY)},
        "offset": {"param": needed(word), "limit_param": needed(word), "limit": needed(whole(1, _MANY))},
        "token": {"field": needed(field), "param": needed(word)},
    }
    names = ", ".join(f'"{way}"' for way in ways)
    return cs.tagged_union_schema(
        {way: _table({"by": cs.any_schema(), **fields}) for way, fields in ways.items()},
        discriminator="by", custom_error_type="by", custom_error_message=names,
    )  # fmt: skip


def _retry() -> cs.CoreSchema:
    return _table({
        "attempts": whole(1, 10_000),
        "base_ms": whole(0, _DAY_MS),
        "factor": leaf(cs.float_schema(ge=1, le=100, allow_inf_nan=False), "a number from 1 to 100"),
        "max_delay_ms": whole(0, _DAY_MS),
        "jitter_ms": whole(0, _DAY_MS),
        "backoff": one_of("exponential", "fixed"),
        "retry_on": several(cs.str_schema(), '"Transient", "RateLimited" or both, in a list'),
    })  # fmt: skip


def _table_keys(kind: str | None) -> dict[str, cs.CoreSchema]:
    column = _table({"type": column_type(), "class": one_of("drop", "null", "hash")})
    keys = {
        "name": needed(matching("[A-Za-z][A-Za-z0-9_]{0,63}", "1 to 64 letters, digits or '_', the first a letter")),
        "primary_key": several(matching(*_NAME), "a list of column names, at least one"),
        "write_mode": one_of("append", "replace"),
        "incremental": matching(*_NAME),
        "allowed_lateness": duration(least_ms=0),
        "skip_unchanged": leaf(cs.bool_schema(), "true or false"),
        "columns": _named(key_matching(*_NAME), column),
    }
    if kind not in {"http", None}:
        return keys
    return {**keys, **dict.fromkeys(sorted(_BOUNDS), matching(r"\S+", "the name of a request parameter"))}


def _path(what: str) -> cs.CoreSchema:
    return matching(r"[^\x00-\x1f]+", what)


def _named(key: cs.CoreSchema, value: cs.CoreSchema) -> cs.CoreSchema:
    return cs.dict_schema(key, value)


def _tables(item: cs.CoreSchema) -> cs.CoreSchema:
    return cs.list_schema(item, min_length=1)


def _table(fields: Mapping[str, cs.CoreSchema], *, known: Mapping[str, Any] | None = None) -> cs.CoreSchema:
    names = tuple(known or fields)

    def refuse(_: Any) -> None:
        raise PydanticCustomError("unknown_key", "unknown", {"known": names})

    return cs.typed_dict_schema(
        {name: cs.typed_dict_field(schema, required=False) for name, schema in fields.items()},
        extra_behavior="allow",
        extras_schema=cs.no_info_plain_validator_function(refuse),
    )


def _refused(allowed: str) -> cs.CoreSchema:
    def refuse(_: Any) -> None:
        raise ValueError

    return read_by(refuse, allowed)
