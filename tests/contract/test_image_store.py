"""What a workshop owes (orchestrator/sandboxes/base.py): images built, brought in and taken out, as they should be."""

import hashlib
import io
import json
import secrets
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping

import pytest
from docker.errors import ImageNotFound

from orchestrator import plugins
from orchestrator.errors import Rejected, UsageError
from orchestrator.intake import package_writer
from orchestrator.sandboxes.base import BackendSettings, BuildRequest, ImageLayer, ImageSource, ImageStore
from tests.engine_images import has_image

DOCKER = pytest.mark.parametrize(
    "backend", [pytest.param("docker", marks=pytest.mark.docker)], indirect=True, scope="module"
)


def context(dockerfile: str, **files: bytes) -> Iterator[bytes]:
    """Yields a build's context."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, content in {"Dockerfile": dockerfile.encode(), **files}.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            tar.addfile(entry, io.BytesIO(content))
    yield made.getvalue()


@pytest.fixture
def workshop(backend) -> ImageStore:
    """The backend's workshop."""
    return backend.image_store()


@pytest.fixture
def tag(workshop, engine) -> Iterator[str]:
    """A name that no image has yet; afterwards none has it again."""
    name = f"sparring-test/workshop:{secrets.token_hex(8)}"
    yield name
    workshop.untag(name)
    assert not has_image(engine, name)


@pytest.fixture
def build(workshop, tag, test_image) -> Callable[..., tuple[str, list[str]]]:
    """Returns a function that builds an image of these lines, and gives its id and what was heard."""

    def build(lines: str, *, bases: tuple[str, ...] = (), **more) -> tuple[str, list[str]]:
        heard: list[str] = []
        recipe = BuildRequest(context(f"FROM {test_image}\n{lines}"), tag, bases or (test_image,), **more)
        return workshop.build(recipe, heard.append), heard

    return build


@pytest.mark.parametrize("name", plugins.plugin_names("sandboxes"))
def test_a_backend_without_images_says_so(name, tmp_path) -> None:
    """A workshop is given, or the caller is told to use a backend that has one."""
    made = plugins.load_plugin("sandboxes", name)(BackendSettings(tmp_path))
    if name in {"docker", "runc"}:
        assert callable(made.image_store().build)
        return
    with pytest.raises(UsageError, match="--backend docker"):
        made.image_store()


@DOCKER
def test_an_image_is_built_and_named(build, engine, tag) -> None:
    """The id is that of the tag; labels and arguments arrive; what the builder says is heard line by line."""
    identity, heard = build(
        "ARG WORD\nRUN echo said $WORD\n", arguments={"WORD": secrets.token_hex(4)}, labels={"sparring.source": "x"}
    )
    image = engine.images.get(tag)
    assert image.id == identity
    assert image.labels["sparring.source"] == "x"
    assert any(line.startswith("said ") for line in heard)
    assert all(line.isprintable() for line in heard)


@DOCKER
def test_a_step_has_no_network_and_few_processes(build) -> None:
    """There is only a loopback, also for root; and the kernel refuses the six hundredth process."""
    many = "import subprocess; [subprocess.Popen(['sleep', '5']) for each in range(600)]"
    _, heard = build(f'USER 0\nRUN : {secrets.token_hex(4)}; ls /sys/class/net; python3 -c "{many}" || echo stopped\n')
    assert "lo" in heard
    assert not any(line.startswith("eth") for line in heard)
    assert "stopped" in heard


@DOCKER
def test_the_operators_proxies_and_passwords_are_not_sent(build, monkeypatch, tmp_path) -> None:
    """A build sees nothing of the operator's client configuration."""
    proxies = {"default": {"httpProxy": "http://u:hunter2@proxy"}}
    (tmp_path / "config.json").write_text(json.dumps({"proxies": proxies}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    _, heard = build(f"RUN : {secrets.token_hex(4)}; env\n")
    assert "hunter2" not in "\n".join(heard)


@DOCKER
@pytest.mark.parametrize(
    ("lines", "what"),
    [("RUN echo last words; exit 7", "returned a non-zero code: 7"), ("NONSENSE", "unknown instruction")],
)
def test_a_failing_step_is_the_submissions(build, engine, tag, lines, what) -> None:
    """A step that fails, or a line that is none, is refused with the builder's reason, and nothing is tagged."""
    with pytest.raises(Rejected, match=what):
        build(lines)
    assert not has_image(engine, tag)


@DOCKER
def test_nothing_is_pulled(workshop, tag, build) -> None:
    """A base that is not here is refused, and so is one whose name is none."""
    for base in ("sparring-test/there-is-none:1", "../images/x"):
        with pytest.raises(Rejected, match="is not here, and nothing is pulled"):
            build("", bases=(base,))


@DOCKER
@pytest.mark.parametrize(("variant", "option"), [("cpu", ""), ("cuda", "--cuda ")])
def test_a_missing_base_is_told_with_what_builds_it(workshop, tag, build, variant, option) -> None:
    """The bases with CUDA are built by an option of the same command."""
    with pytest.raises(Rejected, match=f"`sparring image build {option}base` builds ours"):
        build("", bases=(f"sparring-test/there-is-none:{variant}",))


@DOCKER
@pytest.mark.parametrize("step", ["sleep 60", "while true; do echo x; done"])
def test_a_build_that_takes_too_long_is_ended(build, population, engine, step) -> None:
    """Silent or talking, it is over soon after its time, and its container is gone."""
    token = f"token-{secrets.token_hex(8)}"
    begun = time.monotonic()
    with pytest.raises(Rejected, match="it took more than 2 s"):
        build(f"RUN sh -c '{step}' {token}\n", seconds=2)
    assert time.monotonic() - begun < 15
    assert population.gone(token, 10)
    until = time.monotonic() + 20
    while [found for found in engine.api.containers() if token in found["Command"]]:
        assert time.monotonic() < until
        time.sleep(0.1)


@DOCKER
def test_a_step_beyond_its_memory_is_killed(build) -> None:
    """Steps have the memory that the recipe says, and no more."""
    with pytest.raises(Rejected, match="returned a non-zero code: 137"):
        build(f"RUN : {secrets.token_hex(4)}; python3 -c 'x = bytearray(400 << 20)'\n", memory=128 << 20)


@DOCKER
def test_what_a_step_leaves_running_is_gone(build, population) -> None:
    """A process that a step leaves behind does not outlive the build."""
    token = f"token-{secrets.token_hex(8)}"
    build(f"RUN (setsid sh -c 'sleep 300; : ' {token} &) ; sleep 0.2\n")
    assert population.gone(token)


@pytest.fixture
def image(make_layer) -> tuple[dict, list[ImageLayer]]:
    """An image of two layers, with a configuration that asks for more than it gets."""
    layers = [make_layer({"bin/player": b"#!"}), make_layer({"data": b"x" * 10_000})]
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": ["/bin/player"], "Env": ["A=1", "LD_PRELOAD=/x"], "User": "7", "Volumes": {"/v": {}}},
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
    }
    return config, layers


@pytest.fixture(scope="session")
def make_layer() -> Callable[[Mapping[str, bytes]], ImageLayer]:
    """Returns a function that makes a layer of files; each is new, so that no engine has it."""

    def make(files: Mapping[str, bytes]) -> ImageLayer:
        data = next(context(secrets.token_hex(8), **files))
        return ImageLayer(
            f"sha256:{hashlib.sha256(data).hexdigest()}", len(data), lambda: iter((data[:700], data[700:]))
        )

    return make


@DOCKER
def test_an_image_is_brought_in_under_its_own_id(workshop, backend, image, tag, engine) -> None:
    """The id is the digest of the plain configuration; only what a player needs is there; its tag is ours alone."""
    config, layers = image
    identity = workshop.load(config, layers, tag)
    assert identity == f"sha256:{hashlib.sha256(workshop.normalise_config(config)).hexdigest()}"
    found = engine.images.get(identity)
    assert found.tags == [tag]
    assert found.attrs["Config"]["Env"] == ["A=1"]
    assert not found.attrs["Config"]["User"]
    assert not found.attrs["Config"]["Volumes"]
    assert backend.admit(ImageSource(image=identity)).command == ("/bin/player",)


@DOCKER
def test_a_layer_twice_is_brought_in_twice(workshop, make_layer, tag, engine) -> None:
    """Equal layers are sent once and stacked as often as the configuration says."""
    layer, other = make_layer({"a": b"1"}), make_layer({"a": b"2"})
    layers = [layer, other, layer]
    rootfs = {"type": "layers", "diff_ids": [each.diff_id for each in layers]}
    identity = workshop.load({"architecture": "amd64", "os": "linux", "rootfs": rootfs}, layers, tag)
    assert engine.images.get(identity).attrs["RootFS"]["Layers"] == rootfs["diff_ids"]


@DOCKER
def test_layers_that_cannot_be_unpacked_are_refused(workshop, tag, engine) -> None:
    """What the engine cannot unpack is the submission's, and nothing stays."""
    data = b"this is no tar at all" * 100
    layer = ImageLayer(f"sha256:{hashlib.sha256(data).hexdigest()}", len(data), lambda: iter((data,)))
    config = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [layer.diff_id]}}
    with pytest.raises(Rejected, match="the engine cannot unpack them"):
        workshop.load(config, [layer], tag)
    assert not has_image(engine, tag)


@DOCKER
def test_what_is_saved_can_be_brought_in_again(workshop, image, tag, tmp_path) -> None:
    """An image that went out through a package has the id, there, that it was promised here."""
    config, layers = image
    identity = workshop.load(config, layers, tag)
    assert package_writer.write_layout(workshop, tag, tmp_path / "image") == identity


@DOCKER
def test_there_is_nothing_to_save_of_nothing(workshop) -> None:
    """An image that is not there, and a name that is none, are the caller's mistake."""
    for name in ("sparring-test/there-is-none:1", "../x"):
        with pytest.raises(UsageError, match="has no image"):
            next(workshop.save(name))


@DOCKER
def test_a_tag_is_taken_away_once(workshop, image, tag, engine) -> None:
    """The image goes with its last tag, and stays with any other; a second time nothing happens."""
    config, layers = image
    identity = workshop.load(config, layers, tag)
    engine.images.get(identity).tag("sparring-test/workshop", f"{tag[-8:]}-other")
    workshop.untag(tag)
    workshop.untag(tag)
    assert engine.images.get(identity).tags == [f"sparring-test/workshop:{tag[-8:]}-other"]
    workshop.untag(f"sparring-test/workshop:{tag[-8:]}-other")
    with pytest.raises(ImageNotFound):
        engine.images.get(identity)
