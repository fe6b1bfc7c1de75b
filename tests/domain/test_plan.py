"""The plan is the scheduler: what is ready, given what is done."""

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.domain.ids import JobId
from orchestrator.domain.plan import Cell, Job, Plan, Stage


def job(name, *needs):
    """Returns a job of that id."""
    return Job(JobId(name), Stage.CLASSIFY, "team", needs=frozenset(map(JobId, needs)))


def taken(plan, done):
    """Returns every job that an agenda offers at once."""
    return list(iter(plan.ready_queue(frozenset(map(JobId, done))).take, None))


def ready(plan, *done):
    """Returns the ids of what can start."""
    return [found.id for found in taken(plan, done)]


def startable(plan, done):
    """Returns what can start by looking at every job: what an agenda has to agree with."""
    return [found for found in plan.jobs if found.id not in done and found.needs <= done]


def test_jobs_without_needs_are_ready_in_the_plans_order():
    """What needs nothing can start at once, the preferred one first."""
    assert ready(Plan((job("b"), job("a"), job("c", "a")))) == ["b", "a"]


def test_a_job_waits_for_all_its_needs():
    """One of two needs is not enough."""
    plan = Plan((job("a"), job("b"), job("c", "a", "b")))
    assert ready(plan, "a") == ["b"]
    assert ready(plan, "a", "b") == ["c"]


def test_what_is_done_is_not_ready():
    """A finished round has nothing ready, and resuming is marking what is done."""
    plan = Plan((job("a"), job("b", "a")))
    assert ready(plan, "a") == ["b"]
    assert ready(plan, "a", "b") == []


def test_done_may_hold_more_than_the_plan():
    """A need that another round finished counts (X4)."""
    assert ready(Plan((job("new", "old"),)), "old", "unknown") == ["new"]


def test_jobs_are_found_by_id():
    """`by_id` holds every job once."""
    plan = Plan((job("a"), job("b", "a")))
    assert plan.by_id == {"a": plan.jobs[0], "b": plan.jobs[1]}


def test_clean_pictures_sort_apart_from_attacks():
    """A cell without an attack is its own cell."""
    assert Cell("d") == Cell("d", None)
    assert len({Cell("d"), Cell("d", "a"), Cell("e", "a")}) == 3


@given(st.lists(st.sets(st.integers(0, 7)), min_size=1, max_size=8))
def test_every_job_runs_once_after_its_needs(needs):
    """Playing what is ready until nothing is, plays each job exactly once and never before what it needs."""
    jobs = [job(str(place), *(str(n) for n in wanted if n < place)) for place, wanted in enumerate(needs)]
    plan = Plan(tuple(reversed(jobs)))
    done: list[str] = []
    while found := taken(plan, done):
        assert found[0].needs <= set(done)
        done.append(found[0].id)
    assert sorted(done) == sorted(j.id for j in jobs)


@given(st.lists(st.sets(st.integers(0, 7)), min_size=1, max_size=8), st.sets(st.integers(0, 7)), st.randoms())
def test_the_agenda_is_what_is_ready(needs, done, chance):
    """At every moment the agenda offers what can start, first the preferred one, each job once."""
    jobs = [job(str(place), *(str(n) for n in wanted if n < place)) for place, wanted in enumerate(needs)]
    plan, finished = Plan(tuple(reversed(jobs))), {JobId(str(n)) for n in done}
    agenda, running = plan.ready_queue(finished), []
    while True:
        while (found := agenda.take()) is not None:
            assert found == next(one for one in startable(plan, finished) if one not in running)
            running.append(found)
        assert set(running) == set(startable(plan, finished))
        assert agenda.remaining == [one.id for one in plan.jobs if one.id not in finished]
        if not running:
            break
        ended = running.pop(chance.randrange(len(running)))
        finished.add(ended.id)
        agenda.mark_finished(ended.id)
    assert agenda.remaining == []


def test_the_agenda_passes_over_what_is_not_wanted():
    """A job that nobody wants now is offered again."""
    agenda = Plan((job("a"), job("b"))).ready_queue(frozenset())
    assert agenda.take(lambda one: one.id == "b").id == "b"
    assert agenda.take(lambda one: one.id == "b") is None
    assert agenda.take().id == "a"
    assert agenda.take() is None
