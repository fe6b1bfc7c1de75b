"""The state machine of a job's attempts, driven with events alone: no cluster, no volume, no clock."""

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.domain.assignment import Assignment, PartialStep
from orchestrator.domain.events import AttemptFailed, Event, JobFinished, StepFinished
from orchestrator.domain.exit_reasons import ExitReason
from orchestrator.domain.ids import JobId, digest
from orchestrator.domain.plan import Cell, Job, Stage
from orchestrator.errors import (
    ClusterRefused,
    DriverLost,
    ImagePullFailed,
    PlayerRefused,
    PodLost,
    PodRefused,
    StoreFault,
    Unschedulable,
)
from orchestrator.executors.kubernetes import attempt_state_machine
from orchestrator.executors.kubernetes.active_job import ActiveJob, StartFailure, resume_job
from orchestrator.executors.kubernetes.attempt_state_machine import (
    MAX_FRUITLESS_ATTEMPTS,
    Action,
    AssignAttempt,
    AttemptEvent,
    AttemptMachine,
    AttemptObserved,
    CompleteJob,
    CreateJob,
    DeleteJob,
    FinishedWithoutPlayer,
    FinishWithoutPlayer,
    JobAbsent,
    JobCreated,
    JobRefused,
    KeepBatch,
    LogJobEnd,
    MachineState,
    NameTaken,
    ParkJob,
    QuotaExceeded,
    RemoveFolder,
)
from orchestrator.executors.kubernetes.attempt_status import AttemptState, AttemptStatus, OomKills, PlayerExits
from orchestrator.executors.kubernetes.labels import Attempt, RoundRef
from orchestrator.executors.kubernetes.shared_volume import AttemptEnd, DriverOutcome
from orchestrator.executors.kubernetes.start_failures import MIN_START_FAILURES, NodeStartHistory
from orchestrator.executors.kubernetes.timings import ControllerTimings

from .scripted_round import STEPS, died, end, sandbox, step

TIMINGS = ControllerTimings()
JOB = Job(JobId("a"), Stage.CLASSIFY, "team-a")
OTHER_JOB = Job(JobId("b"), Stage.CLASSIFY, "team-b")
ROUND = RoundRef("cup", "final", "digits", digest("one"))
STATES = {state.name: state for state in MachineState}
REPLACED = ["AssignAttempt", "DeleteJob", "RemoveFolder"]

RUNNING = AttemptStatus(
    AttemptState.RUNNING, "plays on node node-1", oom_kills=OomKills(player=False, attack=False), node="node-1"
)
UNEXPLAINED = replace(RUNNING, oom_kills=OomKills())
OUT_OF_MEMORY = replace(RUNNING, oom_kills=OomKills(player=True))
QUEUED = AttemptStatus(AttemptState.WAITING, "waits in queue q", PodRefused, times_out=False)
UNSCHEDULABLE = AttemptStatus(AttemptState.WAITING, "insufficient cpu", Unschedulable)
EVICTED = AttemptStatus(
    AttemptState.ENDED, "its pod was evicted", oom_kills=OomKills(player=False, attack=False), node="node-1"
)
GONE = AttemptStatus(AttemptState.ENDED, "its pod is gone", oom_kills=OomKills(player=False, attack=False))
LEAVING = AttemptStatus(
    AttemptState.TERMINATING, "its pod was deleted", oom_kills=OomKills(player=False, attack=False), node="node-1"
)
EXITED = AttemptStatus(
    AttemptState.ENDED,
    "the driver ended",
    DriverLost,
    driver_exited=True,
    oom_kills=OomKills(player=False, attack=False),
)
OVERDUE = AttemptStatus(
    AttemptState.ENDED, "it ran past its deadline", DriverLost, oom_kills=OomKills(player=False, attack=False)
)
REFUSED = AttemptStatus(AttemptState.ENDED, "StartError", PlayerRefused, stuck_container="player", node="node-1")

PLAYED = (step("a", 0),)
LAST = (step("a", 1), end("a"))
LOST_STEP = (step("a", 0, sandboxes=[sandbox()], faults=[died()]),)
LOST_PARTIAL = PartialStep(step=0, completed=1, sandboxes=[sandbox()], faults=[died()])
FINISHED = AttemptEnd(outcome=DriverOutcome.FINISHED, batches=0)
NEEDS_PLAYER = AttemptEnd(outcome=DriverOutcome.NEEDS_PLAYER, batches=0)
MISSING = AttemptEnd(outcome=DriverOutcome.NEEDS_PLAYER, batches=1)
FAULT = AttemptEnd(outcome=DriverOutcome.FAULT, batches=0, code="store", message="no space left")


def active_job(job: Job = JOB, number: int = 1, **more: object) -> ActiveJob:
    """A job of which the ledger has nothing."""
    return ActiveJob(Attempt(ROUND, job, number), set(), set(), **more)


def machine_of(job: ActiveJob | None = None, history: NodeStartHistory | None = None) -> AttemptMachine:
    """The machine of a job."""
    return AttemptMachine(job or active_job(), TIMINGS, history or NodeStartHistory(gpus=False))


def refused_job() -> ActiveJob:
    """A job whose player node-1 has refused one time less than makes anybody ask whose fault that is."""
    times = range(MIN_START_FAILURES - 1)
    failures = tuple(StartFailure("team-a", "node-1", float(time)) for time in times)
    return active_job(fruitless_attempts=len(failures), start_failures=failures)


def refused_while_others_start() -> AttemptMachine:
    """The machine of a refused job, where node-1 has started another submission's player."""
    history = NodeStartHistory(gpus=False)
    history.record_start("team-b", "node-1", 1.0)
    return machine_of(refused_job(), history)


def names(actions: Sequence[Action]) -> list[str]:
    """The types of actions, in order."""
    return [type(action).__name__ for action in actions]


def kept(actions: Sequence[Action]) -> list[Event]:
    """The events that are to be kept, in order."""
    return [event for action in actions if isinstance(action, KeepBatch) for event in action.batch]


# The table in the module's docstring


@dataclass(frozen=True)
class Row:
    """A row of the table, in the states that its heading names."""

    states: list[MachineState]
    event: str
    actions: list[str]
    following: str


def read_table() -> dict[int, Row]:
    """The table of the module's docstring, by the numbers of its rows."""
    states: list[MachineState] = []
    rows: dict[int, Row] = {}
    for line in (attempt_state_machine.__doc__ or "").splitlines():
        if re.match(r"    [A-Z_]+[:,]", line):
            states = [STATES[name] for name in re.findall(r"\b[A-Z_]{4,}\b", line)]
        elif found := re.match(r"\s+(\d+)  \| (.+?) *\| (.+?) *\| (\S+)$", line):
            number, event, actions, following = found.groups()
            rows[int(number)] = Row(
                list(states), event.partition(":")[0], re.findall(r"[A-Z]\w+|next", actions), following
            )
    return rows


ROWS = read_table()


@dataclass(frozen=True)
class Case:
    """What brings a machine to a row, and the event that the row is about."""

    event: AttemptEvent
    earlier: tuple[AttemptEvent, ...] = ()
    machine: Callable[[], AttemptMachine] = machine_of


ACTIVE = (JobCreated(0),)
ENDING = (*ACTIVE, AttemptObserved(1, GONE))
CLOSING = (*ACTIVE, AttemptObserved(1, RUNNING, (PLAYED, LAST)))
LATE = 1 + max(TIMINGS.driver_exit_grace, TIMINGS.pending_timeout)


def observed(status: AttemptStatus = RUNNING, *batches: tuple[Event, ...], **more: object) -> AttemptObserved:
    """An attempt ten seconds after it began."""
    return AttemptObserved(10, status, batches, **more)


CASES = [
    (1, Case(JobAbsent(5), (QuotaExceeded(0, "exceeded quota: cpu"),))),
    (2, Case(JobAbsent(0))),
    (2, Case(JobAbsent(TIMINGS.quota_retry_interval), (QuotaExceeded(0, "exceeded quota: cpu"),))),
    (3, Case(JobCreated(0))),
    (4, Case(QuotaExceeded(0, "exceeded quota: cpu"))),
    (5, Case(JobRefused(0, ClusterRefused("the Job is invalid")))),
    (6, Case(NameTaken(0))),
    (7, Case(observed())),
    (8, Case(observed(UNEXPLAINED, LOST_STEP, LAST), ACTIVE)),
    (8, Case(observed(UNEXPLAINED, LOST_STEP, end=FINISHED), ENDING)),
    (9, Case(observed(RUNNING, LOST_STEP), ACTIVE)),
    (9, Case(observed(GONE, LOST_STEP, LAST), ENDING)),
    (10, Case(observed(RUNNING, PLAYED), ACTIVE, lambda: machine_of(ActiveJob(Attempt(ROUND, JOB, 2), {0}, set())))),
    (11, Case(observed(RUNNING, LAST), ACTIVE)),
    (12, Case(observed(RUNNING, PLAYED), ACTIVE)),
    (12, Case(observed(OUT_OF_MEMORY, LOST_STEP), ACTIVE)),
    (13, Case(observed(UNEXPLAINED, end=NEEDS_PLAYER, partial_step=LOST_PARTIAL), ACTIVE)),
    (13, Case(observed(replace(GONE, oom_kills=OomKills()), end=NEEDS_PLAYER, partial_step=LOST_PARTIAL), ENDING)),
    (14, Case(observed(end=NEEDS_PLAYER, partial_step=LOST_PARTIAL), ACTIVE)),
    (15, Case(observed(end=FINISHED), ACTIVE)),
    (15, Case(observed(GONE, end=FAULT), ENDING)),
    (15, Case(observed(REFUSED, end=FAULT), ACTIVE)),
    (16, Case(observed(end=NEEDS_PLAYER), ACTIVE)),
    (16, Case(observed(EXITED, end=NEEDS_PLAYER, partial_step=PartialStep(step=0, completed=3)), ENDING)),
    (17, Case(observed(OVERDUE), (*ACTIVE, AttemptObserved(1, QUEUED)))),
    (17, Case(observed(replace(OVERDUE, had_pod=False)), ACTIVE)),
    (18, Case(observed(GONE), ACTIVE)),
    (18, Case(observed(LEAVING), ENDING)),
    (18, Case(observed(end=MISSING), ACTIVE)),
    (19, Case(AttemptObserved(1 + TIMINGS.driver_kill_grace, GONE), ENDING)),
    (19, Case(AttemptObserved(1 + TIMINGS.termination_grace, LEAVING), ENDING)),
    (20, Case(AttemptObserved(LATE, UNSCHEDULABLE), (*ACTIVE, AttemptObserved(1, UNSCHEDULABLE)))),
    (21, Case(observed(), ACTIVE)),
    (21, Case(observed(), ENDING)),
    (21, Case(AttemptObserved(LATE, QUEUED), (*ACTIVE, AttemptObserved(1, QUEUED)))),
    (22, Case(observed(replace(REFUSED, node="node-1"), end=FAULT), ACTIVE, refused_while_others_start)),
    (23, Case(observed(REFUSED, end=FAULT, others_may_start=True), ACTIVE, lambda: machine_of(refused_job()))),
    (24, Case(observed(REFUSED, end=FAULT), ACTIVE, lambda: machine_of(refused_job()))),
    (24, Case(observed(end=FINISHED), ACTIVE, lambda: machine_of(active_job(fruitless_attempts=2)))),
    (25, Case(observed(end=NEEDS_PLAYER), ACTIVE, lambda: machine_of(active_job(fruitless_attempts=1)))),
    (26, Case(FinishedWithoutPlayer(10, (LAST,)), ACTIVE)),
    (26, Case(FinishedWithoutPlayer(10, (LAST,)), ENDING)),
    (27, Case(observed(), CLOSING)),
    (28, Case(observed(end=FINISHED), CLOSING)),
    (28, Case(observed(GONE), CLOSING)),
    (28, Case(AttemptObserved(1 + TIMINGS.driver_exit_grace, RUNNING), CLOSING)),
]


def test_the_table_is_read_whole() -> None:
    """Every row of the docstring has a case, every state a heading, and every action a row."""
    assert sorted(ROWS) == list(range(1, 29)) == sorted({number for number, _ in CASES})
    assert {state for row in ROWS.values() for state in row.states} | {MachineState.DONE, MachineState.PARKED} == set(
        MachineState
    )
    actions = {name for row in ROWS.values() for name in row.actions} - {"next"}
    assert actions == {kind.__name__ for kind in Action.__args__}


@pytest.mark.parametrize(("number", "case"), CASES)
def test_each_row_of_the_table_is_what_the_machine_does(number, case) -> None:
    """The state before, the actions, and the state after are those of the docstring."""
    row, machine = ROWS[number], case.machine()
    for event in case.earlier:
        machine.handle(event)
    before = machine.state
    actions = names(machine.handle(case.event))
    next_group = row.event == "next"
    assert before in row.states
    assert next_group or type(case.event).__name__ == row.event
    expected = [each for name in row.actions for each in (REPLACED if name == "next" else [name])]
    assert (actions[1:] if next_group and actions[0] == "KeepBatch" else actions) == expected
    following = {"same": before.name, "next": "TO_CREATE"}.get(row.following, row.following)
    assert machine.state is STATES[following]


@pytest.mark.parametrize("number", [number for number, row in ROWS.items() if "next" in row.actions])
def test_a_third_attempt_that_gets_nowhere_parks_the_job(number) -> None:
    """Whatever ends it; but one whose Job's deadline passed before it began is not counted."""
    [case, *_] = [case for each, case in CASES if each == number]
    machine = machine_of(active_job(fruitless_attempts=MAX_FRUITLESS_ATTEMPTS - 1))
    for event in case.earlier:
        machine.handle(event)
    actions = names(machine.handle(case.event))
    assert actions[-2:] == (REPLACED[-2:] if number == 17 else ["DeleteJob", "ParkJob"])


# What the actions say


def test_a_job_from_its_creation_to_its_end() -> None:
    """The machine asks for the Job, keeps what the driver hands out, and tidies up."""
    machine, attempt = machine_of(), Attempt(ROUND, JOB, 1)
    assert machine.handle(JobAbsent(0)) == [CreateJob(attempt)]
    assert machine.handle(JobCreated(1)) == []
    assert machine.handle(AttemptObserved(2, QUEUED)) == []
    placed = step("a", 0, node="node-1")
    assert machine.handle(AttemptObserved(3, RUNNING, (PLAYED,))) == [KeepBatch((placed,))]
    last = (step("a", 1, node="node-1"), end("a"))
    finished = AttemptEnd(outcome=DriverOutcome.FINISHED, batches=2)
    assert machine.handle(AttemptObserved(6, RUNNING, (LAST,), finished)) == [
        KeepBatch(last),
        LogJobEnd(attempt, end("a"), "node-1", 5),
        DeleteJob(attempt),
        RemoveFolder(attempt),
        CompleteJob(JOB),
    ]
    assert machine.state is MachineState.DONE


def test_the_next_attempt_goes_on_where_the_last_one_stopped() -> None:
    """It is assigned before the Job and the folder of the last one are removed."""
    machine, last, following = machine_of(), Attempt(ROUND, JOB, 1), Attempt(ROUND, JOB, 2)
    machine.handle(JobCreated(0))
    partial_step = PartialStep(step=1, completed=3)
    actions = machine.handle(observed(RUNNING, PLAYED, end=MISSING, partial_step=partial_step))
    assert actions[1:] == [AssignAttempt(following, partial_step), DeleteJob(last), RemoveFolder(last)]
    assert (machine.job.attempt, machine.job.resumed_step) == (following, partial_step)
    assert (machine.status, machine.driver_ended) == (attempt_state_machine.JOB_NOT_CREATED, False)
    assert machine.handle(JobAbsent(11)) == [CreateJob(following)]


def test_a_half_played_step_that_is_on_the_ledger_is_not_carried_on() -> None:
    """The driver may have played it to its end since."""
    machine = machine_of(ActiveJob(Attempt(ROUND, JOB, 1), {0}, set()))
    machine.handle(JobCreated(0))
    [assigned, *_] = machine.handle(observed(end=NEEDS_PLAYER, partial_step=PartialStep(step=0, completed=3)))
    assert assigned == AssignAttempt(Attempt(ROUND, JOB, 2), None)


def test_a_job_that_was_not_created_is_not_deleted() -> None:
    """A Job of that name is another round's, or there is none."""
    machine = machine_of()
    failure, parking = machine.handle(NameTaken(0))
    assert "is not this round's" in kept([failure])[0].message
    assert isinstance(parking, ParkJob)
    assert isinstance(parking.error, ClusterRefused)


def test_what_is_waited_for_in_a_quota_is_shown() -> None:
    """In the words of the API server, as a wait that nobody gives up."""
    machine = machine_of()
    machine.handle(QuotaExceeded(0, 'jobs "x" is forbidden: exceeded quota: cpu'))
    assert machine.status.description == "waits for quota: exceeded quota: cpu"
    assert machine.status.waits_indefinitely


def test_a_failure_is_kept_once() -> None:
    """A controller that is started again sees the same attempt fail again, and the ledger has that."""
    machine = machine_of()
    machine.handle(JobCreated(0))
    [failure] = kept(machine.handle(observed(end=FINISHED)))
    again = machine_of(ActiveJob(Attempt(ROUND, JOB, 1), set(), {failure}))
    again.handle(JobCreated(0))
    assert names(again.handle(observed(end=FINISHED))) == REPLACED


def test_a_batch_about_another_job_is_refused() -> None:
    """Somebody else writes to the volume."""
    machine = machine_of()
    machine.handle(JobCreated(0))
    with pytest.raises(StoreFault, match="about another job"):
        machine.handle(observed(RUNNING, (step("b", 0),)))


# What is waited for


def test_an_exit_is_explained_by_the_status_of_the_player_or_not_at_all() -> None:
    """Out of memory is the player's; what nobody explains in time is played again."""
    machine = machine_of()
    machine.handle(JobCreated(0))
    assert machine.handle(AttemptObserved(1, UNEXPLAINED, (LOST_STEP,))) == []
    assert machine.job.batches_read == 0
    [kept_step] = kept(machine.handle(AttemptObserved(2, OUT_OF_MEMORY, (LOST_STEP,))))
    assert [each.reason for each in kept_step.sandboxes] == [ExitReason.OUT_OF_MEMORY]
    machine = machine_of()
    machine.handle(JobCreated(0))
    machine.handle(AttemptObserved(1, UNEXPLAINED, (LOST_STEP,)))
    late = AttemptObserved(1 + TIMINGS.player_status_grace, UNEXPLAINED, (LOST_STEP,))
    actions = machine.handle(late)
    assert [each.code for each in kept(actions)] == ["player-lost"]
    assert names(actions[1:]) == REPLACED


def test_every_exit_is_waited_for_anew() -> None:
    """The wait for the cause of one exit does not shorten that for the next."""
    machine = machine_of()
    machine.handle(JobCreated(0))
    lost = (step("a", 0, sandboxes=[sandbox()]),)
    machine.handle(AttemptObserved(1, UNEXPLAINED, (lost,)))
    late = 1 + TIMINGS.player_status_grace
    assert names(machine.handle(AttemptObserved(late, UNEXPLAINED, (lost,)))) == ["KeepBatch"]
    partial_step = PartialStep(step=1, completed=1, sandboxes=[sandbox()])
    left = AttemptObserved(late + 1, UNEXPLAINED, end=MISSING, partial_step=partial_step)
    assert machine.handle(left) == []


def test_an_exit_that_is_held_against_nobody_is_kept_as_it_is() -> None:
    """The player had answered everything: there is no fault in the step."""
    answered = (step("a", 0, sandboxes=[sandbox()]),)
    machine = machine_of()
    machine.handle(JobCreated(0))
    [kept_step] = kept(machine.handle(observed(RUNNING, answered)))
    assert [each.ending for each in kept_step.sandboxes] == ["lost"]


def test_the_partial_step_of_a_player_out_of_memory_says_so() -> None:
    """The next attempt carries it on as it is known now."""
    machine = machine_of()
    machine.handle(JobCreated(0))
    [assigned, *_] = machine.handle(observed(OUT_OF_MEMORY, end=NEEDS_PLAYER, partial_step=LOST_PARTIAL))
    assert [each.code for each in assigned.partial_step.faults] == ["out-of-memory"]


def test_last_files_are_awaited_from_the_first_sight_of_the_end() -> None:
    """As long as the volume may be late; a driver that ended by itself is believed longest."""
    for status, seconds in (
        (GONE, TIMINGS.driver_kill_grace),
        (LEAVING, TIMINGS.termination_grace),
        (EXITED, TIMINGS.driver_exit_grace),
    ):
        machine = machine_of()
        machine.handle(JobCreated(0))
        assert machine.handle(AttemptObserved(1, status)) == []
        assert machine.handle(AttemptObserved(seconds + 0.9, status)) == []
        assert names(machine.handle(AttemptObserved(seconds + 1, status))) == ["KeepBatch", *REPLACED]


def test_the_first_sight_of_a_loss_says_why() -> None:
    """Later the pod is gone; and an attempt that runs after all was not lost."""
    machine = machine_of()
    machine.handle(JobCreated(0))
    machine.handle(AttemptObserved(1, EVICTED))
    [failure] = kept(machine.handle(AttemptObserved(60, GONE)))
    assert (failure.code, failure.message.endswith(EVICTED.description)) == (PodLost.code, True)
    machine = machine_of()
    machine.handle(JobCreated(0))
    for number, status in enumerate((EVICTED, RUNNING, GONE)):
        machine.handle(AttemptObserved(number, status))
    [failure] = kept(machine.handle(AttemptObserved(60, GONE)))
    assert failure.message.endswith(GONE.description)


def test_files_that_never_come_are_counted() -> None:
    """The failure says how many there were to be."""
    machine = machine_of()
    machine.handle(JobCreated(0))
    machine.handle(AttemptObserved(1, EXITED, end=MISSING))
    [failure] = kept(machine.handle(AttemptObserved(1 + TIMINGS.driver_exit_grace, EXITED, end=MISSING)))
    assert "handed out 1 files, and 0 are on the volume" in failure.message


def test_a_wait_begins_anew_when_something_else_was_between() -> None:
    """Only one wait for a node or an image that is too long gives an attempt up."""
    machine = machine_of()
    machine.handle(JobCreated(0))
    for time, status in ((1, UNSCHEDULABLE), (2, QUEUED), (3, UNSCHEDULABLE)):
        machine.handle(AttemptObserved(time, status))
    assert machine.handle(AttemptObserved(2 + TIMINGS.pending_timeout, UNSCHEDULABLE)) == []
    actions = machine.handle(AttemptObserved(3 + TIMINGS.pending_timeout, UNSCHEDULABLE))
    assert [each.code for each in kept(actions)] == [Unschedulable.code]


def test_an_attempt_is_queued_until_its_pod_has_a_node() -> None:
    """Also after the queue has let it go: a deadline that passes before that says nothing of the submission."""
    released = AttemptStatus(AttemptState.WAITING, "no pod yet", PodRefused)
    for waits, parked in ((released, False), (replace(released, node="node-1"), True)):
        machine = machine_of(active_job(fruitless_attempts=MAX_FRUITLESS_ATTEMPTS - 1))
        machine.handle(JobCreated(0))
        for time, status in enumerate((QUEUED, waits, OVERDUE)):
            machine.handle(AttemptObserved(time, status))
        machine.handle(AttemptObserved(LATE, OVERDUE))
        assert (machine.state is MachineState.PARKED) is parked


def test_steps_have_the_node_of_a_pod_that_is_gone() -> None:
    """What the driver handed out last is often read after that."""
    machine = machine_of()
    machine.handle(JobCreated(0))
    machine.handle(AttemptObserved(1, RUNNING))
    [kept_step] = kept(machine.handle(AttemptObserved(2, GONE, (PLAYED,))))
    assert kept_step.node == "node-1"


def test_a_player_that_only_its_nodes_refuse_is_tried_again_later() -> None:
    """Until another job has shown something."""
    machine = machine_of(refused_job())
    machine.handle(JobCreated(0))
    machine.handle(observed(REFUSED, end=FAULT, others_may_start=True))
    assert machine.handle(JobAbsent(9 + TIMINGS.start_retry_interval)) == []
    assert names(machine.handle(JobAbsent(10 + TIMINGS.start_retry_interval))) == ["CreateJob"]


def test_a_pod_that_its_node_rejects_is_tried_on_another_node_later() -> None:
    """A node without a free device looks free to the scheduler, and would take every attempt at once."""
    machine = machine_of()
    machine.handle(JobCreated(0))
    machine.handle(AttemptObserved(1, replace(EVICTED, rejected=True)))
    over = 1 + TIMINGS.driver_kill_grace
    [_, assigned, *_] = machine.handle(AttemptObserved(over, GONE))
    assert assigned == AssignAttempt(Attempt(ROUND, JOB, 2, refused_by="node-1"), None)
    assert machine.handle(JobAbsent(over + TIMINGS.start_retry_interval - 1)) == []
    assert names(machine.handle(JobAbsent(over + TIMINGS.start_retry_interval))) == ["CreateJob"]


def test_a_job_that_was_finished_without_its_player_is_closed() -> None:
    """What is left is kept, once; what its driver hands out later is not."""
    machine = refused_while_others_start()
    machine.handle(JobCreated(0))
    [_, action] = machine.handle(observed(REFUSED, end=FAULT))
    assert isinstance(action, FinishWithoutPlayer)
    assert "StartError" in action.reason
    assert kept(machine.handle(FinishedWithoutPlayer(11, (PLAYED, LAST)))) == [*PLAYED, *LAST]
    assert machine.handle(FinishedWithoutPlayer(12, (PLAYED, LAST))) == []
    late = (AttemptFailed(job="a", attempt=1, code="store", message="late"),)
    assert names(machine.handle(AttemptObserved(13, RUNNING, (late,)))) == []
    assert names(machine.handle(AttemptObserved(14, REFUSED, (late,)))) == [*REPLACED[1:], "CompleteJob"]


def test_a_start_counts_as_evidence_for_others() -> None:
    """A step that was played says that its node started the player."""
    history = NodeStartHistory(gpus=False)
    machine = machine_of(active_job(OTHER_JOB), history)
    machine.handle(JobCreated(0))
    machine.handle(observed(RUNNING, (step("b", 0),)))
    assert history.starts_others(refused_job(), "team-a")


# Two players


QUERY = Job(JobId("a"), Stage.QUERY, "team-a", (Cell("team-a", "asks"),))
NOBODY_KILLED = OomKills(player=False, attack=False)


def of_attack(*records):
    """The same records as the attack's."""
    return [record.model_copy(update={"submission": "asks"}) for record in records]


def query_machine(**more: object) -> AttemptMachine:
    """The machine of a query job, whose Job was created."""
    machine = machine_of(active_job(QUERY, attack="asks", **more))
    machine.handle(JobCreated(0))
    return machine


LOST_ATTACK = (step("a", 0, stage=Stage.QUERY, sandboxes=of_attack(sandbox()), faults=of_attack(died())),)
LOST_DEFENCE = (step("a", 0, stage=Stage.QUERY, sandboxes=[sandbox()], faults=[died()]),)


@pytest.mark.parametrize(
    ("batch", "kills", "submission"),
    [(LOST_ATTACK, OomKills(attack=True), "asks"), (LOST_DEFENCE, OomKills(player=True), "")],
    ids=["attack", "defence"],
)
def test_the_status_of_a_container_explains_its_own_player(batch, kills, submission) -> None:
    """The one whose container was out of memory pays, while the other one's end is not known."""
    [event] = kept(query_machine().handle(observed(replace(RUNNING, oom_kills=kills), batch)))
    assert [(fault.code, fault.submission) for fault in event.faults] == [("out-of-memory", submission)]
    assert [record.reason for record in event.sandboxes] == ["out-of-memory"]


@pytest.mark.parametrize(
    ("batch", "kills", "words"),
    [
        (LOST_ATTACK, OomKills(player=True, attack=False), "the attack's"),
        (LOST_DEFENCE, OomKills(player=False, attack=True), "the player's"),
    ],
    ids=["attack", "defence"],
)
def test_nobody_pays_for_the_other_players_end(batch, kills, words) -> None:
    """That the other container was out of memory explains nothing: the end has no known cause, and the pod was lost."""
    exits = PlayerExits("the player's", "the attack's")
    failed, *_ = query_machine().handle(observed(replace(RUNNING, oom_kills=kills, player_exits=exits), batch))
    assert [(event.code, words in event.message) for event in kept([failed])] == [("player-lost", True)]


def test_both_ends_are_awaited() -> None:
    """Where both ended without a word, nothing is kept before both containers' statuses are known; then each pays."""
    both = (
        step(
            "a",
            0,
            stage=Stage.QUERY,
            sandboxes=[sandbox(), *of_attack(sandbox())],
            faults=[died(), *of_attack(died())],
        ),
    )
    machine = query_machine()
    assert machine.handle(observed(replace(RUNNING, oom_kills=OomKills(player=True)), both)) == []
    [event] = kept(machine.handle(observed(replace(RUNNING, oom_kills=OomKills(True, True)), both)))
    assert [(fault.code, fault.submission) for fault in event.faults] == [
        ("out-of-memory", ""),
        ("out-of-memory", "asks"),
    ]


@pytest.mark.parametrize(("container", "refused"), [("player", "team-a"), ("attack", "asks")])
def test_the_player_that_is_refused_is_the_one_that_is_left_out(container, refused) -> None:
    """Three refusals of one of two players, where the node starts somebody else's: that one pays."""
    history = NodeStartHistory(gpus=False)
    history.record_start("team-b", "node-1", 1.0)
    earlier = tuple(StartFailure(refused, "node-1", float(time)) for time in range(MIN_START_FAILURES - 1))
    job = active_job(QUERY, attack="asks", fruitless_attempts=len(earlier), start_failures=earlier)
    machine = machine_of(job, history)
    machine.handle(JobCreated(0))
    action = machine.handle(observed(replace(REFUSED, stuck_container=container), end=FAULT))[-1]
    assert isinstance(action, FinishWithoutPlayer)
    assert action.submission == refused


def test_refusals_of_two_players_do_not_add_up() -> None:
    """Two of one and one of the other: nobody is left out, and the job is given up."""
    history = NodeStartHistory(gpus=False)
    history.record_start("team-b", "node-1", 1.0)
    earlier = tuple(StartFailure("asks", "node-1", float(time)) for time in range(MIN_START_FAILURES - 1))
    job = active_job(QUERY, attack="asks", fruitless_attempts=len(earlier), start_failures=earlier)
    machine = machine_of(job, history)
    machine.handle(JobCreated(0))
    parking = machine.handle(observed(REFUSED, end=FAULT))[-1]
    assert isinstance(parking, ParkJob)
    assert parking.submission == "team-a"


@pytest.mark.parametrize(
    ("status", "parked"),
    [
        (replace(EVICTED, stuck_container=""), ""),
        (replace(EVICTED, stuck_container="attack", fault=ImagePullFailed), "asks"),
    ],
    ids=["nobody knows", "the attack's image"],
)
def test_a_query_job_that_is_given_up_parks_whose_container_it_was(status, parked) -> None:
    """The other player's jobs are played on; where nobody knows whose it was, both players' are."""
    machine = query_machine(fruitless_attempts=2)
    machine.handle(observed(status))
    parking = machine.handle(AttemptObserved(10 + TIMINGS.driver_kill_grace, status))[-1]
    assert isinstance(parking, ParkJob)
    assert parking.submission == parked


def test_an_attack_that_ended_in_a_step_was_started() -> None:
    """A step of a query job says that its node started the attack, and the defence where that worked."""
    history = NodeStartHistory(gpus=False)
    machine = machine_of(active_job(QUERY, attack="asks"), history)
    machine.handle(JobCreated(0))
    ended = step("a", 0, stage=Stage.QUERY, seconds=0.0, sandboxes=of_attack(sandbox("stopped")))
    machine.handle(observed(RUNNING, (ended,)))
    assert history.starts_others(refused_job(), "team-a")
    assert not history.starts_others(refused_job(), "asks")


# Any event at any time


EVENTS: tuple[AttemptEvent, ...] = (
    JobAbsent(0),
    JobCreated(0),
    QuotaExceeded(0, "exceeded quota: cpu"),
    JobRefused(0, ClusterRefused("invalid")),
    NameTaken(0),
    FinishedWithoutPlayer(0, (PLAYED, LAST)),
    *(AttemptObserved(0, status) for status in (RUNNING, QUEUED, UNSCHEDULABLE, GONE, LEAVING, EXITED, OVERDUE)),
    AttemptObserved(LATE, GONE),
    AttemptObserved(LATE, UNSCHEDULABLE),
    *(AttemptObserved(0, RUNNING, (), outcome) for outcome in (FINISHED, NEEDS_PLAYER, FAULT, MISSING)),
    AttemptObserved(0, REFUSED, (), FAULT, None, True),
    AttemptObserved(0, RUNNING, (PLAYED,)),
    AttemptObserved(0, UNEXPLAINED, (LOST_STEP,)),
    AttemptObserved(0, OUT_OF_MEMORY, (LOST_STEP, LAST)),
    AttemptObserved(0, RUNNING, (PLAYED, LAST)),
    AttemptObserved(0, RUNNING, (), NEEDS_PLAYER, LOST_PARTIAL),
)
ORDER = ("KeepBatch", "LogJobEnd", "AssignAttempt", "DeleteJob", "RemoveFolder")
"""In which order actions may follow each other; the others come last."""


def check_order(actions: Sequence[Action]) -> None:
    """Events are kept before anything else, and an attempt is assigned before the last one is removed."""
    found = names(actions)
    ranks = [ORDER.index(name) if name in ORDER else len(ORDER) for name in found]
    assert ranks == sorted(ranks), found
    assert ranks.count(len(ORDER)) <= 1, found


@pytest.mark.parametrize("first", EVENTS)
def test_no_event_in_any_state_raises_or_keeps_anything_twice(first) -> None:
    """Every sequence of four events, also of such as no controller would make."""
    for others in itertools.product(EVENTS, repeat=2):
        for machine in (machine_of(), refused_while_others_start()):
            steps: list[int] = []
            for event in (JobCreated(0), first, *others) if machine.job.start_failures else (first, *others):
                over = machine.state in {MachineState.DONE, MachineState.PARKED}
                actions = machine.handle(event)
                check_order(actions)
                assert not (over and actions)
                if not isinstance(event, FinishedWithoutPlayer):  # the answer to an action of this machine
                    steps += [each.step for each in kept(actions) if isinstance(each, StepFinished)]
            assert len(steps) == len(set(steps)), (first, others)


@dataclass
class World:
    """A ledger, a volume and a cluster as far as one job needs them, and a controller that may be killed.

    `folders` has what each attempt was assigned; the rest is about the last attempt: which Jobs there are, what its
    driver has written, and which steps the ledger had when it was assigned.
    """

    ledger: list[Event] = field(default_factory=list)
    folders: dict[int, PartialStep | None] = field(default_factory=lambda: {1: None})
    jobs: set[int] = field(default_factory=set)
    batches: list[tuple[Event, ...]] = field(default_factory=list)
    end: AttemptEnd | None = None
    partial_step: PartialStep | None = None
    left: list[int] = field(default_factory=lambda: list(range(STEPS)))
    time: float = 0.0
    completed: bool = False

    def __post_init__(self) -> None:
        self.machine = self.start()

    def start(self) -> AttemptMachine:
        """The machine that a controller begins with, by what is there."""
        number = max(self.folders)
        assignment = Assignment(
            job="a", run="run", secret="0" * 64, image="image", events=self.ledger, partial_step=self.folders[number]
        )
        return machine_of(resume_job(Attempt(ROUND, JOB, number), assignment, self.folders[number]))

    def play(self) -> None:
        """Has the driver hand out a step, or the last one and the end of the job; or says that it is finished."""
        if self.end is not None or self.machine.job.attempt.number not in self.jobs:
            return
        if self.left:
            number = self.left.pop(0)
            self.batches.append((step("a", number),) if self.left else (step("a", number), end("a")))
        else:
            self.end = AttemptEnd(outcome=DriverOutcome.FINISHED, batches=len(self.batches))

    def leave(self, outcome: DriverOutcome) -> None:
        """Has the driver end with a step half played."""
        if self.end is None and self.left and self.machine.job.attempt.number in self.jobs:
            self.partial_step = PartialStep(step=self.left[0], completed=1)
            self.end = AttemptEnd(outcome=outcome, batches=len(self.batches), code="store", message="no space left")

    def observe(self, status: AttemptStatus) -> AttemptEvent:
        """What a controller sees of it."""
        job = self.machine.job
        if job.attempt.number not in self.jobs:
            return JobAbsent(self.time)
        return AttemptObserved(self.time, status, tuple(self.batches[job.batches_read :]), self.end, self.partial_step)

    def look(self, status: AttemptStatus, seconds: float, acts: int) -> None:
        """Has the controller look, and carry out so many actions; one that does not carry out all is killed there."""
        if self.completed:
            return
        self.time += seconds
        actions = self.machine.handle(self.observe(status))
        check_order(actions)
        for action in actions[:acts]:
            self.carry_out(action)
        if len(actions) > acts or self.machine.state is MachineState.PARKED:
            self.completed = any(isinstance(each, JobFinished) for each in self.ledger)
            self.machine = self.machine if self.completed else self.start()  # a finished job is not begun again

    def carry_out(self, action: Action) -> None:
        """Does what a controller would."""
        match action:
            case CreateJob(attempt):
                self.jobs.add(attempt.number)
                self.machine.handle(JobCreated(self.time))
            case KeepBatch(batch):
                self.ledger += batch
            case AssignAttempt(attempt, partial_step):
                self.folders[attempt.number] = partial_step
                self.batches, self.end, self.partial_step = [], None, None
                played = {each.step for each in self.ledger if isinstance(each, StepFinished)}
                self.left = [number for number in range(STEPS) if number not in played]
            case DeleteJob(attempt):
                self.jobs.discard(attempt.number)
            case RemoveFolder(attempt):
                assert attempt.number < max(self.folders) or any(isinstance(each, JobFinished) for each in self.ledger)
                del self.folders[attempt.number]
            case CompleteJob():
                self.completed = True


STATUSES = st.sampled_from([RUNNING, QUEUED, UNSCHEDULABLE, GONE, LEAVING, EXITED, OVERDUE])
LOOKS = st.tuples(st.just("look"), STATUSES, st.sampled_from([0.1, 20.0, LATE]), st.sampled_from([0, 1, 2, 9, 9, 9]))
DRIVERS = st.sampled_from([("play",), ("leave", DriverOutcome.NEEDS_PLAYER), ("leave", DriverOutcome.FAULT)])


@pytest.mark.slow
@given(st.lists(LOOKS | DRIVERS, max_size=40))
def test_every_event_is_kept_once_whatever_happens(operations) -> None:
    """The driver plays, ends or is lost, and the controller is killed between any two actions."""
    world = World()
    for name, *arguments in operations:
        getattr(world, name)(*arguments)
    for _ in range(4 * STEPS):  # then nothing happens any more, and the job comes to its end
        world.play()
        world.look(RUNNING, 0.1, 9)
    steps = [each.step for each in world.ledger if isinstance(each, StepFinished)]
    failures = [each for each in world.ledger if isinstance(each, AttemptFailed)]
    assert world.completed
    assert steps == list(range(STEPS))
    assert isinstance(world.ledger[-1], JobFinished)
    assert len(failures) == len(set(failures))
