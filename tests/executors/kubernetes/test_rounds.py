"""Whole rounds on the test cluster, with real drivers and players: the same results as on this machine, whatever fails.

The contest file is one and the same. Its images are named by the digests that the process backend gives the folders, so
jobs, orders and replays are the same as well, and results.json can be compared as a whole.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from orchestrator.application.rounds import round_record
from orchestrator.domain.plan import Stage as JobStage
from orchestrator.errors import UsageError
from orchestrator.executors.kubernetes import probe_job, run_probes
from orchestrator.executors.kubernetes.api import Client
from tests.kubernetes_api import eventually
from tests.kubernetes_api.tests.conftest import Http

from .contest_on_cluster import NAMESPACE, Disruptor, Stage, disruptions, holder_pid, running, staged, steps_of

pytestmark = pytest.mark.slow


@pytest.fixture
def stage(require) -> Iterator[Stage]:
    """A cluster of two nodes whose pods are processes of this machine, and a contest."""
    with staged(require) as made:
        yield made


def test_the_same_results_as_on_this_machine(stage):
    """Honest players, crashing ones and a cheat: one results.json; nothing is left on the cluster or the volume."""
    stage.settings["isolation"] = "round"  # fewer pods
    path = stage.contest()
    expected = stage.here(path)
    assert stage.play(path) == expected
    assert [finding["submission"] for finding in expected["findings"]] == ["defence_dice"]
    assert {fault["code"] for each in expected["submissions"] for fault in each["faults"]} == {"died"}
    assert stage.failures() == []
    assert stage.cleared() == {}


KILLS = 6 if os.environ.get("SPARRING_SOAK") else 1
"""Each costs the half minute after which another may take a lease; test_controller_killed.py kills anywhere."""
NO_REPLAYS = {"replay": {"power": 0}}
SLOW = ("attack_slow", "attack_crashes", "defence_slow", "defence_crashes", "defence_honest")


def test_what_a_cluster_does_to_pods_is_ours(stage):
    """Pods that are taken away, by whoever: each attempt failed, was tried again, and nobody pays for it."""
    stage.players, stage.settings = SLOW, NO_REPLAYS
    path = stage.contest()
    expected = stage.here(path)
    gremlin = Disruptor(stage, disruptions(stage))
    gremlin.start()
    assert stage.play(path) == expected
    gremlin.join()
    assert gremlin.done.keys() == disruptions(stage).keys()
    failures = stage.failures()
    assert {failure.code for failure in failures} <= {"pod-lost", "driver-lost"}
    assert len({failure.job for failure in failures} & set(gremlin.done.values())) >= 2, "some come before a last word"
    assert stage.cleared() == {}


def test_a_player_that_is_out_of_memory_pays(stage):
    """The kernel ends the player's container as a whole; its status says why, and the fault is the player's."""
    stage.players, stage.settings, stage.limits = ("attack_noop", "defence_hangs"), NO_REPLAYS, {"fault_seconds": 0}
    path = stage.contest()
    killed: list[str] = []

    def kill(_: str, pod: str) -> None:
        time.sleep(2.0)  # the player is loading, or is asked and says nothing for as long as it may
        killed.append(pod)
        stage.cluster.kubelets.oom_kill(NAMESPACE, pod, "player")

    gremlin = Disruptor(stage, {"the player is out of memory": kill}, stage="classify")
    gremlin.start()
    stage.play(path)
    gremlin.join()
    record, _ = round_record.read_round(stage.there)
    codes = {
        job: [fault.code for step in steps.values() for fault in step.faults]
        for job, steps in record.round.steps.items()
    }
    [job] = gremlin.done.values()
    assert codes.pop(job)[0] == "out-of-memory"
    assert "out-of-memory" not in {code for each in codes.values() for code in each}
    assert record.round.steps[job][0].sandboxes[0].reason == "out-of-memory"
    assert stage.failures() == []


@pytest.mark.soak
def test_a_player_that_no_node_starts_pays(stage):
    """The runtime refuses it, and starts the others: it has no answer to anything, and the round ends.

    In test-all test_a_player_of_two_that_no_node_starts_pays_alone shows it of an attack and of a defence.
    """
    stage.players = ("attack_noop", "attack_honest", "defence_honest", "defence_abstains")
    path = stage.contest()
    expected = stage.here(path)
    refused = next(digest for digest, folder in stage.images.items() if folder.name == "defence_abstains")
    stage.hook.refused.add(refused)
    results = stage.play(path)
    assert results["complete"]
    cells = {(each["defence"], each["attack"]): each for each in results["cells"]}
    for each in expected["cells"]:
        if each["defence"] == "defence_honest":
            assert cells[each["defence"], each["attack"]] == each
    silent = [each for (defence, _), each in cells.items() if defence == "defence_abstains"]
    assert len(silent) == 3
    assert all(each["held"] == each["abstained"] == 0 for each in silent)
    entry = next(each for each in results["submissions"] if each["id"] == "defence_abstains")
    assert entry["status"] == "faulted"
    assert "died" in {fault["code"] for fault in entry["faults"]}
    assert {failure.code for failure in stage.failures()} == {"player-refused"}
    assert all("no such device" in failure.message for failure in stage.failures())
    assert stage.cleared() == {}


@pytest.mark.soak
def test_an_image_that_cannot_be_pulled_and_a_full_quota(stage):
    """Both wait, in words; when they are mended the round goes on by itself.

    In test-all test_controller_pods.py shows each with drivers that follow a script.
    """
    stage.players = ("attack_noop", "defence_honest")
    path = stage.contest()
    expected = stage.here(path)
    image = next(
        f"docker.io/sparring-test/attack-noop@{digest}"
        for digest, at in stage.images.items()
        if at.name == "attack_noop"
    )
    stage.cluster.images.refuse(image)
    http = Http(stage.cluster.url)
    quotas = f"/api/v1/namespaces/{NAMESPACE}/resourcequotas"
    heard: list[str] = []

    def mend() -> None:
        status = stage.there / "cluster" / "status.json"

        def says(*words: str) -> bool:
            heard[:] = [row["description"] for row in json.loads(status.read_text())["jobs"]] if status.exists() else []
            return any(all(word in row for word in words) for row in heard)

        eventually(lambda: says("attack-noop", "ImagePull"), "the words about the image")
        http("POST", quotas, {"metadata": {"name": "full"}, "spec": {"hard": {"count/jobs.batch": "0"}}})
        stage.cluster.images.allow(image)
        eventually(lambda: says("waits for quota", "exceeded quota"), "the words about the quota")
        http("DELETE", f"{quotas}/full")

    mending = threading.Thread(target=mend)
    mending.start()
    assert stage.play(path) == expected
    mending.join()
    assert {failure.code for failure in stage.failures()} <= {"image-pull"}


def test_an_api_server_in_trouble(stage):
    """Errors before and after the deed, lost answers, cut watches, stale lists: none costs an attempt."""
    stage.players, stage.settings = ("attack_honest", "defence_crashes"), NO_REPLAYS
    path = stage.contest()
    expected = stage.here(path)
    over = threading.Event()

    def trouble() -> None:
        faults, turn = stage.cluster.faults, 0
        faults.retry_after = 0
        while not over.wait(0.02):
            if len(faults.seen) < turn:  # the last one has met nobody yet
                continue
            turn += 1
            if turn % 3 == 0:
                faults.disconnect(verb=("create", "list", "delete")[turn // 3 % 3], after=bool(turn % 2))
            else:
                faults.next(
                    (429, 500, 503)[turn % 3], verb=("list", "create")[turn % 2], when=("before", "after")[turn % 2]
                )
            if turn % 4 == 0:
                faults.drop_watches()
            if turn % 5 == 0:
                faults.stale_lists(("jobs", "pods")[turn % 2])

    troubling = threading.Thread(target=trouble)
    troubling.start()
    try:
        assert stage.play(path) == expected
    finally:
        over.set()
        troubling.join()
    assert len(stage.cluster.faults.seen) >= 5
    assert stage.failures() == []


def test_controllers_that_are_killed(stage):
    """Two controllers, and the one that works is killed: one round, played once, the same results."""
    stage.players, stage.settings = ("attack_slow", "defence_slow", "defence_crashes"), NO_REPLAYS
    path = stage.contest()
    expected = stage.here(path)
    lives = [stage.started(path), stage.started(path)]
    killed = 0
    until = time.monotonic() + 200
    try:
        while any(life.poll() is None for life in lives):
            assert time.monotonic() < until, (stage.folder / "log").read_text()[-3000:]
            time.sleep(0.02)  # a player is asked for half a second, and only then is there something to leave behind
            ended = [life for life in lives if life.poll() is not None]
            assert {life.returncode for life in ended} <= {0, -signal.SIGKILL}, (stage.folder / "log").read_text()[
                -3000:
            ]
            working = [life for life in lives if killed < KILLS and life.pid == holder_pid(stage)]
            if working and running(stage):
                lives.remove(working[0])
                working[0].kill()
                working[0].wait()
                lives.append(stage.started(path))
                killed += 1
    finally:
        for life in lives:
            life.kill()
    assert killed >= max(KILLS - 1, 1)
    assert stage.results("there") == expected
    assert stage.failures() == []
    steps = [(event.job, event.step) for event in steps_of(stage.there)]
    assert len(steps) == len(set(steps)), "a step is on record twice"


def test_a_cluster_that_was_not_probed(stage):
    """A round does not begin where no probe was blocked in 24 hours; a reason overrides that, and readers are told."""
    stage.players, stage.settings = ("attack_noop", "defence_honest"), NO_REPLAYS
    path = stage.contest()
    client = Client.connect_to_url(stage.cluster.url, NAMESPACE)
    old = probe_job.ProbeRecord(
        probed_at=datetime.now(UTC) - timedelta(hours=25), outcome=probe_job.NetworkOutcome.BLOCKED, operator="a test"
    )
    for record, words in (
        (old, "25 hours old"),
        (replace_record(old, outcome=probe_job.NetworkOutcome.CONNECTED, reached_targets=["dns"]), "reached dns"),
    ):
        run_probes.save_record(client, record, NAMESPACE)
        with pytest.raises(UsageError, match=words):
            stage.play(path)
        assert not stage.there.exists()
    stage.on = replace(stage.on, override_reason="a cluster of our own, without a way out")
    stage.play(path)
    record, _ = round_record.read_round(stage.there)
    assert [event.override_reason for event in record.round.probe_overrides] == [
        "a cluster of our own, without a way out"
    ]
    [note] = json.loads((stage.there / "results.json").read_text())["notes"]
    assert "whose network was not proved" in note
    assert "said `connected`. Reason: a cluster of our own, without a way out." in note
    page = (stage.there / "report" / "index.html").read_text()
    assert page.count("whose network was not proved") == 1


@pytest.mark.parametrize(
    ("how", "again"), [("others-first", "two"), pytest.param("any", "one", marks=pytest.mark.soak)]
)
def test_replays_run_where_their_submission_has_not_played(stage, how, again):
    """Item 27: the ledger has each step's node, and readers are told whose replays met what its play may have left."""
    stage.players = ("attack_noop", "defence_honest")
    stage.settings = {"cluster": {"max_jobs": 1, "replay_nodes": how}}
    stage.play(stage.contest())
    nodes = {(step.stage, step.submission): step.node for step in steps_of(stage.there)}
    assert {node for (kind, _), node in nodes.items() if kind is not JobStage.REPLAY} == {"one"}
    assert nodes[JobStage.REPLAY, "defence_honest"] == again
    notes = json.loads((stage.there / "results.json").read_text())["notes"]
    assert ["ran on a node where it had played" in note for note in notes] == ([True] if how == "any" else [])


def replace_record(record: probe_job.ProbeRecord, **changes: Any) -> probe_job.ProbeRecord:
    """Returns a record with changes."""
    return record.model_copy(update=changes)
