"""Whom to ask about the guards of a project: a Worker that a variable or the user's own settings name, or the store."""

from __future__ import annotations

import tomllib
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from engine.binding import is_address
from engine.clock import SystemClock
from engine.errors import (
    ContextfulError,
    OperatorCredentialMissing,
    OperatorEndpointUnusable,
    OperatorProjectUnknown,
)
from engine.operator.desk import LocalDesk
from engine.operator.remote import Remote, RemoteDesk
from engine.operator.tokens import settings_folder
from engine.pipeline.manifest.reading import placed
from engine.sealed import Seal
from engine.storage import preflight

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from engine.clock import Clock
    from engine.operator.desk import OperatorDesk
    from engine.project import Project

ENDPOINT: Final = "CONTEXTFUL_OPERATOR_ENDPOINT"
CREDENTIAL: Final = "CONTEXTFUL_OPERATOR_CREDENTIAL"
NAMED: Final = "or name the project with --project NAME: no manifest is needed then"
"""What else to do where no manifest says which project is meant."""

PROJECTS: Final = "projects.toml"

_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_KEYS: Final = frozenset({"endpoint", "credential_env"})


@dataclass(frozen=True, slots=True)
class Place:
    """A project's desk, and the addresses of the destinations that its manifest names, where it is at hand."""

    project: str
    desk: OperatorDesk
    destinations: dict[str, str]


@contextmanager
def place(
    project: str | None, *, manifest: Path | None, environ: Mapping[str, str], clock: Clock | None
) -> Iterator[Place]:
    """The desk of `project`, of the manifest's where none is named; closed with the block.

    A Worker that the environment names comes first, then one in the user's settings, then the store of the manifest.
    Settings that cannot be read and do not speak of a project whose manifest is here are passed over. The store of the
    manifest goes by `clock`, or by the machine's. Raise `OperatorProjectUnknown` where nothing leads anywhere, or what
    the place that was found lacks.
    """
    found, problem = _found(manifest, environ, clock)
    if problem and manifest is not None:
        raise problem
    if problem and project is None:
        raise problem.advising(NAMED)
    name = project or (found.manifest.project if found else "")
    mine = found if found and found.manifest.project == name else None
    destinations = {each.name: each.url for each in mine.manifest.destinations} if mine else {}
    if remote := _remote(name, environ, needed=mine is None):
        desk = RemoteDesk(remote, seal=Seal.of(environ), now_s=SystemClock().now() // 1000)
        with closing(desk), _named(name):
            yield Place(name, desk, destinations)
        return
    if mine is None:
        here = (
            f"the manifest here is of project {found.manifest.project!r}" if found else str(problem and problem.message)
        )
        told = ", ".join(sorted(_projects(settings_folder(environ) / PROJECTS))) or "none"
        raise OperatorProjectUnknown(project=name, found=f"{here}, and {PROJECTS} has {told}")
    with mine, _named(name):
        mine.initialize_if_new()
        preflight(mine.profile, project=name)
        yield Place(name, LocalDesk(mine), destinations)


@contextmanager
def _named(project: str) -> Iterator[None]:
    """Have what a refusal tells to do next name the project too: it may be of no manifest that is at hand."""
    try:
        yield
    except ContextfulError as refusal:
        if refusal.remedy:
            for verb in ("guard", "reconcile-guard"):
                command = f"contextful storage {verb} "
                refusal.remedy = refusal.remedy.replace(f"{command}--token", f"{command}--project {project} --token")
        raise


def _found(
    manifest: Path | None, environ: Mapping[str, str], clock: Clock | None
) -> tuple[Project | None, ContextfulError | None]:
    """The project of the manifest, or why there is none: whoever asks a Worker needs none."""
    from engine.project import Project  # noqa: PLC0415 - it opens profiles, which a laptop seldom does here

    try:
        return Project.find(manifest, environ=environ, clock=clock), None
    except ContextfulError as problem:
        return None, problem


def _remote(name: str, environ: Mapping[str, str], *, needed: bool) -> Remote | None:
    """The Worker of the project, None where nothing names one. Raise what is wrong with what does.

    Where settings are not `needed`, since a store is at hand, broken ones that do not speak of the project say nothing.
    """
    if endpoint := environ.get(ENDPOINT):
        return _credited(name, _address(endpoint, place=ENDPOINT), variable=CREDENTIAL, environ=environ)
    file = settings_folder(environ) / PROJECTS
    try:
        known = _projects(file)
    except OperatorEndpointUnusable:
        if needed or _speaks_of(name, file):
            raise
        return None
    if name not in known:
        return None
    told, entry = known[name], f"{file}: [project.{name}]"
    if not isinstance(told, dict) or set(told) - _KEYS or not isinstance(told.get("endpoint"), str):
        raise OperatorEndpointUnusable(place=entry, found="must have endpoint and may have credential_env, both texts")
    variable = told.get("credential_env", CREDENTIAL)
    if not isinstance(variable, str) or not variable.isidentifier():
        raise OperatorEndpointUnusable(place=entry, found=f"credential_env is {variable!r} and must name a variable")
    return _credited(name, _address(told["endpoint"], place=entry), variable=variable, environ=environ)


def _credited(name: str, endpoint: str, *, variable: str, environ: Mapping[str, str]) -> Remote:
    credential = environ.get(variable, "").strip()
    if not credential:
        raise OperatorCredentialMissing(project=name, endpoint=endpoint, variable=variable)
    if not (credential.isascii() and credential.isprintable()) or " " in credential:
        raise OperatorEndpointUnusable(place=variable, found="holds no credential: it must be one word")
    return Remote(name, endpoint, credential)


def _address(text: str, *, place: str) -> str:
    """The Worker's address. Raise `OperatorEndpointUnusable` unless nobody on the way can read what goes there."""
    unusable = OperatorEndpointUnusable(place=place, found=f"{text!r} is no address such as https://shop.example.com")
    if not is_address(text):
        raise unusable
    address = urlsplit(text.rstrip("/"))
    if address.path or address.query:
        raise unusable
    if address.username is not None or address.password is not None:
        raise OperatorEndpointUnusable(place=place, found="an address holds no credential: credential_env names it")
    if address.scheme != "https" and address.hostname not in _LOOPBACK:
        raise OperatorEndpointUnusable(place=place, found=f"{text!r} must be https: it carries a credential")
    return text.rstrip("/")


def _projects(file: Path) -> dict[str, Any]:
    """What the user's settings say of each project. Raise `OperatorEndpointUnusable` for what cannot be read."""
    text = ""
    try:
        text = file.read_text(encoding="utf-8")
        told = tomllib.loads(text)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else placed(str(problem), text)
        unusable = OperatorEndpointUnusable(place=str(file), found=f"cannot be read: {reason}")
        raise unusable.advising(f"mend that file, or say where the Worker is by {ENDPOINT}") from problem
    projects = told.get("project", {})
    if not isinstance(projects, dict):
        raise OperatorEndpointUnusable(place=str(file), found="project must be tables, one a project")
    return projects


def _speaks_of(name: str, file: Path) -> bool:
    """Whether the broken settings may be about the project: they hold its name, or nobody can tell."""
    try:
        return name.encode() in file.read_bytes()
    except OSError:
        return True
