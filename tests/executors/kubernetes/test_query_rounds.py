"""Whole rounds in which attacks query, on the test cluster: the same results as on this machine, whoever ends (X1, X6).

A pod of a query job has the attack, the defence and the driver that joins them, as three real process trees.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.application.rounds import round_record
from orchestrator.bundles import array_checks
from orchestrator.domain.outcomes import Forfeit
from orchestrator.domain.plan import Cell
from orchestrator.domain.plan import Stage as JobStage
from orchestrator.domain.queries import QueryFailure
from orchestrator.errors import UsageError

from .contest_on_cluster import NAMESPACE, Disruptor, Stage, disruptions, staged, steps_of

pytestmark = pytest.mark.slow

ASKING = Path(__file__).parents[2] / "e2e" / "players" / "asking.py"


@pytest.fixture
def stage(require) -> Iterator[Stage]:
    """A cluster of two nodes, and a contest in which attacks may ask for labels."""
    with staged(require) as made:
        made.player, made.pictures = ASKING, 8
        made.limits = {"perturb_batch": 4, "classify_seconds": 30, "perturb_seconds": 60}
        made.settings = {"access": {"kind": "decision", "queries": 5, "batch": 8}, "replay": {"power": 0}}
        made.settings["isolation"] = "round"  # fewer pods: query jobs are the same
        yield made


def halve_batches(stage: Stage) -> None:
    """Makes two batches of two pictures, one of each class: each fault costs a pod, and one fault a batch is enough."""
    stage.pictures, stage.limits["perturb_batch"] = 4, 2


def results_but_sandboxes(results: dict[str, Any]) -> dict[str, Any]:
    """Returns results without how many sandboxes each had: who is replaced in a pod takes the other one along."""
    return results | {"submissions": [each | {"sandboxes": None} for each in results["submissions"]]}


def codes(results: dict[str, Any], name: str) -> set[str]:
    """Returns the codes of a submission's faults."""
    [found] = [each for each in results["submissions"] if each["id"] == name]
    return {fault["code"] for fault in found["faults"]}


def test_queries_come_out_as_on_this_machine(stage) -> None:
    """Who ends with a query open, the attack or the defence, pays for it, and nobody else does: one results.json."""
    stage.players = ("attack_honest", "attack_dies_asking", "defence_honest", "defence_dies")
    halve_batches(stage)
    path = stage.contest()
    expected = stage.here(path)
    found = stage.play(path)
    assert results_but_sandboxes(found) == results_but_sandboxes(expected)
    assert codes(found, "attack_dies_asking") == codes(found, "defence_dies") == {"died"}
    assert codes(found, "attack_honest") == codes(found, "defence_honest") == set()
    assert stage.failures() == []
    assert stage.cleared() == {}
    started = [name for _, name in stage.hook.started]
    assert 0 < started.count("attack") == started.count("prepare-attack") < started.count("player")


@pytest.mark.soak
def test_who_hangs_with_a_query_open_costs_only_itself(stage) -> None:
    """A defence that never answers and an attack that falls silent in the middle of a query: one results.json."""
    stage.limits |= {"classify_seconds": 6, "perturb_seconds": 6}
    stage.players = ("attack_honest", "attack_falls_silent", "defence_honest", "defence_hangs")
    path = stage.contest()
    expected = stage.here(path)
    found = stage.play(path)
    assert results_but_sandboxes(found) == results_but_sandboxes(expected)
    assert codes(found, "attack_falls_silent") == codes(found, "defence_hangs") == {"deadline"}
    assert codes(found, "attack_honest") == codes(found, "defence_honest") == set()


def test_questions_are_asked_again_in_pods_without_the_attack(stage) -> None:
    """The check at the end of a query job needs the defence alone, and its pods have no other player."""
    stage.settings["replay"] = {"power": 0.5, "cheat": 0.3}
    stage.players = ("attack_honest", "defence_honest")
    halve_batches(stage)
    stage.limits["classify_batch"] = 4  # two questions are asked again, each in a pod of its own, and not eight
    path = stage.contest()
    expected = stage.here(path)
    assert results_but_sandboxes(stage.play(path)) == results_but_sandboxes(expected)
    by_job: dict[str, set[str]] = {}
    for job, container in stage.hook.started:
        by_job.setdefault(job, set()).add(container)
    queries = [containers for job, containers in by_job.items() if job.startswith(JobStage.QUERY.value)]
    assert ["attack" in containers for containers in queries].count(True) == 1
    assert len(queries) > 2


@pytest.mark.soak
def test_what_a_cluster_does_to_a_pod_of_two_is_ours(stage) -> None:
    """Pods of query jobs that are evicted or lose their driver: played again with the whole budget, nobody pays."""
    stage.players = ("attack_honest", "attack_overdraws", "defence_honest", "defence_lingers")
    path = stage.contest()
    expected = stage.here(path)
    deeds = disruptions(stage)
    chosen = {name: deeds[name] for name in ("the pod is evicted", "the driver is out of memory")}
    gremlin = Disruptor(stage, chosen, stage="query")
    gremlin.start()
    assert results_but_sandboxes(stage.play(path)) == results_but_sandboxes(expected)
    gremlin.join()
    assert gremlin.done.keys() == chosen.keys()
    assert {failure.code for failure in stage.failures()} <= {"pod-lost", "driver-lost"}


def test_an_attack_that_is_out_of_memory_pays_and_its_defence_does_not(stage) -> None:
    """The kernel ends the attack's container, and the status of that container alone says whose fault it is."""
    stage.players, stage.pictures = ("attack_honest", "defence_lingers"), 4
    stage.limits["perturb_batch"] = 2
    path = stage.contest()
    gremlin = Disruptor(
        stage,
        {"out of memory": lambda _, pod: stage.cluster.kubelets.oom_kill(NAMESPACE, pod, "attack")},
        stage="query",
    )
    gremlin.start()
    results = stage.play(path)
    gremlin.join()
    assert codes(results, "attack_honest") == {"out-of-memory"}
    assert codes(results, "defence_lingers") == set()
    [sandbox] = [
        each for step in steps_of(stage.there) for each in step.sandboxes if each.reason.value == "out-of-memory"
    ]
    assert sandbox.submission == "attack_honest"
    assert stage.failures() == []


def test_a_player_of_two_that_no_node_starts_pays_alone(stage) -> None:
    """The runtime refuses an attack, and a defence: their query jobs end, and whoever else was in them has no fault."""
    stage.players = ("attack_honest", "attack_overdraws", "defence_honest", "defence_dies")
    halve_batches(stage)
    stage.limits["restarts"] = 1
    path = stage.contest()
    expected = stage.here(path)
    refused = {"attack_overdraws", "defence_dies"}
    stage.hook.refused |= {digest for digest, folder in stage.images.items() if folder.name in refused}
    results = stage.play(path)
    assert results["complete"]
    honest = [(each["defence"], each["attack"]) for each in expected["cells"]]
    kept = [pair for pair in honest if not refused & set(pair)]
    for parts in (expected, results):
        parts["cells"] = {(each["defence"], each["attack"]): each for each in parts["cells"]}
    assert [results["cells"][pair] for pair in kept] == [expected["cells"][pair] for pair in kept]
    assert "died" in codes(results, "attack_overdraws") & codes(results, "defence_dies")
    assert codes(results, "attack_honest") == codes(results, "defence_honest") == set()
    record, _ = round_record.read_round(stage.there)
    of_attack = Cell("defence_honest", "attack_overdraws")
    assert (record.cell_examples(of_attack).forfeits == Forfeit.MISSING).all()
    assert not record.query_record(of_attack).failures.any()
    of_defence = Cell("defence_dies", "attack_honest")
    assert not record.cell_examples(of_defence).forfeits.any()
    assert (record.query_record(of_defence).failures == QueryFailure.NOT_PLAYED).all()
    assert {failure.code for failure in stage.failures()} == {"player-refused"}


def test_gradients_come_out_as_on_this_machine(stage) -> None:
    """A defence that ends at gradients loses those pictures alone; the next pod goes on with the others: one result."""
    stage.settings["access"] = {"kind": "gradient", "queries": 4, "gradient_price": 2, "transcript": "full"}
    stage.players = ("attack_climbs", "defence_slope", "defence_slope_dies")
    halve_batches(stage)
    path = stage.contest()
    expected = stage.here(path)
    found = stage.play(path)
    assert results_but_sandboxes(found) == results_but_sandboxes(expected)
    assert codes(found, "defence_slope_dies") == {"died"}
    assert codes(found, "attack_climbs") == codes(found, "defence_slope") == set()
    assert stage.failures() == []
    record, _ = round_record.read_round(stage.there)
    failures = record.query_record(Cell("defence_slope_dies", "attack_climbs")).failures
    assert 0 < (failures == QueryFailure.FAULTED).sum() < len(failures)
    array_checks.check_transcripts(record, "the round")


def test_too_many_gradients_are_refused_before_anything_is_played(stage) -> None:
    """More than the next pod is given are not taken from pod to pod; the message says what can be changed."""
    stage.settings["access"] = {"kind": "gradient", "queries": 10_000_000}
    with pytest.raises(UsageError, match=r"lower `limits.perturb_batch` or `access.queries`"):
        stage.play(stage.contest())
    assert not stage.there.exists()
