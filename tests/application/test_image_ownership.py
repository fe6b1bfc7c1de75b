"""An image that a submission only names is the team's own: built from its folder, and nobody handed it in before."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.application.contests import package_submission, submission_admission
from orchestrator.application.contests.submission_admission import SubmissionRequest
from orchestrator.application.rounds import play_rounds
from orchestrator.application.rounds.play_rounds import RunOptions
from orchestrator.bundles.receipts import Receipt
from orchestrator.domain import contest_events
from orchestrator.domain.submissions import Side
from orchestrator.errors import Rejected
from orchestrator.intake import image_build, package_writer
from orchestrator.intake.build_record import BuildRecord
from orchestrator.intake.image_build import SOURCE_LABEL, ImageBuildOptions
from orchestrator.intake.source_tree import scan_folder
from orchestrator.plugins import load_plugin
from orchestrator.sandboxes.base import BackendSettings

from .conftest import BASE

pytestmark = pytest.mark.docker

RECIPE = f"FROM {BASE}\nCOPY player.py protocol.py /opt/player/\nWORKDIR /opt/player\n"


@pytest.fixture
def folder(cup, repository) -> Callable[..., Path]:
    """Returns a function that makes the folder of an attack with a Dockerfile, whose manifest names an image."""

    def folder(name: str, image: str, more: str = "") -> Path:
        made = cup.player("attack_honest", name, image=f"{repository}:{image}")
        command = json.dumps(["python", "player.py", "attack", "honest"])
        (made / "Dockerfile").write_text(f"{RECIPE}LABEL name={name}\n{more}CMD {command}\n")
        return made

    return folder


@pytest.fixture
def built(tmp_path) -> Callable[[Path], str]:
    """Returns a function that builds a folder's image as `sparring submission build` does, and gives its id."""
    workshop = load_plugin("sandboxes", "docker")(BackendSettings(tmp_path)).image_store()

    def built(folder: Path) -> str:
        prepared = image_build.prepare_build(folder, ImageBuildOptions())
        identity = workshop.build(prepared.recipe, lambda _: None)
        BuildRecord.of_user().add(prepared.tree.digest, "cpu", identity)
        return identity

    return built


@pytest.fixture
def submit(cup) -> Callable[..., Receipt]:
    """Returns a function that hands something in."""

    def submit(team: str, folder: Path | None = None, package: Path | None = None, **more) -> Receipt:
        with cup.desk() as desk:
            ready = play_rounds.ready_backend(desk.contest, cup.folder.path.resolve(), RunOptions(backend="docker"))
            if package is not None:
                return package_submission.submit_package(desk, SubmissionRequest(team, "quarters"), package, ready)
            return submission_admission.submit(desk, SubmissionRequest(team, "quarters", folder, **more), ready)

    return submit


def test_what_was_built_from_the_folder_is_received(folder, built, submit) -> None:
    """Built, and submitted as the folder: the image plays, and once more it is the same receipt."""
    mine = folder("mine", "mine")
    identity = built(mine)
    assert submit("One", mine).digest == identity
    assert submit("One", mine).attempt == 1


def test_a_manifest_that_names_another_teams_image_gets_none(cup, folder, built, submit) -> None:
    """It was built from other files and submitted by another; both are told, nothing is played, and it is on record."""
    rival = folder("rival", "rival")
    built(rival)
    submit("Two", rival)
    with pytest.raises(Rejected) as refused:
        submit("One", folder("thief", "rival"))
    theirs, others = (problem.what for problem in refused.value.problems)
    assert theirs.endswith("was submitted before by Two, as rival")
    assert scan_folder(rival).digest in others
    assert scan_folder(folder("thief", "rival")).digest in others
    assert all("submit a package" in problem.remedy for problem in refused.value.problems)
    assert len(cup.acts(contest_events.SubmissionRefused)[0].problems) == 2


def test_a_stale_build_is_not_received(folder, built, submit) -> None:
    """What was changed after the build has to be built again; so has what does not say what it was built from."""
    mine = folder("mine", "mine")
    built(mine)
    (mine / "notes.txt").write_text("later")
    with pytest.raises(Rejected, match=f"was built from sha256:.*, and this folder is {scan_folder(mine).digest}"):
        submit("One", mine)
    identity = built(mine)
    assert submit("One", mine).digest == identity


def test_the_organizers_image_is_nobodys(cup, submit) -> None:
    """An image that was not built here, such as a base or one that somebody brought, is not a folder's."""
    thief = cup.player("attack_honest", "thief", image=BASE)
    with pytest.raises(Rejected, match=f"{BASE} is of no build that is on record here, and this folder is sha256:"):
        submit("One", thief)


def test_a_label_proves_nothing(engine, folder, repository, submit) -> None:
    """An image that says it was built from this very folder, and was not, is none of its own."""
    mine = folder("mine", "mine")
    recipe = f'FROM {BASE}\nLABEL {SOURCE_LABEL}={scan_folder(mine).digest}\nCMD ["python3"]\n'
    engine.images.build(fileobj=io.BytesIO(recipe.encode()), tag=f"{repository}:mine", rm=True)
    with pytest.raises(Rejected, match="is of no build that is on record here"):
        submit("One", mine)


def test_a_dockerfile_cannot_say_what_it_was_built_from(engine, folder, built) -> None:
    """The label is ours, whatever the recipe sets it to."""
    mine = folder("mine", "mine", f"LABEL {SOURCE_LABEL}=sha256:{'0' * 64}\n")
    assert engine.images.get(built(mine)).labels[SOURCE_LABEL] == scan_folder(mine).digest


def test_an_image_that_is_named_at_the_desk_is_one_teams(folder, built, submit) -> None:
    """Without a folder nothing says what an image was built from; yet two teams do not play the same."""
    identity = built(folder("rival", "rival"))
    said = {"image": identity, "name": "named", "side": Side.ATTACK}
    assert submit("Two", **said).digest == identity
    with pytest.raises(Rejected, match="was submitted before by Two, as named"):
        submit("One", **said)


def test_a_package_is_its_own(folder, submit, tmp_path) -> None:
    """Two teams that submit the same files are two submissions: what is in a package was not taken from anybody."""
    package = package_writer.write_package(folder("same", "same"), tmp_path / "same.sparring.tar").path
    first, second = submit("One", package=package), submit("Two", package=package)
    assert first.digest == second.digest
