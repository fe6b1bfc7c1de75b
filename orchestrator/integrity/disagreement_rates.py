"""Measures how often sandboxes disagree, which accuses a defence if no sequence can be shown.

Chance, the environment at a start and the time of day cannot be repeated at will. They are accused by rates: more
disagreements than the contest allows an honest device (`noise`), by an exact test with error probability
`detection_power.ALPHA`. Two twins (the same questions in the same order in two fresh sandboxes, each asked some
questions again at its end) and the play itself give three rates, and their pattern shows the kind.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.findings import FindingKind
from orchestrator.domain.outcomes import FAULTED
from orchestrator.integrity import detection_power, planned_replays
from orchestrator.integrity.detection_power import ALPHA, SamplingDesign
from orchestrator.integrity.replay_session import (
    DefencePlay,
    Questions,
    ReplaySession,
    SessionGenerator,
    SessionPurpose,
    SessionTrace,
)


@dataclass(frozen=True, slots=True)
class DisagreementRate:
    """Disagreements among pairs of decisions."""

    disagreements: int
    pairs: int

    def p_above_noise(self, noise: float) -> float:
        """Returns the probability of at least so many disagreements if each pair disagrees with probability `noise`."""
        return detection_power.binomial_tail(self.disagreements, self.pairs, noise)

    def p_above_rate(self, other: "DisagreementRate") -> float:
        """Returns the probability that this rate exceeds the other as far by chance, by Fisher's exact test."""
        from scipy.stats import fisher_exact  # noqa: PLC0415  takes a second to import

        table = [
            [self.disagreements, self.pairs - self.disagreements],
            [other.disagreements, other.pairs - other.disagreements],
        ]
        return float(fisher_exact(table, alternative="greater").pvalue)


@dataclass(frozen=True, slots=True)
class DisagreementRates:
    """The rates of disagreement within a sandbox, between two sandboxes asked the same, and between play and replay."""

    within_sandbox: DisagreementRate
    between_sandboxes: DisagreementRate
    between_play_and_replay: DisagreementRate

    def accused_kind(self, noise: float) -> tuple[FindingKind, float] | None:
        """Returns the kind of cheat that these rates show and their probability without one, or None for no cheat."""
        within, twins, play = (
            self.within_sandbox.p_above_noise(noise),
            self.between_sandboxes.p_above_noise(noise),
            self.between_play_and_replay.p_above_noise(noise),
        )
        if within < ALPHA:
            # Changes at the same places in both twins are not chance: they depend on earlier questions.
            return (FindingKind.CHANCE if self.between_sandboxes.disagreements else FindingKind.STATE), within
        if twins < ALPHA:
            return FindingKind.ENVIRONMENT, twins
        if play < ALPHA and (more := self.between_play_and_replay.p_above_rate(self.between_sandboxes)) < ALPHA:
            return FindingKind.ENVIRONMENT, max(play, more)
        return None


def measure_rates(
    trace: SessionTrace, play: DefencePlay, design: SamplingDesign, rng: np.random.Generator
) -> SessionGenerator[DisagreementRates]:
    """Plays two twins with a large sample and returns the three rates."""
    count = detection_power.rate_sample_size(len(play.decided_rows), design)
    sample = _draw_batches_of_play(play, count, rng) if play.batch > 1 else _draw_questions(play, count, rng)
    repeats = min(detection_power.REPEATED_QUESTIONS, len(sample))
    repeats -= repeats % play.batch if repeats > play.batch else 0  # each question is repeated in the same shape
    questions = np.concatenate([sample, sample[:repeats]])
    session = ReplaySession(SessionPurpose.RATES, questions, play.batch)
    one = yield from trace.play_session(session)
    other = yield from trace.play_session(session)
    first = np.concatenate([one.answers[:repeats], other.answers[:repeats]])
    again = np.concatenate([one.answers[len(sample) :], other.answers[len(sample) :]])
    return DisagreementRates(
        within_sandbox=_rate(first, again),
        between_sandboxes=_rate(one.answers, other.answers),
        between_play_and_replay=_rate(play.answers_to(sample), one.answers[: len(sample)]),
    )


def measure_batch_effect(
    trace: SessionTrace, play: DefencePlay, design: SamplingDesign, rng: np.random.Generator
) -> SessionGenerator[DisagreementRate]:
    """Asks a large sample in other company than in play, in questions of the same shape; returns the rate of changes.

    Last bits may honestly depend on a picture's place in its question: one answer that company changes is no cheat.
    """
    questions = _draw_questions(play, detection_power.rate_sample_size(len(play.decided_rows), design), rng)
    answers = yield from trace.play_session(ReplaySession(SessionPurpose.OTHER_BATCH, questions, play.batch))
    return _rate(play.answers_to(questions), answers.answers)


def _draw_questions(play: DefencePlay, count: int, rng: np.random.Generator) -> Questions:
    """Returns up to `count` questions of the play in whole batches: one version of each picture, then the next."""
    sample = play.decided_rows[rng.choice(len(play.decided_rows), count, replace=False)][:, :2]
    sample = np.concatenate(list(planned_replays.split_by_version(sample)))
    return sample[: count - (count % play.batch if count > play.batch else 0)]


def _draw_batches_of_play(play: DefencePlay, count: int, rng: np.random.Generator) -> Questions:
    """Returns about `count` questions, each with the company and the place that it had in play, in a random order."""
    size = play.batch
    units = [
        rows[at : at + size]
        for rows in play.sandboxes
        for at in range(0, len(rows) - size + 1, size)
        if (rows[at : at + size, 2] > FAULTED).all()
    ]
    if not units:
        return _draw_questions(play, count, rng)
    chosen = rng.permutation(len(units))[: max(1, count // size)]
    return np.concatenate([units[place] for place in chosen])[:, :2]


def _rate(first: NDArray[np.int32], second: NDArray[np.int32]) -> DisagreementRate:
    decided = (first > FAULTED) & (second > FAULTED)
    return DisagreementRate(int((decided & (first != second)).sum()), int(decided.sum()))
