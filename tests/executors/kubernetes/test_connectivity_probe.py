"""What a probe does in its pod: each outcome comes of the thing that it is named for."""

import json
import os
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from orchestrator.cli.app import app
from orchestrator.domain.machine_counter_files import MACHINE_COUNTER_FILES
from orchestrator.errors import StoreFault, UsageError
from orchestrator.executors.kubernetes import connectivity_probe
from orchestrator.executors.kubernetes.connectivity_probe import (
    MAX_REPORT_BYTES,
    MAX_TARGETS,
    ProbeReport,
    Reachability,
    Target,
    TargetResult,
    parse_target,
    try_target,
)
from orchestrator.executors.kubernetes.probe_job import parse_report
from orchestrator.sandboxes.linux.masked_paths import masked_paths


@pytest.fixture
def port() -> int:
    """A port of this machine on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_what_listens_is_connected(port) -> None:
    """And the same port is refused when nothing does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = Target("x", "tcp", "127.0.0.1", server.getsockname()[1])
        assert try_target(here, 2) == TargetResult(name="x", reachability=Reachability.CONNECTED)
    assert try_target(Target("x", "tcp", "127.0.0.1", port), 2).reachability is Reachability.REFUSED


def test_what_does_not_answer_is_silent() -> None:
    """A server whose queue is full drops what comes, as a network policy does."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        here = server.getsockname()
        held = []
        try:
            for _ in range(4):
                each = socket.socket()
                each.setblocking(False)
                each.connect_ex(here)
                held.append(each)
            tried = try_target(Target("x", "tcp", *here), 0.3)
        finally:
            for each in held:
                each.close()
    assert tried.reachability is Reachability.SILENT
    assert tried.detail == "timed out"


def test_a_network_that_is_not_there_is_silent() -> None:
    """An address to which there is no way: an error of ours, not an answer."""
    assert try_target(Target("x", "tcp", "255.255.255.255", 9), 0.3).reachability is Reachability.SILENT


def test_a_name_server_is_asked_a_question() -> None:
    """Over UDP an answer counts, and so does a refusal; silence is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        here = Target("dns", "udp", *server.getsockname())
        asked: list[bytes] = []

        def answer() -> None:
            question, asker = server.recvfrom(512)
            asked.append(question)
            server.sendto(question[:2] + b"\x81\x83", asker)

        thread = threading.Thread(target=answer)
        thread.start()
        assert try_target(here, 5).reachability is Reachability.CONNECTED
        thread.join()
        assert b"\x0akubernetes\x07default\x03svc" in asked[0]
        assert try_target(here, 0.2).reachability is Reachability.SILENT
    assert try_target(here, 2).reachability is Reachability.REFUSED


@pytest.mark.parametrize(
    "text", ["", "x", "x=tcp:1", "x=tcp:h:p", "x=icmp:h:1", "=tcp:h:1", f"{'x' * 41}=tcp:h:1", "x=tcp::1"]
)
def test_a_target_that_is_none_is_refused(text) -> None:
    """With the form that it should have."""
    with pytest.raises(UsageError, match="NAME=tcp:HOST:PORT"):
        parse_target(text)


def test_targets_are_read_as_they_are_written() -> None:
    """IPv6 too."""
    for text in ("api=tcp:10.0.0.1:443", "dns-1=udp:fd00::a:53"):
        assert str(parse_target(text)) == text
    assert parse_target("dns-1=udp:fd00::a:53").host == "fd00::a"


def test_a_pod_knows_its_surroundings() -> None:
    """The API server's variables are in every pod; the node's is ours."""
    told = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "6443", "NODE_ADDRESS": "10.0.0.7"}
    assert [str(each) for each in connectivity_probe.targets_from_environment(told)] == [
        "api=tcp:10.96.0.1:6443",
        "node=tcp:10.0.0.7:10250",
    ]
    assert connectivity_probe.targets_from_environment({}) == []


@pytest.mark.slow
def test_a_control_waits_for_the_listener(port) -> None:
    """Both containers start at the same time."""
    counted: list[int] = []
    here = Target("listener-1", "tcp", "127.0.0.1", port)
    thread = threading.Timer(0.3, lambda: counted.append(connectivity_probe.accept_connections([here], 1.5)))
    thread.start()
    assert connectivity_probe.try_until_connected(here, 10).reachability is Reachability.CONNECTED
    thread.join()
    assert counted == [1]


@pytest.mark.slow
def test_every_address_of_a_pod_is_listened_on(port) -> None:
    """One that is not would refuse, which looks like a network that refuses."""
    places = connectivity_probe.parse_listeners(f"127.0.0.1,127.0.0.2:{port}")
    assert [str(each) for each in places] == [f"listener-1=tcp:127.0.0.1:{port}", f"listener-2=tcp:127.0.0.2:{port}"]
    assert [each.host for each in connectivity_probe.parse_listeners("10.0.0.1,fd00::a:8080")] == [
        "10.0.0.1",
        "fd00::a",
    ]
    counted: list[int] = []
    thread = threading.Thread(target=lambda: counted.append(connectivity_probe.accept_connections(places, 1.5)))
    thread.start()
    assert [connectivity_probe.try_until_connected(each, 10).reachability for each in places] == [
        Reachability.CONNECTED
    ] * 2
    thread.join()
    assert counted == [2]
    with pytest.raises(UsageError, match="cannot be listened on"):
        connectivity_probe.accept_connections([Target("listener-1", "tcp", "192.0.2.1", port)], 0.1)


def test_a_control_without_a_listener_says_so(port) -> None:
    """After its time."""
    assert (
        connectivity_probe.try_until_connected(Target("listener", "tcp", "127.0.0.1", port), 0.3).reachability
        is Reachability.REFUSED
    )


def test_what_is_written_is_read_back_and_removed(tmp_path) -> None:
    """Nothing is left."""
    assert 0 < connectivity_probe.time_volume_write(tmp_path) < 30
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told(tmp_path) -> None:
    """With the user's number, since that is what has to be allowed."""
    with pytest.raises(StoreFault, match=f"as user {os.getuid()}: No such file"):
        connectivity_probe.time_volume_write(tmp_path / "gone")


def test_counters_that_can_be_read_are_named(tmp_path) -> None:
    """What is masked is empty, and what is missing cannot be read."""
    for path, text in ((MACHINE_COUNTER_FILES[0], "1 2 3"), (MACHINE_COUNTER_FILES[1], ""), ("/proc/version", "x")):
        (tmp_path / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path[1:]).write_text(text)
    assert connectivity_probe.counters(tmp_path) == [MACHINE_COUNTER_FILES[0]]


def test_every_counter_is_masked_on_docker(tmp_path) -> None:
    """What pods are looked through for is nothing that a program needs."""
    for path in MACHINE_COUNTER_FILES:
        (tmp_path / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path[1:]).touch()
    hidden = masked_paths(root=tmp_path)
    assert [
        each for each in MACHINE_COUNTER_FILES if not any(f"{each}/".startswith(f"{path}/") for path in hidden)
    ] == []


def test_the_last_words_fit() -> None:
    """The most targets with the longest names, hosts and details are less than a kubelet keeps."""
    tried = [
        TargetResult(name="x" * 40, reachability=Reachability.CONNECTED, detail="y" * 80)
    ] * connectivity_probe.MAX_TARGETS
    assert len(ProbeReport(results=tried, counters=list(MACHINE_COUNTER_FILES)).model_dump_json()) < MAX_REPORT_BYTES
    with pytest.raises(UsageError, match="at most 16"):
        connectivity_probe.try_targets([Target("x", "tcp", "127.0.0.1", 1)] * 17, 0.1)


def test_all_targets_are_tried_at_once(monkeypatch) -> None:
    """Where policies apply late, the last of them would be tried when the network is closed; the order stays."""
    all_begun = threading.Barrier(MAX_TARGETS, timeout=30)

    def begin(target: Target, _: float) -> TargetResult:
        all_begun.wait()
        return TargetResult(name=target.name, reachability=Reachability.SILENT)

    monkeypatch.setattr(connectivity_probe, "try_target", begin)
    names = [f"t{number}" for number in range(MAX_TARGETS)]
    found = connectivity_probe.try_targets([Target(name, "tcp", "192.0.2.1", 1) for name in names], 1)
    assert [each.name for each in found] == names


def test_words_that_are_too_long_are_replaced(tmp_path) -> None:
    """By an error that can be read, not by half a document."""
    connectivity_probe.write_report(ProbeReport(error="x" * 5000), tmp_path / "told")
    said = parse_report((tmp_path / "told").read_text())
    assert "too many" in said.error


@given(st.text())
def test_hostile_last_words_are_no_words(text) -> None:
    """A message that is not one of ours is not heard."""
    assert parse_report(text) is None or isinstance(parse_report(text), ProbeReport)
    assert parse_report(None) is None
    assert parse_report('{"results": [], "more": 1}') is None


def test_the_command_tells_what_came_of_it(tmp_path, port) -> None:
    """In the file and on standard output; a control that fails ends with 1; errors are told too."""
    told = tmp_path / "told"

    def run(*words: str) -> tuple[int, dict]:
        done = CliRunner(env={"KUBERNETES_SERVICE_HOST": ""}).invoke(app, ["pod", "probe", *words, "--tell", str(told)])
        return done.exit_code, json.loads(told.read_text())

    code, said = run("--storage", str(tmp_path))
    assert code == 0
    assert said["write_seconds"] > 0
    code, said = run("--connect", f"here=tcp:127.0.0.1:{port}", "--seconds", "1")
    assert code == 0
    assert said["results"] == [{"name": "here", "reachability": "refused", "detail": "Connection refused"}]
    assert "/proc/stat" in said["counters"]
    servers = tmp_path / "resolv.conf"
    servers.write_text("search x\nnameserver 10.96.0.10\nnameserver fd00::a\n")
    code, said = run("--control", f"127.0.0.1:{port}", "--seconds", "0.2", "--resolver", str(servers))
    assert (code, said["nameservers"]) == (1, ["10.96.0.10", "fd00::a"])
    code, said = run("--storage", str(tmp_path), "--listen", "127.0.0.1:1")
    assert (code, said["error"]) == (2, "give one of --connect, --listen, --control and --storage")
    code, said = run("--storage", str(Path("/proc/self/fdinfo")))
    assert code == 3
    assert "cannot be written" in said["error"]
