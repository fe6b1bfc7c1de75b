"""From a contest file to a roster, everything fixed by its digest."""

import pytest

from orchestrator.domain.submissions import Side, Submission
from orchestrator.errors import BackendUnavailable, Problem, Rejected
from orchestrator.intake.admission import admit_entries, describe_roster
from orchestrator.intake.manifest import read_manifest
from orchestrator.sandboxes.base import Image

MANIFEST = "sparring: 1\nname: {name}\nside: {side}\ncommand: [python, player.py]\n"
NO_FLOOR = {"rules": "{clean_floor: null}"}


@pytest.fixture
def entries(submitted):
    """An attack in a/, a defence in d/ and an undefended baseline in u/."""
    for folder, name, side in (
        ("a", "attacker", "attack"),
        ("d", "defender", "defence"),
        ("u", "undefended", "defence"),
    ):
        submitted(MANIFEST.format(name=name, side=side), folder)


@pytest.fixture
def backend():
    """A backend that admits everything and remembers what it was asked."""

    class Stub:
        def __init__(self):
            self.asked = []

        def admit(self, source):
            self.asked.append(source)
            return Image(digest=f"sha256:{source.folder.name if source.folder else source.image}", name="shown")

    return Stub()


def refusals(contest, identify):
    """Returns the problems with which a roster is refused, as text."""
    with pytest.raises(Rejected) as caught:
        admit_entries(contest, identify)
    return [str(problem) for problem in caught.value.problems]


def test_a_roster_is_the_file_in_its_order(contest, entries, backend):
    """Baselines come first, every submission has its digest, and its time is in UTC (A16)."""
    found = contest(
        baselines="[{folder: u}]",
        submissions="[{folder: d, team: T, submitted: 2026-03-01T10:00:00+02:00}, {folder: a, name: other, team: S}]",
    )
    admitted = admit_entries(found, backend.admit)
    common = {"side": Side.DEFENCE, "image": "shown"}
    assert admitted.roster.submissions == (
        Submission(id="undefended", name="undefended", team="organizers", digest="sha256:u", baseline=True, **common),
        Submission(
            id="defender",
            name="defender",
            team="T",
            digest="sha256:d",
            submitted="2026-03-01T08:00:00+00:00",
            **common,
        ),
        Submission(id="other", name="other", team="S", digest="sha256:a", side=Side.ATTACK, image="shown"),
    )
    assert {name: image.digest for name, image in admitted.images.items()} == {
        "undefended": "sha256:u",
        "defender": "sha256:d",
        "other": "sha256:a",
    }


def test_only_the_organizers_are_trusted(contest, entries, backend, tmp_path):
    """A backend is told the folder, the command of the manifest, and who wrote it."""
    admit_entries(contest(baselines="[{folder: u}]", submissions="[{folder: a}]"), backend.admit)
    assert [(source.folder, source.trusted) for source in backend.asked] == [
        (tmp_path / "u", True),
        (tmp_path / "a", False),
    ]
    assert {source.command for source in backend.asked} == {("python", "player.py")}


@pytest.mark.parametrize(
    ("named", "asked"),
    [
        ("sparring/pgd", "sparring/pgd:cpu"),
        ("sparring/pgd:1.2", "sparring/pgd:1.2"),
        ("registry:5000/pgd", "registry:5000/pgd:cpu"),
    ],
)
def test_an_image_without_a_tag_is_for_processors(contest, entries, backend, named, asked):
    """The tag `cpu` is added where none is given; a registry's port is no tag."""
    admit_entries(
        contest(submissions=f"[{{image: '{named}', name: x, side: attack}}, {{folder: d}}]", **NO_FLOOR), backend.admit
    )
    assert (backend.asked[0].image, backend.asked[0].folder, backend.asked[0].command) == (asked, None, ())


@pytest.mark.parametrize(("gpus", "able", "tag"), [(1, True, "cuda"), (1, False, "cpu"), (0, True, "cpu")])
def test_an_image_for_gpus_is_asked_for_where_there_is_one(contest, submitted, backend, gpus, able, tag):
    """The tag `cuda` stands for a submission that can use a GPU in a contest that gives one."""
    submitted(MANIFEST.format(name="a", side="attack") + f"image: team/a\ngpu: {str(able).lower()}\n", "a")
    submitted(MANIFEST.format(name="d", side="defence"), "d")
    admit_entries(
        contest(limits=f"{{gpus: {gpus}}}", submissions="[{folder: a}, {folder: d}]", **NO_FLOOR), backend.admit
    )
    assert [source.image for source in backend.asked] == [f"team/a:{tag}", None]


def test_every_entry_that_cannot_play_is_named(contest, entries, backend, submitted, tmp_path):
    """A missing manifest, a broken one, a doubled name, two sides and a backend's refusal come together."""
    submitted("name: A\n", "broken")

    def identify(source):
        if source.folder is not None and source.folder.name == "u":
            raise Rejected("image", [Problem("platform", "made for plan9", "build it for linux")])
        return backend.admit(source)

    found = contest(
        baselines="\n  - {folder: u}",
        submissions="\n  - {folder: nowhere}\n  - {folder: broken}\n  - {folder: a}\n"
        "  - {folder: a, team: S}\n  - {folder: d, side: attack}",
    )
    problems = refusals(found, identify)
    assert problems[0] == "line 7, baselines[0]: platform: made for plan9; build it for linux"
    assert problems[1] == (
        f"line 9, submissions[0]: folder: there is no {tmp_path}/nowhere/submission.yaml; "
        "write the path relative to the folder of the contest file"
    )
    assert problems[2].startswith("line 10, submissions[1]: line 1, sparring: missing; add it")
    assert problems[-2] == "line 12, submissions[3]: a second 'attacker'; give one of them a `name:`"
    assert problems[-1] == (
        "line 13, submissions[4]: side: the contest file says attack, its submission.yaml defence; make them agree"
    )


def test_a_team_cannot_take_a_baselines_name(contest, entries, backend):
    """The second of one name is refused, and the baseline is the first."""
    found = contest(baselines="[{folder: u}]", submissions="\n  - {folder: d, name: undefended}\n  - {folder: a}")
    assert refusals(found, backend.admit) == [
        "line 8, submissions[0]: a second 'undefended'; give one of them a `name:`"
    ]


def test_the_formats_objections_have_their_lines(contest, entries, backend):
    """A roster that cannot play the format is refused where the file can mend it."""
    found = contest(rules="{clean_floor: {baseline: none}}", submissions="[{folder: a}]")
    first, second = refusals(found, backend.admit)
    assert first == "line 7, submissions: no defence takes part; add one under `baselines:` or `submissions:`"
    assert second.startswith("line 6, rules.clean_floor: the floor is measured on the baseline 'none', which does not")


def test_our_own_faults_are_not_the_submissions(contest, entries):
    """A backend that cannot work is an infrastructure fault, and nobody's rejection (X1)."""

    def identify(_):
        raise BackendUnavailable("the engine is away")

    with pytest.raises(BackendUnavailable):
        admit_entries(contest(submissions="[{folder: a}, {folder: d}]"), identify)


def test_a_roster_can_be_described_without_a_backend(contest, entries):
    """Validation reads the manifests and leaves the identities empty."""
    found = describe_roster(contest(submissions="[{folder: a}, {folder: d}]", **NO_FLOOR))
    assert [(s.id, s.side, s.digest) for s in found] == [("attacker", "attack", ""), ("defender", "defence", "")]


@pytest.mark.parametrize("character", [r"\0", r"\x1b[2J", r"\n"], ids=["nul", "escape", "line-end"])
def test_a_source_address_has_no_control_character(tmp_path, character):
    """It is published, on pages and in bundles, and stands in one cell of a table."""
    text = MANIFEST.format(name="x", side="attack")
    (tmp_path / "submission.yaml").write_text(f'{text}source: "https://example.org/{character}"\n')
    with pytest.raises(Rejected, match="source: a control character"):
        read_manifest(tmp_path)
