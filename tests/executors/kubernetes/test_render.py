"""`sparring cluster render`: every Job of a round as it would be created, for whoever has to agree to it."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from ruamel.yaml import YAML
from typer.testing import CliRunner

from orchestrator.application.kubernetes import render_jobs as wiring
from orchestrator.application.rounds import play_rounds
from orchestrator.cli import manifest_output
from orchestrator.cli.app import app
from orchestrator.domain.ids import digest
from orchestrator.errors import UsageError
from orchestrator.executors.kubernetes.registry_backend import RegistryBackend
from orchestrator.intake.contest_file import Contest
from tests.kubernetes_api import Cluster, Fakes
from tests.kubernetes_api.tests.conftest import Http
from tests.oci.fake_registry import RUN

from .pod_security import quality, violations
from .rendering import COMMANDS, container, image, rendered
from .test_job_manifest import complaints

ROOT = Path(__file__).resolve().parents[3]
PLAYER = Path(__file__).resolve().parents[2] / "e2e" / "players" / "player.py"
PLAYERS = ("attack_honest", "defence_honest", "defence_constant")
PLANNED = 1 + 2 * 2 + 2
"""An attack, two defences on clean pictures and against it, a replay of each."""


@pytest.fixture
def contest(tmp_path) -> Path:
    """A contest file with an attack and two defences, as folders that name an image."""
    return write(tmp_path)


def write(folder: Path, **changes: Any) -> Path:
    """Writes the contest file, its pictures and its players; JSON is YAML."""
    np.savez(folder / "dots.npz", images=np.full((6, 4, 4), 100, np.uint8), labels=np.arange(6) % 4)
    for name in PLAYERS:
        (folder / name).mkdir(exist_ok=True)
        shutil.copy(PLAYER, folder / name)
        side, _, behaviour = name.partition("_")
        said = {"sparring": 1, "name": name, "side": side, "command": ["python", "player.py", side, behaviour]}
        said |= {"licence": "MIT", "source": "https://example.org", "image": f"team/{name.replace('_', '-')}:1"}
        (folder / name / "submission.yaml").write_text(json.dumps(said))
    body = {
        "sparring": 1,
        "contest": "cup",
        "title": "A cup",
        "format": "tournament",
        "task": {
            "name": "dots",
            "dataset": {"kind": "npz", "path": "dots.npz"},
            "budget": {"norm": "linf", "epsilon": 20},
        },
        "rules": {"clean_floor": None},
        "submissions": [{"folder": name, "team": name} for name in PLAYERS],
    }
    file = folder / "contest.yaml"
    file.write_text(json.dumps(body | changes))
    return file


def sparring(*arguments: object):
    """Runs one command in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in ("cluster", "render", *arguments)])


def read(text: str, version: tuple[int, int] | None = None) -> list[Any]:
    """Returns the documents of a stream, as a reader of that version of YAML understands them."""
    yaml = YAML(typ="safe", pure=True)
    yaml.version = version
    return list(yaml.load_all(text))


def jobs_of(text: str) -> list[Any]:
    """Returns the Jobs of a stream."""
    return [each for each in read(text) if each["kind"] == "Job"]


@pytest.mark.slow
def test_pictures_that_only_the_cluster_has_are_not_needed(contest) -> None:
    """Offline, placeholders stand for them, and that is said; the same Jobs come of it."""
    whole = sparring(contest, "--offline", "--json")
    Path(contest.parent / "dots.npz").unlink()
    done = sparring(contest, "--offline", "--json")
    assert done.exit_code == 0, done.output
    before, after = json.loads(whole.stdout), json.loads(done.stdout)
    assert (before["placeholders"]["pictures"], after["placeholders"]["pictures"]) == (False, True)
    assert any("1000 pictures" in line for line in after["notes"])
    assert not any("1000 pictures" in line for line in before["notes"])
    containers = [
        [each["spec"]["template"]["spec"]["containers"][0] for each in found["objects"] if each["kind"] == "Job"]
        for found in (before, after)
    ]
    assert [each["image"] for each in containers[0]] == [each["image"] for each in containers[1]]
    for shipped in (ROOT / "k8s").glob("*/*/contest.yaml"):
        assert sparring(shipped, "--offline", "--json").exit_code == 0, shipped


def test_the_lease_is_there_too(contest):
    """The one other object that a controller makes, with the recommended labels, fit for the last three versions."""
    done = read(sparring(contest, "--offline").stdout)
    [lease] = [each for each in done if each["kind"] != "Job"]
    assert (lease["kind"], lease["metadata"]["namespace"]) == ("Lease", "sparring")
    assert lease["metadata"]["name"] == f"sparring-{done[0]['metadata']['labels']['sparring/of']}"
    assert lease["metadata"]["labels"].keys() >= {
        f"app.kubernetes.io/{name}" for name in ("name", "component", "part-of")
    }
    assert complaints(lease) == []


@pytest.mark.slow
def test_pictures_that_were_handed_in_have_no_job(tmp_path) -> None:
    """Only the hidden model plays: on the originals, on what was submitted, and once more for its replay (C2, C3)."""
    np.savez(tmp_path / "handed_in.npz", images=np.full((6, 4, 4), 120, np.uint8))
    file = write(
        tmp_path,
        format="attack_set",
        rules={},
        baselines=[{"folder": "defence_honest"}],
        submissions=[{"pictures": "handed_in.npz", "name": "team"}],
    )
    done = sparring(file, "--offline", "--all")
    assert done.exit_code == 0, done.output
    stages = [job["metadata"]["labels"]["sparring/stage"] for job in jobs_of(done.stdout)]
    assert sorted(stages) == ["classify", "classify", "replay"]
    first = jobs_of(sparring(file, "--offline").stdout)
    assert [job["metadata"]["labels"]["sparring/stage"] for job in first] == ["classify", "classify"]


@pytest.mark.slow
def test_the_first_wave_is_what_waits_for_nothing(contest):
    """Attacks, and defences on clean pictures; the comment says how many more there are and what is a placeholder."""
    done = sparring(contest, "--offline")
    assert done.exit_code == 0, done.output
    jobs = jobs_of(done.stdout)
    assert sorted(job["metadata"]["labels"]["sparring/stage"] for job in jobs) == ["classify", "classify", "perturb"]
    said = " ".join(line for line in done.stdout.splitlines() if line.startswith("#"))
    assert f"3 of {PLANNED} Jobs" in said
    assert f"{PLANNED - 3} more wait for others" in said
    assert said.count("Placeholder") == 2


@pytest.mark.slow
def test_all_is_every_job_of_the_plan(contest):
    """Each job once, replays too, each fit for the last three versions, restricted and Guaranteed."""
    jobs = jobs_of(sparring(contest, "--offline", "--all").stdout)
    assert len({job["metadata"]["name"] for job in jobs}) == len(jobs) == PLANNED
    stages = [job["metadata"]["labels"]["sparring/stage"] for job in jobs]
    assert {stage: stages.count(stage) for stage in stages} == {"perturb": 1, "classify": 4, "replay": 2}
    for job in jobs:
        assert complaints(job) == []
        assert violations(job["spec"]["template"]) == []
        assert quality(job["spec"]["template"]) == "Guaranteed"


@pytest.mark.slow
def test_json_has_the_same_objects(contest):
    """One document, with what is a placeholder in it."""
    made = json.loads(sparring(contest, "--offline", "--json").stdout)
    assert made["objects"] == read(sparring(contest, "--offline").stdout)
    assert (made["planned"], made["placeholders"]) == (PLANNED, {"images": True, "names": True, "pictures": False})


def test_images_are_what_their_registry_says(tmp_path, registry, ask, monkeypatch):
    """Without --offline digest, command and blanked variables come from the registry, and no placeholder is left."""
    digests = {
        name: registry.put(f"cup/team/{name.replace('_', '-')}", "1", registry.image({**RUN, "Env": ["LD_AUDIT=x"]}))
        for name in PLAYERS
    }
    monkeypatch.setattr(wiring, "RegistryBackend", lambda settings: RegistryBackend(settings, registries=ask))
    file = write(tmp_path, cluster={"registry": f"{registry.host}/cup", "insecure_registries": [registry.host]})
    for job in jobs_of(sparring(file).stdout):
        name = job["metadata"]["annotations"]["sparring/submission"]
        player = container(job, "player")
        assert player["image"] == f"{registry.host}/cup/team/{name.replace('_', '-')}@{digests[name]}"
        assert player["command"][5:] == ["python3", "player.py"]
        assert {"name": "LD_AUDIT", "value": ""} in player["env"]


def test_a_registry_that_is_away_is_no_fault_of_the_contests(tmp_path, ask, monkeypatch):
    """Exit code 3, and the way to look without it."""
    monkeypatch.setattr(wiring, "RegistryBackend", lambda settings: RegistryBackend(settings, registries=ask))
    done = sparring(write(tmp_path, cluster={"registry": "127.0.0.1:1"}))
    assert done.exit_code == 3
    assert "--offline" in done.stderr


def test_an_entry_without_an_image_is_refused(contest):
    """A cluster starts no folders, and every such entry is named."""
    for name in PLAYERS[:2]:
        manifest = contest.parent / name / "submission.yaml"
        said = json.loads(manifest.read_text())
        del said["image"]
        manifest.write_text(json.dumps(said))
    done = sparring(contest, "--offline")
    assert done.exit_code == 1
    assert done.stderr.count("build and push it") == 2


@pytest.mark.slow
def test_a_task_of_several_has_to_be_named(tmp_path):
    """And what is named must be there."""
    task = {"dataset": {"kind": "npz", "path": "dots.npz"}, "budget": {"norm": "linf", "epsilon": 20}}
    file = write(tmp_path, task=None, tasks=[{"name": name} | task for name in ("dots", "more")])
    assert sparring(file, "--offline").exit_code == 2
    jobs = jobs_of(sparring(file, "--offline", "--task", "more").stdout)
    assert {job["metadata"]["labels"]["sparring/task"] for job in jobs} == {"more"}
    assert sparring(file, "--offline", "--task", "none").exit_code == 2


@pytest.mark.slow
def test_of_a_round_that_was_begun_names_are_its_own(tmp_path):
    """With --out names and labels are those that its controller gives: they hold the round's commitment."""
    file, out = write(tmp_path, replay={"power": 0}), tmp_path / "out"
    assert sparring(file, "--offline", "--out", out).exit_code == 2
    options = play_rounds.RunOptions(backend="process", slots=1, allow_unisolated=True)
    play_rounds.play_round(Contest(file), out, options, lambda _: None)
    commitment = digest((out / "secret").read_bytes())
    done = sparring(file, "--offline", "--out", out)
    assert {job["metadata"]["labels"]["sparring/of"] for job in jobs_of(done.stdout)} == {commitment[7:23]}
    assert done.stdout.count("Placeholder") == 1


@pytest.mark.slow
def test_where_pods_run_does_not_make_a_round_another(tmp_path):
    """A round goes on after `cluster:` was changed in its file; after anything else it is refused (as ever)."""
    file, out = write(tmp_path, replay={"power": 0}), tmp_path / "out"
    options = play_rounds.RunOptions(backend="process", slots=1, allow_unisolated=True)
    play_rounds.play_round(Contest(file), out, options, lambda _: None)
    write(tmp_path, replay={"power": 0}, cluster={"namespace": "elsewhere", "max_jobs": 3})
    found = play_rounds.preview_round(Contest(file), out, options)
    assert [stage.jobs for stage in found.stages] == [0, 0, 0, 0]
    write(tmp_path, replay={"power": 0}, seed=5)
    with pytest.raises(UsageError, match="the contest file"):
        play_rounds.preview_round(Contest(file), out, options)


@pytest.mark.slow
@settings(max_examples=200 if os.environ.get("SPARRING_SOAK") else 6)
@given(COMMANDS)
def test_a_command_survives_every_reader(command):
    """Readers of YAML 1.1 and 1.2 get the words back; none of them is taken for a truth, a number or nothing."""
    made = json.loads(json.dumps(rendered(image(*command))))
    text = manifest_output.yaml_stream((made, made))
    assert read(text) == read(text, (1, 1)) == [made, made]
    assert text.isascii()
    assert re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text) is None


@pytest.mark.parametrize("word", ["yes", "NO", "on", "y", "null", "~", "0x1F", "012", "1_000", "1e3", ".5", "12:30:00"])
def test_words_that_are_no_text_to_some_are_quoted(word):
    """What a reader of any version would take for something else."""
    made = rendered(image(word))
    assert f'"{word}"' in manifest_output.yaml_stream((made,))


def test_settings_survive_the_ledger(tmp_path):
    """A toleration is kept by our names and read back: drivers get the contest file from the round's events."""
    asked = {"tolerations": [{"operator": "Exists", "tolerationSeconds": 5}], "driver_memory": "2GiB"}
    contest = Contest(write(tmp_path, cluster=asked))
    kept = json.loads(json.dumps(contest.file.model_dump(mode="json")))
    assert type(contest.file).model_validate(kept) == contest.file
    assert contest.file.cluster.tolerations[0].toleration_seconds == 5


@pytest.mark.slow
def test_kubectl_takes_the_stream(contest, tmp_path, require):
    """`sparring cluster render | kubectl create -f -` makes every object of it."""
    program = shutil.which("kubectl")
    if program is None:
        require("kubectl", "kubectl is not installed")
    text = sparring(contest, "--offline", "--all").stdout
    with Cluster(Fakes(), ()) as cluster:
        ask = Http(cluster.url)
        assert ask("POST", "/api/v1/namespaces", {"metadata": {"name": "sparring"}}).code == 201
        config = cluster.kubeconfig(tmp_path / "kubeconfig")
        words = [str(program), f"--kubeconfig={config}", f"--cache-dir={tmp_path / 'cache'}", "create", "-f", "-"]
        done = subprocess.run(words, input=text, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        made = ask("GET", "/apis/batch/v1/namespaces/sparring/jobs").json["items"]
    assert {job["metadata"]["name"] for job in made} == {job["metadata"]["name"] for job in jobs_of(text)}
