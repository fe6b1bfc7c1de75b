"""What an image has where a runtime mounts, put together from layers as an engine stores them."""

import itertools
import os

import pytest

from orchestrator.domain.images import ImageConfig
from orchestrator.sandboxes.image_files import file_checks, mount_points
from orchestrator.sandboxes.image_files.mount_points import (
    FileKind,
    PathEntry,
    layers_on_disk,
    merge_layers,
    mount_point_problems,
)


@pytest.fixture
def layers(tmp_path):
    """Makes folders of layers from words, the highest first: `dir:`, `file:`, `link:PATH->TARGET`, `opaque:`."""

    def make(*described: str):
        folders = []
        for words in described:
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            folder.mkdir()
            for word in words.split():
                kind, _, rest = word.partition(":")
                path, _, target = rest.partition("->")
                here = folder / path
                here.parent.mkdir(parents=True, exist_ok=True)
                if kind == "link":
                    here.symlink_to(target)
                elif kind == "file":
                    here.write_text(target or path)
                else:
                    here.mkdir(exist_ok=True)
            folders.append(folder)
        graph = {"UpperDir": str(folders[0]), "LowerDir": ":".join(map(str, folders[1:]))}
        return layers_on_disk({"Name": "overlay2", "Data": graph})

    return make


def places(look) -> list[str]:
    """Returns the paths that are refused."""
    return [problem.place for problem in mount_point_problems(look)]


def test_plain_and_absent_places_pass(layers) -> None:
    """An image of nothing, and one with every folder as it should be, have no problem."""
    assert places(layers("dir:srv")) == []
    assert places(layers("dir:tmp dir:dev/shm file:etc/passwd", "dir:proc dir:sys dir:run")) == []


def test_the_highest_layer_decides(layers) -> None:
    """A folder over a link is a folder; a link over a folder is a link; what is below either is not to be seen."""
    assert places(layers("dir:tmp", "link:tmp->/x")) == []
    assert places(layers("link:tmp->/x", "dir:tmp")) == ["/tmp"]  # noqa: S108  the image's own
    assert places(layers("dir:dev", "file:dev", "link:other->/x")) == []
    assert places(layers("dir:srv", "link:dev->/x")) == ["/dev"]


def test_no_link_is_followed(layers, tmp_path) -> None:
    """A link above a place is the problem, whatever lies behind it on this machine."""
    (tmp_path / "host" / "etc").mkdir(parents=True)
    (tmp_path / "host" / "etc" / "passwd").mkdir()
    assert places(layers(f"link:etc->{tmp_path}/host/etc")) == ["/etc"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes the marks of an overlay")
def test_what_a_layer_removed_is_gone(layers, tmp_path) -> None:
    """A whiteout hides what is below it, and an opaque folder all that the layers below have in it."""
    layers("dir:srv", "link:tmp->/x dir:dev link:dev/shm->/x")
    graph = {"Name": "overlay2", "Data": {"UpperDir": str(tmp_path / "0"), "LowerDir": str(tmp_path / "1")}}
    os.mknod(tmp_path / "0" / "tmp", 0o600 | 0o020000, os.makedev(0, 0))
    assert places(layers_on_disk(graph)) == ["/dev/shm"]  # noqa: S108  the image's own
    (tmp_path / "0" / "dev").mkdir()
    try:
        os.setxattr(tmp_path / "0" / "dev", "trusted.overlay.opaque", b"y")
    except OSError:
        pytest.skip("this file system keeps no such marks")
    assert places(layers_on_disk(graph)) == []


def test_long_files_are_refused() -> None:
    """An engine reads users line by line."""
    files = {
        "/etc": PathEntry(FileKind.FOLDER),
        "/etc/passwd": PathEntry(FileKind.FILE, mount_points.MAX_FILE_BYTES + 1),
    }
    assert places(files.get) == ["/etc/passwd"]


def test_other_ways_of_storing_are_not_read(tmp_path) -> None:
    """Then the engine is asked; so it is where this process may not read the layers."""
    assert layers_on_disk({"Name": "btrfs", "Data": None}) is None
    assert layers_on_disk({"Name": "overlay2", "Data": {"UpperDir": str(tmp_path / "gone")}}) is None
    assert layers_on_disk({}) is None


def test_programs_are_found_through_links(layers) -> None:
    """As a container would: links in the folders above are followed within the image, and loops end."""
    look = layers(
        "link:bin->usr/bin link:usr/bin/sh->/bin/../bin/dash link:a->/b/x link:b->a", "file:usr/bin/dash->#!/x"
    )
    files = file_checks.LayerFiles(look)
    assert files.file_entry("/bin/sh").target == "/bin/../bin/dash"
    assert files.file_entry("/bin/../bin/dash").kind is FileKind.FILE
    assert files.read_head("/bin/dash", 3) == b"#!/"
    assert files.file_entry("/usr/bin/nothing") is None
    assert files.file_entry("/a/x") is None
    assert files.read_head("/usr", 3) == b""


def test_layers_may_be_merged_from_anything() -> None:
    """A layer is what tells of paths: see `merged`."""
    upper = {"/dev": PathEntry(FileKind.OPAQUE)}
    lower = {"/dev": PathEntry(FileKind.FOLDER), "/dev/shm": PathEntry(FileKind.LINK)}  # noqa: S108
    assert merge_layers([upper.get, lower.get])("/dev/shm") is None  # noqa: S108
    assert merge_layers([upper.get, lower.get])("/dev").kind is FileKind.FOLDER
    assert merge_layers([lower.get])("/dev/shm").kind is FileKind.LINK  # noqa: S108


@pytest.mark.parametrize(
    "words",
    [
        "dir:srv",
        "dir:sbin",
        "link:sbin->usr/sbin dir:usr/sbin",
        "link:sbin->usr/bin dir:usr/bin",
        "link:sbin->usr/sbin link:usr/sbin->bin dir:usr/bin",
        "file:sbin/docker-init",
    ],
)
def test_programs_may_lie_in_merged_folders(layers, words) -> None:
    """`/sbin` may be missing, a folder, or lead to the folder with which a distribution merges it."""
    assert file_checks.init_program_problems(file_checks.LayerFiles(layers(words))) == []


@pytest.mark.parametrize(
    ("words", "place", "what"),
    [
        ("file:sbin", "/sbin", "is a file, and has to be a folder"),
        ("link:sbin->/sbin", "/sbin", "is a symbolic link that leads nowhere"),
        ("link:sbin->/gone", "/sbin", "is a symbolic link to /gone, which is not in the image"),
        ("link:sbin->/tmp dir:tmp", "/sbin", "leads to /tmp"),
        ("link:sbin->/proc dir:proc", "/sbin", "leads to /proc"),
        ("dir:sbin/docker-init", "/sbin/docker-init", "a folder, and has to be a file"),
        (
            "link:sbin->usr/sbin link:usr/sbin/docker-init->/x",
            "/usr/sbin/docker-init",
            "a symbolic link, and has to be",
        ),
    ],
)
def test_what_is_in_the_init_programs_way_is_refused(layers, words, place, what) -> None:
    """Docker mounts its init program below `/sbin`: what keeps it from there is named."""
    [problem] = file_checks.init_program_problems(file_checks.LayerFiles(layers(words)))
    assert (problem.place, problem.what[: len(what)]) == (place, what)


def config_of(**said) -> ImageConfig:
    """Returns a configuration that starts `run`, with what is said of it."""
    return ImageConfig(**{"command": ("run",), "folder": "/", "environment": {"PATH": "/usr/bin"}} | said)


def test_a_search_path_has_a_bounded_number_of_folders(layers) -> None:
    """A search path of 64 KiB has 20,000 folders, and each may lead through many links."""
    look = layers("file:usr/bin/run")
    most = ":".join(["/usr/bin"] * 100)
    [problem] = file_checks.judged(look, config_of(environment={"PATH": most}), "amd64")
    assert "may not be run by everybody" in problem.what
    [problem] = file_checks.judged(look, config_of(environment={"PATH": f"{most}:/bin"}), "amd64")
    assert (problem.place, problem.what) == ("PATH", "101 folders, at most 100")


def test_looking_ends_after_a_time(layers, monkeypatch) -> None:
    """Whatever an image's links lead through, and however deep its folders are."""
    look, seconds = layers("link:usr/bin->../s/s/s/bin link:s->. file:bin/run"), itertools.count(step=0.5)
    monkeypatch.setattr(file_checks.time, "monotonic", lambda: next(seconds))
    [problem] = file_checks.judged(look, config_of(), "amd64")
    assert "may not be run by everybody" in problem.what
    slow = config_of(environment={"PATH": ":".join(["/usr/bin"] * 20)})
    [problem] = file_checks.judged(look, slow, "amd64")
    assert "takes more than 60 s" in problem.what


def test_a_stored_layer_is_asked_once_for_each_path(layers, monkeypatch) -> None:
    """Asking again for each folder above took a layer of a thousand folders below one another half a million calls."""
    asked = []
    stored = mount_points._stored_entry
    monkeypatch.setattr(mount_points, "_stored_entry", lambda place: asked.append(place) or stored(place))
    look = layers("dir:x", f"file:{'d/' * 50}run")
    assert look(f"/{'d/' * 50}run").kind is FileKind.FILE
    assert look(f"/{'d/' * 50}walk") is None
    assert len(asked) == len(set(asked)) == 1 + 50 + 2
