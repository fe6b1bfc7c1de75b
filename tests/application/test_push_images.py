"""`sparring cluster push`: what a cluster needs and its registry lacks is pushed, and nothing else."""

import json
from dataclasses import dataclass, field

import numpy as np
import pytest
from typer.testing import CliRunner

from orchestrator import composition
from orchestrator.application.kubernetes import push_images
from orchestrator.application.kubernetes.push_images import RUNNER, PushState
from orchestrator.application.rounds import entry_images
from orchestrator.cli.app import app
from orchestrator.domain import contest_events
from orchestrator.domain.submissions import Side
from orchestrator.errors import InfrastructureFault, Problem, Rejected, UsageError
from orchestrator.executors.kubernetes.registry_backend import RegistryBackend
from orchestrator.intake import admission
from orchestrator.intake.build_record import BuildRecord
from orchestrator.intake.contest_file import Contest
from orchestrator.intake.source_tree import scan_folder
from orchestrator.oci.image_names import received_image_name
from orchestrator.sandboxes.base import Image, ImageFacts, ImageSource
from tests.oci.conftest import registry, start
from tests.oci.fake_registry import RUN, Registry

__all__ = ["registry", "start"]
RECEIVED, AWAY = "sha256:" + "7" * 64, "sha256:" + "8" * 64


@dataclass
class Engine:
    """An engine as far as pushing asks it: manifests by name, which it puts into a registry."""

    registry: Registry
    images: dict[str, dict] = field(default_factory=dict)
    pushed: list[tuple[str, str, tuple[str, str] | None]] = field(default_factory=list)
    instead: dict | None = None
    refused: set[str] = field(default_factory=set)

    def make(self, name: str, mark: str) -> dict:
        """Makes an image, which it has by this name and by its id."""
        made = self.registry.playable({**RUN, "Env": [f"MARK={mark}"]})
        self.images[name] = self.images[made["config"]["digest"]] = made
        return made

    def require_available(self, runtime=None, gpus=0) -> None:
        """It answers."""

    def inspect_image(self, reference: str, *, files: bool = True, max_bytes=None) -> ImageFacts:
        """Returns what it has of an image."""
        if reference not in self.images:
            raise UsageError("none")
        identity = self.images[reference]["config"]["digest"]
        return ImageFacts(identity, 1, (), "", (), (), "", (), (), (), (), {}, (), frozenset(), (), None)

    def admit(self, source: ImageSource) -> Image:
        """Returns an image, or refuses it."""
        if source.image in self.refused:
            raise Rejected("image", [Problem("/io", "a symbolic link in the image", "remove it")])
        return Image(source.image, source.image)

    def image_store(self) -> "Engine":
        """Returns itself."""
        return self

    def push(self, image: str, name: str, login) -> None:
        """Puts the image there."""
        self.pushed.append((image, name, login))
        repository, _, tag = name.removeprefix(f"{self.registry.host}/").rpartition(":")
        self.registry.put(repository, tag, self.instead or self.images[image])


@pytest.fixture
def engine(registry, monkeypatch, tmp_path):
    """The engine of this machine, and nobody's credentials."""
    made = Engine(registry)
    monkeypatch.setattr(composition, "make_backend", lambda name, _: {"docker": made}[name])
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    return made


@pytest.fixture
def contest(cup, registry):
    """A contest in a folder: its baselines have images, its cluster a registry, and two submissions were received."""
    cluster = {"registry": f"{registry.host}/org", "insecure_registries": [registry.host]}
    entries = {"fgsm": "attack", "measure": "defence"}
    baselines = [{"image": f"ours/{name}:1", "name": name, "side": side} for name, side in entries.items()]
    cup.more = {"cluster": cluster, "baselines": baselines}
    cup.write()
    return cup


def receive(cup, name: str, digest: str, **more) -> None:
    """Notes that an image was received."""
    with cup.desk() as desk:
        said = {"actor": "desk", "id": name, "name": name, "team": "One", "task": "quarters", "side": Side.ATTACK}
        rest = {"digest": digest, "image": f"{name}:1", "attempt": 1, "attempts_left": 2, "folder": ""}
        desk.append_event(contest_events.SubmissionReceived(**said | rest | more))


def push(place) -> dict[str, push_images.PushResult]:
    """Pushes in this process; returns what became of each image, by whose it is."""
    settings, listed = push_images.required_images(place)
    return {
        each.owner: each
        for each in push_images.push_missing(settings, listed, composition.make_backend("docker", place))
    }


def test_only_programs_have_images(contest, engine):
    """Pictures that were submitted, and the attacks that a format brings, are passed over (C2, B2)."""
    for name in ("sparring/runner:cpu", "ours/fgsm:1", "ours/measure:1"):
        engine.make(name, name)
    receive(contest, "drawn", AWAY, image="", pixels=AWAY, decoder="pillow 13")
    assert set(push(contest.folder.path)) == {RUNNER, "fgsm", "measure"}
    np.savez(contest.folder.path / "pair.npz", images=np.zeros((2, 32, 32), np.uint8), labels=np.arange(2))
    body = json.loads(contest.folder.file.read_text())
    warmup = {key: body[key] for key in ("sparring", "contest", "title", "cluster")} | {
        "format": "warmup",
        "task": {"name": "pair", "dataset": {"kind": "npz", "path": "pair.npz"}},
        "baselines": [{"image": "ours/measure:1", "name": "measure", "side": "defence"}],
    }
    file = contest.folder.path / "warmup.yaml"
    file.write_text(json.dumps(warmup))
    assert set(push(file)) == {RUNNER, "measure"}


def test_what_the_registry_lacks_is_pushed_once(contest, engine, registry):
    """Runner, baselines and what was received, under their names; a second time nothing is pushed."""
    for name in ("sparring/runner:cpu", "ours/fgsm:1", "ours/measure:1"):
        engine.make(name, name)
    identity = engine.make("red:1", "red")["config"]["digest"]
    receive(contest, "red", identity)
    receive(contest, "blue", AWAY, folder="images/8", team="Two")
    done = push(contest.folder.path)
    assert {who: each.state for who, each in done.items()} == dict.fromkeys(
        (RUNNER, "fgsm", "measure", "red"), PushState.PUSHED
    )
    assert [name for _, name, _ in engine.pushed] == [
        f"{registry.host}/org/{name}"
        for name in (
            "sparring/runner:cpu",
            "ours/fgsm:1",
            "ours/measure:1",
            received_image_name("cup", "red", identity),
        )
    ]
    assert engine.pushed[-1][0] == identity
    repository, _, digest = done["red"].reference.removeprefix(f"{registry.host}/").partition("@")
    assert registry.manifests[repository, digest]
    again = push(contest.folder.path)
    assert {each.state for each in again.values()} == {PushState.PRESENT}
    assert {who: each.reference for who, each in again.items()} == {who: each.reference for who, each in done.items()}
    assert len(engine.pushed) == 4


def test_an_image_that_was_built_again_is_pushed_again(contest, engine, registry):
    """A tag is what the engine calls by it now; what the engine does not have is left as it lies there."""
    for name in ("sparring/runner:cpu", "ours/fgsm:1", "ours/measure:1"):
        engine.make(name, "old")
    push(contest.folder.path)
    engine.make("ours/fgsm:1", "new")
    del engine.images["ours/measure:1"]
    done = push(contest.folder.path)
    assert {who: each.state.value for who, each in done.items()} == {
        RUNNER: "present",
        "fgsm": "pushed",
        "measure": "present",
    }


def test_what_is_nowhere_is_missing(contest, engine):
    """Each with what to do, after everything else was pushed; withdrawn submissions are not asked for."""
    engine.make("sparring/runner:cpu", "x")
    receive(contest, "red", RECEIVED)
    receive(contest, "gone", AWAY)
    with contest.desk() as desk:
        desk.withdraw("gone", "no reason")
    done = push(contest.folder.path)
    assert {who: each.state.value for who, each in done.items()} == {
        RUNNER: "pushed",
        "fgsm": "missing",
        "measure": "missing",
        "red": "missing",
    }
    assert "build it" in done["fgsm"].reason
    assert "docker load" in done["red"].reason


@pytest.mark.slow
def test_another_image_where_a_received_one_belongs_is_replaced(contest, engine, registry):
    """What lies there is compared with what was received, not with its name."""
    for name in ("sparring/runner:cpu", "ours/fgsm:1", "ours/measure:1"):
        engine.make(name, name)
    identity = engine.make("red:1", "red")["config"]["digest"]
    registry.put("org/cup/red", identity[7:23], registry.image({**RUN, "Env": ["MARK=evil"]}))
    receive(contest, "red", identity)
    assert push(contest.folder.path)["red"].state is PushState.PUSHED
    assert push(contest.folder.path)["red"].state is PushState.PRESENT


def test_a_registry_that_keeps_something_else_is_ours(contest, engine, registry):
    """After a push the registry is asked what lies there; another image is no success."""
    engine.make("sparring/runner:cpu", "runner")
    engine.instead = registry.image(RUN)
    with pytest.raises(InfrastructureFault, match="was pushed, and there lies now"):
        push(contest.folder.path)


def test_names_of_others_are_never_pushed(contest, engine, registry, start):
    """Another registry is not even asked; what is named by its digest is there or missing."""
    other = start()
    digest = registry.put("org/ours/fgsm", "1", registry.image(RUN))
    names = [f"{other.host}/theirs/x:1", "docker.io/theirs/x:1", f"ours/fgsm@{digest}", f"ours/fgsm@{RECEIVED}"]
    for name in names:
        engine.make(name, name)
    engine.make("sparring/runner:cpu", "runner")
    entries = [{"image": name, "name": f"n{place}", "side": "attack"} for place, name in enumerate(names)]
    contest.more["baselines"] = [*entries, *contest.more["baselines"]]
    contest.write()
    done = push(contest.folder.path)
    states = [done[f"n{place}"].state.value for place in range(4)]
    assert states == ["elsewhere", "elsewhere", "present", "missing"]
    assert "by its tag" in done["n3"].reason
    assert [name for _, name, _ in engine.pushed] == [f"{registry.host}/org/sparring/runner:cpu"]
    assert other.asked == []


def test_the_login_of_that_registry_goes_along(contest, engine, registry, tmp_path):
    """It comes from docker's own file."""
    auth = {registry.host: {"username": "me", "password": "hunter2"}}
    (tmp_path / "config.json").write_text(json.dumps({"auths": auth}))
    engine.make("sparring/runner:cpu", "runner")
    push(contest.folder.path)
    assert {login for _, _, login in engine.pushed} == {("me", "hunter2")}


@pytest.mark.parametrize(("setting", "why"), [("", "is not set"), ("none", "is none")])
def test_there_has_to_be_a_registry(contest, setting, why):
    """Where it says no place, the contest file is named."""
    contest.more["cluster"] = {"registry": setting}
    contest.write()
    done = CliRunner().invoke(app, ["cluster", "push", str(contest.folder.path)])
    assert done.exit_code == 2
    text = " ".join(done.stderr.split())
    assert why in text
    assert "set it, like registry.example.org/contest, in the contest file" in text


@pytest.mark.slow
def test_the_command_tells_people_and_machines(contest, engine, registry, tmp_path):
    """A line an image as it goes, or one document; 1 where an image is missing. A contest file has no received ones."""
    engine.make("sparring/runner:cpu", "x")
    engine.make("ours/fgsm:1", "x")
    receive(contest, "red", RECEIVED)
    told = CliRunner().invoke(app, ["cluster", "push", str(contest.folder.path)])
    assert told.exit_code == 1, told.output
    assert f"pushed    runner  {registry.host}/org/sparring/runner@sha256:" in told.stdout
    assert f"missing   red  {RECEIVED}: neither registry nor engine has it" in told.stdout
    engine.make("ours/measure:1", "x")
    done = CliRunner().invoke(app, ["cluster", "push", str(contest.folder.file), "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["ok"]
    assert [(each["owner"], each["state"]) for each in document["images"]] == [
        (RUNNER, "present"),
        ("fgsm", "present"),
        ("measure", "pushed"),
    ]


def test_what_admission_refuses_is_not_pushed(contest, engine, registry):
    """A registry tells nothing of an image's files; the engine does, so that docker and a cluster refuse the same."""
    engine.make("sparring/runner:cpu", "x")
    engine.make("ours/measure:1", "x")
    engine.refused = {engine.make("ours/fgsm:1", "linked")["config"]["digest"]}
    done = push(contest.folder.path)
    assert {who: each.state.value for who, each in done.items()} == {
        RUNNER: "pushed",
        "fgsm": "refused",
        "measure": "pushed",
    }
    assert done["fgsm"].reason == "/io: a symbolic link in the image; remove it"
    assert f"{registry.host}/org/ours/fgsm:1" not in [name for _, name, _ in engine.pushed]
    told = CliRunner().invoke(app, ["cluster", "push", str(contest.folder.path)])
    assert told.exit_code == 1


@pytest.mark.slow
def test_a_folders_image_is_pushed_as_it_was_built_from_it(contest, engine, registry, cup):
    """By our record, under the digest of its files; what merely has the manifest's name is never pushed."""
    folder = cup.player("attack_honest", "corners", image="ours/corners")
    contest.more["baselines"] = [{"folder": str(folder)}, *contest.more["baselines"]]
    contest.write()
    for name in ("sparring/runner:cpu", "ours/fgsm:1", "ours/measure:1", "ours/corners:cpu"):
        engine.make(name, name)
    assert push(contest.folder.path)["corners"].state is PushState.MISSING
    built = engine.make("elsewhere:1", "built")["config"]["digest"]
    BuildRecord.of_user().add(scan_folder(folder).digest, "cpu", built)
    assert push(contest.folder.path)["corners"].state is PushState.PUSHED
    tag = f"cpu-{scan_folder(folder).digest[7:23]}"
    assert engine.pushed[-1][:2] == (built, f"{registry.host}/org/ours/corners:{tag}")
    assert push(contest.folder.path)["corners"].state is PushState.PRESENT
    backend = RegistryBackend(contest_settings(contest))
    admitted = admission.admit_entries(
        Contest(contest.folder.file), entry_images.admitter_with_builds(backend, folder), complete=False
    )
    assert admitted.images["corners"].reference == push(contest.folder.path)["corners"].reference


def contest_settings(contest):
    """Returns how the contest is played on a cluster."""
    return Contest(contest.folder.file).file.cluster
