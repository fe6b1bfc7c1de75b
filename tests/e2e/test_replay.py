"""`sparring replay` shows a finding again to whoever doubts it, and only what really played (X3)."""

import hashlib
import json
import os
import secrets
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator.cli.app import app

from .conftest import CONTAINERS_IN_SOAK, IMAGE

WORDS = pytest.mark.parametrize("backend", ["process"], indirect=True, scope="module")
"""For what a command says, wherever it plays: a replay in containers takes half a minute."""
ACCUSED = {"defence_counter": "state", "defence_moody": "environment", "attack_own_chance": "chance"}
BY_RATES = {name: kind for name, kind in ACCUSED.items() if name != "defence_counter"}
"""The others' proof takes twenty sandboxes, and its replay as many: in containers only `make soak` plays that one."""
SOAK = bool(os.environ.get("SPARRING_SOAK"))


def sparring(*arguments: object):
    """Runs one command in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def accused_on(backend: str) -> dict[str, str]:
    """Returns whom the round on a backend accuses, with the kind of each finding."""
    return BY_RATES if backend == "docker" and not SOAK else ACCUSED


@pytest.fixture(scope="module")
def played(shared_lab):
    """A round with two cheats, an attack that draws its own chance, and honest players; and where it lies."""
    players = ("attack_noop", "defence_honest", *accused_on(shared_lab.backend))
    changes = {"replay": {"attacks": 1.0}, "limits": {"classify_seconds": 5}}
    if shared_lab.backend == "docker":  # each replay begins with a copy of an image
        changes["replay"] |= {"power": 0.9, "cheat": 0.3}
    results = shared_lab.play(*players, **changes)
    return results, shared_lab.folder / "out"


def finding(results, accused: str):
    """Returns the one finding against a submission."""
    (found,) = [each for each in results.findings if each.submission == accused]
    return found


def state(folder: Path) -> dict[str, str]:
    """Returns the digest of every file of a round."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def replay(results, out: Path, accused: str, *more: object):
    """Plays the finding against a submission again."""
    return sparring("replay", finding(results, accused).id, "--dir", out, "--allow-unisolated", *more)


def test_the_round_has_its_findings(played) -> None:
    """The cheats and the attack are found for what they do; the honest are not, and have the planned power."""
    results, _ = played
    accused = accused_on(results.backend)
    assert {found.submission: found.kind.value for found in results.findings} == accused
    assert {part.fresh_copy for part in results.replays} == {"yes" if results.backend == "docker" else "backend"}
    covered = {part.submission: part.achieved for part in results.replays}
    assert covered["defence_honest"] >= results.replay.power == (0.9 if results.backend == "docker" else 0.99)
    for cheat in accused.keys() - {"attack_own_chance"}:
        assert len(finding(results, cheat).seeds) == len(finding(results, cheat).steps)


@pytest.mark.parametrize("accused", BY_RATES)
def test_a_finding_shows_again(played, accused) -> None:
    """In fresh sandboxes with the same image it shows again, for people and for machines, and nothing is written."""
    check_that_it_shows_again(*played, accused)


@CONTAINERS_IN_SOAK
def test_a_proof_shows_again(played) -> None:
    """The same of a sequence that changes an answer every time."""
    check_that_it_shows_again(*played, "defence_counter")


def check_that_it_shows_again(results, out: Path, accused: str) -> None:
    """Asserts that a finding is reproduced as it is on record."""
    before = state(out)
    done = replay(results, out, accused, "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    found = finding(results, accused)
    assert document["reproduced"]
    assert document["finding"]["id"] == found.id
    assert bool(document["fresh_copy"]) == (results.backend == "docker")
    assert document["fresh_copy"] != found.image
    if accused.startswith("defence"):
        assert [session["step"] for session in document["sessions"]] == found.steps
        told = [session["seed"] for session in document["sessions"]]
        assert not set(told) & set(found.seeds)
        shared = [[seeds.index(seed) for seed in seeds] for seeds in (told, found.seeds)]
        assert shared[0] == shared[1], "two sessions share a seed where they did"
        assert not document["recorded_seeds"]
        assert document["inconsistencies"]
    else:
        assert any(picture["values_changed"][0] for picture in document["changed_examples"])
    assert state(out) == before


@WORDS
def test_the_recorded_seeds_can_be_repeated(played) -> None:
    """Where that is asked for, and the text says which it was."""
    results, out = played
    document = json.loads(replay(results, out, "defence_moody", "--recorded-seeds", "--json").stdout)
    assert document["recorded_seeds"]
    assert [session["seed"] for session in document["sessions"]] == finding(results, "defence_moody").seeds
    text = " ".join(replay(results, out, "defence_moody").stdout.split())
    assert "in fresh sandboxes that are told fresh seeds" in text


@CONTAINERS_IN_SOAK
def test_people_can_read_it(played, monkeypatch) -> None:
    """The text has the kind, the image, the sequence with cells, pictures, answers then and now, and the outcome."""
    monkeypatch.setenv("COLUMNS", "200")  # no name is folded
    results, out = played
    found = finding(results, "defence_counter")
    done = replay(results, out, "defence_counter")
    assert done.exit_code == 0, done.output
    text = " ".join(done.stdout.split())
    source = f"played now from {'a fresh copy of its files' if results.backend == 'docker' else 'itself'}"
    for part in (f"finding {found.id}", "state", found.image, "in play then now", "reproduced", "by itself", source):
        assert part in text, part
    asked = found.sequence[-1]
    assert f"{found.length} {asked.attack or 'clean'} {asked.picture}" in text
    attack = " ".join(replay(results, out, "attack_own_chance").stdout.split())
    assert "pictures are others than in play" in attack


@WORDS
def test_a_finding_is_found_by_its_beginning(played) -> None:
    """An id may be shortened as long as one finding begins so; else all of them are named."""
    results, out = played
    ids = [found.id for found in results.findings]
    length = next(n for n in range(1, 9) if len({each[:n] for each in ids}) == len(ids))
    wanted = finding(results, "defence_moody").id[:length]
    assert sparring("replay", wanted, "--dir", out, "--allow-unisolated").exit_code == 0
    for unknown in ("", "zz"):
        done = sparring("replay", unknown, "--dir", out, "--allow-unisolated")
        assert done.exit_code == 2
        assert all(each in done.stderr for each in ids)


@WORDS
def test_only_the_rounds_backend_can_show_it(played) -> None:
    """Another backend has no such images, which is said, and an unknown one is a usage error too."""
    results, out = played
    done = replay(results, out, "defence_moody", "--backend", "docker")
    assert done.exit_code == 2
    assert "was played on process" in " ".join(done.stderr.split())
    assert replay(results, out, "defence_moody", "--backend", "process").exit_code == 0


def test_status_names_the_command(played) -> None:
    """`round status` says how each finding is seen again, and the report's page does."""
    results, out = played
    text = " ".join(sparring("round", "status", out).stdout.split())
    page = (out / "report" / "index.html").read_text("utf-8")
    for found in results.findings:
        assert f"sparring replay {found.id} --dir {out}" in text
        assert f"sparring replay {found.id} --dir DIR" in page


@WORDS
def test_the_current_folder_is_the_rounds(played, monkeypatch, tmp_path) -> None:
    """Without --dir the round lies here or where the demo puts it; elsewhere there is none."""
    results, out = played
    wanted = finding(results, "defence_moody").id
    monkeypatch.chdir(tmp_path)
    done = sparring("replay", wanted)
    assert done.exit_code == 2
    assert "neither this folder nor demo holds a round" in done.stderr
    (tmp_path / "demo").symlink_to(out)
    for _ in ("demo", "here"):
        assert sparring("replay", wanted, "--allow-unisolated").exit_code == 0
        monkeypatch.chdir(out)


@WORDS
def test_a_copy_that_is_gone_or_changed_proves_nothing(played, tmp_path) -> None:
    """On the process backend the copy that played has to be there, bit for bit, and strangers' only on request."""
    results, whole = played
    out = Path(shutil.copytree(whole, tmp_path / "out"))
    found = finding(results, "defence_counter")
    kept = out / "images" / found.image.removeprefix("sha256:")

    done = sparring("replay", found.id, "--dir", out)
    assert done.exit_code == 2
    assert "--allow-unisolated" in done.stderr

    player = kept / "player.py"
    player.chmod(0o600)
    player.write_text(player.read_text() + "\n")
    done = replay(results, out, "defence_counter")
    assert done.exit_code == 2
    assert found.image in done.stderr
    assert "what played was" in " ".join(done.stderr.split())

    kept.chmod(0o700)
    shutil.rmtree(kept)
    done = replay(results, out, "defence_counter")
    assert done.exit_code == 2
    assert "is gone" in " ".join(done.stderr.split())


def image(tag: str, base: str, mark: str) -> None:
    """Builds an image of its own from a player's."""
    command = ["docker", "build", "--quiet", "--network", "none", "--tag", tag, "-"]
    recipe = f"FROM {base}\nLABEL test={mark}\n".encode()
    done = subprocess.run(
        command, input=recipe, check=False, capture_output=True, env=os.environ | {"DOCKER_BUILDKIT": "0"}
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.soak
def test_an_image_that_is_gone_proves_nothing(lab) -> None:
    """An image that the engine no longer has is named with its remedy; what is called the same now is not played."""
    if lab.backend != "docker":
        return  # what stands for it on the process backend is above
    lab.play("attack_noop", "defence_counter", out="built", replay={"power": 0})
    tag, mark = f"sparring-test/replay:{secrets.token_hex(4)}", secrets.token_hex(8)
    image(tag, f"{IMAGE}:defence-counter", mark)
    players = [{"image": f"{IMAGE}:attack-noop", "name": "attack_noop", "side": "attack"}]
    players.append({"image": tag, "name": "defence_counter", "side": "defence"})
    results = lab.play(submissions=players, replay={"power": 0.9, "cheat": 0.3})
    out, found = lab.folder / "out", finding(results, "defence_counter")
    try:
        assert replay(results, out, "defence_counter").exit_code == 0
        subprocess.run(["docker", "rmi", tag], check=True, capture_output=True)
        gone = replay(results, out, "defence_counter")
        image(tag, f"{IMAGE}:defence-counter", mark + "-again")
        other = replay(results, out, "defence_counter")
    finally:
        subprocess.run(["docker", "rmi", "--force", tag], check=True, capture_output=True)
    for done, said in ((gone, "docker load"), (other, f"{tag} is sha256:")):
        assert done.exit_code == 2
        assert found.image in done.stderr
        assert said in " ".join(done.stderr.split())
