"""What is wrong with a manifest, a command line or the environment."""

from __future__ import annotations

from engine.errors.base import ContextfulError, NamedError, named
from engine.errors.failures import Config, Permanent
from engine.shapes import FailureTag


@named
class SecretNotFound(NamedError, Config):
    """A `${NAME}` of the manifest stands for a variable that is not set; `also` holds further (name, path) pairs."""

    tag = FailureTag.SECRET_NOT_FOUND
    name: str
    path: str
    also: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        wanted = ((self.name, self.path), *self.also)
        needs = "; ".join(f"{path} needs the secret {name}" for name, path in wanted)
        names = ", ".join(dict.fromkeys(name for name, _ in wanted))
        remedy = f"set the variable{'s' * (', ' in names)} {names}"
        ContextfulError.__init__(self, f"{needs}, and the environment holds none", remedy=remedy)


@named
class ManifestInvalid(NamedError, Config):
    """A manifest cannot be used; `problems` holds every one of them as `key path: found, allowed`."""

    file: str
    problems: tuple[str, ...]
    says = "{file}: {count} found\n{listed}"

    def __post_init__(self) -> None:
        count = f"{len(self.problems)} problem{'s' * (len(self.problems) != 1)}"
        listed = "\n".join(f"  - {problem}" for problem in self.problems)
        ContextfulError.__init__(self, self.says.format(file=self.file, count=count, listed=listed))


@named
class InitRefused(NamedError, Config):
    """`contextful init` would have to overwrite a file, or cannot write it."""

    file: str
    reason: str
    says = "{file} is not written: {reason}"
    remedy = "edit what is there, or run contextful init in another folder"


@named
class PipelineUnknown(NamedError, Config):
    """The manifest declares no such pipeline; `hint` names those it does."""

    pipeline: str
    hint: str
    says = "the manifest has no pipeline {pipeline!r}"
    remedy = "{hint}"


@named
class TableUnknown(NamedError, Config):
    """No such table at `place`; `hint` names those there are."""

    table: str
    place: str
    hint: str
    says = "{place} has no table {table!r}"
    remedy = "{hint}"


@named
class DestinationUnknown(NamedError, Config):
    """A step names a destination that the manifest does not declare; `known` names those it does."""

    destination: str
    step: str
    known: str
    says = "step {step} goes to the destination {destination!r}, which the manifest does not declare"
    remedy = "declare it as a [[destination]]; declared: {known}"


@named
class RunIdUsed(NamedError, Config):
    """A run of that id is recorded already: an id names one attempt."""

    run_id: str
    says = "the run id {run_id!r} is used: an earlier attempt is recorded under it"
    remedy = "choose another, or leave it out to have one drawn"


@named
class RunIdUnusable(NamedError, Config):
    """A run is named by what names no object."""

    found: str
    says = "the run id {found} is none: 1 to 128 letters, digits, '.', '_' or '-', the first a letter or digit"
    remedy = "name it so, or leave it out to have one drawn"


@named
class HostScopeUnusable(NamedError, Config):
    """A host scope is named by what people cannot read, tell apart or type again (run.own.host-scope)."""

    found: str
    says = (
        "the scope {found} is none: 1 to 512 printable characters, the first a letter or digit, the last no space, "
        "and not beginning with 'export:'"
    )
    remedy = "name the scope by the work it is for, such as 'score-42'"


@named
class RunUnknown(NamedError, Config):
    """No run of that id is recorded."""

    run_id: str
    says = "no run {run_id!r} is recorded"
    remedy = "contextful run list names the latest ones"


@named
class ConfirmationNeeded(NamedError, Config):
    """A verb that takes something away was neither confirmed on a terminal nor by `--yes`."""

    action: str
    says = "{action}, and nobody is here to confirm it"
    remedy = "add --yes to do it"


@named
class PositionSpelling(NamedError, Config):
    """What `--to` says is no position of the table."""

    table: str
    found: str
    expected: str
    says = "{found!r} is no position of {table}; expected {expected}"
    remedy = "contextful pipeline reset without --to starts over from nothing"


@named
class DurationSpelling(NamedError, Config):
    """A text that stands for a stretch of time is none."""

    place: str
    text: str
    says = "{place} is {text!r}, and that is no duration"
    remedy = "write a number above zero and ms, s, m, h or d, such as 2h"


@named
class InstantSpelling(NamedError, Config):
    """An instant in another spelling than the two admitted."""

    found: str
    says = "{found!r} is no instant"
    remedy = "write a UTC instant such as 2026-01-31T06:00:00Z, or YYYY-MM-DD for the first instant of a day"


@named
class SiteIdUnresolved(NamedError, Config):
    """No usable site id at startup (run.record.site-id-unresolved, run.record.site-id-length)."""

    reason: str
    says = "the site id is not resolved: {reason}"
    remedy = "declare project.site_id (1 to 64 letters, digits, '.', '_' or '-') or project.site_id_env"


@named
class HistoryBoundSpelling(NamedError, Config):
    """A window's lower bound in another spelling than the two admitted (run.record.bound-spelling)."""

    found: str
    says = "{found!r} is no lower bound of a history window"
    remedy = "write YYYY-MM-DD or a UTC instant such as 2026-01-31T06:00:00Z"


@named
class ManifestSnapshotSuperseded(NamedError, Permanent):
    """Another operator applied another manifest first; this one was compared with `standing` (0: none)."""

    number: int
    standing: int
    by: str
    applied_at: int
    says = "snapshot {number} was applied by {by} at {applied_at}, on top of {standing} as this one would have been"
    remedy = "look at what it changed, bring it into your manifest, then: contextful pipeline apply"


@named
class RunRetryTagUnretryable(NamedError, Config):
    """The `retry_on` at `place` names a tag no schedule may retry (run.retry.unretryable-tag)."""

    found: str
    place: str = "retry_on"
    says = "{place} names {found}, which no schedule retries"
    remedy = "name Transient, RateLimited or both"


@named
class ScheduleUnusable(NamedError, Config):
    """A program's `Schedule` holds what none can; `problems` holds every one of them, as a manifest's are told."""

    problems: tuple[str, ...]
    says = "no schedule is like this: {listed}"

    def __post_init__(self) -> None:
        ContextfulError.__init__(self, self.says.format(listed=" | ".join(self.problems)))


@named
class PinUnusable(NamedError, Config):
    """A host execution would pin what no later open can be compared with (run.own.host-scope)."""

    pin: str
    found: str
    says = "the pin {pin} is {found}, and no later open could be compared with that"
    remedy = "name each pin by a text and let it be a text or another JSON value, such as a model's name"


@named
class CapabilityUnwired(NamedError, Config):
    """The running profile has no such capability (run.journal.unwired-capability)."""

    capability: str
    profile: str
    says = "the profile {profile} does not wire {capability}"
    remedy = "choose a profile that does, or leave it out of the declaration"
