"""Where a run was written: the site id, resolved once at startup."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from engine.errors import SiteIdUnresolved
from engine.pipeline.manifest.problems import Problem, shown

if TYPE_CHECKING:
    from engine.pipeline.declaration import Manifest

_GRAMMAR: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_ALLOWED: Final = "1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit"


def site_id(manifest: Manifest, environ: Mapping[str, str], *, option: str | None, option_env: str | None) -> str:
    """The site id: a run's own option where there is one, else the manifest's declaration.

    `option` is `--site-id`, `option_env` the variable named by `--site-id-env`. Raise `SiteIdUnresolved` where neither
    place declares one, one place declares both, the variable is unset, or what stands there is no site id
    (run.record.site-id-unresolved, run.record.site-id-length).
    """
    if option is not None or option_env is not None:
        return _resolved(option, option_env, environ, ("--site-id", "--site-id-env"))
    declared = ("project.site_id", "project.site_id_env")
    return _resolved(manifest.site_id, manifest.site_id_env, environ, declared)


def misdeclared(document: Mapping[str, Any]) -> Iterator[Problem]:
    """What is wrong with the declaration in `document` whatever the environment holds.

    Reading a project needs no site id and a run may bring its own, so only who asks whether a run would start is told.
    """
    project = document.get("project")
    if not isinstance(project, Mapping):
        return
    value, variable = project.get("site_id"), project.get("site_id_env")
    if value is None and variable is None:
        yield Problem(("project", "site_id"), "nothing", f"{_ALLOWED}; or site_id_env, the variable that holds it")
    if value is not None and variable is not None:
        yield Problem(("project", "site_id_env"), "site_id and site_id_env", "one of the two")
    if isinstance(value, str) and value and not _GRAMMAR.fullmatch(value):
        yield Problem(("project", "site_id"), shown(value), _ALLOWED)


def _resolved(value: str | None, variable: str | None, environ: Mapping[str, str], keys: tuple[str, str]) -> str:
    literal, by_variable = keys
    if value is not None and variable is not None:
        raise SiteIdUnresolved(reason=f"{literal} and {by_variable} are both given, and only one may be")
    if value is not None:
        return _checked(value, literal)
    if variable is None:
        raise SiteIdUnresolved(reason="nothing declares it")
    if not environ.get(variable):
        raise SiteIdUnresolved(reason=f"{by_variable} names the variable {variable}, which is not set")
    return _checked(environ[variable], f"the variable {variable}")


def _checked(found: str, place: str) -> str:
    if not _GRAMMAR.fullmatch(found):
        told = repr(found) if len(found) <= 80 else f"{len(found)} characters"
        raise SiteIdUnresolved(reason=f"{place} is {told}, not {_ALLOWED}")
    return found
