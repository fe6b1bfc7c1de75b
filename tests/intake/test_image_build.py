"""From a folder to a recipe: what goes into the context, under which name, with which arguments and labels."""

import io
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from orchestrator import resources
from orchestrator.errors import Rejected, UsageError
from orchestrator.intake import image_build, source_tree
from orchestrator.intake.archive import ArchiveBounds
from orchestrator.intake.image_build import ImageBuildOptions

MANIFEST = (
    "sparring: 1\nname: entry\nside: attack\ncommand: [python, player.py]\nimage: team/entry\n"
    "licence: MIT\nsource: https://example.org/entry\ngpu: true\n"
)
DOCKERFILE = "ARG BASE=sparring/base-torch:cpu\nARG PIP_NO_INDEX\nFROM ${BASE}\nCOPY . /opt/player/\n"


@pytest.fixture
def entry(tmp_path) -> Path:
    """A submission's folder, with things in it that do not belong there."""
    folder = tmp_path / "entry"
    files = {
        "submission.yaml": MANIFEST,
        "Dockerfile": DOCKERFILE,
        "player.py": "print()\n",
        "data/a.bin": "a",
        "data/b.bin": "b",
        ".git/HEAD": "x",
        ".env": "SECRET=1",
        "__pycache__/player.pyc": "x",
        "entry.sparring.tar": "x",
        ".dockerignore": "data/*\n!data/b.bin\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def context(recipe) -> dict[str, tarfile.TarInfo]:
    """Returns the members of a recipe's context, by name."""
    with tarfile.open(fileobj=io.BytesIO(b"".join(recipe.context))) as tar:
        return {member.name: member for member in tar}


def test_the_context_is_the_folder_and_nothing_else(entry) -> None:
    """What .dockerignore names, what tools leave and where credentials lie stay out; ages and owners are fixed."""
    prepared = image_build.prepare_build(entry, ImageBuildOptions())
    members = context(prepared.recipe)
    assert list(members) == [".dockerignore", "Dockerfile", "data/b.bin", "player.py", "submission.yaml"]
    assert {(m.uid, m.gid, m.mtime, m.mode) for m in members.values()} == {(0, 0, image_build.CONTEXT_TIME, 0o644)}
    assert prepared.tree.left_out == (".env", ".git", "__pycache__", "entry.sparring.tar")


def test_the_same_folder_gives_the_same_context(entry) -> None:
    """Byte for byte, whatever the files' ages."""
    first = b"".join(image_build.prepare_build(entry, ImageBuildOptions()).recipe.context)
    os.utime(entry / "player.py", (1, 1))
    assert b"".join(image_build.prepare_build(entry, ImageBuildOptions()).recipe.context) == first


def test_the_recipe_says_what_it_stands_on(entry) -> None:
    """Name, base and arguments follow the flavour; arguments are given if declared; a network brings pip its index."""
    recipe = image_build.prepare_build(entry, ImageBuildOptions()).recipe
    assert (recipe.tag, recipe.bases, recipe.network) == ("team/entry:cpu", ("sparring/base-torch:cpu",), False)
    assert recipe.arguments == {"BASE": "sparring/base-torch:cpu", "PIP_NO_INDEX": "1"}
    cuda = image_build.prepare_build(entry, ImageBuildOptions("cuda", network=True)).recipe
    assert (cuda.tag, cuda.bases) == ("team/entry:cuda", ("sparring/base-torch:cuda",))
    assert cuda.arguments == {"BASE": "sparring/base-torch:cuda", "PIP_NO_INDEX": "0"}
    other = image_build.prepare_build(entry, ImageBuildOptions(tag="mine:7", base="sparring/base:cpu")).recipe
    assert (other.tag, other.bases) == ("mine:7", ("sparring/base:cpu",))


def test_labels_say_what_is_known(entry) -> None:
    """The labels of the Open Container Initiative, the manifest's version, and the digest of what it was built from."""
    labels = image_build.prepare_build(entry, ImageBuildOptions(revision="abc")).recipe.labels
    assert labels == {
        "org.opencontainers.image.title": "entry",
        "org.opencontainers.image.source": "https://example.org/entry",
        "org.opencontainers.image.licenses": "MIT",
        "org.opencontainers.image.revision": "abc",
        "sparring.manifest": "1",
        "sparring.source": source_tree.scan_folder(entry).digest,
    }
    (entry / "player.py").chmod(0o755)
    assert (
        image_build.prepare_build(entry, ImageBuildOptions()).recipe.labels["sparring.source"]
        != labels["sparring.source"]
    )


def test_all_problems_come_at_once(entry) -> None:
    """A bad manifest, a link and a bad Dockerfile are told together."""
    (entry / "submission.yaml").write_text("sparring: 2\n")
    (entry / "link").symlink_to("/etc")
    (entry / "Dockerfile").write_text("FROM x\nADD http://x /\n")
    os.mkfifo(entry / "pipe")
    with pytest.raises(Rejected) as caught:
        image_build.prepare_build(entry, ImageBuildOptions())
    text = str(caught.value)
    for what in ("sparring", "link: a symbolic link", "pipe: neither a file nor a folder", "line 2: ADD"):
        assert what in text


@pytest.mark.parametrize(
    ("edit", "wanted", "what"),
    [
        (("gpu: true", "gpu: false"), ImageBuildOptions("cuda"), "gpu: true"),
        (("image: team/entry", ""), ImageBuildOptions(), "has no `image:`"),
        (("", ""), ImageBuildOptions("tpu"), "no variant 'tpu'"),
    ],
)
def test_what_cannot_be_built_so_is_the_callers(entry, edit, wanted, what) -> None:
    """A flavour or a name that there is not is a mistake of whoever asks."""
    (entry / "submission.yaml").write_text(MANIFEST.replace(*edit))
    with pytest.raises(UsageError, match=what):
        image_build.prepare_build(entry, wanted)


def test_a_base_needs_its_argument(entry) -> None:
    """Without ARG BASE there is nothing that --base could set."""
    (entry / "Dockerfile").write_text("FROM sparring/base:cpu\n")
    with pytest.raises(UsageError, match="no `ARG BASE`"):
        image_build.prepare_build(entry, ImageBuildOptions(base="x"))


def test_strangers_stand_on_our_bases_only(entry) -> None:
    """Where organizers build, another image may be another team's: it is refused, with the way round."""
    assert image_build.untrusted_recipe(entry, "mine:1", cuda=False).bases == ("sparring/base-torch:cpu",)
    (entry / "Dockerfile").write_text("FROM sparring/attack-fgsm:cpu AS a\nFROM sparring/base:cpu\nCOPY --from=a / /\n")
    with pytest.raises(Rejected, match="attack-fgsm:cpu is not an allowed base image; begin with FROM sparring/base"):
        image_build.untrusted_recipe(entry, "mine:1", cuda=False)


def test_what_is_too_much_is_refused(entry) -> None:
    """Bytes and files of a folder are bounded."""
    for bounds in (ArchiveBounds(source=10), ArchiveBounds(members=2)):
        with pytest.raises(Rejected, match="leave out what playing does not need"):
            source_tree.scan_folder(entry, bounds)


@pytest.mark.parametrize("edit", [lambda path: path.write_text("longer than before"), lambda path: path.write_text("")])
def test_a_file_that_changes_meanwhile_is_noticed(entry, edit) -> None:
    """A file that grows or shrinks after the folder was looked at is refused, not cut or padded."""
    tree = source_tree.scan_folder(entry)
    edit(entry / "player.py")
    with pytest.raises(Rejected, match="changed while it was read"):
        list(source_tree.tar_members(tree, tree.files, "", 0))


def test_wheels_that_are_missing_are_guessed(entry) -> None:
    """A lock file without wheels beside it is what most builds without a network fail for."""
    assert image_build.missing_wheels_problem(entry) is None
    (entry / "requirements.lock").write_text("foolbox==3\n")
    assert "no wheels/" in image_build.missing_wheels_problem(entry)[0]
    (entry / "wheels").mkdir()
    assert image_build.missing_wheels_problem(entry) is None


def test_a_copy_takes_no_shipped_images_name(tmp_path):
    """The folder that is shipped builds its image; a copy of it has to be called something else."""
    original = resources.resource_path("images", "defence_undefended")
    copy = tmp_path / "copy"
    shutil.copytree(original, copy)
    name = "sparring/defence-undefended"
    assert image_build.prepare_build(original, ImageBuildOptions()).recipe.tag == f"{name}:cpu"
    for tag in ("", f"{name}:cpu", f"{name}:mine"):
        with pytest.raises(Rejected, match=f"{name}:.* is already the image of {original}, a folder"):
            image_build.prepare_build(copy, ImageBuildOptions(tag=tag))
    assert image_build.prepare_build(copy, ImageBuildOptions(tag="mine/undefended")).recipe.tag == "mine/undefended:cpu"
