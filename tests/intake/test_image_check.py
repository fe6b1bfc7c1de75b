"""What is said of an image before it runs: refusals, warnings, and no secret."""

import json
import secrets
import subprocess
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from orchestrator.cli.app import app
from orchestrator.errors import Problem, Rejected, UsageError
from orchestrator.intake import image_check
from orchestrator.plugins import load_plugin
from orchestrator.sandboxes.base import BackendSettings, ImageFacts, ImageTree
from orchestrator.sandboxes.docker.images.engine_images import inspection_labels

KINDS = ("set_id", "capable", "devices", "writable")
NOTHING = ImageTree(10, 1000, dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, ()))
PLAIN = ImageFacts(
    image_id="sha256:1",
    size=1000,
    layers=(1000,),
    user="10001",
    entrypoint=("python3",),
    command=(),
    folder="/player",
    volumes=(),
    ports=(),
    healthcheck=(),
    on_build=(),
    labels={},
    environment=("A=1",),
    passed_variables=frozenset({"A"}),
    problems=(),
    tree=NOTHING,
)


class Backend:
    """Has one image."""

    def __init__(self, facts):
        self.facts, self.asked = facts, {}

    def inspect_image(self, reference, **asked):
        """Returns it."""
        self.asked = asked
        return self.facts


def warnings(**changes):
    """Returns the warnings about a plain image with these changes, as text."""
    found = image_check.inspect_image(Backend(replace(PLAIN, **changes)), "x")
    assert found.refused == ()
    return [str(each) for each in found.warnings]


def test_a_plain_image_has_no_warnings():
    """Nothing is said of an image in which nothing is remarkable."""
    assert warnings() == []


@pytest.mark.parametrize("user", ["", "0", "root", "0:0", "root:10"])
def test_root_is_a_warning(user):
    """Root by any name, and no user at all, is overridden by the sandbox and said."""
    assert [text.partition(":")[0] for text in warnings(user=user)] == ["USER"]


def test_what_a_sandbox_overrides_is_a_warning():
    """Ports, variables that are not passed on, and huge layers are said and not refused."""
    assert "80/tcp" in warnings(ports=("80/tcp",))[0]
    assert "LD_PRELOAD; a sandbox does not pass" in warnings(environment=("A=1", "LD_PRELOAD=x"))[0]
    assert warnings(layers=(1, image_check.LARGE_LAYER_BYTES + 1))[0].startswith("layer 2:")


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_file_is_a_warning(kind):
    """Files that gain nothing in a sandbox are counted, and the first of them named."""
    tree = replace(NOTHING, counts={**NOTHING.counts, kind: 7}, names={**NOTHING.names, kind: ("/a", "/b")})
    (said,) = warnings(tree=tree)
    assert said.startswith("files: 7 ")
    assert "/a, /b, …" in said


def test_an_unfinished_look_is_said():
    """Where looking was cut short, nobody takes the rest for clean."""
    assert "only the first 10 were checked: time" in warnings(tree=replace(NOTHING, cut_reason="time"))[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("API_TOKEN", "x"),
        ("MY_PASSWORD", "x"),
        ("DB_PASS", "x"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
        ("WHATEVER", "AKIA" + "A" * 16),
        ("WHATEVER", "ghp_" + "a" * 36),
        ("WHATEVER", "hf_" + "a" * 34),
        ("INDEX", "https://user:pass@host/simple"),
        ("CERT", "-----BEGIN PRIVATE KEY-----"),
        ("SESSION", "eyJhbGciOiJI.eyJzdWIiOiIx"),
    ],
)
def test_a_credential_is_named_and_its_value_is_not(name, value):
    """By its name or by its value, a credential is warned of without being shown."""
    (said,) = warnings(environment=(f"{name}={value}",), passed_variables=frozenset({name}))
    assert f"ENV: {name} looks like a credential" in said
    assert value == "x" or value not in said
    assert image_check.display_value(name, value) == image_check.HIDDEN


@pytest.mark.parametrize(("name", "value"), [("AUTHOR", "me"), ("PASSES", "3"), ("KEYBOARD", "uk"), ("API_TOKEN", "")])
def test_what_only_resembles_a_credential_is_shown(name, value):
    """Ordinary words are not hidden."""
    assert image_check.display_value(name, value) == value


def test_a_credential_in_a_command_or_a_label_is_hidden():
    """Labels and commands are looked at too."""
    assert image_check.display_command(["run", "--key", "ghp_" + "a" * 36]) == "run --key (hidden)"
    assert "LABEL: token looks like" in warnings(labels={"token": "abc"})[0]


def test_what_is_refused_is_what_the_backend_refuses():
    """The refusals are the backend's own, all of them; with another bound on the size they are raised at once."""
    problems = (Problem("VOLUME", "x"), Problem("size", "y"))
    backend = Backend(replace(PLAIN, problems=problems))
    assert image_check.inspect_image(backend, "x").refused == problems
    with pytest.raises(Rejected) as caught:
        image_check.require_admissible(backend, "x", largest=5)
    assert caught.value.problems == problems
    assert backend.asked == {"files": False, "max_bytes": 5}


def test_a_backend_without_images_says_so(tmp_path):
    """The process backend has nothing to look into."""
    with pytest.raises(UsageError, match="no images"):
        image_check.inspect_image(load_plugin("sandboxes", "process")(BackendSettings(tmp_path)), "x")


@pytest.fixture(scope="module")
def build(require, tmp_path_factory):
    """Returns a function that builds a Dockerfile on the base image, and gives its tag."""
    made = []

    def docker(*words):
        try:
            return subprocess.run(
                ["docker", *words],
                capture_output=True,
                text=True,
                check=False,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin", "DOCKER_BUILDKIT": "0"},
            )
        except FileNotFoundError as error:
            require("docker", str(error))

    def build(*lines):
        folder = tmp_path_factory.mktemp("image")
        (folder / "Dockerfile").write_text("\n".join(["FROM sparring/base:cpu", *lines]) + "\n", "utf-8")
        tag = f"sparring-test/look:{secrets.token_hex(6)}"
        done = docker("build", "-q", "--network", "none", "-t", tag, str(folder))
        if done.returncode:
            require("docker", done.stderr[-300:])
        made.append(tag)
        return tag

    yield build
    for tag in made:
        docker("rmi", "-f", tag)


def inspect(*words):
    """Runs `sparring image inspect`."""
    return CliRunner().invoke(app, ["image", "inspect", *words])


HOSTILE = (
    "USER root",
    "RUN mkdir -m 777 /open && mknod /open/mem c 1 1 && cp /bin/true /open/gain && chmod 4755 /open/gain",
    "EXPOSE 8080",
    'ENV API_TOKEN=hunter2hunter2 LD_PRELOAD=/evil.so NAME="\\033[2J<script>"',
    'LABEL sparring.owner=me note="a\\nb"',
    "HEALTHCHECK CMD true",
    "ONBUILD RUN true",
    "WORKDIR /proc/self",
    "CMD []",
)


@pytest.mark.docker
def test_everything_about_a_hostile_image_is_said_at_once(build):
    """One look names every refusal and every warning, with exit code 1, and never the credential."""
    done = inspect(build(*HOSTILE), "--json")
    assert done.exit_code == 1, done.output
    answer = json.loads(done.stdout)
    assert {each["place"] for each in answer["refused"]} == {"HEALTHCHECK", "ONBUILD", "LABEL", "ENTRYPOINT", "WORKDIR"}
    assert {each["place"] for each in answer["warnings"]} == {"USER", "EXPOSE", "ENV", "files"}
    assert all(each["remedy"] for each in (*answer["refused"], *answer["warnings"]))
    assert answer["environment"]["API_TOKEN"] == image_check.HIDDEN
    assert "hunter2" not in done.output
    assert "/open/gain" in answer["files"]["set_id"]
    assert answer["files"]["devices"] == ["/open/mem"]
    assert answer["id"].startswith("sha256:")
    assert answer["size"] > 0
    assert len(answer["layers"]) > 3


@pytest.mark.docker
def test_volumes_are_refused_and_leave_nothing(build):
    """An image with a volume is refused, and looking at it makes no volume."""
    before = subprocess.run(["docker", "volume", "ls", "-q"], capture_output=True, check=True).stdout
    done = inspect(build("VOLUME /data"))
    assert done.exit_code == 1
    assert "refused: VOLUME" in done.output
    assert "none was checked" in done.output
    assert subprocess.run(["docker", "volume", "ls", "-q"], capture_output=True, check=True).stdout == before


@pytest.mark.docker
def test_a_good_image_is_admitted_and_nothing_is_left(build):
    """Exit code 0, the id that admission pins, and no container afterwards."""
    tag = build('ENTRYPOINT ["python3"]')
    done = inspect(tag, "--json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["admitted"]
    named = subprocess.run(
        ["docker", "image", "inspect", "-f", "{{.Id}}", tag], capture_output=True, text=True, check=True
    )
    assert answer["id"] == named.stdout.strip()
    # Another process may look at this image too: the same lines make the same image.
    ours = [f"--filter=label={name}={value}" for name, value in inspection_labels().items()]
    assert subprocess.run(["docker", "ps", "-aq", *ours], capture_output=True, check=True).stdout == b""


@pytest.mark.docker
@pytest.mark.parametrize("name", ["sparring-test/no-such-image:1", "not a name", "../../x"])
def test_an_image_that_is_not_there_is_a_usage_error(build, name):
    """Exit code 2, and nothing is pulled."""
    build("CMD true")
    assert inspect(name).exit_code == 2


def test_no_engine_is_infrastructure(monkeypatch):
    """Exit code 3 without an engine."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/engine")
    assert inspect("x", "--backend", "docker").exit_code == 3
