"""The controller and what drivers leave on the volume: it decides, whatever becomes of the pod."""

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from orchestrator.domain.assignment import PartialStep
from orchestrator.domain.events import AttemptFailed, StepFinished
from orchestrator.errors import (
    OutOfMemory,
    PlayerLost,
    StoreFault,
)
from orchestrator.execution.player import Player
from orchestrator.executors.kubernetes.oom_correction import OOM_MESSAGE
from orchestrator.executors.kubernetes.shared_volume import AttemptFolder, DriverOutcome
from orchestrator.sandboxes.base import Ending, Exit

from .scripted_round import (
    QUICK_TIMINGS,
    STEPS,
    WHOLE_JOB,
    Driver,
    Rig,
    alone,
    died,
    end,
    in_thread,
    jobs_of,
    sandbox,
    step,
    wait,
    words,
)

QUOTAS = "/api/v1/namespaces/default/resourcequotas"


@pytest.fixture
def rig(tmp_path) -> Iterator[Rig]:
    """A round on a cluster of its own."""
    yield from alone(tmp_path)


def falls(driver: Driver, *, oom: bool) -> None:
    """Ends the player's container: by the kernel at its limit, or as somebody on the node would, with a signal."""
    rig, pod = driver.rig, driver.pod["metadata"]["name"]
    wait(lambda: (pod, "player") in rig.hook.fakes.running, "a player")
    if oom:
        wait(lambda: _oom(rig, pod), "a player that runs")
    else:
        rig.hook.fakes.running[pod, "player"].end(137)


def test_a_player_killed_at_its_limit_with_its_container_is_out_of_memory(rig) -> None:
    """The driver saw an end without a word; the container's status makes it out of memory, in step and fault."""

    def dies(driver: Driver) -> int:
        driver.take()
        falls(driver, oom=True)
        driver.outbox.write_events(step("a", 0, sandboxes=[sandbox()], faults=[died(), died()]))
        driver.outbox.write_end(DriverOutcome.NEEDS_PLAYER)
        return 0

    rig.scripts = {("a", 1): dies}
    rig.play(jobs_of("a"))
    [first, *_] = rig.ledger
    [ended] = first.sandboxes
    assert (ended.ending, ended.reason, ended.code) == ("out-of-memory", "out-of-memory", None)
    assert [each.code for each in first.faults] == ["died", "out-of-memory"]
    assert first.faults[1].message.startswith("the player was killed")
    assert rig.kinds("a") == WHOLE_JOB


@pytest.mark.parametrize("half", [True, False])
def test_a_player_that_somebody_on_the_node_ends_is_not_scored(rig, half) -> None:
    """Nobody can attribute that: what the driver made of it is dropped, the attempt is ours, and the step played again.

    What came before stays, and a half-played step goes on where the pod had begun it.
    """

    def dies(driver: Driver) -> int:
        driver.take()
        driver.outbox.write_events(step("a", 0))
        falls(driver, oom=False)
        if not half:
            driver.outbox.write_events(step("a", 1, sandboxes=[sandbox()], faults=[died()]), end("a"))
            driver.outbox.write_end(DriverOutcome.FINISHED)
        else:
            driver.outbox.write_end(
                DriverOutcome.NEEDS_PLAYER, PartialStep(step=1, completed=7, sandboxes=[sandbox()], faults=[died()])
            )
        return 0

    rig.scripts = {("a", 1): dies}
    rig.play(jobs_of("a"))
    assert rig.kinds("a") == ["0", "player-lost:1", "1", "end"]
    assert [each.faults for each in rig.ledger if isinstance(each, StepFinished)] == [[], []]
    [told] = [each for each in rig.ledger if isinstance(each, AttemptFailed)]
    assert "ended from outside" in told.message
    assert "137" in told.message
    assert [each for each in rig.halves if each] == []
    assert rig.left_over() == []


@pytest.mark.slow
def test_a_player_that_is_ended_each_time_is_given_up_unscored(rig) -> None:
    """Three attempts that end so give the job up as ours, and the others are played."""

    def dies(driver: Driver) -> int:
        driver.take()
        falls(driver, oom=False)
        driver.outbox.write_events(step("a", 0, sandboxes=[sandbox()], faults=[died()]))
        driver.outbox.write_end(DriverOutcome.NEEDS_PLAYER)
        return 0

    rig.scripts = {("a", number): dies for number in (1, 2, 3)}
    with rig.parks(PlayerLost, "ended from outside"):
        rig.play(jobs_of("a", "b"))
    assert rig.kinds("a") == [f"player-lost:{number}" for number in (1, 2, 3)]
    assert rig.kinds("b") == WHOLE_JOB


def test_an_end_without_a_word_that_nothing_is_held_against_is_kept(rig) -> None:
    """The player had answered everything when its container went: the record says that it was lost, and no more."""

    def answered(driver: Driver) -> int:
        driver.take()
        falls(driver, oom=False)
        driver.outbox.write_events(step("a", 0))
        driver.outbox.write_events(step("a", 1), end("a", sandboxes=[sandbox()]))
        driver.outbox.write_end(DriverOutcome.FINISHED)
        return 0

    rig.scripts = {("a", 1): answered}
    rig.play(jobs_of("a"))
    assert rig.kinds("a") == WHOLE_JOB
    assert [each.ending for each in rig.ledger[-1].sandboxes] == ["lost"]


def _oom(rig: Rig, pod: str) -> bool:
    try:
        rig.cluster.kubelets.oom_kill("default", pod, "player")
    except (KeyError, StopIteration):
        return False
    return True


def test_a_half_played_step_is_amended_once_and_by_its_own_pod(rig) -> None:
    """What an earlier pod left crashed stays so, though the next pod's player was out of memory."""

    def dies(driver: Driver, *, killed: bool) -> int:
        given = driver.take().partial_step
        carried, faults = (given.sandboxes, given.faults) if given else ([], [])
        falls(driver, oom=killed)
        ended = sandbox() if killed else sandbox("crashed", 1)
        half = PartialStep(step=0, completed=driver.number, sandboxes=[*carried, ended], faults=[*faults, died()])
        driver.outbox.write_end(DriverOutcome.NEEDS_PLAYER, half)
        return 0

    def last(driver: Driver) -> int:
        given = driver.take().partial_step
        driver.outbox.write_events(step("a", 0, sandboxes=[*given.sandboxes, sandbox("clean", 0)], faults=given.faults))
        driver.outbox.write_events(step("a", 1), end("a"))
        driver.outbox.write_end(DriverOutcome.FINISHED)
        return 0

    rig.scripts = {
        ("a", 1): lambda driver: dies(driver, killed=False),
        ("a", 2): lambda driver: dies(driver, killed=True),
        ("a", 3): last,
    }
    rig.play(jobs_of("a"))
    assert rig.kinds("a") == WHOLE_JOB
    assert [each.ending for each in rig.ledger[0].sandboxes] == ["crashed", "out-of-memory", "clean"]
    assert [each.code for each in rig.ledger[0].faults] == ["died", "out-of-memory"]


def test_a_crash_that_nobody_explains_is_not_held_for_ever(rig) -> None:
    """Where the player's container has no status, what the driver said is kept after a while."""

    def dies(driver: Driver) -> int:
        driver.take()
        driver.outbox.write_events(step("a", 0, sandboxes=[sandbox()]))
        driver.outbox.write_events(step("a", 1), end("a"))
        driver.hang()
        return 0

    rig.script = dies
    rig.play(jobs_of("a"), timings=replace(QUICK_TIMINGS, player_status_grace=0.3))
    assert rig.kinds("a") == WHOLE_JOB
    assert rig.ledger[0].sandboxes[0].ending == "lost"


def test_three_attempts_that_get_nowhere_end_the_job(rig) -> None:
    """The others go on, what needs it is not begun, and at last the error is raised; a later run tries again."""

    def fails(driver: Driver) -> int:
        driver.take()
        driver.outbox.write_end(DriverOutcome.FAULT, None, "store", "no space left")
        return 3

    rig.scripts = {("a", number): fails for number in (1, 2, 3)}
    with rig.parks(StoreFault, match=r"job a got nowhere in 3 pods .* no space left"):
        rig.play(jobs_of("a", "b", "c<a"))
    assert rig.kinds("a") == ["store:1", "store:2", "store:3"]
    assert [rig.kinds(job) for job in "bc"] == [WHOLE_JOB, []]
    rig.play(jobs_of("a", "b", "c<a"))
    assert rig.kinds("a") == ["store:1", "store:2", "store:3", *WHOLE_JOB]
    assert rig.kinds("c") == WHOLE_JOB
    assert rig.left_over() == []


@pytest.mark.slow
def test_progress_forgives_what_failed_before(rig) -> None:
    """A longer half step is progress: ten pods may be spent on one step."""

    def crawls(driver: Driver) -> int:
        driver.take()
        if driver.number > 10:
            for number in range(STEPS - 1):
                driver.outbox.write_events(step("a", number))
            driver.outbox.write_events(step("a", STEPS - 1), end("a"))
            driver.outbox.write_end(DriverOutcome.FINISHED)
        elif driver.number % 3:
            return 137
        else:
            driver.outbox.write_end(DriverOutcome.NEEDS_PLAYER, PartialStep(step=0, completed=driver.number))
        return 0

    rig.script = crawls
    rig.play(jobs_of("a"), timings=replace(QUICK_TIMINGS, driver_kill_grace=0.02))
    assert [each for each in rig.kinds("a") if each in WHOLE_JOB] == WHOLE_JOB
    assert [half.completed for half in rig.halves if half][-1] == 9


def test_last_words_may_come_late(rig) -> None:
    """A driver that ended by itself is believed for a while: a network file system shows files late."""
    plan = jobs_of("a")
    folder, hidden = rig.exchange.folder / rig.attempt(plan, "a").name, rig.exchange.folder.parent / "hidden"

    def slow_disk(driver: Driver) -> int:
        driver.take()
        driver.outbox.write_events(step("a", 0))
        hidden.mkdir()
        late = AttemptFolder(hidden)
        late._batches = 1
        late.write_events(step("a", 1), end("a"))
        late.write_end(DriverOutcome.FINISHED)
        return 0

    rig.script = slow_disk
    thread, errors = in_thread(lambda: rig.play(plan, timings=replace(QUICK_TIMINGS, driver_exit_grace=30)))
    wait(lambda: "left no result" in words(rig), "a driver that ended")
    (hidden / "end.json").rename(folder / "end.json")
    thread.join(0.3)
    (hidden / "0002.json").rename(folder / "0002.json")
    thread.join(120)
    assert (errors, rig.kinds("a")) == ([], WHOLE_JOB)


def test_files_that_never_come_cost_an_attempt(rig) -> None:
    """`end.json` says how many there are; what is missing is played again."""

    def loses(driver: Driver) -> int:
        driver.take()
        driver.outbox.write_events(step("a", 0))
        driver.outbox._batches = 2
        driver.outbox.write_end(DriverOutcome.FINISHED)
        return 0

    rig.scripts = {("a", 1): loses}
    rig.play(jobs_of("a"))
    assert rig.kinds("a") == ["0", "driver-lost:1", "1", "end"]
    assert "handed out 2 files, and 1 are on the volume" in rig.ledger[1].message


def test_words_about_another_job_are_refused(rig) -> None:
    """Nothing of it is kept."""

    def lies(driver: Driver) -> int:
        driver.take()
        driver.outbox.write_events(step("b", 0))
        return 0

    rig.script = lies
    with pytest.raises(StoreFault, match="about another job"):
        rig.play(jobs_of("a"))
    assert rig.ledger == []


def test_a_driver_that_finished_without_an_end_is_not_believed(rig) -> None:
    """It says that it finished, and no event says so: ours, and tried again."""

    def forgets(driver: Driver) -> int:
        driver.take()
        driver.outbox.write_end(DriverOutcome.FINISHED)
        return 0

    rig.scripts = {("a", 1): forgets}
    rig.play(jobs_of("a"))
    assert rig.kinds("a") == ["driver-lost:1", *WHOLE_JOB]


def test_the_fault_of_an_unknown_code_is_an_infrastructure_fault(rig) -> None:
    """A driver of another version may have codes of its own."""

    def fails(driver: Driver) -> int:
        driver.take()
        driver.outbox.write_end(DriverOutcome.FAULT, None, "brand-new", "\x1b[2J")
        return 3

    rig.scripts = {("a", 1): fails}
    rig.play(jobs_of("a"))
    assert rig.kinds("a") == ["infrastructure:1", *WHOLE_JOB]
    assert "\x1b" not in rig.ledger[0].message


def test_out_of_memory_is_said_in_the_arenas_words() -> None:
    """Whichever of the two found it out."""

    class Dead:
        def stop(self) -> Exit:
            return Exit(Ending.OUT_OF_MEMORY)

    with pytest.raises(OutOfMemory) as said:
        Player(Dead(), None, time.monotonic, lambda: False)._raise_player_died()
    assert str(said.value) == OOM_MESSAGE
