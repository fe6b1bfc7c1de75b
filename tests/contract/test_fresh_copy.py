"""The docker backend copies an image's files: the same content under other inodes, removed when it is done with."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from orchestrator.errors import InfrastructureFault
from orchestrator.sandboxes.base import SandboxSpec
from orchestrator.sandboxes.docker.engine import DockerEngine
from orchestrator.sandboxes.docker.images import image_copy

pytestmark = [pytest.mark.docker, pytest.mark.parametrize("backend", ["docker"], indirect=True, scope="module")]

LOOK = """
import hashlib, os, sys
told = hashlib.sha256()
for root, folders, files in os.walk("/usr/lib/python3"):
    folders.sort()
    for name in sorted(files):
        path = os.path.join(root, name)
        found = os.lstat(path)
        told.update(f"{path} {oct(found.st_mode)} {found.st_uid} {found.st_size} {int(found.st_mtime)}".encode())
        told.update(open(path, "rb").read() if os.path.isfile(path) else b"")
print(told.hexdigest(), os.environ["PATH"], os.getcwd())
"""
"""Prints a digest of some files, what they are and what is in them, and what comes from the configuration."""
STORE = """
import os, sys
for number in range(300):
    os.path.exists(f"/usr/{sys.argv[1]}-{number}")
"""
COUNT = """
import os, sys
file = os.open("/proc/sys/fs/dentry-state", os.O_RDONLY)
count = lambda: int(os.pread(file, 100, 0).split()[0])
known = 0
for number in range(300):
    before = count()
    os.path.exists(f"/usr/{sys.argv[1]}-{number}")
    known += count() - before == 1
print(known)
"""


def says(backend, image, run, program, *words, policy=None) -> str:
    """Returns what a Python program prints in a sandbox of an image."""
    sandbox = backend.start(SandboxSpec(replace(image, command=("python3", "-c", program, *words)), policy, run, "job"))
    until, heard = time.monotonic() + 60, b""
    while data := sandbox.receive(until):
        heard += data
    end = sandbox.stop()
    assert end.code == 0, end.stderr
    return heard.decode()


def test_a_copy_is_the_same_to_a_player_and_new_to_the_kernel(backend, image, engine, run, policy):
    """Files and surroundings are the same; names that the kernel knows of the image it does not know of the copy."""
    bare = replace(policy, masked_proc=False)  # the counter is masked otherwise
    copied = backend.fresh_copy(image, run)
    try:
        assert copied.digest != image.digest
        pair = [says(backend, each, run, LOOK, policy=policy) for each in (image, copied)]
        assert pair[0] == pair[1]
        says(backend, image, run, STORE, run, policy=bare)
        known = {each.digest: int(says(backend, each, run, COUNT, run, policy=bare)) for each in (image, copied)}
        assert known[image.digest] > known[copied.digest] + 75
    finally:
        copied.rollback()
    assert not engine.images.list(filters={"label": f"sparring.run={run}"}, all=True)
    assert engine.containers.list(all=True, filters={"label": f"sparring.run={run}"}) == []


def test_a_copy_that_was_left_is_swept(backend, image, engine, run):
    """The sweep of the run removes it, that of another one does not."""
    copied = backend.fresh_copy(image, run)
    backend.clean_up(ended_run="another run")
    assert engine.images.get(copied.digest)
    backend.clean_up(ended_run=run)
    assert not engine.images.list(filters={"label": f"sparring.run={run}"}, all=True)


def test_an_image_with_a_name_is_never_taken_for_a_copy(backend):
    """A stranger's image may bear our labels; only what has no name is looked at."""

    class Labelled:
        """An engine with two images that bear the label."""

        def nameless_images(self, label):
            """Returns them."""
            return [
                {"Id": "sha256:named", "RepoTags": ["team/entry:1"], "Labels": {label: "run"}},
                {"Id": "sha256:copy", "RepoTags": ["<none>:<none>"], "Labels": {label: "run"}},
                {"Id": "sha256:other", "RepoTags": None, "Labels": None},
            ]

    assert list(image_copy.find_copies(Labelled(), "sparring.run")) == [
        ("sha256:copy", {"sparring.run": "run"}),
        ("sha256:other", {}),
    ]


def test_many_remove_a_copy_at_a_time(backend, image, run):
    """Nobody is told of a failure, and it is gone."""
    copied, engine = backend.fresh_copy(image, run), DockerEngine()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: image_copy.remove_copy(engine, copied.digest), range(8)))
    assert engine.image(copied.digest) is None


def test_a_full_disk_is_ours(backend, image, run, monkeypatch):
    """Without room for it, and for what stays free besides, no copy is begun: a fault of ours, with the remedy."""
    monkeypatch.setattr(image_copy, "MIN_FREE_BYTES", 2**60)
    with pytest.raises(InfrastructureFault, match=r"bytes free; .* free space"):
        backend.fresh_copy(image, run)


def test_labels_are_plain_words(backend):
    """What would end a label's line is refused before anything is sent."""
    with pytest.raises(ValueError, match="no label"):
        image_copy._import_files(DockerEngine(), iter(()), {"run": "a\nCMD harm"})
