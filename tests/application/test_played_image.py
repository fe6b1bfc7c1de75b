"""What played on a cluster, found on this machine's engine, or named so that it can be."""

from types import SimpleNamespace

import pytest

from orchestrator.application.findings import played_image
from orchestrator.domain.events import RoundOpened, TaskRecord
from orchestrator.domain.submissions import Side, Submission
from orchestrator.errors import Problem, Rejected, UsageError
from orchestrator.sandboxes.base import Image

DIGEST, ID = "sha256:" + "a" * 64, "sha256:" + "b" * 64
PREFIX = "registry.example.org/org"


class Engine:
    """Images by each of their names."""

    name = "docker"

    def __init__(self, *names: str, unfit: bool = False) -> None:
        self.names, self.unfit = names, unfit

    def inspect_image(self, reference, *, files=True, max_bytes=None):
        """Says which image has a name."""
        if reference not in self.names:
            raise UsageError("none")
        return SimpleNamespace(image_id=ID)

    def admit(self, source):
        """Returns it by the engine's id."""
        if self.unfit:
            raise Rejected("image", [Problem("VOLUME", "gives disk", "remove it")])
        return Image(ID, source.image, ("x",))


def opened(registry: str = PREFIX, phase: str = "", **more) -> RoundOpened:
    """Returns the first event of a round on a cluster."""
    task = {"name": "t", "classes": ["a", "b"], "shape": [1, 2, 2], "count": 1, "digest": DIGEST, "norm": "linf"}
    rest = {"epsilon": "1", "pixels": DIGEST, "labels": DIGEST}
    known = {key: value for key, value in (task | rest).items() if key in TaskRecord.model_fields}
    return RoundOpened(
        round="initial",
        phase=phase,
        contest={"contest": "cup", "cluster": {"registry": registry}} | more,
        task=TaskRecord.model_validate(known),
        backend="kubernetes",
        commitment=DIGEST,
        software="1",
        protocol=1,
    )


def submission(image: str = "red/entry:1", *, baseline: bool = False) -> Submission:
    """Returns who is accused."""
    return Submission("red", "red", "Red", Side.DEFENCE, DIGEST, image, baseline, "")


@pytest.mark.parametrize("baseline", [False, True])
def test_an_image_is_found_by_the_manifest_that_nodes_pulled(baseline):
    """In the round's registry, whatever the tag means now; also of a season's baseline."""
    reference = f"{PREFIX}/red/entry@{DIGEST}"
    found = played_image.find_played_image(
        Engine(reference), submission(baseline=baseline), DIGEST, opened(phase="initial" if baseline else "")
    )
    assert (found.digest, found.name) == (ID, reference)


def test_a_received_image_is_found_by_its_id():
    """Or, where another engine received it that keeps images as registries do, by what was pushed."""
    for name in (DIGEST, f"{PREFIX}/cup/red@{DIGEST}"):
        assert played_image.find_played_image(Engine(name), submission(), DIGEST, opened(phase="initial")).name == name


@pytest.mark.parametrize(
    ("image", "event", "said"),
    [
        ("red/entry:1", opened(), f"Get it with `docker pull {PREFIX}/red/entry@{DIGEST}`"),
        ("ghcr.io/red/entry", opened(), f"Get it with `docker pull ghcr.io/red/entry@{DIGEST}`"),
        ("red/entry:1", opened(phase="initial"), f"Get it with `docker pull {PREFIX}/cup/red:{'a' * 16}`"),
        (
            "red/entry:1",
            opened(phase="initial", submissions=[{}]),
            f"`docker pull {PREFIX}/cup/red:{'a' * 16}` or `docker pull {PREFIX}/red/entry@{DIGEST}`",
        ),
        (f"red/entry@{DIGEST}", opened("none"), f"under this name, then `docker pull docker.io/red/entry@{DIGEST}`"),
        (ID, opened(""), "Its name is in no registry"),
    ],
)
def test_what_is_not_here_is_named_with_what_to_pull(image, event, said):
    """An image that is merely called the same is not looked at."""
    with pytest.raises(UsageError) as caught:
        played_image.find_played_image(Engine("red/entry:1", f"{PREFIX}/red/entry:1"), submission(image), DIGEST, event)
    assert DIGEST in str(caught.value)
    assert said in str(caught.value)


def test_an_image_that_cannot_be_started_says_why():
    """It is here, and this engine refuses it."""
    with pytest.raises(UsageError, match="VOLUME: gives disk"):
        played_image.find_played_image(Engine(DIGEST, unfit=True), submission(), DIGEST, opened())
