"""`sparring cluster check` and `sweep`, as they are typed, against the test API server."""

import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from orchestrator.cli import cluster_check
from orchestrator.cli.app import app
from orchestrator.domain.events import RoundOpened, TaskRecord
from orchestrator.executors.kubernetes.api import JOBS, LEASES, Client
from orchestrator.executors.kubernetes.labels import RoundRef
from orchestrator.executors.kubernetes.probe_job import RECORD_NAME
from orchestrator.executors.kubernetes.run_probes import ProbeTimeouts
from orchestrator.ledger.round_folder import RoundFolder
from tests.executors.kubernetes.overlays import FOLDER, documents
from tests.executors.kubernetes.rendering import BOUT, attempt, rendered
from tests.kubernetes_api import Cluster, Node

CONTEST = """\
sparring: 1
contest: cup
title: A cup
format: tournament
task: {name: digits, dataset: {kind: digits, first: 20}, budget: {norm: linf, epsilon: 8}}
rules: {clean_floor: null}
cluster: {namespace: default, queue: QUEUE}
"""


class Scripted:
    """A container that says what a probe would say, and ends: at once, or when it is told to."""

    def __init__(self, words: dict[str, Any], *, stays: bool = False) -> None:
        self._words, self._over = words, threading.Event()
        if not stays:
            self._over.set()

    def wait(self) -> int:
        """Waits for its end."""
        self._over.wait()
        return 0

    def send_signal(self, number: int) -> None:
        """Ends it."""
        self._over.set()

    def message(self) -> str:
        """Says it."""
        return json.dumps(self._words)


class Script:
    """The hook: what each probe's container says. Nothing is really tried."""

    def __init__(self) -> None:
        listener = {"name": "listener-1", "reachability": "connected"}
        self.says: dict[str, Any] = {
            "listener": {},
            "control": {"results": [listener], "nameservers": ["10.96.0.10"]},
            "probe": {
                "results": [{"name": "listener-1", "reachability": "silent"}, {"name": "api", "reachability": "silent"}]
            },
            "storage": {"write_seconds": 0.01},
        }
        self.words: dict[str, list[str]] = {}
        self.listens = True

    def __call__(self, container: dict[str, Any], pod: dict[str, Any]) -> Scripted:
        """Starts a container."""
        self.words[container["name"]] = container.get("args", [])
        stays = container["name"] == "listener" and self.listens
        return Scripted(self.says.get(container["name"], {}), stays=stays)


@pytest.fixture
def script() -> Script:
    """What the probes say."""
    return Script()


@pytest.fixture
def cluster(script) -> Iterator[Cluster]:
    """A cluster with what k8s/base has for a contest in the namespace `default`."""
    with Cluster(script, (Node(),)) as made:
        kinds = made.catalogue.kinds()
        for name in ("network.yaml", "claims.yaml"):
            for each in documents((FOLDER / "base" / name).read_text("utf-8")):
                made.registry.create(kinds[each["apiVersion"], each["kind"]], "default", each)
        yield made


@pytest.fixture
def contest(tmp_path) -> Path:
    """A contest file whose Jobs are in that namespace."""
    path = tmp_path / "contest.yaml"
    path.write_text(CONTEST.replace(", queue: QUEUE", ""))
    return path


Run = Callable[..., tuple[int, Any]]


@pytest.fixture
def run(cluster, tmp_path, monkeypatch) -> Run:
    """Runs a command of the group with `--json`; returns its exit code and document."""
    config = cluster.kubeconfig(tmp_path / "kubeconfig")
    monkeypatch.setattr(cluster_check, "ProbeTimeouts", partial(ProbeTimeouts, poll_seconds=0.05))

    def ran(*words: object) -> tuple[int, Any]:
        command = ["cluster", *map(str, words), "--kubeconfig", str(config), "--json"]
        done = CliRunner().invoke(app, command)
        return done.exit_code, json.loads(done.stdout)

    return ran


def status(document: Any) -> dict[str, str]:
    """The status of each check."""
    return {each["name"]: each["status"] for each in document["checks"]}


@pytest.mark.slow
def test_counters_of_the_node_are_named(run, contest, script) -> None:
    """Item 27: a warning with what is readable and what ends it, and none where a pod has a kernel of its own."""
    script.says["probe"]["counters"] = ["/proc/sys/fs/dentry-state", "/proc/stat"]
    code, document = run("check", contest)
    [found] = [each for each in document["checks"] if each["name"] == "kernel counters"]
    assert (code, found["status"]) == (0, "warn")
    assert "/proc/sys/fs/dentry-state, /proc/stat" in found["detail"]
    assert "kata" in found["remedy"]
    assert "replay_nodes" in found["remedy"]
    script.says["probe"]["counters"] = []
    assert status(run("check", contest)[1])["kernel counters"] == "ok"
    del script.says["probe"]["counters"]
    assert "kernel counters" not in status(run("check", contest)[1])


def test_a_cluster_that_is_fine_is_fine(run, contest, script, cluster) -> None:
    """Exit code 0, the probe's word is kept, and a later look finds it."""
    code, document = run("check", contest)
    assert code == 0, document
    assert document["ok"] is True
    assert {"storage and image": "ok", "network probe": "ok"}.items() <= status(document).items()
    assert "metadata=tcp:169.254.169.254:80" in script.words["probe"]
    assert "dns-1=udp:10.96.0.10:53" in script.words["probe"]
    kept = json.loads(cluster.read("configmaps", RECORD_NAME)["data"]["probe.json"])
    assert kept["outcome"] == "blocked"
    assert "@" in kept["operator"]
    code, document = run("check", contest, "--look-only")
    assert (code, status(document)["network probe"]) == (0, "ok")


def test_a_network_without_walls_fails(run, contest, script, cluster) -> None:
    """Exit code 1, and that is what is kept: a round will not begin."""
    script.says["probe"]["results"][1]["reachability"] = "connected"
    code, document = run("check", contest)
    assert code == 1
    failed = [each for each in document["checks"] if each["status"] == "fail"]
    assert [each["name"] for each in failed] == ["network probe"]
    assert "reached api" in failed[0]["detail"]
    assert run("check", contest, "--look-only")[0] == 1
    assert json.loads(cluster.read("configmaps", RECORD_NAME)["data"]["probe.json"])["reached_targets"] == ["api"]


def test_a_probe_that_proves_nothing_takes_nothing_away(run, contest, script) -> None:
    """It fails, and the last proof is still there."""
    assert run("check", contest)[0] == 0
    script.says["control"] = {"results": [{"name": "listener", "reachability": "silent"}]}
    code, document = run("check", contest)
    assert (code, status(document)["network probe"]) == (1, "fail")
    assert run("check", contest, "--look-only")[0] == 0


def test_a_listener_that_went_away_proves_nothing(run, contest, script) -> None:
    """Its silence may have been its absence."""
    script.listens = False
    code, document = run("check", contest)
    assert (code, status(document)["network probe"]) == (1, "fail")
    assert "the listener ended before the probe did" in str(document["checks"])


def test_a_cluster_that_was_never_probed_is_told(run, contest, cluster) -> None:
    """Looking makes no pod."""
    code, document = run("check", contest, "--look-only")
    assert code == 1
    assert "never probed" in document["checks"][-1]["detail"]
    assert not cluster.store.shelf(cluster.catalogue.of("jobs", "batch")).objects


def test_what_players_must_not_reach_can_be_named(run, contest, script) -> None:
    """Any address, beside those that are always tried; nonsense is refused before anything is made."""
    run("check", contest, "--reach", "office=tcp:192.0.2.1:22")
    assert "office=tcp:192.0.2.1:22" in script.words["probe"]
    for nonsense in ("office", "listener-9=tcp:192.0.2.1:22"):
        code, document = run("check", contest, "--reach", nonsense)
        assert (code, document["error"]["code"]) == (2, "usage")


@pytest.mark.slow
def test_the_text_has_remedies(cluster, contest, tmp_path, script) -> None:
    """As `sparring doctor` shows them."""
    script.says["storage"] = {"error": "/work cannot be written as user 10002: Permission denied"}
    config = cluster.kubeconfig(tmp_path / "kubeconfig")
    words = ["cluster", "check", str(contest), "--kubeconfig", str(config), "--patience", "2"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert "fail    storage and image: /work cannot be written as user 10002" in done.stdout
    assert "remedy: let user 10002 (cluster.user) write" in done.stdout


def test_a_queue_that_is_missing_fails(run, contest) -> None:
    """What the contest asks for counts."""
    contest.write_text(CONTEST.replace("QUEUE", "players"))
    code, document = run("check", contest, "--look-only")
    assert code == 1
    assert status(document)["queue"] == "fail"


def test_where_attacks_query_what_two_players_share_is_told(run, contest) -> None:
    """A warning, which fails no check; without `access` there is no such line."""
    contest.write_text(CONTEST.replace(", queue: QUEUE", "") + "access: {kind: decision}\n")
    code, document = run("check", contest, "--look-only")
    assert status(document)["query jobs"] == "warn"
    contest.write_text(CONTEST.replace(", queue: QUEUE", ""))
    plain_code, plain = run("check", contest, "--look-only")
    assert "query jobs" not in status(plain)
    assert code == plain_code


def test_no_cluster_is_told_from_a_failed_check(tmp_path, contest, monkeypatch) -> None:
    """No configuration is the operator's affair; a server that does not answer is ours."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    done = CliRunner().invoke(app, ["cluster", "check", str(contest), "--kubeconfig", str(tmp_path / "none")])
    assert done.exit_code == 2


def test_a_cluster_that_is_away_is_ours(tmp_path, contest, monkeypatch) -> None:
    """Exit code 3, within seconds, not a failed check."""
    monkeypatch.setattr("orchestrator.application.kubernetes.preflight.API_TIMEOUT_SECONDS", 0.3)
    with Cluster(Script()) as gone:
        config = gone.kubeconfig(tmp_path / "kubeconfig")
    words = ["cluster", "check", str(contest), "--kubeconfig", str(config), "--json"]
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, json.loads(done.stdout)["error"]["code"]) == (3, "cluster-unavailable")


def test_a_folder_for_the_round_is_tried(run, contest, script, tmp_path) -> None:
    """A file is put into what drivers see of it, a pod looks for them on the claim, and they are removed."""
    out = tmp_path / "out"
    for name in ("blobs", "cluster"):
        (out / name).mkdir(parents=True)
    code, document = run("check", contest, "--out", out)
    assert code == 0, document
    words = script.words["storage"]
    looked = [words[at + 1] for at, word in enumerate(words) if word == "--find"]
    assert [name.partition("/.probe-")[0] for name in looked] == ["blobs", "cluster"]
    assert [path for path in out.rglob("*") if path.is_file()] == []
    script.says["storage"] = {"write_seconds": 0.01, "missing_files": looked}
    code, document = run("check", contest, "--out", out)
    assert (code, status(document)["storage and image"]) == (1, "fail")


def test_a_folder_for_the_round_that_lacks_the_claims_parts_is_usage(run, contest, tmp_path) -> None:
    """Nothing is made there: a check changes nothing."""
    code, document = run("check", contest, "--out", tmp_path / "out")
    assert (code, document["error"]["code"]) == (2, "usage")
    assert "blobs cannot be written" in document["error"]["message"]
    assert not (tmp_path / "out").exists()
    code, document = run("check", contest, "--out", tmp_path, "--look-only")
    assert (code, document["error"]["code"]) == (2, "usage")


def test_a_contest_is_swept(run, contest, cluster) -> None:
    """What was removed is said by round."""
    job = rendered(asked=attempt(), namespace="default")
    Client.connect_to_url(cluster.url, "default").create(JOBS, job)
    assert run("sweep", contest) == (0, {"jobs": 1, "rounds": {BOUT.label_value: 1}})
    assert run("sweep", contest) == (0, {"jobs": 0, "rounds": {}})


def opened(folder: RoundFolder) -> None:
    """Begins a round in a folder, of the bout whose Jobs the tests render."""
    task = TaskRecord(
        name="digits",
        classes=["a", "b"],
        shape=[1, 8, 8],
        count=2,
        digest=BOUT.commitment,
        norm="linf",
        epsilon="8",
        pixels=BOUT.commitment,
        labels=BOUT.commitment,
    )
    settings = {"cluster": {"namespace": "default"}}
    first = RoundOpened(
        round="final",
        contest=settings,
        task=task,
        backend="kubernetes",
        commitment=BOUT.commitment,
        software="0",
        protocol=1,
    )
    ledger = folder.ledger()
    ledger.append(first, time="2026-11-20T12:00:00.000+00:00")
    ledger.close()


def test_a_round_is_swept(run, cluster, tmp_path) -> None:
    """By what its ledger says: the namespace, and whose Jobs are meant."""
    folder = RoundFolder(tmp_path / "round1")
    folder.create()
    opened(folder)
    client = Client.connect_to_url(cluster.url, "default")
    other = RoundRef("cup", "initial", "digits", "sha256:" + "d" * 64)
    for bout in (BOUT, other):
        client.create(JOBS, rendered(asked=attempt(bout=bout), namespace="default"))
    client.create(LEASES, {"metadata": {"name": f"sparring-{BOUT.label_value}"}, "spec": {"holderIdentity": "me"}})
    code, document = run("sweep", folder.path)
    assert (code, document["error"]["code"]) == (2, "usage")
    assert "me holds the round" in document["error"]["message"]
    assert run("sweep", folder.path, "--held") == (0, {"jobs": 1, "rounds": {BOUT.label_value: 1}})
    assert len(client.search(JOBS).items) == 1


def test_a_folder_that_holds_no_round_is_not_swept(run, tmp_path) -> None:
    """Usage, and nothing is asked of the cluster."""
    code, document = run("sweep", tmp_path)
    assert (code, document["error"]["code"]) == (2, "usage")
