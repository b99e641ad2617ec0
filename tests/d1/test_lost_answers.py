"""A write whose answer is lost is looked up by what only it can have left, and is never sent twice."""

from __future__ import annotations

import pytest

from engine.errors import ExecutionSuperseded, StorageBindingUnavailable
from engine.fires import Fires
from engine.shapes import INLINE_LIMIT, Awakeable, EntryKey, FireState, RunStatus

pytestmark = pytest.mark.clause("run.journal.d1-transport")

BIG = bytes(INLINE_LIMIT + 1)


def key(opened, step: str = "one") -> EntryKey:
    return EntryKey(opened.attempt.execution_id, step, "in")


def sent(desk, statement: str) -> int:
    return sum(statement in batch for batch in desk.database.sent)


def test_a_claim_that_was_applied_is_known_by_its_token(desk):
    opened = desk.open()
    desk.database.lose("claim_entry")

    entry = desk.journal.claim(key(opened), attempt=opened.attempt, token="t-1")

    assert (entry.claim, entry.attempts, entry.recorded) == ("t-1", 0, False)
    assert sent(desk, "claim_entry") == 1


def test_a_claim_that_was_not_applied_is_raised_as_unknown(desk):
    opened = desk.open()
    desk.database.lose("claim_entry", applied=False)

    with pytest.raises(StorageBindingUnavailable) as raised:
        desk.journal.claim(key(opened), attempt=opened.attempt, token="t-1")

    assert raised.value.applied == "unknown"
    assert sent(desk, "claim_entry") == 1


def test_a_claim_of_a_superseded_attempt_is_not_taken_for_a_standing_one(desk):
    opened = desk.open()
    desk.journal.claim(key(opened), attempt=opened.attempt, token="t-1")
    desk.owners.release(opened.attempt, run=desk.ended(opened.run, RunStatus.FAILED))
    desk.open(run_id="r-2")
    desk.database.lose("claim_entry", applied=False)

    with pytest.raises(StorageBindingUnavailable):
        desk.journal.claim(key(opened), attempt=opened.attempt, token="t-1")


def test_a_binding_that_stays_dead_leaves_the_writes_own_failure(desk):
    opened = desk.open()
    desk.database.lose("claim_entry", dead_after=True)

    with pytest.raises(StorageBindingUnavailable) as raised:
        desk.journal.claim(key(opened), attempt=opened.attempt, token="t-1")

    assert raised.value.applied == "unknown"


@pytest.mark.parametrize("value", [b"", b"small", BIG])
def test_a_record_that_was_applied_is_known_by_its_value(desk, value: bytes):
    opened = desk.open()
    desk.journal.claim(key(opened), attempt=opened.attempt, token="t-1")
    desk.database.lose("record_entry")

    desk.journal.record(key(opened), attempt=opened.attempt, token="t-1", value=value)

    entry = desk.journal.find(key(opened))
    assert desk.journal.value(entry) == value
    assert sent(desk, "record_entry") == 1


@pytest.mark.parametrize("value", [b"", b"small", BIG])
def test_a_record_that_was_not_applied_is_raised_and_its_claim_stands(desk, value: bytes):
    opened = desk.open()
    desk.journal.claim(key(opened), attempt=opened.attempt, token="t-1")
    desk.database.lose("record_entry", applied=False)

    with pytest.raises(StorageBindingUnavailable):
        desk.journal.record(key(opened), attempt=opened.attempt, token="t-1", value=value)

    assert desk.journal.find(key(opened)).claim == "t-1"
    assert sent(desk, "record_entry") == 1


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize(
    ("statement", "verb"),
    [
        ("renew_claim", lambda journal, key: journal.renew(key, token="t-1", attempts=2, next_attempt_at=5)),
        ("surrender_claim", lambda journal, key: journal.surrender(key, token="t-1", next_attempt_at=None)),
        ("park_claim", lambda journal, key: journal.park(key, token="t-1")),
        ("withdraw_claim", lambda journal, key: journal.withdraw(key, token="t-1")),
    ],
)
def test_every_other_verb_on_a_claim_goes_on_only_where_its_row_shows_it(desk, statement: str, verb, applied: bool):
    opened = desk.open()
    desk.journal.claim(key(opened), attempt=opened.attempt, token="t-1")
    desk.database.lose(statement, applied=applied)

    raised = None
    try:
        verb(desk.journal, key(opened))
    except StorageBindingUnavailable as unavailable:
        raised = unavailable.applied

    assert raised == (None if applied else "unknown")
    assert sent(desk, statement) == 1


def test_an_open_that_was_applied_is_known_by_run_and_holder(desk):
    desk.database.lose("open_owner")

    opened = desk.open()

    assert (opened.owner.attempt, opened.owner.holder, opened.resumed) == ("r-1", "h-1", False)
    desk.owners.check(opened.attempt)
    assert sent(desk, "open_owner") == 1


def test_an_open_that_resumes_is_known_as_well(desk):
    first = desk.open()
    desk.owners.release(first.attempt, run=desk.ended(first.run, RunStatus.FAILED))
    desk.database.lose("open_owner")

    opened = desk.open(run_id="r-2")

    assert (opened.resumed, opened.owner.execution_id) == (True, first.owner.execution_id)


def test_an_open_that_wakes_a_waiting_attempt_goes_on_as_that_attempt(desk):
    first = desk.open()
    waiting = first.run.waiting(desk.database.now() + 1, failure=ExecutionSuperseded(scope="s", attempt="a"))
    desk.owners.park(first.attempt, run=waiting, wake_at=desk.database.now() + 1)
    desk.database.lose("open_owner")

    opened = desk.open(run_id="r-2")

    assert (opened.woken, opened.attempt.run_id) == (True, "r-1")


def test_an_open_applied_after_it_was_raised_is_given_back_by_the_next_one(desk):
    desk.database.lose("open_owner", dead_after=True)
    with pytest.raises(StorageBindingUnavailable):
        desk.open()
    desk.database.reads_too = False

    opened = desk.open(run_id="r-2")

    assert (opened.attempt.run_id, opened.resumed) == ("r-2", True)
    assert desk.store.run("r-1").status is RunStatus.FAILED


def test_an_open_that_was_not_applied_is_raised_and_leaves_nothing(desk):
    desk.database.lose("open_owner", applied=False)

    with pytest.raises(StorageBindingUnavailable):
        desk.open()

    assert desk.owners.read("host:job") is None
    assert desk.open(run_id="r-2").resumed is False


ENDS = [
    ("retire_owner", lambda owners, opened, run: owners.retire(opened.attempt, run=run)),
    ("finish_owner", lambda owners, opened, run: owners.finish(opened.attempt, run=run)),
    ("release_owner", lambda owners, opened, run: owners.release(opened.attempt, run=run)),
]


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize(("statement", "verb"), ENDS)
def test_an_end_goes_on_only_where_the_runs_row_shows_it(desk, statement: str, verb, applied: bool):
    opened = desk.open()
    run = desk.ended(opened.run)
    desk.database.lose(statement, applied=applied)

    raised = None
    try:
        verb(desk.owners, opened, run)
    except StorageBindingUnavailable as unavailable:
        raised = unavailable.applied

    assert raised == (None if applied else "unknown")
    assert desk.store.run("r-1").status is (RunStatus.SUCCESS if applied else RunStatus.RUNNING)
    assert sent(desk, statement) == 1


@pytest.mark.parametrize("applied", [True, False])
def test_a_checkpoint_goes_on_only_where_its_pulls_are_gone(desk, applied: bool):
    opened = desk.open()
    pull = key(opened, "pull:0")
    desk.journal.claim(pull, attempt=opened.attempt, token="t-1")
    desk.journal.record(pull, attempt=opened.attempt, token="t-1", value=b"rows")
    desk.database.lose("collect_pulls", applied=applied)

    raised = None
    try:
        desk.owners.checkpoint(opened.attempt, landed=1, also=())
    except StorageBindingUnavailable as unavailable:
        raised = unavailable.applied

    assert raised == (None if applied else "unknown")
    assert (desk.journal.find(pull) is None) is applied


@pytest.mark.parametrize("applied", [True, False])
def test_a_withdrawal_goes_on_only_where_the_owner_is_gone(desk, applied: bool):
    opened = desk.open()
    desk.owners.release(opened.attempt, run=desk.ended(opened.run, RunStatus.FAILED))
    desk.database.lose("retire_owner", applied=applied)

    raised = None
    try:
        desk.owners.withdraw(desk.owners.read("host:job"))
    except StorageBindingUnavailable as unavailable:
        raised = unavailable.applied

    assert raised == (None if applied else "unknown")
    assert (desk.owners.read("host:job") is None) is applied


def awakeable(opened, deadline: int = 10_000) -> Awakeable:
    return Awakeable("token", opened.attempt.execution_id, "approval", 1, deadline)


@pytest.mark.parametrize("applied", [True, False])
def test_a_mint_goes_on_only_where_its_row_stands(desk, applied: bool):
    wait = awakeable(desk.open())
    desk.database.lose("mint_awakeable", applied=applied)

    raised = None
    try:
        desk.awakeables.mint(wait)
    except StorageBindingUnavailable as unavailable:
        raised = unavailable.applied

    assert raised == (None if applied else "unknown")


@pytest.mark.parametrize("applied", [True, False])
def test_a_resolution_goes_on_only_where_the_wait_shows_it(desk, applied: bool):
    wait = awakeable(desk.open())
    desk.awakeables.mint(wait)
    desk.database.lose("resolve_awakeable", applied=applied)

    raised = None
    try:
        desk.awakeables.resolve("token", b"yes", at=2)
    except StorageBindingUnavailable as unavailable:
        raised = unavailable.applied

    assert raised == (None if applied else "unknown")
    assert desk.awakeables.resolve("token", b"yes", at=3) == b"yes"


@pytest.mark.parametrize("applied", [True, False])
def test_a_timeout_goes_on_only_where_the_wait_shows_it(desk, applied: bool):
    wait = awakeable(desk.open())
    desk.awakeables.mint(wait)
    desk.database.lose("time_out_awakeable", applied=applied)

    raised = None
    try:
        assert desk.awakeables.time_out("token", at=20_000)
    except StorageBindingUnavailable as unavailable:
        raised = unavailable.applied

    assert raised == (None if applied else "unknown")


@pytest.mark.parametrize("applied", [True, False])
def test_a_fire_is_requested_and_moved_only_where_its_row_shows_it(desk, applied: bool):
    desk.register()
    fires = Fires(desk.database)
    fires.request("f-1", pipeline_id="p")
    fires.begin("f-1", holder="h-1")
    raised = []

    for statement, verb in (
        ("request_fire", lambda: fires.request("f-2", pipeline_id="p")),
        ("move_fire", lambda: fires.end("f-1", FireState.COMPLETED, holder="h-1")),
    ):
        desk.database.lose(statement, applied=applied)
        try:
            verb()
        except StorageBindingUnavailable as unavailable:
            raised.append(unavailable.applied)

    assert raised == ([] if applied else ["unknown"] * 2)
    assert fires.read("f-1").state is (FireState.COMPLETED if applied else FireState.RUNNING)
