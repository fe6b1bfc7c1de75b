"""Findings with the evidence that a submission's authors can check, and the coverage of the replays."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from orchestrator.domain.findings import FindingKind
from orchestrator.domain.outcomes import answer_text
from orchestrator.domain.submissions import Side
from orchestrator.integrity.detection_power import TOLERANCE
from orchestrator.reports import formatting
from orchestrator.reports.leaderboards import SubmissionLabel
from orchestrator.scoring.results_file import FindingPart, ReplayCoveragePart, Results

NOTHING_FOUND = "nothing found"
MAX_EVIDENCE_ROWS = 12
"""How many disagreements of one finding the page shows; results.json has all of them."""
RAN_FROM: Mapping[str, str] = {
    "yes": "a fresh copy",
    "mount": "its image, mounted separately for each sandbox",
    "baseline": "its image: the organizers' own",
    "backend": "its image: this backend copies none",
    "unrecorded": "its image: no copy is on record",
}
"""What the sandboxes of a replay ran from, and why, in plain words."""
DEFENCE_FINDING_TEXTS: Mapping[FindingKind, str] = {
    FindingKind.CHANCE: "The same question gets different decisions in one sandbox, and in no order that repeats.",
    FindingKind.STATE: "What was asked before changes the decision.",
    FindingKind.MEMORY: "Having seen another version of the same picture changes the decision.",
    FindingKind.COMPANY: "The other pictures of the same question, or the place among them, change the decision.",
    FindingKind.ENVIRONMENT: "Sandboxes disagree, each constant in itself: by how, where or when they were started.",
    FindingKind.CLOCK: "Time changes the decision: since the start, or of the day.",
    FindingKind.REFUSED: "It answered in play, and ended, broke the protocol or stalled when it was asked again.",
    FindingKind.QUERIES: "Queries of an attack get other decisions than the same questions in a fresh sandbox.",
    FindingKind.INCONSISTENT: "Decisions differ more often than any device may; no test showed what they depend on.",
}
"""What each kind of finding against a defence means, in plain words."""
ATTACK_FINDING_TEXTS: Mapping[FindingKind, str] = {
    FindingKind.CHANCE: "Asked the same from the same seed, it makes other pictures every time.",
    FindingKind.ENVIRONMENT: "Asked the same from the same seed, it makes other pictures than in play.",
}
"""What each kind of finding against an attack means, in plain words."""


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A question of a sequence as the page shows it. `number` is its position, empty for a row of omitted questions."""

    number: str
    pictures_of: str
    picture: str
    pause: str
    answer: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """A finding as the page shows it.

    Each row of `rows` has the attack or "clean", the picture, the answers in play and in replay, and the claimed
    margin. `left_out` is the number of disagreements without a row.
    """

    part: FindingPart
    submission: SubmissionLabel
    kind_text: str
    rows: tuple[tuple[str, int, str, str, str], ...]
    left_out: int
    sequence: tuple[QuestionRow, ...]
    alone: str
    improbable: str
    command: str


@dataclass(frozen=True, slots=True)
class ReplayCoverage:
    """The coverage of one replay of a defence, as the page shows it.

    `below_plan`: the replay had less power than planned. `accused` are the probabilities that a cheat is accused: by a
    sequence, by chance, by a start. `outcome` is the result in words; `ran_from` says what the sandboxes ran from.
    `check` numbers a defence's checks, as `1 of 2`, because a later round's questions are checked separately; "" if
    there is only one.
    """

    part: ReplayCoveragePart
    submission: SubmissionLabel
    achieved: str
    accused: tuple[str, str, str]
    below_plan: bool
    unconfirmed: int
    outcome: str
    ran_from: str
    check: str = ""

    @property
    def is_clear(self) -> bool:
        """Whether the replay found nothing and compared everything that was planned."""
        return self.outcome == NOTHING_FOUND


def reproduce_command(finding: str, backend: str, folder: str = "DIR") -> str:
    """Returns the command that reproduces a finding. On the process backend it runs the submission unisolated."""
    return f"sparring replay {finding} --dir {folder}" + (" --allow-unisolated" if backend == "process" else "")


def finding_text(kind: FindingKind, side: str) -> str:
    """Returns the meaning of a kind of finding against a submission of a side, in plain words."""
    return (ATTACK_FINDING_TEXTS if side == Side.ATTACK else DEFENCE_FINDING_TEXTS).get(
        kind, DEFENCE_FINDING_TEXTS[kind]
    )


def evidence_of(results: Results, finding: FindingPart, labels: Mapping[str, SubmissionLabel]) -> Evidence:
    """Returns a finding as the page shows it, with answers as the task's class names."""
    classes, label = results.task.classes, labels.get(finding.submission) or SubmissionLabel(finding.submission)
    rows = tuple(
        (
            "clean" if d.attack is None else d.attack,
            d.picture,
            answer_text(d.answer_in_play, classes),
            answer_text(d.answer_in_replay, classes),
            "" if d.margin is None else f"{d.margin:.2g}",
        )
        for d in finding.disagreements[:MAX_EVIDENCE_ROWS]
    )
    return Evidence(
        part=finding,
        submission=label,
        kind_text=finding_text(finding.kind, label.side),
        rows=rows,
        left_out=len(finding.disagreements) - len(rows),
        sequence=_question_rows(finding, classes),
        alone="" if finding.answer_alone is None else answer_text(finding.answer_alone, classes),
        improbable="" if finding.p_value is None else f"{max(finding.p_value, 1e-12):.1g}",
        command=reproduce_command(finding.id, results.backend),
    )


def replay_coverage(results: Results, labels: Mapping[str, SubmissionLabel]) -> tuple[ReplayCoverage, ...]:
    """Returns the coverage of each replay, in the results' order. Mismatches without a finding are unconfirmed."""
    accused = {finding.job for finding in results.findings}
    counts, seen = Counter(part.submission for part in results.replays), Counter[str]()
    lines = []
    for part in results.replays:
        seen[part.submission] += 1
        check = f"{seen[part.submission]} of {counts[part.submission]}" if counts[part.submission] > 1 else ""
        lines.append(replace(_coverage_of(part, labels, results, accused=part.job in accused), check=check))
    return tuple(lines)


def _coverage_of(
    part: ReplayCoveragePart, labels: Mapping[str, SubmissionLabel], results: Results, *, accused: bool
) -> ReplayCoverage:
    short = part.achieved < results.replay.power - TOLERANCE
    detection = part.accused
    unconfirmed = 0 if accused else part.mismatches
    doubts = [formatting.counted_noun(unconfirmed, "mismatch", "mismatches") + " not confirmed"] if unconfirmed else []
    doubts += ["less was compared than planned"] if short else []
    return ReplayCoverage(
        part=part,
        submission=labels.get(part.submission) or SubmissionLabel(part.submission),
        achieved=power_text(part.achieved),
        accused=(power_text(detection.sequence), power_text(detection.chance), power_text(detection.start)),
        below_plan=short,
        unconfirmed=unconfirmed,
        outcome="a finding" if accused else f"not cleared: {', '.join(doubts)}" if doubts else NOTHING_FOUND,
        ran_from=RAN_FROM[part.fresh_copy],
    )


def power_text(probability: float) -> str:
    """Returns a power as `99.0%`, rounded down so that it is never overstated."""
    return (
        formatting.percent(int((Fraction(probability) + Fraction(TOLERANCE)) * 1000), 1000)
        if probability < 1
        else "100.0%"
    )


def _question_rows(finding: FindingPart, classes: list[str]) -> tuple[QuestionRow, ...]:
    """Returns the rows of a finding's sequence, with one row for the questions that were cut from its middle."""
    sequence, middle = finding.sequence, len(finding.sequence) // 2
    cut = finding.length > len(sequence)
    lines = []
    for place, one in enumerate(sequence):
        if cut and place == middle:
            lines.append(
                QuestionRow("", "", "", "", formatting.counted_noun(finding.length - len(sequence), "more question"))
            )
        number = place + 1 + (finding.length - len(sequence) if cut and place >= middle else 0)
        pause = f"{one.pause:.1f} s" if one.pause else ""
        against = "clean" if one.attack is None else one.attack
        lines.append(QuestionRow(str(number), against, str(one.picture), pause, answer_text(one.answer, classes)))
    return tuple(lines)
