"""What may stand in an image's configuration."""

import pytest

from orchestrator.domain.images import is_image_reference, read_image_config

ID = "sha256:" + "ab" * 32
PLAIN = {"Os": "linux", "Architecture": "amd64", "Config": {"Cmd": ["python3"], "WorkingDir": "/player"}}


@pytest.mark.parametrize(
    "folder",
    ["relative", "/a/../b", "/proc/self/fd/8", "/proc", "/sys/x", "/dev/x", "//a", "/a/./b", "/a\nb", "/a//b"],
)
def test_an_odd_working_directory_is_refused(folder):
    """A working directory is a plain absolute path outside the kernel's own folders (CVE-2024-21626)."""
    _, problems = read_image_config({"Config": {"Cmd": ["x"], "WorkingDir": folder}})
    assert [problem.place for problem in problems] == ["WORKDIR"]


@pytest.mark.parametrize("folder", ["", "/", "/player", "/player/", "/opt/a-b_c/d.e"])
def test_a_plain_working_directory_is_taken(folder):
    """Plain absolute paths are taken as they are; none is the root."""
    config, problems = read_image_config({"Config": {"Cmd": ["x"], "WorkingDir": folder}})
    assert problems == []
    assert config.folder == (folder or "/")


def test_an_image_for_another_machine_is_refused():
    """Another architecture or system is refused by name, with the way to build the right one."""
    _, problems = read_image_config(PLAIN, "arm64")
    assert [problem.place for problem in problems] == ["platform"]
    assert "linux/arm64" in problems[0].remedy
    _, problems = read_image_config({**PLAIN, "Os": "windows"}, "amd64")
    assert [problem.place for problem in problems] == ["platform"]
    assert read_image_config(PLAIN, "amd64")[1] == []


def test_a_flood_in_the_configuration_is_refused():
    """Thousands of arguments or variables are refused, not passed on."""
    config = {"Cmd": ["x"] * 1000, "Env": ["A=1"] * 1000}
    _, problems = read_image_config({"Config": config})
    assert {problem.place for problem in problems} == {"ENTRYPOINT", "ENV"}


def test_a_configuration_of_other_types_is_no_crash():
    """What an image claims may be of any type; nothing of it is taken then, and it cannot be started."""
    config = {"Cmd": "python3", "Env": [1, 2], "Entrypoint": None, "Healthcheck": None, "Volumes": None, "Labels": None}
    taken, problems = read_image_config({"Config": config})
    assert taken.environment == {}
    assert [problem.place for problem in problems] == ["ENTRYPOINT"]
    assert read_image_config({})[1][0].place == "ENTRYPOINT"


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("team/entry:1", True),
        ("localhost:5000/a/b@sha256:" + "0" * 64, True),
        (ID, True),
        ("../x", False),
        ("a/../../b", False),
        ("a b", False),
        ("a?x=1", False),
        ("", False),
        ("-x", False),
        ("a" * 300, False),
        ("a\n", False),
    ],
)
def test_only_references_reach_the_engine(text, good):
    """What could lead elsewhere in the engine's interface is no reference."""
    assert is_image_reference(text) is good


@pytest.mark.parametrize("place", ["Entrypoint", "Cmd"])
def test_a_word_with_a_nul_cannot_be_started(place):
    """No program can be given a word with a NUL in it, so it is refused and not found out by a runtime."""
    _, problems = read_image_config({"Config": {"Cmd": ["x"], place: ["python3", "a\0b"]}})
    assert [problem.place for problem in problems] == ["ENTRYPOINT"]
