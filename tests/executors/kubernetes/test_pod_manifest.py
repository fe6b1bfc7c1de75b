"""A policy becomes a pod that keeps it: line by line, under every setting, with any text of a submission in it."""

import itertools
import json
from dataclasses import fields, replace

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.cli.app import app
from orchestrator.domain import environment
from orchestrator.domain.plan import Stage
from orchestrator.domain.policy import Network, Runtime, SandboxPolicy, Seccomp, User
from orchestrator.domain.tasks import Limits
from orchestrator.errors import Rejected, UsageError
from orchestrator.executors.kubernetes.pod_manifest import HOME, attack_uid, player_uid, qualified_image
from orchestrator.executors.kubernetes.settings import FIRST_PLAYER_UID, PLAYER_UIDS
from tests.kubernetes_api.quantity import amount

from .pod_security import quality, violations
from .rendering import (
    COMMANDS,
    DIGEST,
    HOSTILE,
    NAMES,
    POLICIES,
    SETTINGS,
    attempt,
    container,
    expand,
    image,
    joined,
    rendered,
    variables,
)

WEAKER = {
    "network": Network.HOST,
    "user": User.ROOT,
    "read_only_root": False,
    "capabilities": ("NET_RAW",),
    "no_new_privileges": False,
    "seccomp": Seccomp.NONE,
    "private_ipc": False,
    "private_cgroup": False,
    "masked_proc": False,
    "noexec_tmp": False,
    "init": False,
    "engine_logs": True,
}


@pytest.mark.parametrize(("settings", "policy"), list(itertools.product(SETTINGS, POLICIES)))
def test_every_pod_is_restricted_and_guaranteed(settings, policy):
    """Pod Security `restricted`, and requests equal to limits in every container, under any settings and policy."""
    made = rendered(policy=policy, **settings)
    assert violations(made["spec"]["template"]) == []
    assert quality(made["spec"]["template"]) == "Guaranteed"
    for name in ("prepare", "player", "driver"):
        amounts = container(made, name)["resources"]
        assert amounts["requests"] == amounts["limits"]
        assert all(amount(value) > 0 for value in amounts["limits"].values())


def test_the_policy_line_by_line():
    """Each amount and each control of the policy is in the pod."""
    limits = Limits(memory=10**9, cpus=1.5, pids=77, files=99, tmp=10 * 65536, shm=20 * 65536)
    made = rendered(policy=SandboxPolicy(limits))
    spec, player = made["spec"]["template"]["spec"], container(made, "player")
    assert player["resources"]["limits"] == {
        "cpu": "1500m", "memory": "1000000000", "ephemeral-storage": str(16 * 2**20),
    }  # fmt: skip
    assert player["command"][:5] == ["/io/fifos/sh", "/io/fifos/play", "99", str(20 * 65536), "77"]
    sizes = {each["name"]: each["emptyDir"]["sizeLimit"] for each in spec["volumes"] if "emptyDir" in each}
    assert (sizes["tmp"], sizes["shm"]) == (str(10 * 65536), str(20 * 65536))
    assert {each["emptyDir"]["medium"] for each in spec["volumes"] if "emptyDir" in each} == {"Memory"}
    context = player["securityContext"]
    assert (context["readOnlyRootFilesystem"], context["capabilities"]) == (True, {"drop": ["ALL"]})
    assert (context["allowPrivilegeEscalation"], context["privileged"]) == (False, False)
    assert (spec["automountServiceAccountToken"], spec["enableServiceLinks"]) == (False, False)
    assert (spec["hostNetwork"], spec["hostPID"], spec["hostIPC"]) == (False, False, False)
    assert (spec["dnsPolicy"], spec["dnsConfig"]) == ("None", {"nameservers": ["127.0.0.1"]})
    assert (spec["hostname"], spec["restartPolicy"], spec["shareProcessNamespace"]) == ("sandbox", "Never", False)


def test_message_queues_are_no_files_that_the_driver_shares():
    """The runtime would mount the pod's message queues in both containers; the player gets an empty volume instead."""
    made = rendered()
    mounts = {each["mountPath"]: each for each in container(made, "player")["volumeMounts"]}
    assert mounts["/dev/mqueue"] == {"name": "mqueue", "mountPath": "/dev/mqueue", "readOnly": True}
    volumes = {each["name"]: each for each in made["spec"]["template"]["spec"]["volumes"]}
    assert volumes["mqueue"]["emptyDir"]["medium"] == "Memory"
    others = [each["name"] for name in ("prepare", "driver") for each in container(made, name)["volumeMounts"]]
    assert "mqueue" not in others


def test_a_termination_message_is_out_of_reach():
    """The kubelet mounts it on a file that `prepare` makes in a folder closed to the player."""
    made = rendered()
    assert container(made, "player")["terminationMessagePath"] == "/io/fifos/closed/message"
    assert "terminationMessagePath" not in container(made, "driver")


def test_the_player_sees_nothing_of_the_volume():
    """Only the driver mounts the claim, and of it the blobs and its own attempt's folder; the FIFOs are read-only."""
    made = rendered(folder="cups/one")
    mounts = {each["mountPath"]: each for each in container(made, "player")["volumeMounts"]}
    assert set(mounts) == {"/io", HOME, "/dev/shm", "/dev/mqueue"}  # noqa: S108  its own
    assert mounts["/io"]["readOnly"] is True
    assert "work" not in {
        each["name"] for name in ("player", "prepare") for each in container(made, name)["volumeMounts"]
    }
    work = {
        each["mountPath"]: each["subPath"] for each in container(made, "driver")["volumeMounts"] if "subPath" in each
    }
    assert work == {"/work/blobs": "cups/one/blobs", "/work/job": f"cups/one/cluster/{made['metadata']['name']}"}
    [claim] = [each for each in made["spec"]["template"]["spec"]["volumes"] if "persistentVolumeClaim" in each]
    assert claim["persistentVolumeClaim"] == {"claimName": "sparring-work"}


def test_what_gvisor_has_to_be_told():
    """That player and driver share the FIFOs, and a shell that may be read; no other runtime is told anything.

    Tried with runsc itself: without the hints each container has FIFOs of its own, and what may not be read is refused.
    """
    for runtime in Runtime:
        made = rendered(policy=SandboxPolicy(runtime=runtime))
        noted = made["spec"]["template"]["metadata"]["annotations"]
        hints = {name: value for name, value in noted.items() if name.startswith("dev.gvisor.")}
        gvisor = runtime is Runtime.RUNSC
        told = {f"dev.gvisor.spec.mount.io.{key}": each for key, each in (("share", "pod"), ("type", "tmpfs"))}
        assert hints == (told | {"dev.gvisor.spec.mount.io.options": "rw"} if gvisor else {})
        words = container(made, "prepare")["command"]
        assert words == ["/opt/runner/sh", "/opt/runner/prepare", "/io/fifos", *(["555"] if gvisor else [])]


def test_the_player_comes_first():
    """Images are pulled in the order of the containers, so the driver does not run beside a pull that takes minutes."""
    made = rendered()
    assert [each["name"] for each in made["spec"]["template"]["spec"]["containers"]] == ["player", "driver"]
    assert container(made, "player")["image"] == f"registry.example/team/entry@{DIGEST}"


def test_every_control_has_its_weaker_form_here():
    """The table above knows each line of the policy but amounts and runtime."""
    assert set(WEAKER) == {each.name for each in fields(SandboxPolicy)} - {"limits", "runtime"}


@pytest.mark.parametrize("control", WEAKER)
def test_a_weaker_policy_is_refused(control):
    """No pod is made for a policy that is weaker than for strangers; the message names the control."""
    with pytest.raises(UsageError, match=rf"\b{control}\b"):
        rendered(policy=replace(SandboxPolicy(), **{control: WEAKER[control]}))


def test_an_image_without_its_digest_is_refused():
    """A tag can be moved, so a pod never names one."""
    with pytest.raises(UsageError, match="by its digest"):
        rendered(replace(image(), reference="registry.example/team/entry:1"))


@pytest.mark.parametrize(
    ("settings", "runtime", "expected"),
    [
        ({}, Runtime.RUNC, None),
        ({}, Runtime.RUNSC, "gvisor"),
        ({}, Runtime.KATA, "kata"),
        ({"runtime_class": "kata-qemu"}, Runtime.KATA, "kata-qemu"),
    ],
)
def test_the_runtime_class_follows_the_contest(settings, runtime, expected):
    """`runtime` names a class, unless the settings name another."""
    made = rendered(policy=SandboxPolicy(runtime=runtime), **settings)
    assert made["spec"]["template"]["spec"].get("runtimeClassName") == expected


def test_where_a_pod_runs_is_the_settings_word():
    """Selector, tolerations, priority, secret, registry, seccomp profile, user namespace, as Kubernetes spells them."""
    spec = rendered(**SETTINGS[3])["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "pool": "untrusted"}
    assert spec["tolerations"][0] == {
        "key": "untrusted", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60,
    }  # fmt: skip
    assert {each["image"] for each in (*spec["initContainers"], spec["containers"][1])} == {
        "registry.example:5000/cup/sparring/runner:cpu"
    }
    other = rendered(**SETTINGS[1])["spec"]["template"]["spec"]
    assert (other["priorityClassName"], other["imagePullSecrets"]) == ("low", [{"name": "registry"}])
    made = rendered(**SETTINGS[2])
    assert made["spec"]["template"]["spec"]["hostUsers"] is False
    profile = {"type": "Localhost", "localhostProfile": "sparring/player.json"}
    assert container(made, "player")["securityContext"]["seccompProfile"] == profile


@pytest.mark.parametrize(
    ("name", "registry", "expected"),
    [
        ("sparring/runner:cpu", "", "docker.io/sparring/runner:cpu"),
        ("sparring/runner:cpu", "none", "docker.io/sparring/runner:cpu"),
        ("sparring/runner:cpu", "host:5000/", "host:5000/sparring/runner:cpu"),
        ("ghcr.io/sparring/runner", "host:5000", "ghcr.io/sparring/runner"),
        (f"sparring/runner@{DIGEST}", "a.example/b", f"a.example/b/sparring/runner@{DIGEST}"),
    ],
)
def test_our_own_image_is_in_the_registry_too(name, registry, expected):
    """The registry of the settings is put before a name that has none."""
    assert qualified_image(name, registry) == expected


def test_a_runner_that_is_no_image_is_the_settings_fault():
    """It is named with the remedy before anything is made."""
    with pytest.raises(UsageError, match=r"cluster\.runner: .* write it like"):
        rendered(runner="Not An Image")


def test_a_gpu_is_asked_for_by_its_name():
    """One GPU of the kind that the settings name; without one the runtime's hook is told to give none."""
    made = rendered(policy=POLICIES[1], gpu="amd.com/gpu")
    assert container(made, "player")["resources"]["limits"]["amd.com/gpu"] == "1"
    assert not {"amd.com/gpu", "nvidia.com/gpu"} & container(made, "driver")["resources"]["limits"].keys()
    assert variables(made)["CUDA_VISIBLE_DEVICES"] == "0"
    assert "NVIDIA_VISIBLE_DEVICES" not in variables(made)  # the node says which
    plain = rendered()
    assert not [name for name in container(plain, "player")["resources"]["limits"] if "gpu" in name]
    assert (variables(plain)["NVIDIA_VISIBLE_DEVICES"], variables(plain)["CUDA_VISIBLE_DEVICES"]) == ("void", "")


def test_the_environment_is_that_of_every_backend():
    """What every player is told, the host's name, and a blank for each variable that an image may not set."""
    unset = ("LD_PRELOAD", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_REQUIRE_CUDA", "A-B", "HTTPS_PROXY", "", "a b")
    found = variables(rendered(image(unset=unset)))
    told = environment.player_variables(HOME, 1, None)
    assert {name: found[name] for name in told} == told
    assert {name for name in found if name not in told} == {
        "LD_PRELOAD", "NVIDIA_REQUIRE_CUDA", "HTTPS_PROXY", "NVIDIA_VISIBLE_DEVICES",
    }  # fmt: skip
    assert (found["LD_PRELOAD"], found["NVIDIA_VISIBLE_DEVICES"], found["HOSTNAME"]) == ("", "void", "sandbox")
    gpu = variables(rendered(image(unset=unset), POLICIES[1]))
    assert "NVIDIA_VISIBLE_DEVICES" not in gpu
    assert gpu["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"


@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=30, unique=True), st.sampled_from(Stage))
def test_an_attempts_user_is_its_own(numbers, stage):
    """It is no system's, nor the driver's, is the same every time, and differs from attempt to attempt."""
    users = [player_uid(attempt(stage, number=number)) for number in numbers]
    assert all(FIRST_PLAYER_UID <= each < FIRST_PLAYER_UID + PLAYER_UIDS <= 65_536 for each in users)
    assert users == [player_uid(attempt(stage, number=number)) for number in numbers]
    assert len(set(users)) >= len(users) - 2  # 30 of 40,000 meet by chance once in a hundred times


@given(st.integers(1, 2**40), st.integers(1, 2**40))
def test_memory_volumes_are_whole_pages(tmp, shm):
    """Not smaller than asked for, less than 64 KiB larger: the kubelet evicts a pod that passes a volume's size."""
    made = rendered(policy=SandboxPolicy(Limits(tmp=tmp, shm=shm)))
    sizes = {
        each["name"]: each.get("emptyDir", {}).get("sizeLimit") for each in made["spec"]["template"]["spec"]["volumes"]
    }
    for name, asked in (("tmp", tmp), ("shm", shm)):
        assert asked <= int(sizes[name]) < asked + 65_536
        assert int(sizes[name]) % 65_536 == 0


@given(COMMANDS)
def test_a_command_arrives_as_it_is(command):
    """What the kubelet makes of the words are the words of the image, whatever stands in them."""
    made = rendered(image(*command))
    found = container(made, "player")["command"]
    assert [expand(word, variables(made)) for word in found] == [*found[:5], *command]


@pytest.mark.parametrize("word", HOSTILE)
def test_each_hostile_word_arrives_as_it_is(word):
    """The same for each word of the list, which chance may not draw."""
    made = rendered(image("python3", word))
    assert expand(container(made, "player")["command"][-1], variables(made)) == word


def test_the_kubelets_reading_is_the_documented_one():
    """The oracle itself, by the examples of the documentation."""
    held = {"A": "x"}
    words = {
        "$(A)": "x",
        "$$(A)": "$(A)",
        "$$$(A)": "$x",
        "$(B)": "$(B)",
        "$A": "$A",
        "$(A": "$(A",
        "a$": "a$",
        "$$": "$",
    }
    assert {word: expand(word, held) for word in words} == words


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (("a", "b\0c"), "NUL"),
        (("a\ud800",), "Unicode"),
        (("",), "no command"),
        (("a",) * 257, "more than 256 words"),
        (("a", "b" * 65_536), "65536 characters"),
    ],
)
def test_a_command_that_no_program_can_be_given_is_the_submissions(command, what):
    """It is refused with the remedy, before a cluster sees it."""
    with pytest.raises(Rejected, match=what):
        rendered(image(*command))


@given(NAMES)
def test_a_submissions_name_is_in_nothing_that_acts(name):
    """It stands in annotations alone, and shortened in labels and in the Job's name: not in the pod's specification."""
    marked = f"{name}\u2603"
    made = rendered(asked=attempt(submission=marked))
    assert "\u2603" not in str(made["spec"]["template"]["spec"])
    assert made["metadata"]["annotations"]["sparring/submission"] == marked


def test_the_driver_is_a_command_that_there_is():
    """Its words name a command of ours and options that this has; its host's name is the pod's, to tell who played."""
    driver = container(rendered(), "driver")
    assert driver["command"] == ["python3", "-m", "orchestrator"]
    group, name, *options = driver["args"]
    command = typer.main.get_command(app).commands[group].commands[name]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {"--job", "--blobs", "--io"} == set(options[::2]) <= known
    assert {"fieldRef": {"fieldPath": "metadata.name"}} in [each.get("valueFrom") for each in driver["env"]]


# A query job: two players


PLAYERS = ("player", "attack")


@pytest.mark.parametrize(("settings", "policy"), list(itertools.product(SETTINGS, POLICIES)))
def test_a_pod_of_two_players_is_restricted_and_guaranteed(settings, policy):
    """Pod Security `restricted`, and requests equal to limits in every container, of which there are five."""
    made = joined(policy, **settings)
    assert violations(made["spec"]["template"]) == []
    assert quality(made["spec"]["template"]) == "Guaranteed"
    spec = made["spec"]["template"]["spec"]
    assert [each["name"] for each in spec["initContainers"]] == ["prepare", "prepare-attack"]
    assert [each["name"] for each in spec["containers"]] == ["player", "attack", "driver"]


@pytest.mark.parametrize("policy", POLICIES)
def test_both_players_have_the_whole_policy(policy):
    """But for names, image, command and user, the second player's container is the first one's, field by field."""
    made = joined(policy, user_namespaces=True, seccomp="sparring/player.json")
    first, second = (json.loads(json.dumps(container(made, name))) for name in PLAYERS)
    for each in (first, second):
        each["securityContext"]["runAsUser"] = each["securityContext"]["runAsGroup"] = 0
        each["command"] = each["command"][:5]
        del each["image"], each["name"]
    for mount in second["volumeMounts"]:
        mount["name"] = mount["name"].removeprefix("attack-")
    assert second == first


def test_two_players_share_no_volume_and_no_processes():
    """Each has volumes of its own of the policy's sizes; of each the driver has the FIFOs, and nobody else has them."""
    made = joined(SandboxPolicy(Limits(tmp=10 * 65536, shm=20 * 65536)))
    spec = made["spec"]["template"]["spec"]
    names = {name: {each["name"] for each in container(made, name)["volumeMounts"]} for name in PLAYERS}
    assert names["player"] == {"io", "tmp", "shm", "mqueue"}
    assert names["attack"] == {f"attack-{name}" for name in names["player"]}
    assert spec["shareProcessNamespace"] is False
    sizes = {each["name"]: each["emptyDir"]["sizeLimit"] for each in spec["volumes"] if "emptyDir" in each}
    assert {name: sizes[f"attack-{name}"] for name in names["player"]} == {
        name: sizes[name] for name in names["player"]
    }
    for prepare, volume in (("prepare", "io"), ("prepare-attack", "attack-io")):
        assert container(made, prepare)["volumeMounts"] == [{"name": volume, "mountPath": "/io"}]
    driver = {each["name"]: each["mountPath"] for each in container(made, "driver")["volumeMounts"]}
    assert (driver["io"], driver["attack-io"]) == ("/io", "/attack-io")
    assert {name for name in driver if name.startswith("attack-")} == {"attack-io"}
    options = container(made, "driver")["args"]
    assert options[options.index("--io") + 1] == "/io/fifos"
    assert options[options.index("--attack-io") + 1] == "/attack-io/fifos"
    assert "--attack-io" not in container(rendered(), "driver")["args"]


def test_gvisor_is_told_of_both_volumes_with_fifos():
    """Else the driver would wait at FIFOs of its own."""
    made = joined(SandboxPolicy(runtime=Runtime.RUNSC))
    noted = made["spec"]["template"]["metadata"]["annotations"]
    shared = {name for name, value in noted.items() if name.endswith(".share") and value == "pod"}
    assert shared == {"dev.gvisor.spec.mount.io.share", "dev.gvisor.spec.mount.attack-io.share"}


@given(st.integers(1, 10**9), st.sampled_from(Stage))
def test_the_two_players_of_a_pod_are_never_one_user(number, stage):
    """Both are players' users, the same every time."""
    players = attempt(stage, number=number)
    user = attack_uid(players)
    assert FIRST_PLAYER_UID <= user < FIRST_PLAYER_UID + PLAYER_UIDS
    assert user == attack_uid(attempt(stage, number=number)) != player_uid(players)


def test_an_attack_without_its_digest_is_refused():
    """Each image of a pod is pinned."""
    with pytest.raises(UsageError, match="by its digest"):
        rendered(attack=replace(image(), reference="registry.example/team/ask:1"))


def test_the_option_of_the_second_player_is_known_to_the_driver():
    """The words of the container name an option that the command has."""
    [group, name, *_] = container(joined(), "driver")["args"]
    command = typer.main.get_command(app).commands[group].commands[name]
    assert "--attack-io" in {option for parameter in command.params for option in parameter.opts}
