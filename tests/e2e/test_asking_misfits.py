"""In a round with queries whatever an attack or a defence does costs only itself (X6, A7, A8, A9, A15).

The programs are in players/asking.py. Who has to be late never answers, or has little time; who has to be in time has
seconds for what takes milliseconds.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from orchestrator.application.rounds import round_record
from orchestrator.domain.outcomes import FAULTED, Forfeit
from orchestrator.domain.plan import Cell
from orchestrator.domain.queries import QueryFailure
from orchestrator.ledger.read_model import RoundView
from orchestrator.scoring.results_file import CellPart, FaultPart, Results

from .conftest import Lab, quarters

pytestmark = pytest.mark.parametrize(
    "backend",
    [
        "process",
        pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.soak]),
        pytest.param("runc", marks=[pytest.mark.docker, pytest.mark.soak]),
    ],
    indirect=True,
    scope="module",
)

PLAYER = Path(__file__).parent / "players" / "asking.py"
QUERIES = 5
STEPS = (0, 7, 14, 21, 28)
PICTURES, QUESTION = 8, 4
SECONDS = 6.0
"""For a question to an attack, and for one to a defence."""
SLOTS = 4
"""More than there may be cores: most of a round is waiting for those who never answer."""
HONEST = ("attack_honest", "defence_honest")
HALVES = {
    "attack_asks_forever": ("deadline", ""),
    "attack_asks_about_delivered": ("protocol", "index"),
    "attack_asks_position": ("protocol", "index"),
    "attack_asks_scores": ("protocol", "unexpected"),
    "attack_asks_shape": ("protocol", "shape"),
    "attack_asks_short": ("protocol", "payload-size"),
    "attack_asks_many": ("protocol", "count"),
    "attack_asks_unnamed": ("protocol", "index"),
    "attack_asks_gibberish": ("protocol", "magic"),
    "attack_asks_twice": ("flood", ""),
    "attack_falls_silent": ("deadline", ""),
    "attack_reads_no_reply": ("deadline", ""),
    "attack_dies_asking": ("died", ""),
}
"""Attacks that deliver half of each question and then commit this fault."""
LOSES = {
    "defence_hangs": (0, "deadline", ""),
    "defence_dies": (1, "died", ""),
    "defence_nonsense": (2, "protocol", "label"),
    "defence_babbles": (3, "protocol", "magic"),
}
"""Defences that commit this fault at every attacked picture of one label."""


class Played:
    """A round that was played."""

    def __init__(self, lab: Lab, out: str, *players: str, **changes) -> None:
        self.results: Results = lab.play(*players, out=out, **changes)
        self.record: RoundView = round_record.read_round(lab.folder / out)[0]

    def cell(self, defence: str, attack: str | None) -> CellPart:
        """Returns one cell of the matrix without its names."""
        (found,) = [cell for cell in self.results.cells if (cell.defence, cell.attack) == (defence, attack)]
        return replace(found, defence="", attack=None)

    def faults(self, name: str) -> list[FaultPart]:
        """Returns a submission's faults."""
        (part,) = [part for part in self.results.submissions if part.id == name]
        return part.faults

    def pair(self, defence: str, attack: str) -> dict[str, list]:
        """Returns what was made, asked and answered between two."""
        cell = Cell(defence, attack)
        made, asked = self.record.cell_examples(cell), self.record.query_record(cell)
        steps = self.record.query_steps(cell)
        return {
            "candidates": made.pixels.tolist(),
            "forfeits": made.forfeits.tolist(),
            "queries": asked.queries.tolist(),
            "fooled_at": asked.fooled_at.tolist(),
            "failures": asked.failures.tolist(),
            "transcripts": [step.transcript for step in steps],
            "answers": self.record.answers(defence, len(made.pixels))[cell].tolist(),
        }


def laboratory(folder: Path, backend: str, pictures: int, question: int, **access) -> Lab:
    """Returns a laboratory for players that query, with seconds for what takes them milliseconds."""
    settings = {
        "task": {"budget": {"norm": "linf", "epsilon": STEPS[-1]}},
        "access": {"kind": "decision", "queries": QUERIES, "batch": 8} | access,
        "isolation": "attack",
        "replay": {"power": 0},
        "limits": {"ready_seconds": 60, "perturb_seconds": SECONDS, "perturb_batch": question}
        | {"classify_seconds": SECONDS, "memory": "256MiB"},
    }
    return Lab(folder, backend, pictures, settings, player=PLAYER, slots=SLOTS)


@pytest.fixture(scope="module")
def asking_lab(backend, tmp_path_factory) -> Lab:
    """A laboratory with some questions to an attack."""
    return laboratory(tmp_path_factory.mktemp("asking"), backend, PICTURES, QUESTION)


@pytest.fixture(scope="module")
def alone(asking_lab) -> Played:
    """The honest attack and the honest defence."""
    return Played(asking_lab, "alone", *HONEST)


@pytest.fixture(scope="module")
def among_attacks(asking_lab) -> Played:
    """The same two among all attacks that misbehave."""
    return Played(asking_lab, "attacks", *HONEST, *HALVES, "attack_overdraws", "attack_asks_behind")


@pytest.fixture(scope="module")
def among_defences(asking_lab) -> Played:
    """The same two among all defences that misbehave."""
    others = ("defence_detects", "defence_dies_counting", "defence_dies_loading")
    return Played(asking_lab, "defences", *HONEST, *LOSES, *others)


def test_the_honest_attack_asks_until_it_is_misread(alone) -> None:
    """Independently: with the gap of a picture the first step that closes it is known, and so is every query."""
    images, labels = (quarters(PICTURES)[name] for name in ("images", "labels"))
    first = []
    for image, label in zip(images.astype(int), labels, strict=True):
        row, column = 2 * (label // 2), 2 * (label % 2)
        gain = image[row + 1, column + 1] - 100
        first.append(next((number for number, step in enumerate(STEPS, 1) if gain < 2 * step), 0))
    pair = alone.pair("defence_honest", "attack_honest")
    assert 0 < sum(number > 0 for number in first) < PICTURES
    assert pair["fooled_at"] == first
    assert pair["queries"] == [number or QUERIES for number in first]
    assert alone.cell("defence_honest", "attack_honest").fooled == sum(number > 0 for number in first)
    assert not alone.faults("attack_honest") + alone.faults("defence_honest")


@pytest.mark.parametrize("round_", ["among_attacks", "among_defences"])
def test_the_honest_pair_comes_out_as_alone(round_, alone, request) -> None:
    """The round closes, and pictures, queries, answers and transcripts of the honest are those of a round without."""
    crowded = request.getfixturevalue(round_)
    assert crowded.results.complete
    assert crowded.record.round.closed
    assert crowded.pair("defence_honest", "attack_honest") == alone.pair("defence_honest", "attack_honest")
    for attack in (None, "attack_honest"):
        assert crowded.cell("defence_honest", attack) == alone.cell("defence_honest", attack)
    assert not crowded.faults("attack_honest") + crowded.faults("defence_honest")
    assert crowded.results.findings == []


def test_attacks_lose_what_they_did_not_deliver(among_attacks) -> None:
    """The half that was delivered counts, the other is missing; the defence loses no picture and has no fault."""
    honest = among_attacks.pair("defence_honest", "attack_honest")
    delivered = [place for place in range(PICTURES) if place % QUESTION < QUESTION // 2]
    for name, (code, reason) in HALVES.items():
        pair, cell = among_attacks.pair("defence_honest", name), among_attacks.cell("defence_honest", name)
        faults = among_attacks.faults(name)
        assert {(fault.code, fault.reason) for fault in faults} == {(code, reason)}, name
        assert sum(fault.pictures for fault in faults) == PICTURES // 2, name
        missing = [place for place, why in enumerate(pair["forfeits"]) if why == Forfeit.MISSING]
        assert missing == [place for place in range(PICTURES) if place not in delivered], name
        for what in ("candidates", "queries", "fooled_at", "answers"):
            assert [pair[what][place] for place in delivered] == [honest[what][place] for place in delivered], name
        assert max(pair["queries"]) <= QUERIES, name
        assert pair["failures"] == [0] * PICTURES, name
        assert (cell.faults, cell.not_played, cell.forfeits) == (0, 0, PICTURES // 2), name
        assert cell.held == PICTURES - sum(honest["fooled_at"][place] > 0 for place in delivered), name


def test_what_is_asked_beyond_the_budget_is_not_asked(among_attacks) -> None:
    """A refusal is no fault: what the attack delivers counts as the honest one's does, and the budget is kept."""
    honest = among_attacks.pair("defence_honest", "attack_honest")
    pair = among_attacks.pair("defence_honest", "attack_overdraws")
    assert not among_attacks.faults("attack_overdraws")
    assert pair["queries"] == [QUERIES] * PICTURES
    for what in ("candidates", "forfeits", "fooled_at", "answers"):
        assert pair[what] == honest[what]


def test_a_query_behind_the_delivery_costs_no_picture(among_attacks) -> None:
    """What was delivered counts as the honest attack's; the bytes behind it are a fault of the attack's."""
    pair, honest = (among_attacks.pair("defence_honest", name) for name in ("attack_asks_behind", "attack_honest"))
    faults = among_attacks.faults("attack_asks_behind")
    assert faults
    assert {fault.code for fault in faults} <= {"flood", "protocol"}
    assert sum(fault.pictures for fault in faults) == 0
    assert pair == honest


def test_defences_lose_the_pictures_at_which_they_fail(among_defences) -> None:
    """Those of the one label, at the first query within the budget; all others are as the honest defence's (A7)."""
    labels = quarters(PICTURES)["labels"]
    honest = among_defences.pair("defence_honest", "attack_honest")
    for name, (label, code, reason) in LOSES.items():
        pair, cell = among_defences.pair(name, "attack_honest"), among_defences.cell(name, "attack_honest")
        lost = labels == label
        assert {(fault.code, fault.reason) for fault in among_defences.faults(name)} == {(code, reason)}, name
        assert pair["failures"] == np.where(lost, QueryFailure.FAULTED, QueryFailure.NONE).tolist(), name
        assert pair["answers"] == np.where(lost, FAULTED, honest["answers"]).tolist(), name
        assert cell.faults == lost.sum(), name
        assert pair["forfeits"] == [Forfeit.NONE] * PICTURES, name
        assert among_defences.cell(name, None) == among_defences.cell("defence_honest", None), name


def test_a_defence_that_dies_by_counting_loses_no_picture(among_defences) -> None:
    """No picture makes it die alone in a fresh sandbox, so that each is asked again; the faults are on record."""
    pair = among_defences.pair("defence_dies_counting", "attack_honest")
    assert pair == among_defences.pair("defence_honest", "attack_honest")
    faults = among_defences.faults("defence_dies_counting")
    assert {fault.code for fault in faults} == {"died"}
    assert sum(fault.pictures for fault in faults) == 0


def test_a_defence_that_never_gets_ready_is_not_played(among_defences) -> None:
    """It loses everything, and the attack nothing: it hears that there is no answer, and delivers."""
    pair = among_defences.pair("defence_dies_loading", "attack_honest")
    assert pair["failures"] == [QueryFailure.NOT_PLAYED] * PICTURES
    assert pair["forfeits"] == [Forfeit.NONE] * PICTURES
    cell = among_defences.cell("defence_dies_loading", "attack_honest")
    assert (cell.held, cell.not_played) == (0, PICTURES)
    assert {fault.code for fault in among_defences.faults("defence_dies_loading")} == {"died", "gave-up"}


def test_a_detector_of_near_repeats_gains_nothing_where_it_is_judged(among_defences) -> None:
    """The attack never hears that it succeeded; the same pictures are misread where no query was seen."""
    pair, honest = (among_defences.pair(name, "attack_honest") for name in ("defence_detects", "defence_honest"))
    assert pair["queries"] == [QUERIES] * PICTURES
    assert pair["fooled_at"] == [0] * PICTURES
    assert sum(honest["queries"]) < QUERIES * PICTURES
    assert pair["answers"] == honest["answers"]
    assert among_defences.cell("defence_detects", "attack_honest") == among_defences.cell(
        "defence_honest", "attack_honest"
    )
    assert not among_defences.faults("defence_detects")


def test_each_side_has_its_own_clock(backend, tmp_path) -> None:
    """A defence that takes a second for each answer, together more than the attack has, uses up none of the attack's.

    And an attack that goes on where it is refused is over in its own time, though replies wait for a grid.
    """
    lab = laboratory(tmp_path, backend, QUESTION, QUESTION, reply_seconds=0.2)
    played = Played(lab, "clocks", *HONEST, "attack_asks_forever", "defence_lingers")
    assert played.record.round.closed
    lingers, quick = (played.pair(name, "attack_honest") for name in ("defence_lingers", "defence_honest"))
    assert lingers == quick
    assert played.record.query_record(Cell("defence_lingers", "attack_honest")).seconds > SECONDS
    for name in (*HONEST, "defence_lingers"):
        assert not played.faults(name)
    for defence in ("defence_lingers", "defence_honest"):
        pair = played.pair(defence, "attack_asks_forever")
        assert pair["forfeits"] == [Forfeit.NONE, Forfeit.NONE, Forfeit.MISSING, Forfeit.MISSING]
        assert pair["queries"] == [*quick["queries"][:2], 0, QUERIES]
        assert pair["failures"] == [0] * QUESTION
    assert {fault.code for fault in played.faults("attack_asks_forever")} == {"deadline"}
