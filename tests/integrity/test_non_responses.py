"""Refusals: who ends itself when it is looked into is accused, and who crashes by itself is not."""

import numpy as np
import pytest
from laboratory import RESTARTS, Answered, Ended, Gallery, Kind, Laboratory, Time
from players import Honest, chance, counter, environment, keys, late, memory, recent
from refusers import mixing, shy

from orchestrator.domain.findings import FindingKind
from orchestrator.domain.tasks import Isolation
from orchestrator.integrity.detection_power import ALPHA, SamplingDesign
from orchestrator.integrity.determinism_check import DeterminismVerdict
from orchestrator.integrity.non_responses import SESSION_PAIRS
from orchestrator.integrity.replay_session import DefencePlay, SessionPurpose

ALL = SamplingDesign(power=0.9999)
"""Of few questions nearly all are drawn."""


def asked(verdict: DeterminismVerdict, purpose: SessionPurpose) -> list[int]:
    """Returns the numbers of the sessions of one purpose."""
    return [number for number, (session, _) in enumerate(verdict.trace.sessions) if session.purpose is purpose]


@pytest.mark.parametrize(
    ("cheat", "isolation"),
    [
        (counter(100), Isolation.ATTACK),
        (late(490), Isolation.ATTACK),
        (recent(4, 20), Isolation.ATTACK),
        (chance(100), Isolation.ATTACK),
        (environment(100), Isolation.ATTACK),
        (memory(60), Isolation.ROUND),
    ],
)
@pytest.mark.parametrize("seed", range(2))
def test_who_ends_itself_in_bursts_is_accused(cheat, isolation, seed) -> None:
    """Whatever its cheat: it is shy of pictures that nobody suspects as well, and the sessions that show it say so."""
    verdict = Laboratory(shy(cheat), Gallery.drawn(seed), seed, isolation=isolation).judge()
    assert verdict.coverage.refused == 0
    assert verdict.accusation is not None
    assert verdict.accusation.kind is FindingKind.REFUSED
    assert verdict.accusation.p_value < ALPHA
    assert list(verdict.accusation.sessions) == asked(verdict, SessionPurpose.TRIGGER)
    assert len(verdict.accusation.sessions) == SESSION_PAIRS
    for number in verdict.accusation.sessions:
        session, said = verdict.trace.sessions[number]
        assert said.refused.sum() == len(session.questions) // 2


@pytest.mark.parametrize("seed", range(3))
def test_who_ends_itself_where_attacks_are_mixed_is_accused(seed) -> None:
    """It knows a replay by attacked pictures without their clean version, which play never mixes in one sandbox."""
    verdict = Laboratory(mixing(environment(200)), Gallery.drawn(seed), seed).judge()
    assert verdict.accusation is not None
    assert verdict.accusation.kind is FindingKind.REFUSED
    assert set(verdict.accusation.sessions) <= set(asked(verdict, SessionPurpose.TRIGGER))


def crashing(share: float) -> Kind:
    """Returns an honest classifier that ends now and then."""

    class Crashing(Honest):
        def classify(self, pixels) -> Answered:
            if self.chance.random() < share:
                raise Ended
            return super().classify(pixels)

    return Crashing


def fragile(one_in: int) -> Kind:
    """Returns an honest classifier that ends at some pictures, each second time that it is asked about one."""

    class Fragile(Honest):
        def classify(self, pixels) -> Answered:
            if (keys(pixels) % one_in == 0).any() and self.chance.random() < 0.5:
                raise Ended
            return super().classify(pixels)

    return Fragile


def leaking(questions: int) -> Kind:
    """Returns an honest classifier whose sandbox has room for so many questions."""

    class Leaking(Honest):
        def __init__(self, seed: int, time: Time) -> None:
            super().__init__(seed, time)
            self.left = questions

        def classify(self, pixels) -> Answered:
            self.left -= 1
            if self.left < 0:
                raise Ended
            return super().classify(pixels)

    return Leaking


def struck(play: DefencePlay, wanted, count: int = 3) -> DefencePlay:
    """Changes some answers of the play, as a cosmic ray may, where a picture is `wanted`; all of them mismatch."""
    left = count
    for rows in play.sandboxes:
        for row in rows:
            if left and row[2] >= 0 and wanted(row):
                row[2], left = (row[2] + 1) % 6, left - 1
    assert not left
    return play


@pytest.mark.parametrize("share", [0.002, 0.03, 0.12])
def test_who_crashes_now_and_then_is_not_accused(share) -> None:
    """Three answers disagree, and the bursts of some suspects are refused: as often as questions are in play."""
    refused = 0
    for seed in range(12):
        lab = Laboratory(crashing(share), Gallery.drawn(seed, pictures=100), seed, design=ALL)
        verdict = lab.examine(struck(lab.play(), lambda _row: True))
        assert verdict.accusation is None, (seed, verdict.accusation)
        refused += sum(
            verdict.trace.sessions[number][1].refused.any() for number in asked(verdict, SessionPurpose.BURSTS)
        )
    assert refused >= 1


@pytest.mark.slow
def test_who_ends_after_many_questions_is_not_accused() -> None:
    """With a sandbox for each question play shows nothing of it; the planned replays do, and the rates do no more."""
    refused = []
    for seed in range(5):
        lab = Laboratory(leaking(120), Gallery.drawn(seed, pictures=1000), seed, isolation=Isolation.PICTURE)
        verdict = lab.examine(struck(lab.play(), lambda _row: True, 6))
        assert verdict.accusation is None, (seed, verdict.accusation)
        refused += [verdict.trace.sessions[number][1].refused.sum() for number in asked(verdict, SessionPurpose.RATES)]
    assert refused.count(RESTARTS + 1) >= 2


@pytest.mark.slow
def test_suspects_that_are_bad_pictures_accuse_nobody() -> None:
    """What makes an answer vary may make a player crash: every suspect is refused, and other pictures are not."""
    controlled = 0
    for seed in range(20):
        gallery = Gallery.drawn(seed, pictures=100)
        lab = Laboratory(fragile(20), gallery, seed, design=ALL)
        bad = keys(gallery.pixels.reshape(300, -1)).reshape(3, 100) % 20 == 0
        verdict = lab.examine(struck(lab.play(), lambda row, bad=bad: bad[row[0], row[1]], 2))
        assert verdict.accusation is None, (seed, verdict.accusation)
        controlled += bool(asked(verdict, SessionPurpose.TRIGGER))
    assert controlled >= 10


def test_one_session_more_or_less_is_no_refusal() -> None:
    """Answers are not asked for twice where nothing was refused: an honest mismatch has no controls."""
    lab = Laboratory(Honest, Gallery.drawn(0, pictures=100), 0, design=ALL)
    verdict = lab.examine(struck(lab.play(), lambda _row: True))
    assert asked(verdict, SessionPurpose.BURSTS)
    assert not asked(verdict, SessionPurpose.TRIGGER)
    assert np.array_equal(
        asked(verdict, SessionPurpose.RATES), [len(verdict.trace.sessions) - 2, len(verdict.trace.sessions) - 1]
    )
