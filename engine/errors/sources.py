"""What a source answered, a position is worth, or the corpus refuses."""

from __future__ import annotations

from engine.errors.base import NamedError, named
from engine.errors.failures import Config, Permanent, SchemaIncompatible, StorageFailure, Transient


@named
class CursorFieldMismatch(NamedError, Config):
    """The stored watermark is another column's (run.advance.field-rename)."""

    table: str
    stored: str
    declared: str
    says = "the position of {table} is a watermark of {stored!r}, and its manifest declares incremental = {declared!r}"
    remedy = "restore the declaration, or start over: contextful pipeline reset PIPELINE --table {table}"


@named
class CursorPositionUnorderable(NamedError, Permanent):
    """A row's clock cannot be ordered among the others (run.advance.unorderable-position)."""

    table: str
    field: str
    found: str
    place: str
    says = "{table}.{field} cannot be ordered: {found} ({place})"
    remedy = "name a column whose values are all numbers, all RFC 3339 instants or all plain text as incremental"


@named
class LatenessUnmeasurable(NamedError, Config):
    """A table's clock is no moment that its `allowed_lateness` could be taken from (run.advance.allowed-lateness)."""

    table: str
    field: str
    found: str
    place: str
    says = "{table}.{field} is no moment that allowed_lateness could be taken from: {found} ({place})"
    remedy = "drop allowed_lateness, or name a column of RFC 3339 instants or dates as incremental"


@named
class SourceShape(NamedError, Permanent):
    """What the source answered is not what the manifest says."""

    place: str
    path: str
    found: str
    expected: str
    says = "{place}: at {path!r} stood {found}, expected {expected}"
    remedy = "contextful pipeline preview shows the first page; mend the source, or what the manifest says of it"


@named
class SourceChanged(NamedError, Permanent):
    """What a walk has read already is no longer what its source holds: going on would land a mixture of the two."""

    file: str
    found: str
    pipeline: str
    table: str
    says = "{file} has changed since rows of it were read for {table}: {found}"
    remedy = (
        "put back what was read, or have everything read again: contextful run rewind X --reason TEXT --force, X as "
        "contextful status names it; where none is pending, contextful pipeline reset {pipeline} --table {table}"
    )

    @property
    def first(self) -> str | None:
        """The next step: whoever goes on from what was read meets the same again."""
        return self.remedy


@named
class SourceLoop(NamedError, Permanent):
    """A page leads to one already asked in the same walk."""

    place: str
    position: str
    says = "{place} leads back to {position}, which this walk has asked before"
    remedy = "mend `paginate`, or report it to the API's owner: following it would never end"


@named
class SourceOriginRefused(NamedError, Permanent):
    """A link or redirect to another origin while secret headers are set."""

    place: str
    origin: str
    target: str
    says = "{place} leads from {origin} to {target}, and secrets go to the source's own origin only"
    remedy = "point the source's url at that origin if it is meant"


@named
class ConnectorBoundHit(NamedError, Transient):
    """A source struck `linear-memory` or `call-deadline`, `bound` says which (run.retry.bound-hit-is-transient)."""

    place: str
    bound: str
    limit: str
    says = "{place} struck the bound {bound} ({limit})"


@named
class JournalRedactionConflict(NamedError, Config):
    """A journaled source declares removal that the table does not prepare (run.journal.redacting-source)."""

    table: str
    source: str
    columns: str
    says = "the source {source} removes {columns}, and recording the pulls of {table} would keep them"
    remedy = 'name each such column in `removes` and declare columns.<name>.class = "drop", "null" or "hash" for it'


@named
class SnapshotIncomplete(NamedError, Permanent):
    """A replacing table's source ended without its complete inventory (run.advance.snapshot-completion)."""

    table: str
    says = "the source of {table} ended before its inventory was complete, so nothing was replaced"
    remedy = "run again; a source of a replacing table must say snapshot_complete on its last pull"


@named
class StoreSchemaIncompatible(NamedError, SchemaIncompatible):
    """A column's type does not merge with what stands (run.own.stage-schema)."""

    table: str
    column: str
    standing: str
    found: str
    place: str
    says = "{table}.{column} is {standing} and cannot take {found} ({place})"
    remedy = (
        'mend the value in the source, or declare in columns.{column}.type what takes every value, such as "string"; '
        "where rows of another type stand already, contextful table drop {table} first"
    )


@named
class PrimaryKeyMissing(NamedError, SchemaIncompatible):
    """No row of a table has ever had a value in a declared key column: reads would take different rows for one."""

    table: str
    column: str
    columns: str
    says = "{table} declares {column!r} in its primary_key, and no row has a value there; it has {columns}"
    remedy = "name the columns that tell its rows apart in primary_key, as the source spells them"


@named
class ColumnNameRefused(NamedError, SchemaIncompatible):
    """A column's name cannot stand in a table: empty, injected, or told from another by case alone."""

    table: str
    column: str
    reason: str
    place: str
    says = "{table} cannot take a column named {column!r}: {reason} ({place})"
    remedy = "rename it in what the source answers, or ask it for other fields"


@named
class CommitMissing(NamedError, StorageFailure):
    """A table's commits have a gap: one is gone and a later one stands."""

    table: str
    missing: str
    later: str
    says = "{table}: the commit manifest {missing} is missing and {later} stands behind it"
    remedy = "bring it back from a copy of the corpus; contextful storage check lists everything that is missing"


@named
class CommitOvertaken(NamedError, Transient):
    """Another attempt of the execution published a commit that covers other pulls than this one's."""

    table: str
    run_id: str
    says = "run {run_id} has published rows of {table} that this attempt was about to publish with others"
    remedy = "run again: it goes on from what is published"


@named
class PositionOvertaken(NamedError, Transient):
    """An engine on another state has moved a position that has no order (run.advance.concurrency-by-kind)."""

    table: str
    run_id: str
    site_id: str
    says = "{table}: run {run_id} of site {site_id} has moved its position since this run went on from it"
    remedy = (
        "run again: it goes on from there; where several states share one corpus, run a table whose position has no "
        "order from one of them"
    )


@named
class RunCheckpointIdTooLong(NamedError, Permanent):
    """The commits of a run would outgrow what may name one (run.own.checkpoint-id-length)."""

    run_id: str
    next_id: str
    limit: int
    says = "run {run_id} has to commit more than once, and its next commit's id {next_id} passes {limit} characters"
    remedy = "choose a shorter --run-id, or none; nothing of this run is committed, and the next one pulls afresh"


@named
class RunStagedBytesExceeded(NamedError, Permanent):
    """A run would stage more than it may between two commits (run.own.staged-bytes)."""

    table: str
    pipeline: str
    staged: int
    limit: int
    says = "{table} would have {staged} bytes staged since its last commit, and {limit} are allowed"
    remedy = (
        "load it in windows of time: contextful pipeline backfill {pipeline} --from A --to B --every 1d; or page it by "
        "number, offset or token, so that it can commit on its way"
    )


@named
class CommitContended(NamedError, Transient):
    """Every number a commit tried for went to another one."""

    table: str
    attempts: int
    says = "{attempts} other commits to {table} came first, one after the other"
    remedy = "run again: what was read is recorded and lands without being asked for anew"


@named
class LateType(NamedError, SchemaIncompatible):
    """A pull declares a type for a column an earlier staged batch carried untyped."""

    table: str
    column: str
    declared: str
    says = "{table}.{column} was staged without a type and is now declared {declared}"
    remedy = "declare the type from the first pull on; the next fire pulls afresh"


@named
class ReadRefused(NamedError, Config):
    """The read face takes one SELECT and nothing that writes."""

    reason: str
    says = "the statement is refused: {reason}"
    remedy = "write one SELECT over the tables contextful read lists"
