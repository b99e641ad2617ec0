"""The secrets a manifest names, looked up where they live: in the environment, and only when a run needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.errors import SecretNotFound
from engine.pipeline.declaration import FileSource, HttpSource, PythonSource, SqlSource
from engine.pipeline.manifest.placeholders import PLACEHOLDER, names_in
from engine.pipeline.manifest.problems import leaves
from engine.pipeline.source import Secrets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from engine.pipeline.declaration import Manifest, Source


def secrets_of(manifest: Manifest, environ: Mapping[str, str]) -> Secrets:
    """Every secret the manifest names. Raise one `SecretNotFound` for all that are missing.

    A run of one pipeline hands in the manifest narrowed to it (`dataclasses.replace(manifest, pipelines=(p,))`) to ask
    for no other pipeline's secrets; those that are set come along all the same, for whatever masks them.
    """
    missing = missing_secrets(manifest, environ)
    if missing:
        (name, path), *also = missing
        raise SecretNotFound(name=name, path=path, also=tuple(also))
    return Secrets({name: environ[name] for name in sorted(manifest.secret_names) if environ.get(name)})


def own_secrets(source: Source, secrets: Secrets) -> Secrets:
    """The secrets `source` itself names: what it is handed and what fills its stored positions, and no other's.

    A server could write another source's placeholder into its link; it must stay a placeholder.
    """
    if isinstance(source, FileSource):
        return secrets
    names = source.secrets if isinstance(source, PythonSource) else names_in(_texts(source))
    return Secrets({name: secrets[name] for name in secrets if name in names})


def missing_secrets(manifest: Manifest, environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Name and place of each secret of the tables and destinations that is unset or empty, one place a name."""
    found: dict[str, str] = {}
    for place, name in _named(manifest):
        if not environ.get(name):
            found.setdefault(name, place)
    return tuple(found.items())


def _named(manifest: Manifest) -> Iterator[tuple[str, str]]:
    for pipeline in manifest.pipelines:
        for table in pipeline.tables:
            owner = f'pipeline "{pipeline.id}", table "{table.name}": '
            if isinstance(table.source, HttpSource | SqlSource):
                yield from _placed(_texts(table.source), owner)
            if isinstance(table.source, PythonSource):
                yield from ((f"{owner}secrets", name) for name in table.source.secrets)
    for destination in manifest.destinations:
        texts = {"url": destination.url, "headers": destination.headers}
        yield from _placed(texts, f'destination "{destination.name}": ')


def _texts(source: HttpSource | SqlSource) -> dict[str, Any]:
    if isinstance(source, SqlSource):
        return {"dsn": source.dsn}
    return {"url": source.url, "headers": source.headers, "params": source.params, "body": source.body}


def _placed(texts: Mapping[str, Any], owner: str) -> Iterator[tuple[str, str]]:
    for loc, text in leaves(texts):
        for name in PLACEHOLDER.findall(text) if isinstance(text, str) else ():
            yield owner + ".".join(str(part) for part in loc), name
