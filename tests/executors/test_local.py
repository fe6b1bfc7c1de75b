"""The local engine: order, slots, what starts ahead, and how everything ends."""

import os
import signal
import threading
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.domain.plan import Plan
from orchestrator.errors import BackendUnavailable, Cancelled, SandboxLost, StoreFault, UsageError
from orchestrator.executors.local import LocalExecutor


def test_one_slot_plays_in_the_plans_order(stage, play, plan):
    """Without needs, jobs start and end one after another as the plan lists them."""
    stage.keep(play(plan("c", "a", "b")))
    assert stage.started == stage.ended == stage.kept == ["c", "a", "b"]


def test_a_job_waits_for_what_it_needs(stage, play, plan):
    """A job that is listed first starts after its need, and the others do not wait for it."""
    stage.keep(play(plan("late<need", "need", "other")))
    assert stage.started[0] == "need"
    assert sorted(stage.started) == ["late", "need", "other"]


def test_the_next_job_begins_while_a_sandbox_has_only_to_end(stage, play, plan):
    """A slot is free before its job has ended, but the job's dependants wait, and no more jobs end than have slots."""
    stage.held, stage.ending = {"a", "b", "c"}, {"a", "b"}
    events = play(plan("a", "b", "c", "late<a"))
    keeping = threading.Thread(target=stage.keep, args=(events,))
    keeping.start()
    stage.wait(lambda: stage.started == ["a", "b"])
    with stage.changed:
        assert not stage.changed.wait_for(lambda: "c" in stage.started, 0.2), "two jobs would end on one slot"
    stage.release("a")
    stage.wait(lambda: stage.started == ["a", "b", "c"])
    stage.release("b", "c")
    keeping.join()
    assert stage.started == ["a", "b", "c", "late"]
    assert sorted(stage.kept) == ["a", "b", "c", "late"]


def test_on_a_gpu_the_next_job_waits_for_the_end(stage, play, plan):
    """Two live sandboxes never share one, also if the first has only to end."""
    stage.ending = {"a", "b", "c"}
    stage.keep(play(plan("a", "b", "c"), ["GPU-aaaa"]))
    assert stage.most["GPU-aaaa"] == stage.most_running == 1


def test_an_event_is_kept_before_dependants_start(stage, play, plan):
    """While the caller holds a job's event and has not asked for the next, nothing starts, and the job waits too."""
    events = play(plan("a", "b<a"), [None, None])
    (ended,) = next(events)
    assert ended.job == "a"
    with stage.changed:
        assert not stage.changed.wait_for(lambda: "a" in stage.ended, 0.2), "it went on before its event was kept"
    assert (stage.started, stage.prepared, stage.made) == (["a"], [], [("a", None)])
    stage.kept.append("a")
    stage.keep(events)
    assert stage.started == ["a", "b"]


def test_what_is_done_is_not_played_again(stage, play, plan):
    """Finished jobs count as kept, and a finished plan makes no performance at all."""
    stage.kept.append("a")
    stage.keep(play(plan("a", "b<a"), done=["a"]))
    assert stage.started == ["b"]
    assert list(play(plan("a", "b<a"), done=["a", "b"])) == []
    assert [job for job, _ in stage.made] == ["b"]


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_as_many_jobs_run_as_there_are_slots(stage, play, plan, slots):
    """All slots play at once, and never one job more."""
    stage.meeting = threading.Barrier(slots)
    stage.keep(play(plan(*(f"j{n}" for n in range(2 * slots))), [None] * slots))
    assert (stage.most_running, len(stage.kept)) == (slots, 2 * slots)


def test_the_next_job_starts_ahead(stage, play, plan):
    """While a job plays on a processor, the next one's sandbox starts, and only that one's."""
    stage.held = {"a"}
    events = play(plan("a", "b", "c"))
    caller = threading.Thread(target=stage.keep, args=(events,))
    caller.start()
    stage.wait(lambda: stage.started == ["a"] and stage.prepared == ["b"])
    assert stage.made == [("a", None), ("b", None)]
    stage.release("a")
    caller.join()
    assert (stage.started, stage.prepared) == (["a", "b", "c"], ["b", "c"])


def test_jobs_started_ahead_are_shared_by_all_slots(stage, play, plan):
    """Two busy slots have two jobs ahead, and whichever slot is free first takes the first of them."""
    stage.held = {"a", "b", "c"}
    events = play(plan("a", "b", "c", "d", "e"), [None, None])
    caller = threading.Thread(target=stage.keep, args=(events,))
    caller.start()
    stage.wait(lambda: sorted(stage.started) == ["a", "b"] and stage.prepared == ["c", "d"])
    stage.release("b")
    stage.wait(lambda: stage.started[2:] == ["c"] and stage.prepared == ["c", "d", "e"])
    stage.release("a", "c")
    caller.join()
    assert sorted(stage.kept) == ["a", "b", "c", "d", "e"]


def test_nothing_starts_ahead_of_its_needs(stage, play, plan):
    """A job whose need still plays is neither made nor prepared."""
    stage.held = {"a"}
    events = play(plan("a", "b<a"))
    caller = threading.Thread(target=stage.keep, args=(events,))
    caller.start()
    stage.wait(lambda: stage.started == ["a"])
    assert (stage.made, stage.prepared) == ([("a", None)], [])
    stage.release("a")
    caller.join()
    assert stage.started == ["a", "b"]


@pytest.mark.parametrize("gpus", [["GPU-0"], ["GPU-0", "GPU-1"]])
def test_a_gpu_has_one_live_performance(stage, play, plan, gpus):
    """On GPUs nothing starts ahead: a performance is made only after the last one on that GPU has ended."""
    stage.keep(play(plan(*"abcdef"), gpus))
    assert stage.prepared == []
    assert stage.most == dict.fromkeys(gpus, 1)
    assert sorted(stage.kept) == list("abcdef")


def test_two_gpus_play_at_once(stage, play, plan):
    """Each GPU is a slot of its own."""
    stage.meeting = threading.Barrier(2)
    stage.keep(play(plan("a", "b", "c", "d"), ["GPU-0", "GPU-1"]))
    assert stage.most == {"GPU-0": 1, "GPU-1": 1}


def test_a_gpu_takes_what_suits_it(stage, play, plan):
    """Of two jobs that are ready at once, each goes to the device that it suits, whatever their order."""
    stage.meeting = threading.Barrier(2)
    suits = {("a", "GPU-1"), ("b", "GPU-0")}
    stage.keep(play(plan("a", "b"), ["GPU-0", "GPU-1"], suits=lambda job, device: (job.id, device) in suits))
    assert sorted(stage.made) == [("a", "GPU-1"), ("b", "GPU-0")]


def test_no_gpu_waits_for_what_suits_it(stage, play, plan):
    """Jobs that suit no device, or only a busy one, are played all the same, and both GPUs at once."""
    stage.meeting = threading.Barrier(2)
    stage.keep(play(plan("a", "b", "c", "d"), ["GPU-0", "GPU-1"], suits=lambda _job, device: device == "GPU-1"))
    assert sorted(stage.kept) == list("abcd")
    assert [stage.made[0], stage.made[1]] == [("a", "GPU-1"), ("b", "GPU-0")]


def test_jobs_ahead_stay_on_processors(stage, play, plan):
    """With slots of both kinds, a GPU that is free leaves what started ahead without a device to the processors."""
    stage.held = {"a", "b", "d"}
    caller = threading.Thread(target=stage.keep, args=(play(plan("a", "b", "c", "d"), [None, "GPU-0"]),))
    caller.start()
    stage.wait(lambda: sorted(stage.started) == ["a", "b"] and stage.prepared == ["c"])
    stage.release("b")
    stage.wait(lambda: "d" in stage.started)
    assert stage.made == [("a", None), ("b", "GPU-0"), ("c", None), ("d", "GPU-0")]
    assert "c" not in stage.started
    stage.release("a", "d")
    caller.join()
    assert (sorted(stage.kept), stage.prepared) == (["a", "b", "c", "d"], ["c"])


@pytest.mark.parametrize(
    "error", [BackendUnavailable("nobody answers"), StoreFault("no space"), Cancelled("enough"), UsageError("no")]
)
def test_an_error_is_raised_in_the_caller(stage, play, plan, error):
    """What every job needs failed: what plays and what waits is cancelled, and every thread ends."""
    stage.held, stage.errors = {"b"}, {"a": error}
    with pytest.raises(type(error)) as caught:
        stage.keep(play(plan("a", "b", "c", "d"), [None, None]))
    assert caught.value is error
    assert sorted(stage.cancelled) == ["a", "b", "c", "d"]
    assert sorted(stage.started) == sorted(stage.ended) == ["a", "b"]
    assert stage.running == 0


def test_events_before_an_error_are_yielded(stage, play, plan):
    """What finished before the engine went away is kept."""
    stage.errors = {"b": BackendUnavailable("gone")}
    with pytest.raises(BackendUnavailable):
        stage.keep(play(plan("a", "b", "c")))
    assert stage.kept == ["a"]


@pytest.mark.parametrize("error", [SandboxLost("it cannot be started"), KeyError("a bug")])
@pytest.mark.parametrize("slots", [1, 3])
def test_a_job_that_failed_for_good_is_parked(stage, play, plan, error, slots):
    """The others are played, what needs it is not, and nobody is cancelled."""
    stage.errors = {"b": error}
    stage.keep(play(plan("a", "b", "c", "d<b", "e<a"), [None] * slots))
    assert sorted(stage.kept) == ["a", "c", "e"]
    assert [(event.job, event.submission) for event in stage.parked] == [("b", "team-b")]
    assert stage.parked[0].message.endswith(error.args[0] if isinstance(error, SandboxLost) else "KeyError: 'a bug'")
    assert (stage.cancelled, stage.running) == ([], 0)


def test_no_other_job_of_a_parked_submission_is_started(stage, play, plan):
    """What its first job met, the others would meet too; one that was started ahead is played to its end."""
    stage.errors = {"a": SandboxLost("it cannot be started")}
    jobs = plan("a", "b", "c").jobs
    same = Plan(tuple(replace(job, submission="one" if job.id in "ac" else "two") for job in jobs))
    stage.keep(play(same, ["GPU-0"]))
    assert (stage.started, stage.kept) == (["a", "b"], ["b"])


def test_an_error_while_a_performance_is_made_ends_everything(stage, plan):
    """A performance that cannot even be made is raised in the caller, and what plays is ended."""
    stage.held = {"a"}

    def perform(job, device):
        if job.id == "b":
            raise SandboxLost("no room")
        return stage.perform(job, device)

    with pytest.raises(SandboxLost, match="no room"):
        stage.keep(LocalExecutor([None]).run(plan("a", "b"), frozenset(), perform))
    assert (stage.cancelled, stage.running) == (["a"], 0)


def test_a_thread_that_cannot_start_ends_everything(stage, play, plan, monkeypatch):
    """When the machine gives no more threads, what plays is ended and the reason is raised."""
    stage.held = {"a"}
    start = threading.Thread.start

    def refuse(thread):
        if thread.name == "job-b":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        stage.keep(play(plan("a", "b"), [None, None]))
    assert sorted(stage.cancelled) == ["a", "b"]
    assert stage.ended == stage.started == ["a"]


def test_everything_is_ended_where_ending_fails(stage, play, plan):
    """When cancelling one performance raises, the others are cancelled all the same and every thread is waited for."""
    stage.held = {"b", "c"}
    stage.errors = {"a": BackendUnavailable("first")}
    stage.cancel_errors = dict.fromkeys("bd", SandboxLost("second"))
    with pytest.raises(SandboxLost):
        stage.keep(play(plan(*"abcdef"), [None, None, None]))
    assert sorted(stage.cancelled) == list("abcdef")
    assert sorted(stage.ended) == ["a", "b", "c"]


def test_a_caller_that_stops_ends_everything(stage, play, plan):
    """Closing the events cancels what plays and what waits, and joins every thread."""
    stage.held = {"b"}
    events = play(plan("a", "b", "c"))
    stage.keep(events, upto="a")
    events.close()
    assert set(stage.cancelled) <= {"a", "b", "c"}
    assert (set(stage.started), stage.running) == (set(stage.ended), 0)
    assert list(events) == []


def test_an_error_of_the_caller_ends_everything(stage, play, plan):
    """An exception thrown in while an event is held, like an interrupt, passes through and leaves nothing behind."""
    stage.held = {"b"}
    events = play(plan("a", "b", "c"), [None, None])
    (ended,) = next(events)
    assert ended.job == "a"
    with pytest.raises(KeyboardInterrupt):
        events.throw(KeyboardInterrupt())
    assert "b" in stage.cancelled
    assert stage.running == 0


def test_an_interrupt_while_waiting_ends_everything(stage, play, plan):
    """Ctrl-C while the engine waits for news ends every job and is raised."""
    stage.held = {"a", "b"}

    def interrupt():
        stage.wait(lambda: sorted(stage.started) == ["a", "b"] and stage.prepared == ["c"])
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    operator = threading.Thread(target=interrupt)
    operator.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            stage.keep(play(plan("a", "b", "c"), [None, None]))
    finally:
        operator.join()
        signal.signal(signal.SIGINT, before)
    assert sorted(stage.cancelled) == ["a", "b", "c"]
    assert sorted(stage.ended) == ["a", "b"]


def test_a_plan_that_cannot_be_done_is_an_error(stage, play, plan):
    """Jobs that need what nobody makes are named after the others have played; they are never left out in silence."""
    with pytest.raises(ValueError, match="the plan cannot be played: b, c wait for jobs that are not in it"):
        stage.keep(play(plan("a", "b<missing", "c<b")))
    assert stage.kept == ["a"]


@pytest.mark.parametrize(
    ("devices", "message"),
    [([], "no slots to play on"), (["GPU-0", "GPU-0"], "a GPU is listed twice"), ([None, "G", "G"], "listed twice")],
)
def test_slots_are_checked(devices, message):
    """At least one slot, and no GPU twice: every live sandbox has a GPU of its own."""
    with pytest.raises(UsageError, match=message):
        LocalExecutor(devices)


DEVICES = st.lists(st.sampled_from([None, "G0", "G1"]), min_size=1, max_size=3).filter(
    lambda them: all(them.count(device) == 1 for device in them if device)
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(needs=st.lists(st.sets(st.integers(0, 7)), max_size=8), devices=DEVICES)
def test_every_job_is_played_once_on_any_slots(stage, play, plan, needs, devices):
    """Whatever the needs and the slots, each job runs once, after its needs were kept, and no GPU has two at once."""
    stage.__init__()
    words = [f"{n}<{','.join(str(m) for m in wanted if m < n)}" for n, wanted in enumerate(needs)]
    stage.keep(play(plan(*reversed(words)), devices))
    assert sorted(stage.kept) == sorted(stage.started) == [str(n) for n in range(len(needs))]
    assert stage.cancelled == []
    assert stage.most_running <= len(devices)
    assert all(stage.most.get(device, 0) <= 1 for device in devices if device)
