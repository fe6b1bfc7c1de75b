"""All boards of the season once more, from what was answered, written from the rules and not from the code.

Only NumPy, SQLite and JSON are used here: the ledgers' rows, the blobs' arrays, the contest file. Every number is an
exact fraction, and has to be what `results.json` says.
"""

import io
import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from tests.blob_files import find_blob

pytestmark = [pytest.mark.xdist_group("season"), pytest.mark.timeout(900)]

TASKS = ("digits", "faint", "euclid", "familiar")
WEIGHTS = {"fgsm": Fraction(2, 10), "bim": Fraction(4, 10), "pgd": Fraction(4, 10)}  # A12
FINALISTS = 5  # A11, A12
FLOOR_POINTS = 10  # A17
FAULT = -2  # asked, and no valid answer
NOT_PLAYED = -4
NOT_ASKED = -3


def told(path: Path) -> list[tuple[str, dict]]:
    """Returns the time and the body of each ledger entry."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as ledger:
        rows = ledger.execute("SELECT time, event FROM ledger ORDER BY seq").fetchall()
    return [(time, json.loads(event)) for time, event in rows]


def array(cup: Path, digest: str) -> np.ndarray:
    """Returns a blob's array."""
    return np.load(io.BytesIO(find_blob(cup / "blobs", digest).read()), allow_pickle=False)


@dataclass
class Play:
    """What was played in one round of one task."""

    labels: np.ndarray
    side: dict[str, str] = field(default_factory=dict)
    baseline: dict[str, bool] = field(default_factory=dict)
    team: dict[str, str] = field(default_factory=dict)
    forfeits: dict[str, np.ndarray] = field(default_factory=dict)
    beyond: dict[str, int] = field(default_factory=dict)
    answers: dict[tuple[str, str | None], np.ndarray] = field(default_factory=dict)
    found: set[str] = field(default_factory=set)

    def accuracy(self, defence: str, attack: str | None) -> Fraction:
        """Returns the share of all pictures that are classified correctly.

        A candidate that does not count is held (A8, A14); what is not answered with the true label is not correct (A7).
        Nothing is where a picture was not played (A7).
        """
        if self.not_played(defence, attack):
            return Fraction(0)
        right = self.answers[defence, attack] == self.labels
        if attack is not None:
            right = right | (self.forfeits[attack] != 0)
        return Fraction(int(right.sum()), len(self.labels))

    def not_played(self, defence: str, attack: str | None) -> int:
        """Returns how many pictures nobody asked about, because faults of the defence took too long (A7)."""
        return int((self.answers[defence, attack] == NOT_PLAYED).sum())

    def delta(self, defence: str, attack: str) -> Fraction:
        """Returns the decrease in accuracy in points (A11)."""
        return 100 * (self.accuracy(defence, None) - self.accuracy(defence, attack))

    def of(self, side: str, *, baseline: bool) -> list[str]:
        """Returns the submissions of a side."""
        return [name for name in self.side if self.side[name] == side and self.baseline[name] == baseline]

    def violations(self, name: str) -> int:
        """Returns what A16 breaks ties by: candidates beyond the budget, or pictures not classified."""
        if self.side[name] == "attack":
            return self.beyond[name]
        return sum(int((answers == FAULT).sum()) for (d, _), answers in self.answers.items() if d == name)

    def undelivered(self, name: str) -> bool:
        """Returns whether no picture of an attack counts (A8, A14)."""
        return self.side[name] == "attack" and bool((self.forfeits[name] != 0).all())

    def too_low(self, name: str) -> bool:
        """Returns whether a defence is below the clean floor (A17)."""
        floor = self.accuracy("undefended", None) - Fraction(FLOOR_POINTS, 100)
        return self.side[name] == "defence" and self.accuracy(name, None) < floor


def played(cup: Path, phase: str, task: str) -> Play:
    """Returns a round as its ledger's rows and the blobs tell it."""
    events = [event for _, event in told(cup / "rounds" / phase / task / "ledger.sqlite")]
    opened = next(event for event in events if event["kind"] == "round_opened")
    play = Play(array(cup, opened["task"]["labels"]))
    count = len(play.labels)
    for event in events:
        if event["kind"] == "submission_admitted":
            play.side[event["id"]], play.baseline[event["id"]] = event["side"], event["baseline"]
            play.team[event["id"]] = event["team"]
        elif event["kind"] == "finding_made":
            play.found.add(event["submission"])
        elif event["kind"] == "step_finished" and event["stage"] == "perturb":
            index = array(cup, event["blobs"]["index"])
            own = play.forfeits.setdefault(event["submission"], np.zeros(count, int))
            own[index] = array(cup, event["blobs"]["forfeits"])
            before = play.beyond.get(event["submission"], 0)
            play.beyond[event["submission"]] = before + int(array(cup, event["blobs"]["violations"]).sum())
        elif event["kind"] == "step_finished" and event["stage"] == "classify":
            cells = [(cell["defence"], cell["attack"]) for cell in event["cells"]]
            for cell in cells:  # one whose candidates are all forfeited has no answers
                play.answers.setdefault(cell, np.full(count, NOT_ASKED))
            for place, picture, answer, _sandbox in array(cup, event["blobs"]["rows"]):
                play.answers[cells[place]][picture] = answer
    return play


def ordered(play: Play, scores: dict[str, Fraction], times: dict[str, str], sign: int) -> list[tuple[int, str]]:
    """Returns (rank, name), best first: ties by fewer violations, then earlier; the rest share a rank (A16)."""

    def merit(name: str) -> tuple:
        return sign * scores[name], play.violations(name), times[name]

    ranks, above = [], 0
    for _, group in groupby(sorted(scores, key=lambda name: (merit(name), name)), key=merit):
        names = list(group)
        ranks += [(above + 1, name) for name in names]
        above += len(names)
    return ranks


def initial_scores(play: Play) -> dict[str, dict[str, Fraction]]:
    """Returns every score of the initial round by side: A11 for attacks, A12 for defences."""
    attacks = [name for name, side in play.side.items() if side == "attack"]
    defences = [name for name, side in play.side.items() if side == "defence"]
    return {
        "attack": {a: play.delta("fgsm_trained", a) for a in attacks},
        "defence": {d: sum(weight * play.delta(d, a) for a, weight in WEIGHTS.items()) for d in defences},
    }


def initial_ranks(play: Play, scores: dict[str, Fraction], times: dict[str, str], side: str) -> list[tuple[int, str]]:
    """Returns the ranked of a side: no baseline, no found cheater, none below the floor; the best of each team (A4)."""
    sign = -1 if side == "attack" else 1
    able = {
        name: scores[name]
        for name in play.of(side, baseline=False)
        if name not in play.found and not play.too_low(name) and not play.undelivered(name)
    }
    best: dict[str, str] = {}
    for _, name in ordered(play, able, times, sign):
        best.setdefault(play.team[name], name)
    return ordered(play, {name: able[name] for name in best.values()}, times, sign)


def desk(cup: Path) -> tuple[dict[str, str], set[str], set[str]]:
    """Returns when each submission came, which have no released source (A6), and the organizers' teams (A5)."""
    times, closed, house = {}, set(), set()
    for time, act in told(cup / "contest.sqlite"):
        if act["kind"] == "submission_received":
            times[act["id"]] = time
            closed |= set() if act["licence"] and act["source"] else {act["id"]}
        elif act["kind"] == "team_added" and any(person["organizer"] for person in act["people"]):
            house.add(act["team"])
    return times, closed, house


def shown(cup: Path, phase: str, task: str, board: str) -> dict[str, dict]:
    """Returns a board's rows of results.json by submission."""
    document = json.loads((cup / "rounds" / phase / task / "results.json").read_text("utf-8"))
    rows = next(found["rows"] for found in document["boards"] if found["name"] == board)
    return {row["submission"]: row for row in rows}


def check(rows: dict[str, dict], scores: dict[str, Fraction], ranks: list[tuple[int, str]], play: Play) -> None:
    """Asserts that a board is what was counted: every score exactly, every rank, and nobody else's."""
    assert {name: Fraction(row["exact"]) for name, row in rows.items()} == scores
    assert [(row["rank"], name) for name, row in rows.items() if row["rank"]] == ranks
    assert {name: row["values"]["violations"]["value"] for name, row in rows.items()} == {
        name: play.violations(name) for name in scores
    }


def check_prizes(rows: dict[str, dict], ranks: list[tuple[int, str]], play: Play, house: set[str]) -> None:
    """Asserts that prizes skip the organizers' teams, and nobody else (A5); no two ranks of this season are shared."""
    able = [name for _, name in ranks if play.team[name] not in house]
    assert len({rank for rank, _ in ranks}) == len(ranks)
    assert {name: row["prize_rank"] for name, row in rows.items() if row["prize_rank"]} == {
        name: place for place, name in enumerate(able, start=1)
    }


@pytest.mark.parametrize("task", TASKS)
def test_cells_agree(season, task) -> None:
    """Every cell of both rounds has the count and the delta of a recount (A7, A8, A11, A14)."""
    for phase in ("initial", "final"):
        play = played(season, phase, task)
        cells = json.loads((season / "rounds" / phase / task / "results.json").read_text("utf-8"))["cells"]
        assert {(cell["defence"], cell["attack"]) for cell in cells} == play.answers.keys()
        for cell in cells:
            accuracy = play.accuracy(cell["defence"], cell["attack"])
            assert cell["not_played"] == play.not_played(cell["defence"], cell["attack"])
            assert cell["total"] == len(play.labels)
            assert cell["accuracy"] == float(accuracy)
            if not cell["not_played"]:
                assert cell["held"] == accuracy * cell["total"]
            if cell["attack"] is not None:
                assert cell["delta"] == float(play.delta(cell["defence"], cell["attack"]))


@pytest.mark.parametrize("task", TASKS)
def test_initial_boards_agree(season, task) -> None:
    """Both initial boards, and who is promoted from them, are those of a recount (A4, A11, A12, A16, A17)."""
    play, (times, _, house) = played(season, "initial", task), desk(season)
    promotion = next(
        act
        for _, act in told(season / "contest.sqlite")
        if act["kind"] == "tournament.finalists_promoted" and act["task"] == task
    )
    for side, scores in initial_scores(play).items():
        ranks = initial_ranks(play, scores, times, side)
        rows = shown(season, "initial", task, f"{side}s_initial")
        check(rows, scores, ranks, play)
        check_prizes(rows, ranks, play, house)
        assert promotion[f"{side}s"] == [name for rank, name in ranks if rank <= FINALISTS]


@pytest.mark.parametrize("task", TASKS)
def test_final_boards_agree(season, task) -> None:
    """Both final boards are those of a recount: means over finalists, unreleased ones unranked (A6, A13, A16)."""
    first, play = played(season, "initial", task), played(season, "final", task)
    times, closed, house = desk(season)
    scores = initial_scores(first)
    promoted = {
        side: {name for rank, name in initial_ranks(first, scores[side], times, side) if rank <= FINALISTS}
        for side in ("attack", "defence")
    }
    counting = {side: sorted(names - play.found) for side, names in promoted.items()}
    everybody = {side: [name for name, own in play.side.items() if own == side] for side in promoted}
    means = {
        "attack": {
            a: Fraction(sum(play.delta(d, a) for d in counting["defence"]), len(counting["defence"]))
            for a in everybody["attack"]
        },
        "defence": {
            d: Fraction(sum(play.delta(d, a) for a in counting["attack"]), len(counting["attack"]))
            for d in everybody["defence"]
        },
    }
    for side, found in means.items():
        able = {name: found[name] for name in counting[side] if name not in closed}
        ranks = ordered(play, able, times, -1 if side == "attack" else 1)
        rows = shown(season, "final", task, f"{side}s")
        check(rows, found, ranks, play)
        check_prizes(rows, ranks, play, house)


def test_the_recount_is_of_a_whole_season(season) -> None:
    """What is counted is not empty: sixteen defences meet fourteen attacks on 50 digits."""
    play = played(season, "final", "digits")
    assert len(play.answers) == 16 * 15
    assert len(play.labels) == 50
    assert sum(play.beyond.values()) == 50
    assert play.found == {"coin"}
    assert desk(season)[1:] == ({"closed"}, {"House Team"})
