"""A submission as one file: received like its folder, or refused with everything at once, and nothing is left."""

import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.application.contests import package_submission
from orchestrator.application.contests.submission_admission import SubmissionRequest
from orchestrator.application.rounds import play_rounds
from orchestrator.application.rounds.play_rounds import RunOptions
from orchestrator.application.submissions import trial_match_setup
from orchestrator.bundles.receipts import Receipt
from orchestrator.domain import contest_events
from orchestrator.errors import InfrastructureFault, Rejected, SandboxLost, UsageError
from orchestrator.intake import package_writer
from orchestrator.plugins import load_plugin
from orchestrator.sandboxes.base import BackendSettings
from tests import plain_player
from tests.small_image import small_base_image

from .conftest import BASE, Cup, names_in

NOON = "2026-03-01T12:00:00.000+00:00"

TAG = "sparring-test/imaged:cpu"
COMMAND = ["python", "player.py", "attack", "honest"]
RECIPE = f"FROM {BASE}\nCOPY player.py protocol.py submission.yaml /opt/player/\nWORKDIR /opt/player\n"


@pytest.fixture
def cup(trial_cup) -> Cup:
    """An opened contest with trial matches."""
    return trial_cup


@pytest.fixture
def submit(cup) -> Callable[..., Receipt]:
    """Returns a function that hands a file in for the team One."""

    def submit(path: Path, backend: str = "process", **more) -> Receipt:
        with cup.desk() as desk:
            ready = play_rounds.ready_backend(
                desk.contest, cup.folder.path.resolve(), RunOptions(backend=backend, allow_unisolated=True)
            )
            return package_submission.submit_package(
                desk, SubmissionRequest(**{"team": "One", "task": "quarters"} | more), path, ready
            )

    return submit


@pytest.fixture
def package(cup, tmp_path) -> Callable[..., Path]:
    """Returns a function that packs a player's folder, with more files."""

    def package(kind: str = "attack_honest", **files: str) -> Path:
        folder = cup.player(kind, f"packed_{kind}")
        for name, text in files.items():
            (folder / name).write_text(text)
        return package_writer.write_package(folder, tmp_path / f"{kind}.sparring.tar").path

    return package


@pytest.fixture
def received(engine, repository) -> Callable[[], set[str]]:
    """Returns a function that gives the names of the images that came in during this test."""
    return lambda: names_in(engine, repository)


@pytest.mark.slow
def test_a_package_is_the_folder_that_was_packed(cup, package, submit) -> None:
    """Its digest is that of the folder itself, it plays, and the files that were read are gone."""
    by_folder = cup.submit("Two", cup.player("attack_honest", "packed_attack_honest"))
    receipt = submit(package())
    assert receipt.digest == by_folder.digest
    assert (receipt.attempt, receipt.received) == (1, NOON)
    assert not list(cup.folder.path.glob(f"{package_submission.PACKAGE_FOLDER_PREFIX}*"))
    played = {row.id for row in cup.play("initial")[0].submissions}
    assert receipt.submission in played


def test_a_plain_archive_is_one_too(cup, tmp_path, submit) -> None:
    """A tar of the folder, made by anybody's tar, is received."""
    folder = cup.player("defence_honest")
    with tarfile.open(tmp_path / "x.tgz", "w:gz") as tar:
        tar.add(folder, "anything")
    assert submit(tmp_path / "x.tgz").side == "defence"


def test_a_refused_archive_is_on_record_with_everything(cup, tmp_path, submit) -> None:
    """All that is wrong with it, and what else is against it, is told and noted at once; it used up nothing."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name in ("../up", "/etc/passwd"):
            tar.addfile(tarfile.TarInfo(name))
        link = tarfile.TarInfo("link")
        link.type = tarfile.SYMTYPE
        link.linkname = "elsewhere"
        tar.addfile(link)
    path = tmp_path / "odd.tar"
    path.write_bytes(made.getvalue())
    cup.more = {"closes": NOON}
    cup.write()
    with pytest.raises(Rejected) as refusal:
        submit(path, task="thirds", name="odd")
    assert [problem.place for problem in refusal.value.problems] == ["../up", "/etc/passwd", "link", "time", "task"]
    [refused] = cup.acts(contest_events.SubmissionRefused)
    assert (refused.name, refused.team, len(refused.problems)) == ("odd", "One", 5)
    assert not list(cup.folder.path.glob(f"{package_submission.PACKAGE_FOLDER_PREFIX}*"))
    assert not any((cup.folder.path / "images").iterdir())


def test_a_manifest_that_cannot_be_read_is_refused_so(tmp_path, submit, cup) -> None:
    """An archive whose submission.yaml is none is refused with its problems, and noted."""
    (tmp_path / "submission.yaml").write_text("sparring: 2\nname: ../x\n")
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        tar.add(tmp_path / "submission.yaml", "submission.yaml")
    with pytest.raises(Rejected, match="line 2, name") as refusal:
        submit(tmp_path / "x.tar")
    assert str(refusal.value).startswith("submission x.tar: ")
    [refused] = cup.acts(contest_events.SubmissionRefused)
    assert len(refused.problems) > 2


@pytest.mark.slow
def test_what_cannot_play_leaves_no_copy(cup, package, submit) -> None:
    """A submission that fails its trial match leaves neither files nor a snapshot; one that is received does."""
    images = cup.folder.path / "images"
    with pytest.raises(Rejected, match="match, hello"):
        submit(package("attack_dies_loading"))
    assert list(images.iterdir()) == []
    receipt = submit(package())
    kept = images / receipt.digest.removeprefix("sha256:")
    assert list(images.iterdir()) == [kept]


@pytest.mark.slow
def test_a_copy_that_somebody_needs_stays(cup, package, submit) -> None:
    """What one team submitted stays when the same is refused to another."""
    receipt = submit(package())
    with pytest.raises(Rejected, match="no team"):
        submit(package(), team="Nobody")
    assert (cup.folder.path / "images" / receipt.digest.removeprefix("sha256:") / "player.py").is_file()


def test_a_copy_goes_where_the_desk_fails(cup, package, submit, monkeypatch) -> None:
    """What ends in a fault of ours is to be submitted again, and leaves nothing behind."""

    def lost(*_) -> None:
        raise SandboxLost("the engine went away")

    monkeypatch.setattr(trial_match_setup, "play_trial_match", lost)
    with pytest.raises(SandboxLost):
        submit(package())
    assert list((cup.folder.path / "images").iterdir()) == []


def test_a_missing_file_is_nobodys_submission(submit, cup, tmp_path) -> None:
    """A path that leads nowhere is the operator's mistake, and no act."""
    with pytest.raises(UsageError, match="cannot be read"):
        submit(tmp_path / "nothing.tar")
    assert cup.acts(contest_events.SubmissionRefused) == []


@pytest.mark.slow
def test_what_a_killed_command_left_is_removed(cup, package, submit) -> None:
    """The next command clears what an earlier one was reading when it was killed."""
    left = cup.folder.path / f"{package_submission.PACKAGE_FOLDER_PREFIX}0a1b"
    left.mkdir(parents=True)
    (left / "big").write_text("x")
    submit(package())
    assert not left.exists()


@pytest.mark.docker
def test_a_recipe_is_built_on_the_organizers_base(cup, package, submit, engine, received) -> None:
    """Without an image in it, a package's folder is built; the log stays with the contest, the image under our name."""
    receipt = submit(
        package(Dockerfile=RECIPE + 'RUN echo words\nCMD ["python", "player.py", "attack", "honest"]\n'), "docker"
    )
    assert [engine.images.get(tag).id for tag in received()] == [receipt.digest]
    [log] = (cup.folder.path / package_submission.BUILD_LOG_FOLDER).iterdir()
    assert log.name.startswith("packed_attack_honest-")
    assert "words" in log.read_text().splitlines()


@pytest.mark.docker
@pytest.mark.parametrize(
    ("recipe", "what"),
    [
        (RECIPE + "RUN exit 3\n", "returned a non-zero code: 3"),
        ("FROM sparring/debian-python:bookworm\n", "sparring/debian-python:bookworm is not an allowed base image"),
        (RECIPE + "ADD http://127.0.0.1/x /x\n", "ADD of more than plain file names"),
        (RECIPE + "VOLUME /data\n" + 'CMD ["x"]\n', "VOLUME"),
        ("", "Dockerfile: no FROM"),
    ],
)
def test_a_recipe_that_is_refused_leaves_nothing(cup, package, submit, received, recipe, what) -> None:
    """A failing step, a foreign base, an address, and what admission refuses: each on record, and no image stays."""
    with pytest.raises(Rejected, match=what):
        submit(package(Dockerfile=recipe), "docker")
    assert received() == set()
    [refused] = cup.acts(contest_events.SubmissionRefused)
    assert refused.name == "packed_attack_honest"
    assert what in " ".join(refused.problems)


@pytest.mark.docker
def test_a_late_archive_is_not_built(cup, package, submit, received) -> None:
    """What is refused for its hour is refused before anything of it runs."""
    cup.more = {"closes": NOON}
    cup.write()
    with pytest.raises(Rejected, match="submissions closed"):
        submit(package(Dockerfile=RECIPE), "docker")
    assert not (cup.folder.path / package_submission.BUILD_LOG_FOLDER).exists()
    assert received() == set()


@pytest.fixture(scope="module")
def packed(engine, tmp_path_factory) -> Iterator[Path]:
    """A package with an image in it, whose configuration asks for a volume."""
    folder = tmp_path_factory.mktemp("imaged")
    for file in plain_player.FILES:
        (folder / file.name).write_bytes(file.read_bytes())
    said = {"sparring": 1, "name": "imaged", "side": "attack", "image": TAG, "command": COMMAND}
    (folder / "submission.yaml").write_text(json.dumps(said))
    recipe = RECIPE.replace(BASE, small_base_image())  # an image is read and written whole
    (folder / "Dockerfile").write_text(f"{recipe}VOLUME /data\nCMD {json.dumps(COMMAND)}\n")
    engine.images.build(path=str(folder), tag=TAG, network_mode="none", forcerm=True)
    workshop = load_plugin("sandboxes", "docker")(BackendSettings(folder)).image_store()
    yield package_writer.write_package(folder, folder / "imaged.sparring.tar", workshop, TAG).path
    engine.images.remove(TAG)


@pytest.mark.docker
def test_the_image_in_a_package_is_what_plays(packed, submit, engine, received, cup) -> None:
    """It is brought in under the id that the package promises, without its volume and its names, and it plays."""
    with tarfile.open(packed) as tar:
        promised = json.load(tar.extractfile("sparring-package.json"))["image"]
    receipt = submit(packed, "docker")
    assert receipt.digest == promised
    found = engine.images.get(promised)
    assert not found.attrs["Config"]["Volumes"]
    assert set(found.tags) == received()
    assert not (cup.folder.path / package_submission.BUILD_LOG_FOLDER).exists()


@pytest.mark.docker
def test_a_package_that_promises_another_image_is_refused(packed, submit, received, tmp_path) -> None:
    """The id is worked out here, whatever a package says."""
    data = packed.read_bytes()
    at = data.index(b'"image": "sha256:') + len(b'"image": "sha256:')
    (tmp_path / "other").write_bytes(data[:at] + b"0" * 64 + data[at + 64 :])
    with pytest.raises(Rejected, match="the package says sha256:0000"):
        submit(tmp_path / "other", "docker")
    assert received() == set()


@pytest.mark.docker
def test_an_image_stays_while_anybody_needs_it(packed, submit, engine, received, cup) -> None:
    """A refused second copy of an image that plays takes only its own name with it."""
    receipt = submit(packed, "docker")
    tags = received()
    (cup.folder.path / "key").write_bytes(b"x" * 32)
    with pytest.raises(InfrastructureFault, match="put it back"):
        submit(packed, "docker", team="Two")
    assert received() == tags == set(engine.images.get(receipt.digest).tags)
