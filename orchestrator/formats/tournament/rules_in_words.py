"""The tournament's rules in words, a plain sentence each, for visitors."""

from collections.abc import Sequence

from orchestrator.domain.contest_format import RuleInWords, finding_in_words
from orchestrator.domain.findings import OnFinding
from orchestrator.domain.outcomes import OnMissing, OnViolation
from orchestrator.domain.text import counted_noun
from orchestrator.formats.tournament.rules import TournamentRules

_MISSING = {
    OnMissing.HELD: "counts as classified correctly; the defence is not asked",
    OnMissing.ASK: "is replaced by a grey one, which the defence classifies",
    OnMissing.CLEAN: "is replaced by the unchanged picture, which the defence classifies",
}
_VIOLATION = {
    OnViolation.FORFEIT: "counts as not delivered (A8)",
    OnViolation.CLIP: "is moved into the budget and played, and counts as a violation",
    OnViolation.DISQUALIFY: "counts as not delivered (A8), and its attack is not ranked",
}
_FINAL = {
    "everybody": "In the final round every attack meets every defence, baselines included.",
    "finalists": "In the final round only finalists and the organizers' baselines meet.",
}


def rules_in_words(rules: TournamentRules) -> list[RuleInWords]:
    """Returns the rules in the order of their numbers."""
    tasks, tries = counted_noun(rules.tasks_per_person, "task"), counted_noun(rules.submissions_per_team, "submission")
    zeroed = "every attacked picture of the defence counts as fooled"
    found = finding_in_words(rules.on_finding, {OnFinding.ZERO: zeroed})
    return [
        ("A1", f"A person takes part in at most {tasks} at a time, through all their teams, on one side of each."),
        ("A2", "The pictures that are played and their labels stay hidden until the organizers release the labels."),
        ("A3", _FINAL[rules.final]),
        ("A4", f"A team may submit {tries} for each task and side; the best of them stands for the team."),
        (
            "A5",
            "A team with a member of the organizing institution is ranked without a prize; the next rank gets it.",
        ),
        ("A6", "A finalist is ranked only if its source is published under a licence that the OSI approved."),
        ("A7", "A picture that a defence does not classify, or not in time, counts as misclassified."),
        ("A8", f"A picture that an attack does not deliver {_MISSING[rules.on_missing]}."),
        ("A9, A10", f"A defence answers each picture by itself, the same each time it is asked. {found}"),
        *_measures(rules),
        ("A13", "The score in the final round is the mean decrease in accuracy over the finalists of the other side."),
        ("A14", f"A picture farther from its original than the budget {_VIOLATION[rules.on_violation]}."),
        ("A16", "Of two equal scores the one with fewer violations ranks first, then the earlier submission."),
        *_floor(rules),
    ]


def _measures(rules: TournamentRules) -> Sequence[RuleInWords]:
    initial, best = rules.initial, counted_noun(rules.finalists, "submission")
    attacks = ", ".join(f"{name} ({100 * weight:g} %)" for name, weight in initial.weights.items())
    gradients = "each defence itself" if initial.crafted_on == "self" else "a model of the organizers"
    return [
        (
            "A11",
            (
                f"In the initial round what counts for an attack is how much accuracy it costs {initial.classifier}. "
                f"The best {best} go on, with all who share the last of these ranks."
            ),
        ),
        (
            "A12",
            (
                f"In the initial round a defence is measured by the accuracy that it loses under {attacks}, which take "
                f"their gradients from {gradients}. The best {best} go on, with all who share the last of these ranks."
            ),
        ),
    ]


def _floor(rules: TournamentRules) -> Sequence[RuleInWords]:
    floor = rules.clean_floor
    if floor is None:
        return [("A17", "A defence is ranked whatever its accuracy on unchanged pictures is.")]
    points = f"{floor.points:f} percentage points"
    how_far = f"more than {points} below that of {floor.baseline}"
    return [("A17", f"A defence whose accuracy on unchanged pictures is {how_far} is shown without a rank.")]
