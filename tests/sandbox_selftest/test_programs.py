"""Every hostile program is contained, and does its harm when the control that stops it is taken away."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.domain.policy import Runtime
from orchestrator.sandbox_selftest import controls, docker_cli, selftest
from orchestrator.sandbox_selftest.expectation import FILE_NAME, Expectation, Family, Kind
from orchestrator.sandbox_selftest.outcome import Verdict
from tests.small_image import small_base_image

from .conftest import CONTAINERS

pytestmark = pytest.mark.slow

HOSTILE = Path(__file__).parents[1] / "hostile"
NAMES = sorted(path.parent.name for path in HOSTILE.glob(f"*/{FILE_NAME}"))
READ = ("output-", "protocol-", "text-", "upload-")
"""Programs against what reads replies and uploads, which is the same on each backend."""

FILES = {
    Kind.SANDBOX: "program.py",
    Kind.PAIR: "program.py",
    Kind.ENDING: "program.py",
    Kind.PROTOCOL: "player.py",
    Kind.IMAGE: "Dockerfile",
    Kind.UPLOAD: "make.py",
}


def shared(names: list[str], group: str) -> list:
    """Returns names for a worker each; one worker builds all images, each once for all tests."""
    groups = {name: "controls" if name.startswith("image-") else group for name in names}
    return [pytest.param(name, marks=pytest.mark.xdist_group(groups[name])) for name in names]


@pytest.fixture(scope="module", autouse=True)
def _images_built_once() -> Iterator[None]:
    """Builds the image of each program once for all tests, on the small base. Each run removes only a tag of it."""
    build = docker_cli.build_image
    kept: dict[Path, str] = {}

    def tag_kept(folder: Path, tag: str, *options: str) -> str:
        if options:  # the image on top of this run's image
            return build(folder, tag, *options)
        if folder not in kept:
            kept[folder] = build(folder, f"{tag}-kept", "--build-arg", f"BASE={small_base_image()}")
        docker_cli.run_docker("tag", kept[folder], tag)
        return kept[folder]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(docker_cli, "build_image", tag_kept)
        yield
    for identity in kept.values():
        docker_cli.run_docker("rmi", "--force", identity)


@pytest.mark.docker
@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", shared(NAMES, "contained"))
def test_it_is_contained(name, programs, context) -> None:
    """The program runs as strangers' code does, is stopped as it must be, and does no harm."""
    outcome = selftest.run_program(programs[name], context, removed=False)
    assert outcome.verdict is Verdict.CONTAINED, outcome.evidence


@pytest.mark.docker
@pytest.mark.timeout(180)
@pytest.mark.skipif(CONTAINERS == "runc", reason="test_it_is_contained plays on runc")
@pytest.mark.parametrize("name", shared([name for name in NAMES if not name.startswith(READ)], "contained on runc"))
def test_it_is_contained_on_runc(name, programs, context_on_runc) -> None:
    """Where runc starts the sandbox without an engine, the program is stopped as it must be, and does no harm."""
    outcome = selftest.run_program(programs[name], context_on_runc, removed=False)
    assert outcome.verdict is Verdict.CONTAINED, outcome.evidence


@pytest.mark.docker
@pytest.mark.timeout(180)
@pytest.mark.xdist_group("controls")
@pytest.mark.parametrize("name", NAMES)
def test_its_control_is_what_stops_it(name, programs, context) -> None:
    """With its control removed the program can do its harm; an exception says why it is not run so."""
    program = programs[name]
    exempt = context.backend.name in program.expectation.not_removable
    wanted = Verdict.PROVED if program.expectation.removed and not exempt else Verdict.SKIPPED
    outcome = selftest.run_program(program, context, removed=True)
    assert outcome.verdict is wanted, outcome.evidence


def test_every_folder_is_a_program(programs) -> None:
    """Each folder of the self-test has an expectation that can be read, and the file that its kind is started with."""
    folders = {path.name for path in HOSTILE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(programs)
    for program in programs.values():
        assert (program.folder / FILES[program.expectation.kind]).is_file(), program.name
        assert program.name.startswith(f"{program.expectation.family}-"), program.name


def test_there_are_many_programs(programs) -> None:
    """At least 40 programs, every family, and no two that attempt the same."""
    assert len(programs) >= 40
    assert {program.expectation.family for program in programs.values()} == set(Family)
    assert len({program.expectation.attempt for program in programs.values()}) == len(programs)


def test_exceptions_are_few(programs) -> None:
    """At most ten programs are not run without their control, each with its reason."""
    exceptions = [program.expectation.exception for program in programs.values() if not program.expectation.removed]
    assert len(exceptions) <= 10
    assert all(len(reason) > 30 for reason in exceptions)


@pytest.mark.parametrize("name", NAMES)
def test_its_control_has_a_name(name, programs) -> None:
    """The control is a field of the policy or of the limits, or a word that is explained; what is removed is named."""
    expectation: Expectation = programs[name].expectation
    named = controls.find_controls(expectation.control)
    assert named, expectation.control
    if expectation.removed:
        assert {*expectation.removed.policy, *expectation.removed.limits} <= named


def test_no_control_is_idle(programs) -> None:
    """Every word that is explained stands in the control of some program."""
    used = {word for program in programs.values() for word in controls.find_controls(program.expectation.control)}
    assert set(controls.CODE_CONTROLS) <= used


@pytest.mark.parametrize("name", NAMES)
def test_harm_is_looked_for_in_both_runs(name, programs) -> None:
    """Contained means something that was seen, and without the control harm has to be seen."""
    expectation: Expectation = programs[name].expectation
    contained = expectation.contained
    assert contained.harm is False or contained.ending or contained.fault or contained.refused
    assert contained.harm is not True
    assert expectation.removed is None or expectation.removed.expected.harm is True


def test_known_failures_are_not_on_runc(programs) -> None:
    """The runtime that everybody has contains every program."""
    assert not [program.name for program in programs.values() if Runtime.RUNC in program.expectation.known_failures]
