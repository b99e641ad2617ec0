"""The options commands share, each with the variable that stands for it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

from engine.cli.parsing import Argument, Misuse, Option
from engine.ids import RUN_ID

_DURATION: Final = re.compile(r"(\d{1,12})(ms|s|m|h|d)", re.ASCII)
_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(text: str) -> int:
    """Milliseconds of a duration such as `60s`. Raise `Misuse` for another spelling."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise Misuse(f"{text!r} is no duration; write a number and ms, s, m, h or d, such as 60s")
    return int(match[1]) * _UNITS[match[2]]


def run_id_of(text: str) -> str:
    """`text` as the id of a run. Raise `Misuse`."""
    if not RUN_ID.fullmatch(text):
        raise Misuse("a run id is 1 to 128 letters, digits, '.', '_' or '-', the first a letter or digit")
    return text


def run_id_option(command: str, *, means: str) -> Option:
    """The option `--run-id` of what runs a `command`; `means` tells what it names there."""
    variable = f"CONTEXTFUL_{command.upper()}_RUN_ID"
    shown = f"{means} After success it is only shown again."
    return Option("--run-id", envvar=variable, metavar="R", parser=run_id_of, help=shown)


def wait_option(command: str, *, same: str) -> Option:
    """The option `--wait` of what runs a `command`; `same` tells what a live run would be of."""
    variable = f"CONTEXTFUL_{command.upper()}_WAIT"
    means = f"Sit out a live run of the same {same}, or an instant it waits for, before giving up with 75."
    return Option("--wait", envvar=variable, metavar="60s", parser=duration_ms, help=means)


ManifestPath = Annotated[
    Path | None,
    Option(
        "--manifest",
        envvar="CONTEXTFUL_MANIFEST",
        metavar="PATH",
        help="The manifest; without it the nearest contextful.toml upward.",
    ),
]
Json = Annotated[
    bool,
    Option("--json", envvar="CONTEXTFUL_JSON", help="One JSON document on standard output and nothing else."),
]
DryRun = Annotated[
    bool,
    Option("--dry-run", envvar="CONTEXTFUL_DRY_RUN", help="Say what would be done, and do nothing."),
]
PipelineId = Annotated[str, Argument(metavar="ID", help="A pipeline of the manifest.")]
TableName = Annotated[
    str | None,
    Option("--table", envvar="CONTEXTFUL_PIPELINE_TABLE", metavar="T", help="This table of the pipeline only."),
]
Yes = Annotated[bool, Option("--yes", envvar="CONTEXTFUL_YES", help="Do it without asking.")]
Pipelines = Annotated[
    list[str] | None,
    Option("--pipeline", envvar="CONTEXTFUL_RUN_PIPELINE", metavar="P", help="Runs of this pipeline; may be repeated."),
]
Since = Annotated[
    str | None,
    Option(
        "--since",
        envvar="CONTEXTFUL_RUN_SINCE",
        metavar="B",
        help="Runs started at or after this date or UTC instant: 2026-01-31 or 2026-01-31T06:00:00Z.",
    ),
]
Limit = Annotated[
    int | None,
    Option("--limit", envvar="CONTEXTFUL_RUN_LIMIT", metavar="N", least=1, help="At most so many runs."),
]
SiteId = Annotated[
    str | None,
    Option("--site-id", envvar="CONTEXTFUL_PIPELINE_SITE_ID", metavar="S", help="The site that writes."),
]
SiteIdEnv = Annotated[
    str | None,
    Option(
        "--site-id-env",
        envvar="CONTEXTFUL_PIPELINE_SITE_ID_ENV",
        metavar="V",
        help="The variable that holds the site id.",
    ),
]
