"""A cluster's images: admitted from a registry in the words in which the docker backend admits them."""

import io
import secrets
import tarfile
from contextlib import suppress

import docker
import pytest
from docker.errors import APIError, DockerException

from orchestrator.domain.policy import SandboxPolicy
from orchestrator.errors import BackendUnavailable, Rejected, UsageError
from orchestrator.executors.kubernetes.registry_backend import CLEARED_VARIABLES, RegistryBackend
from orchestrator.executors.kubernetes.settings import ClusterSettings
from orchestrator.oci.credentials import Credentials
from orchestrator.oci.resolver import ImageResolver
from orchestrator.sandboxes.base import BackendSettings, CheckStatus, Image, ImageSource, SandboxSpec
from orchestrator.sandboxes.docker.backend import DockerBackend
from tests.oci.fake_registry import RUN, Answer, folder, link, member

HEX = "ab" * 32
DIGEST = f"sha256:{HEX}"


def settings(**more) -> ClusterSettings:
    """Returns a contest file's `cluster:`."""
    return ClusterSettings(**more)


@pytest.fixture
def backend(registry, ask) -> RegistryBackend:
    """The backend of a cluster whose images lie in that registry."""
    return RegistryBackend(settings(registry=f"{registry.host}/teams"), registries=ask)


def problems(admit, reference: str) -> list[str]:
    """Returns why an image is refused, none when it is admitted."""
    try:
        admit(ImageSource(image=reference))
    except Rejected as error:
        return [str(problem) for problem in error.problems]
    return []


def test_an_image_is_admitted_by_the_digest_of_its_manifest(registry, backend):
    """Digest, command, what a node pulls, and which of its variables a player does not get."""
    config = {**RUN, "Env": ["PATH=/usr/bin", "LD_PRELOAD=/evil.so", "MODEL=x"]}
    digest = registry.put("teams/red/entry", "1", registry.playable(config))
    image = backend.admit(ImageSource(image="red/entry:1"))
    assert (image.digest, image.name, image.command) == (digest, "red/entry:1", ("python3", "player.py"))
    assert image.reference == f"{registry.host}/teams/red/entry@{digest}"
    assert image.unset_variables == ("LD_PRELOAD",)
    assert backend.admit(ImageSource(image=f"{registry.host}/teams/red/entry@{digest}")).digest == digest


def test_a_tag_that_moves_is_another_image(registry, backend):
    """The digest is of what the tag means now."""
    registry.put("teams/entry", "1", registry.playable(RUN))
    before = backend.admit(ImageSource(image="entry:1"))
    registry.put("teams/entry", "1", registry.playable({**RUN, "Cmd": ["other.py"]}))
    after = backend.admit(ImageSource(image="entry:1"))
    assert before.digest != after.digest
    assert after.command == ("python3", "other.py")


@pytest.mark.parametrize(
    ("config", "places"),
    [
        ({}, ["ENTRYPOINT"]),
        ({**RUN, "Volumes": {"/data": {}}, "OnBuild": ["RUN x"]}, ["VOLUME", "ONBUILD"]),
        ({**RUN, "Healthcheck": {"Test": ["CMD", "x"]}}, ["HEALTHCHECK"]),
        ({**RUN, "Healthcheck": {"Test": ["NONE"]}}, []),
        ({**RUN, "Labels": {"sparring.owner": "1:2"}}, ["LABEL"]),
        ({**RUN, "WorkingDir": "/proc/self/fd/8"}, ["WORKDIR"]),
        ({**RUN, "Cmd": ["a\0b"]}, ["ENTRYPOINT"]),
        ({**RUN, "Env": ["A=1", "=2"]}, ["ENV"]),
        ({**RUN, "Cmd": ["x"] * 300}, ["ENTRYPOINT"]),
    ],
)
def test_what_an_image_may_not_say_is_refused_by_name(config, places, registry, backend):
    """The same configurations are refused as anywhere, all problems at once."""
    registry.put("teams/entry", "1", registry.playable(config))
    assert [text.partition(":")[0] for text in problems(backend.admit, "entry:1")] == places


def test_an_image_of_another_platform_is_refused(registry, backend):
    """A configuration for another architecture is refused even where its manifest came without a platform."""
    registry.put("teams/entry", "1", registry.playable(RUN, architecture="arm64"))
    assert "made for arm64" in problems(backend.admit, "entry:1")[0]


def test_a_huge_image_is_refused(registry, backend):
    """The sum of its layers is bounded, as they lie in the registry."""
    image = registry.playable(RUN)
    registry.put("teams/entry", "1", {**image, "layers": [{**image["layers"][0], "size": 21 * 1024**3}]})
    assert problems(backend.admit, "entry:1")[0].startswith("size: 22548578304 bytes")


@pytest.mark.parametrize("reference", ["missing:1", "Upper:1", "a b", DIGEST, "entry@sha256:12", "x" * 300])
def test_what_is_not_there_is_refused_with_a_remedy(reference, backend):
    """Another name, none, or an engine's id: each is a problem with what to do about it."""
    with pytest.raises(Rejected) as caught:
        backend.admit(ImageSource(image=reference))
    assert all(problem.remedy for problem in caught.value.problems)


def test_a_folder_is_no_image(backend, tmp_path):
    """A cluster starts images; what has only a folder is to be built and pushed."""
    with pytest.raises(Rejected, match="docker push"):
        backend.admit(ImageSource(folder=tmp_path, command=("python3", "player.py")))


def test_a_registry_that_is_away_is_no_fault_of_an_image(registry, backend):
    """A registry that does not answer is ours: nothing is refused, and nothing is played."""
    registry.odd = lambda _: Answer(503)
    with pytest.raises(BackendUnavailable):
        backend.admit(ImageSource(image="entry:1"))
    with pytest.raises(BackendUnavailable, match="503"):
        backend.require_available()
    assert [found.status for found in backend.diagnose()] == [CheckStatus.FAIL]


@pytest.mark.parametrize("code", [200, 401, 404])
def test_a_registry_that_answers_is_there(code, registry, backend):
    """Whether it knows us is seen when an image is asked for."""
    registry.odd = lambda _: Answer(code)
    backend.require_available()
    assert [found.status for found in backend.diagnose()] == [CheckStatus.OK]
    assert registry.asked[0].path == "/v2/"


def test_looking_into_an_image_tells_what_its_registry_knows(registry, backend):
    """Sizes are those of the layers as they lie there; files are not looked at, and that is said."""
    config = {**RUN, "User": "0", "Labels": {"a": "b"}, "ExposedPorts": {"80/tcp": {}}, "Volumes": {"/data": {}}}
    digest = registry.put("teams/entry", "1", registry.image({**config, "Env": ["A=1", "LD_PRELOAD=x"]}, layers=3))
    facts = backend.inspect_image("entry:1")
    assert (facts.image_id, facts.size, facts.layers) == (digest, 21, (7, 7, 7))
    assert (facts.entrypoint, facts.command, facts.folder, facts.user) == (("python3",), ("player.py",), "/player", "0")
    assert (facts.labels, facts.ports, facts.volumes) == ({"a": "b"}, ("80/tcp",), ("/data",))
    assert facts.passed_variables == {"A"}
    assert [problem.place for problem in facts.problems] == ["VOLUME"]
    assert facts.tree is not None
    assert facts.tree.cut_reason
    assert backend.inspect_image("entry:1", files=False).tree is None
    assert "size" in [problem.place for problem in backend.inspect_image("entry:1", max_bytes=20).problems]
    with pytest.raises(UsageError, match="404"):
        backend.inspect_image("missing:1")
    registry.put("teams/chart", "1", {"schemaVersion": 2, "config": {}})
    with pytest.raises(Rejected):
        backend.inspect_image("chart:1")


def test_without_a_registry_digest_and_command_have_to_be_given(ask, registry):
    """Images that were loaded onto the nodes are named by digest, and started as their manifest says."""
    backend = RegistryBackend(settings(registry="none"), registries=ask)
    image = backend.admit(ImageSource(image=f"red/entry:1@{DIGEST}", command=("python3", "player.py")))
    assert (image.digest, image.command, image.unset_variables) == (DIGEST, ("python3", "player.py"), CLEARED_VARIABLES)
    assert image.reference == f"docker.io/red/entry@{DIGEST}"
    found = problems(backend.admit, "red/entry:1")
    assert [text.partition(":")[0] for text in found] == ["image", "command"]
    assert problems(backend.admit, "A B")[0].startswith("image")
    with pytest.raises(Rejected, match="the image's own command cannot be looked up"):
        backend.admit(ImageSource(image=f"red/entry@{DIGEST}", command=("a\0",)))
    with pytest.raises(UsageError, match="none"):
        backend.inspect_image("red/entry")
    backend.require_available()
    assert [found.status for found in backend.diagnose()] == [CheckStatus.OK]
    assert registry.asked == []


def test_nothing_is_built_or_started_here(backend):
    """Players start in pods, and images are made where an engine is."""
    with pytest.raises(UsageError, match="push"):
        backend.image_store()
    with pytest.raises(UsageError, match="in pods"):
        backend.start(SandboxSpec(Image(DIGEST, "entry"), SandboxPolicy(), "run-1", "job-1"))


def test_sweeping_is_handed_on(ask):
    """What dead rounds left on the cluster is removed by whoever knows the cluster."""
    heard = []

    def sweep(*, spare_run=None, ended_run=None):
        heard.append((spare_run, ended_run))
        return 3

    backend = RegistryBackend(settings(), sweep, ask)
    assert backend.clean_up(spare_run="run-1") == 3
    assert backend.clean_up(ended_run="run-2") == 3
    assert heard == [("run-1", None), (None, "run-2")]
    assert RegistryBackend(settings(), registries=ask).clean_up() == 0


@pytest.fixture(scope="module")
def engine(require):
    """The Docker engine, to push from."""
    try:
        client = docker.from_env()
        client.ping()
    except DockerException as error:
        require("docker", f"no engine answers: {error}")
    yield client
    client.close()


@pytest.fixture
def pushed(engine, registry):
    """Returns a function that makes an image of one small file with these instructions, pushes it, and names it."""
    names = []

    def make(*changes: str, more: tuple[tarfile.TarInfo, ...] = ()) -> str:
        name = f"{registry.host}/teams/entry-{secrets.token_hex(4)}"
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            usual = map(member, ("player.py", "usr/bin/python3", "bin/sh", "x"))
            for each in ({made.name: made for made in usual} | {made.name: made for made in more}).values():
                archive.addfile(each)
        engine.api.import_image_from_data(packed.getvalue(), repository=name, tag="1", changes=list(changes))
        names.append(f"{name}:1")
        said = engine.api.push(name, tag="1", stream=True, decode=True)
        assert not [line for line in said if "error" in line]
        return f"{name}:1"

    yield make
    for name in names:
        with suppress(APIError):
            engine.images.remove(name, force=True)


@pytest.mark.docker
@pytest.mark.parametrize(
    ("changes", "places"),
    [
        (['ENTRYPOINT ["python3"]', 'CMD ["player.py"]', "WORKDIR /player", "ENV A=1 LD_PRELOAD=x", "LABEL a=b"], []),
        (["CMD python3 player.py"], []),
        ([], ["ENTRYPOINT"]),
        (
            ['CMD ["x"]', "VOLUME /data", "ONBUILD RUN x", "HEALTHCHECK CMD true", "LABEL sparring.run=x"],
            ["VOLUME", "HEALTHCHECK", "ONBUILD", "LABEL"],
        ),
        (['CMD ["/x"]', "WORKDIR /proc/self", "HEALTHCHECK NONE", "EXPOSE 80", "USER 12"], ["WORKDIR"]),
    ],
    ids=["plain", "shell", "empty", "refused", "odd"],
)
def test_what_an_engine_pushed_is_judged_as_the_engine_judges_it(
    changes, places, pushed, registry, backend, engine, tmp_path
):
    """The same image, from its registry and from the engine: one digest, one command, the same problems."""
    name = pushed(*changes)
    here = DockerBackend(BackendSettings(tmp_path))
    found = problems(backend.admit, name)
    assert problems(here.admit, name) == found
    assert [text.partition(":")[0] for text in found] == places
    there, own = backend.inspect_image(name), here.inspect_image(name, files=False)
    assert engine.images.get(name).attrs["RepoDigests"] == [f"{name.removesuffix(':1')}@{there.image_id}"]
    same = ("user", "entrypoint", "command", "folder", "volumes", "ports", "healthcheck", "on_build", "labels")
    assert {key: getattr(there, key) for key in same} == {key: getattr(own, key) for key in same}
    assert (there.environment, there.passed_variables, there.problems) == (
        own.environment,
        own.passed_variables,
        own.problems,
    )
    if not found:
        assert backend.admit(ImageSource(image=name)).command == here.admit(ImageSource(image=name)).command


@pytest.mark.docker
@pytest.mark.parametrize(
    ("more", "place"),
    [
        ([link("io", "/var/tmp")], "/io"),  # noqa: S108  the image's own
        ([link("tmp", "/var/tmp")], "/tmp"),  # noqa: S108
        ([member("sys")], "/sys"),
        ([folder("etc/passwd")], "/etc/passwd"),
        ([link("srv", "/"), member("srv2", tarfile.LNKTYPE, "srv"), member("run", tarfile.LNKTYPE, "srv2")], "/run"),
        ([link("player", "/srv")], "WORKDIR"),
        ([member("player.py", mode=0o644)], "ENTRYPOINT"),
        ([member("player.py", tarfile.FIFOTYPE)], "ENTRYPOINT"),
        ([link("loop", "loop"), link("player.py", "loop/x")], "ENTRYPOINT"),
        ([folder("io"), folder("tmp")], ""),
    ],
)
def test_files_are_judged_as_the_engine_judges_them(more, place, pushed, backend, tmp_path):
    """Item 28: what lies in an image, by its packed layers in a registry and by the engine's folders: word for word."""
    name = pushed('ENTRYPOINT ["/player.py"]', "WORKDIR /player", more=tuple(more))
    found = problems(backend.admit, name)
    assert problems(DockerBackend(BackendSettings(tmp_path)).admit, name) == found
    assert [text.partition(":")[0] for text in found] == ([place] if place else [])


@pytest.mark.docker
def test_what_is_admitted_can_be_pulled(pushed, backend, engine, tmp_path):
    """The reference in an admitted image is one that a runtime pulls, and what comes is that image."""
    name = pushed('CMD ["/player.py"]')
    before = engine.images.get(name).id
    image = backend.admit(ImageSource(image=name))
    engine.images.remove(name, force=True)
    assert engine.images.pull(image.reference).id == before
    engine.images.remove(image.reference, force=True)


@pytest.mark.docker
def test_a_private_registry_is_asked_as_the_engine_asks_it(engine, registry, tmp_path):
    """A login that opens the registry to the engine opens it to us, by token and by name and password."""
    registry.users = {"me": "secret"}
    for registry.basic in (True, False):
        said = engine.api.login("me", "secret", registry=registry.host, reauth=True)
        assert said["Status"] == "Login Succeeded"
    registry.put("entry", "1", registry.playable(RUN))
    known = Credentials(None, {registry.host: ("me", "secret")})
    asking = ImageResolver([registry.host], lambda: known)
    backend = RegistryBackend(settings(registry=registry.host), registries=asking)
    assert backend.admit(ImageSource(image="entry:1")).command == ("python3", "player.py")
