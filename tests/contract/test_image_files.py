"""Images whose files are in the way of a sandbox, tried on a real engine: refused by name, and never our fault."""

import io
import tarfile
from contextlib import suppress

import pytest
from docker.errors import APIError

from orchestrator.errors import AmbiguousExit, Rejected
from orchestrator.sandboxes.base import Ending, Image, ImageSource, SandboxSpec
from orchestrator.sandboxes.docker.images.engine_images import inspection_labels
from orchestrator.sandboxes.image_files import mount_points

from .conftest import BASE

pytestmark = [pytest.mark.docker, pytest.mark.parametrize("backend", ["docker"], indirect=True, scope="module")]

LOOP = "loop"
MISPLACED = {
    "/tmp": ("link", "file"),  # noqa: S108  the image's own
    "/dev": ("link", "file"),
    "/dev/shm": ("link", "file"),  # noqa: S108
    "/dev/pts": ("link",),
    "/dev/mqueue": ("link",),
    "/sys": ("link", "file"),
    "/sys/fs/cgroup": ("link",),
    "/proc": ("link", "file"),
    "/run": ("link",),
    "/io": ("link", "file"),
    "/etc": ("link",),
    "/etc/passwd": ("folder", "pipe", LOOP, "long"),
    "/etc/group": ("folder",),
    "/etc/hosts": ("folder", "link"),
    "/usr/sbin/docker-init": ("folder", "link"),
}
"""What an image has where a folder or a file has to be."""
OTHER_MACHINE = (
    "RUN python3 -c \"b = bytearray(open('/bin/true', 'rb').read()); b[18:20] = bytes((183, 0)); "
    "open('/p', 'wb').write(b)\" && chmod 755 /p\n"
)
REPLACED = ("/dev", "/proc", "/sys", "/etc/hosts", "/etc")
"""What an engine makes anew in every container below these, so that who only sees containers sees nothing of it."""


@pytest.fixture(scope="module")
def make(engine, test_image):
    """Makes an image of ours with more in it, of one member of a tar and lines of a Dockerfile; returns its id."""
    made = []

    def image(path: str = "", what: str = "", lines: str = "") -> str:
        # What all of them share comes first: the engine has those steps from the one before.
        recipe = f'FROM {test_image}\nUSER 0\nCMD ["python3", "-c", "import sys; sys.stdin.read()"]\n{lines}'
        if path:
            recipe += "ADD more.tar /\n"
        context = tar(
            [("Dockerfile", "file", recipe.encode()), *([("more.tar", "file", more(path, what))] if path else [])]
        )
        found, _ = engine.images.build(fileobj=io.BytesIO(context), custom_context=True, network_mode="none", rm=True)
        made.append(found.id)
        return str(found.id)

    yield image
    for identity in reversed(made):
        with suppress(APIError):  # another stands on it, as the builder's cache has it
            engine.images.remove(identity, force=True)


def more(path: str, what: str) -> bytes:
    """Returns a tar with one thing at a path."""
    name = path.lstrip("/")
    content = b"x" * (2 * mount_points.MAX_FILE_BYTES) if what == "long" else name.encode()
    kind = {LOOP: "link", "long": "file"}.get(what, what)
    return tar([(name, kind, path.encode() if what == LOOP else content if kind == "file" else b"/var/tmp")])


def tar(members) -> bytes:
    """Returns a tar of (name, kind, content or target)."""
    held = io.BytesIO()
    kinds = {"link": tarfile.SYMTYPE, "folder": tarfile.DIRTYPE, "pipe": tarfile.FIFOTYPE, "file": tarfile.REGTYPE}
    with tarfile.open(fileobj=held, mode="w") as archive:
        for name, kind, content in members:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = kinds[kind], 0o755
            if kind == "link":
                entry.linkname = content.decode()
            if kind == "file":
                entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return held.getvalue()


@pytest.mark.parametrize(("path", "what"), [(path, what) for path, whats in MISPLACED.items() for what in whats])
def test_what_is_in_the_way_is_refused(backend, make, monkeypatch, path, what):
    """Admission names the path and what is there; also where it may not read layers, as far as it shows."""
    identity = make(path, what)
    with pytest.raises(Rejected) as caught:
        backend.admit(ImageSource(image=identity))
    [problem] = caught.value.problems
    assert problem.place == path
    assert {"link": "link", LOOP: "link", "pipe": "neither"}.get(what, "") in problem.what
    assert backend.inspect_image(identity).problems == (problem,)
    monkeypatch.setattr(mount_points, "layers_on_disk", lambda _graph: None)
    if not (path.startswith(REPLACED[:-1]) or path in REPLACED or what == "pipe"):
        with pytest.raises(Rejected, match=path):
            backend.admit(ImageSource(image=identity))


def test_ordinary_images_are_admitted(backend, make):
    """Our base passes, and an image that has a folder where one is mounted and a users' file of its own."""
    assert backend.admit(ImageSource(image=BASE)).digest
    assert backend.admit(ImageSource(image=make("/io", "folder"))).digest
    assert backend.admit(ImageSource(image=make("/etc/passwd", "file"))).digest


@pytest.mark.parametrize(
    ("lines", "command", "place", "words"),
    [
        ("", '["/etc"]', "ENTRYPOINT", "/etc is a folder, not a program"),
        ("", '["/no/such"]', "ENTRYPOINT", "/no/such is not in the image"),
        ("", '["no-such"]', "ENTRYPOINT", "no-such is in no folder of PATH"),
        ("", '["/etc/passwd"]', "ENTRYPOINT", "may not be run by everybody"),
        ("RUN ln -s /gone /p\n", '["/p"]', "ENTRYPOINT", "/p is a symbolic link to /gone, which is not in the image"),
        (
            "RUN printf '#!/no/interpreter -x\\n' >/p && chmod 755 /p\n",
            '["/p"]',
            "ENTRYPOINT",
            "/p needs /no/interpreter",
        ),
        (
            OTHER_MACHINE,
            '["/p"]',
            "ENTRYPOINT",
            "/p is made for arm64, this engine runs amd64",
        ),
        ("RUN mkdir /real && ln -s /real /player\nWORKDIR /player\n", "", "WORKDIR", "/player is a symbolic link"),
    ],
)
def test_what_cannot_be_started_is_named(backend, engine, make, lines, command, place, words):
    """A folder, a missing program or interpreter, another architecture, a linked working directory: each is said."""
    base = make(lines=lines)
    if command:
        context = tar([("Dockerfile", "file", f"FROM {base}\nCMD {command}\n".encode())])
        base = engine.images.build(fileobj=io.BytesIO(context), custom_context=True, rm=True)[0].id
    with pytest.raises(Rejected) as caught:
        backend.admit(ImageSource(image=base))
    assert [problem.place for problem in caught.value.problems] == [place]
    assert words in caught.value.problems[0].what


@pytest.mark.parametrize(
    ("path", "what"),
    [("/tmp", "link"), ("/etc/passwd", "folder"), ("/etc/passwd", LOOP)],  # noqa: S108
)
def test_a_sandbox_that_only_this_image_spoils_is_its_own(backend, make, engine, run, policy, path, what):
    """Where an image gets past admission, a known image shows whose doing it is: no fault of ours."""
    sandbox_spec = SandboxSpec(Image(make(path, what), "spoilt", ("python3",)), policy, run, "job")
    sandbox = backend.start(sandbox_spec)
    with pytest.raises(AmbiguousExit, match="other images start as they should"):
        sandbox.receive(0)
    assert sandbox.stop().ending is Ending.LOST
    assert engine.containers.list(all=True, filters={"label": f"sparring.run={run}"}) == []


@pytest.mark.parametrize(
    "lines",
    [
        "RUN rm -rf /sbin && ln -s usr/bin /sbin\n",
        "RUN rm -rf /sbin /usr/sbin && ln -s bin /usr/sbin && ln -s usr/sbin /sbin\n",
    ],
)
def test_an_image_with_merged_folders_plays(backend, make, run, policy, lines):
    """Distributions merge `/sbin` with other folders: the engine's init program may be mounted in any of them."""
    image = backend.admit(ImageSource(image=make(lines=lines)))
    sandbox = backend.start(SandboxSpec(image, policy, run, "job"))
    assert sandbox.stop().ending is Ending.STOPPED


def test_looking_leaves_nothing_behind(backend, make, engine):
    """A container that was looked at is gone, whatever was found."""
    backend.admit(ImageSource(image=make("/srv", "folder")))
    with pytest.raises(Rejected):
        backend.admit(ImageSource(image=make("/run", "link")))
    # Other processes look at images of theirs meanwhile.
    ours = [f"{name}={value}" for name, value in inspection_labels().items()]
    assert engine.containers.list(all=True, filters={"label": ours}) == []
