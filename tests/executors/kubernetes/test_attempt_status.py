"""What a Job and its pods say: every sentence of the cluster has its meaning, and every end its fault."""

import pytest

from orchestrator.errors import DriverLost, ImagePullFailed, PlayerRefused, PodLost, PodRefused, Unschedulable
from orchestrator.executors.kubernetes.attempt_status import AttemptState, derive_status, describe_scheduling

IMAGE = "registry.example/x@sha256:" + "5" * 64


def job(suspend: bool = False, conditions: tuple = (), **metadata) -> dict:
    """A Job."""
    held = {"name": "j", "uid": "u", "labels": {}} | metadata
    states = [{"type": kind, "status": "True", "reason": why, "message": said} for kind, why, said in conditions]
    spec = {"suspend": suspend, "activeDeadlineSeconds": 60}
    return {"metadata": held, "spec": spec, "status": {"conditions": states}}


def state(name: str, waiting: tuple = (), ended: tuple = (), running: bool = False) -> dict:
    """One container's status."""
    inner: dict = {"running": {}} if running else {}
    if waiting:
        inner = {"waiting": {"reason": waiting[0], "message": waiting[1]}}
    if ended:
        inner = {"terminated": {"exitCode": ended[0], "reason": ended[1]}}
    return {"name": name, "image": IMAGE, "state": inner}


def pod(*containers: dict, phase: str = "Pending", init: tuple = (), conditions: tuple = (), **more) -> dict:
    """A pod on a node."""
    status = {"phase": phase, "containerStatuses": list(containers), "initContainerStatuses": list(init)}
    states = [{"type": kind, "status": on, "reason": why, "message": said} for kind, on, why, said in conditions]
    node = more.pop("node", "n1")
    held = {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"} | more.pop("metadata", {})
    return {"metadata": held, "spec": {"nodeName": node}, "status": status | {"conditions": states} | more}


RUNS = (state("player", running=True), state("driver", running=True))
DISRUPTED = ("DisruptionTarget", "True")
GOING = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:01Z"}}

CASES = {
    "no Job": (None, (), AttemptState.ENDED, PodLost, "its Job was deleted"),
    "Job going": (job(deletionTimestamp="x"), (), AttemptState.ENDED, PodLost, "is being deleted"),
    "no pod yet": (job(), (), AttemptState.WAITING, PodRefused, "no pod yet"),
    "suspended": (job(suspend=True), (), AttemptState.WAITING, PodRefused, "its Job is suspended"),
    "deadline": (
        job(conditions=(("Failed", "DeadlineExceeded", "too long"),)),
        (pod(*RUNS, phase="Running"),),
        AttemptState.ENDED,
        DriverLost,
        "deadline of 60 s",
    ),
    "about to fail by its deadline": (
        job(conditions=(("FailureTarget", "DeadlineExceeded", "too long"),)),
        (),
        AttemptState.ENDED,
        DriverLost,
        "deadline",
    ),
    "failed without a pod": (
        job(conditions=(("Failed", "BackoffLimitExceeded", "limit"),)),
        (),
        AttemptState.ENDED,
        PodLost,
        "its pod is gone, and its Job ended: limit",
    ),
    "unscheduled": (job(), (pod(node=""),), AttemptState.WAITING, Unschedulable, "waits for the scheduler"),
    "gated": (
        job(),
        (pod(node="", conditions=(("PodScheduled", "False", "SchedulingGated", ""),)),),
        AttemptState.WAITING,
        PodLost,
        "scheduling gates",
    ),
    "volume missing": (
        job(),
        (pod(node="", conditions=(("PodScheduled", "False", "Unschedulable", 'claim "w" not found'),)),),
        AttemptState.WAITING,
        Unschedulable,
        'claim "w" not found',
    ),
    "starts": (
        job(),
        (pod(state("player", waiting=("PodInitializing", ""))),),
        AttemptState.WAITING,
        PodRefused,
        "starts on node n1",
    ),
    "misconfigured": (
        job(),
        (pod(state("player", waiting=("CreateContainerConfigError", 'secret "s" not found'))),),
        AttemptState.WAITING,
        PodRefused,
        'container player: CreateContainerConfigError: secret "s" not found',
    ),
    "runs": (job(), (pod(*RUNS, phase="Running"),), AttemptState.RUNNING, PodLost, "plays on node n1"),
    "player's image": (
        job(),
        (pod(state("player", waiting=("ImagePullBackOff", "not found")), RUNS[1], phase="Running"),),
        AttemptState.RUNNING,
        ImagePullFailed,
        "cannot start: image",
    ),
    "player refused by the runtime, which tries again": (
        job(),
        (pod(state("player", waiting=("CreateContainerError", "no such device")), RUNS[1], phase="Running"),),
        AttemptState.RUNNING,
        PodRefused,
        "its player cannot start: container player: CreateContainerError: no such device",
    ),
    "player refused by the runtime": (
        job(),
        (pod(state("player", ended=(128, "StartError")), RUNS[1], phase="Running"),),
        AttemptState.ENDED,
        PlayerRefused,
        "its player cannot start: container player: StartError",
    ),
    "player refused by the runtime, and given up": (
        job(),
        (pod(state("player", ended=(128, "StartError")), state("driver", ended=(3, "Error")), phase="Failed"),),
        AttemptState.ENDED,
        PlayerRefused,
        "its player could not start: container player: StartError",
    ),
    "node lost": (
        job(),
        (pod(*RUNS, phase="Running", conditions=(("Ready", "False", "", ""),)),),
        AttemptState.RUNNING,
        PodLost,
        "n1 does not answer",
    ),
    "player ended before its driver": (
        job(),
        (
            pod(
                state("player", ended=(0, "Completed")),
                RUNS[1],
                phase="Running",
                conditions=(("Ready", "False", "ContainersNotReady", "unready"),),
            ),
        ),
        AttemptState.RUNNING,
        PodLost,
        "plays on node n1",
    ),
    "driver ended": (
        job(),
        (pod(RUNS[0], state("driver", ended=(0, "Completed")), phase="Running"),),
        AttemptState.ENDED,
        DriverLost,
        "exit code 0 (Completed)",
    ),
    "driver killed": (
        job(),
        (pod(RUNS[0], state("driver", ended=(137, "OOMKilled")), phase="Running"),),
        AttemptState.ENDED,
        DriverLost,
        "137 (OOMKilled)",
    ),
    "driver killed with its pod": (
        job(),
        (pod(RUNS[0], state("driver", ended=(143, "Error")), phase="Running", **GOING),),
        AttemptState.ENDED,
        PodLost,
        "its pod was deleted",
    ),
    "pod told to go": (
        job(),
        (pod(*RUNS, phase="Running", **GOING),),
        AttemptState.TERMINATING,
        PodLost,
        "pod was deleted",
    ),
    "preempted": (
        job(),
        (pod(phase="Failed", conditions=((*DISRUPTED, "PreemptionByScheduler", "higher"),)),),
        AttemptState.ENDED,
        PodLost,
        "was preempted: higher",
    ),
    "tainted": (
        job(),
        (pod(*RUNS, phase="Running", conditions=((*DISRUPTED, "DeletionByTaintManager", "t"),), **GOING),),
        AttemptState.TERMINATING,
        PodLost,
        "node that does not answer",
    ),
    "some new disruption": (
        job(),
        (pod(phase="Failed", conditions=((*DISRUPTED, "DeletionByMoon", "m"),)),),
        AttemptState.ENDED,
        PodLost,
        "disrupted (DeletionByMoon)",
    ),
    "evicted": (
        job(),
        (pod(phase="Failed", reason="Evicted", message="low on memory."),),
        AttemptState.ENDED,
        PodLost,
        "the pod ended: Evicted: low on memory",
    ),
    "not admitted by its node": (
        job(),
        (pod(phase="Failed", reason="UnexpectedAdmissionError", message="no GPU"),),
        AttemptState.ENDED,
        PodLost,
        "UnexpectedAdmissionError: no GPU",
    ),
    "init failed": (
        job(),
        (pod(phase="Failed", init=(state("prepare", ended=(1, "Error")),)),),
        AttemptState.ENDED,
        PodLost,
        "init container prepare ended with exit code 1",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_every_sentence_has_its_meaning(case) -> None:
    """State, fault and words."""
    given, pods, state_, fault, words = CASES[case]
    found = derive_status(given, pods, {}, taken=False)
    assert (found.state, found.fault) == (state_, fault)
    assert words in found.description


@pytest.mark.parametrize(
    "reason",
    ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"],
)
@pytest.mark.parametrize("where", ["init", "player", "driver"])
def test_an_image_is_named_with_the_registrys_words(reason, where) -> None:
    """Whichever container it is for; printable, and cut."""
    waiting = state(where, waiting=(reason, "no such \x1b[31mthing" + "x" * 5000))
    given = pod(init=(waiting,)) if where == "init" else pod(waiting)
    found = derive_status(job(), [given], {}, taken=False)
    assert (found.state, found.fault) == (AttemptState.WAITING, ImagePullFailed)
    assert found.description.startswith(f"image {IMAGE} of container {where}: {reason}: no such \\x1b[31mthing")
    assert len(found.description) < 700


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: x.",
            "insufficient nvidia.com/gpu: 0 of 3 nodes have one free",
        ),
        ("0/3 nodes are available: 2 Insufficient cpu.", "insufficient cpu: 1 of 3 nodes have enough free"),
        (
            (
                "0/3 nodes are available: 1 Insufficient memory, 2 Insufficient nvidia.com/gpu, "
                "1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }. preemption: none."
            ),
            (
                "insufficient memory on 1 of 3 nodes; insufficient nvidia.com/gpu on 2 of 3 nodes; "
                "1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }"
            ),
        ),
        ("no nodes available to schedule pods", "unschedulable: no nodes available to schedule pods"),
        ("0/1 nodes are available: 1 \x1b[2J.", "1 \\x1b[2J"),
    ],
)
def test_the_schedulers_words_are_shortened(said, words) -> None:
    """What is missing comes first, and nothing is made up."""
    assert describe_scheduling(said) == words


def test_events_explain_what_no_status_says() -> None:
    """A Job without a pod, a pod whose volume cannot be mounted."""
    quota = 'FailedCreate: Error creating: pods "x" is forbidden: exceeded quota: q, requested: pods=1'
    found = derive_status(job(), (), {"j": quota}, taken=False)
    assert (found.description, found.waits_indefinitely) == (
        "waits for quota: exceeded quota: q, requested: pods=1",
        True,
    )
    found = derive_status(job(), (), {"j": 'FailedCreate: RuntimeClass "gvisor" not found'}, taken=False)
    assert (found.description, found.waits_indefinitely) == (
        'no pod: FailedCreate: RuntimeClass "gvisor" not found',
        False,
    )
    mount = {"p": "FailedMount: Unable to attach or mount volumes"}
    found = derive_status(job(), [pod(state("player", waiting=("ContainerCreating", "")))], mount, taken=False)
    assert found.description == "on node n1: FailedMount: Unable to attach or mount volumes"
    assert not found.is_explained


def test_the_schedulers_warnings_end_with_a_node() -> None:
    """A pod that waited for room and has a node now does not wait for room any more."""
    warnings = {"p": "FailedScheduling: 0/1 nodes are available: 1 Insufficient cpu"}
    assert derive_status(job(), (pod(),), warnings, taken=False).description == "starts on node n1"


def test_a_drivers_last_line_is_told() -> None:
    """The kubelet keeps the end of its log; a pointer to a document is not what went wrong."""
    said = "{}\nstore-fault: /work/job/assignment.json cannot be read: Permission denied\ndocs/limits.md#store-fault\n"
    ended = state("driver", ended=(3, "Error"))
    ended["state"]["terminated"]["message"] = said
    found = derive_status(job(), (pod(RUNS[0], ended, phase="Running"),), {}, taken=True)
    assert found.description.endswith(
        "left no result: store-fault: /work/job/assignment.json cannot be read: Permission denied"
    )
    assert found.node == "n1"


def test_a_queue_is_a_wait_without_end_until_it_has_begun() -> None:
    """What Kueue holds back waits; what it takes back while it plays is over."""
    held = job(suspend=True, labels={"kueue.x-k8s.io/queue-name": "players"})
    found = derive_status(held, (), {}, taken=False)
    assert (found.description, found.waits_indefinitely) == ("suspended by Kueue, waits in queue players", True)
    assert derive_status(held, [pod(*RUNS)], {}, taken=True).state is AttemptState.ENDED


@pytest.mark.parametrize(("code", "spoken"), [(0, True), (3, True), (130, False), (137, False), (143, False)])
def test_a_driver_that_was_killed_said_nothing_more(code, spoken) -> None:
    """Only one that ended by itself may have left a word that is not to be seen yet."""
    given = pod(RUNS[0], state("driver", ended=(code, "Error")), phase="Running")
    assert derive_status(job(), [given], {}, taken=True).driver_exited is spoken


@pytest.mark.parametrize(
    ("player", "oom"),
    [
        (RUNS[0], None),
        (state("player", ended=(137, "OOMKilled")), True),
        (state("player", ended=(137, "Error")), False),
        (state("player", ended=(0, "Completed")), False),
    ],
)
def test_the_players_end_is_told_as_soon_as_it_is_known(player, oom) -> None:
    """None as long as its container runs; afterwards whether it was out of memory."""
    assert derive_status(job(), [pod(player, RUNS[1], phase="Running")], {}, taken=True).oom_kills.player is oom


def test_where_no_status_can_come_any_more_nobody_waits_for_it() -> None:
    """A deleted Job, a pod that failed without a status of its player."""
    assert derive_status(None, (), {}, taken=True).oom_kills.player is False
    gone = pod(RUNS[0], phase="Failed", reason="Evicted", message="")
    assert derive_status(job(), [gone], {}, taken=True).oom_kills.player is False


def test_the_latest_pod_counts() -> None:
    """A Job whose pod was replaced is where its new pod is."""
    old = pod(phase="Failed", reason="Evicted", message="")
    new = pod(*RUNS, phase="Running", metadata={"creationTimestamp": "2026-01-01T00:05:00Z"})
    assert derive_status(job(), [new, old], {}, taken=True).state is AttemptState.RUNNING


@pytest.mark.parametrize(
    ("counts", "pods", "had_pod"),
    [
        ({}, (), False),
        ({"active": 0, "failed": 0, "uncountedTerminatedPods": {}}, (), False),
        ({"failed": 1}, (), True),
        ({"terminating": 1}, (), True),
        ({"uncountedTerminatedPods": {"failed": ["p"]}}, (), True),
        ({}, (pod(*RUNS, phase="Running"),), True),
    ],
)
def test_a_deadline_tells_whether_there_was_a_pod(counts, pods, had_pod) -> None:
    """However late it is looked at: a Job that waited for quota until its deadline never had a pod."""
    overdue = job(conditions=(("Failed", "DeadlineExceeded", "too long"),))
    overdue["status"] |= counts
    assert derive_status(overdue, pods, {}, taken=False).had_pod is had_pod


def test_each_players_end_is_its_own() -> None:
    """Of two players the one that was out of memory is named, and the other one's end is not known yet."""
    full = state("attack", ended=(137, "OOMKilled"))
    found = derive_status(job(), [pod(RUNS[0], full, RUNS[1], phase="Running")], {}, taken=True)
    assert (found.oom_kills.of("player"), found.oom_kills.of("attack")) == (None, True)
    assert "its attack's container was ended from outside" in found.player_exits.of("attack")
    assert "its status does not say how" in found.player_exits.of("player")


@pytest.mark.parametrize(("container", "words"), [("player", "its player cannot"), ("attack", "its attack cannot")])
def test_a_player_of_two_that_cannot_start_is_named(container, words) -> None:
    """The runtime refuses one container; the other one runs."""
    other = "attack" if container == "player" else "player"
    refused = state(container, ended=(128, "StartError"))
    found = derive_status(job(), [pod(state(other, running=True), refused, RUNS[1], phase="Running")], {}, taken=True)
    assert (found.fault, found.stuck_container) == (PlayerRefused, container)
    assert words in found.description


def test_an_image_that_cannot_be_pulled_names_its_container() -> None:
    """Of two players' images it is the attack's."""
    waits = state("attack", waiting=("ErrImagePull", "not found"))
    found = derive_status(job(), [pod(state("player", running=True), waits)], {}, taken=False)
    assert (found.fault, found.stuck_container) == (ImagePullFailed, "attack")


def test_a_pod_is_rejected_only_where_no_container_began() -> None:
    """An evicted pod has containers, or a disruption, and its node may be tried again at once."""
    unfit = pod(phase="Failed", reason="OutOfcpu", message="Pod was rejected: no cpu")
    assert derive_status(job(), [unfit], {}, taken=False).rejected
    evicted = pod(*RUNS, phase="Failed", reason="Evicted", message="low on memory")
    assert not derive_status(job(), [evicted], {}, taken=False).rejected
    collected = pod(phase="Failed", reason="x", conditions=((*DISRUPTED, "DeletionByPodGC", "gone"),))
    assert not derive_status(job(), [collected], {}, taken=False).rejected
