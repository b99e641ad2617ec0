"""The composition root: settings are read and the profile is opened here; everything below is handed its ports."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from engine.clock import Clock, SystemClock
from engine.errors import ExecutionRecoveryMismatch
from engine.host import Engine, Settings
from engine.pipeline import manifest as manifests
from engine.pipeline.checkpoints import Limits
from engine.pipeline.declaration import PEPPER
from engine.profile import DEFAULT, Profile, open_profile
from engine.sealed import KEY
from engine.secrets import SecretGuard
from engine.site import site_id
from engine.storage import initialize, is_empty
from engine.trace import caller

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.pipeline.declaration import Export, Manifest, Pipeline
    from engine.pipeline.source import Secrets

PROFILE = "CONTEXTFUL_STORAGE_PROFILE"


@dataclass(slots=True)
class Project:
    """A manifest, the environment it is read in and the profile its state lives in, opened at first use."""

    manifest: Manifest
    environ: Mapping[str, str]
    clock: Clock = field(default_factory=SystemClock)
    _profile: Profile | None = None

    @classmethod
    def find(
        cls, path: Path | None = None, *, environ: Mapping[str, str] | None = None, clock: Clock | None = None
    ) -> Self:
        """The project of the manifest at `path`, or of the nearest one upward from the working directory."""
        environment = os.environ if environ is None else environ
        declared = manifests.load(path or manifests.find(), environment)
        return cls(declared, environment, clock or SystemClock())

    @property
    def profile(self) -> Profile:
        """The storage profile, opened once."""
        if self._profile is None:
            name = self.environ.get(PROFILE, DEFAULT)
            self._profile = open_profile(name, self.manifest.root, clock=self.clock, environ=self.environ)
        return self._profile

    def engine(
        self, *, site: str | None = None, site_env: str | None = None, limits: Limits | None = None, **options: Any
    ) -> Engine:
        """An engine over the profile. A store nobody has used is initialized; one that lost its state is refused.

        `limits` are the bytes that a run may stage, by default what the contract names.
        Raise `SiteIdUnresolved`, or what the profile's preflight finds.
        """
        site_name = site_id(self.manifest, self.environ, option=site, option_env=site_env)
        self.initialize_if_new()
        settings = Settings(
            self.manifest.project,
            site_name,
            guard=SecretGuard(self.known_secrets()),
            destinations={d.name: d for d in self.manifest.destinations},
            limits=limits or Limits(),
            pepper=self.environ.get(PEPPER),
            caller=caller(self.environ),
        )
        return Engine(self.profile, settings, clock=self.clock, **options)

    def initialize_if_new(self) -> None:
        """Initialize a store that holds no table and no rows (run.journal.execution-recovery).

        Rows without state mean that state was lost: creating it anew in silence would pay for everything again.
        """
        profile = self.profile
        if not is_empty(profile.database):
            return
        if next(iter(profile.objects.list("")), None) is not None:
            raise ExecutionRecoveryMismatch(found="the corpus holds rows and the execution state is missing")
        self.initialize()

    def initialize(self) -> None:
        """Create what the store lacks (contextful storage initialize)."""
        initialize(self.profile, project=self.manifest.project)

    def secrets(self, pipeline: Pipeline) -> Secrets:
        """The secrets one pipeline needs. Raise `SecretNotFound` naming every one that is not set."""
        return manifests.secrets_of(replace(self.manifest, pipelines=(pipeline,), destinations=()), self.environ)

    def export_secrets(self, export: Export) -> Secrets:
        """The secrets that an export's destination needs. Raise `SecretNotFound` naming every one that is not set."""
        destinations = tuple(each for each in self.manifest.destinations if each.name == export.destination)
        return manifests.secrets_of(replace(self.manifest, pipelines=(), destinations=destinations), self.environ)

    def known_secrets(self) -> dict[str, str]:
        """Every secret the manifest names that is set, pepper and seal key too: what the guard keeps out of records."""
        names = self.manifest.secret_names | {PEPPER, KEY}
        return {name: self.environ[name] for name in names if self.environ.get(name)}

    def close(self) -> None:
        """Close the profile, if it was opened."""
        if self._profile is not None:
            self._profile.close()

    def __enter__(self) -> Self:
        """Use the project in a `with` block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


def start(
    manifest: Path | str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    **options: Any,
) -> Engine:
    """Start an engine over the manifest and profile the command line would find.

    `manifest` is a path, None for the nearest `contextful.toml` upward from the working directory. Use the engine in a
    `with` block. Raise what the manifest, the site id or the profile's preflight find wrong.
    """
    path = None if manifest is None else Path(manifest)
    return Project.find(path, environ=environ, clock=clock).engine(**options)
