"""The attack-set contest's rules in words, one or two plain sentences each, for visitors."""

from orchestrator.domain.contest_format import RuleInWords, finding_in_words
from orchestrator.domain.submissions import PictureFormat
from orchestrator.domain.text import counted_noun
from orchestrator.formats.attack_set.grading.rules import GradingRules
from orchestrator.formats.attack_set.rules import AttackSetRules, CountReading, NteReading
from orchestrator.measures.margins import Probabilities
from orchestrator.measures.similarity import Similarity

_FILES = {
    PictureFormat.JPEG: "a zip of JPEG files",
    PictureFormat.PNG: "a zip of PNG files",
    PictureFormat.NPZ: "an npz archive with one array",
}
_COUNTED = {
    CountReading.ALL: "all pictures",
    CountReading.CORRECT: "the pictures that it classifies correctly before they are changed",
}
WINDOWS = {
    Similarity.GLOBAL: "one window over all values of a picture",
    Similarity.CHANNEL: "one window over each channel",
    Similarity.WINDOWED: "a Gaussian window of 11 x 11",
    Similarity.DEEPSEC: "a uniform window of 7 x 7",
}
_TOLERANT = {
    NteReading.ALL: "a mean over all pictures that count",
    NteReading.SUCCESSFUL: "a mean over those that are misclassified",
}
_PROBABILITIES = {
    Probabilities.SOFTMAX: "the softmax of the hidden model's scores",
    Probabilities.GIVEN: "the hidden model's scores as they are",
}


def rules_in_words(rules: AttackSetRules) -> list[RuleInWords]:
    """Returns the rules in the order of their numbers."""
    found = finding_in_words(rules.on_finding)
    return [
        ("A9, A10", f"The hidden model gives the same answer each time it is asked about a picture. {found}"),
        ("C1", "All teams get the pictures with their labels. They change the pictures and submit them."),
        ("C2", f"A team submits its pictures as {' or '.join(_FILES[each] for each in rules.formats)}."),
        (
            "C3",
            (
                "Nobody sees the hidden model. ASR, the attack success rate, is the share of "
                f"{_COUNTED[rules.count]} that it misclassifies after the change."
            ),
        ),
        (
            "C4",
            (
                "SSIM, the structural similarity, measures how similar the misclassified pictures are to the "
                f"originals, with {WINDOWS[rules.ssim]}."
            ),
        ),
        (
            "C5",
            (
                "NTE, the noise tolerance, is the probability of the predicted class less that of the next one: "
                f"{_TOLERANT[rules.nte]}, with {_PROBABILITIES[rules.probabilities]}."
            ),
        ),
        ("C6", "Score_M is 100 x ASR x SSIM x NTE."),
        *_grading(rules.grading, rules.human_scale),
        ("C9", f"{_tries(rules.tries_per_day)} The pictures that it submitted last are ranked."),
        ("C9", "Until the organizers release the scores, everybody else sees them rounded to a hundredth."),
    ]


def _tries(per_day: int | None) -> str:
    if per_day is None:
        return "A team may submit pictures as often as it likes."
    return (
        f"A team may submit pictures {counted_noun(per_day, 'time')} a day, in UTC. Each time counts for everybody in "
        "the team, through all their teams."
    )


def _grading(rules: GradingRules | None, scale: int) -> list[RuleInWords]:
    if rules is None:
        return [("C7", "People grade no pictures: the score is Score_M.")]
    pictures = "all pictures" if rules.pictures == "all" else f"{rules.pictures:,} pictures, the same for all teams,"
    questions = " ".join(rules.wording.values())
    return [
        (
            "C7",
            (
                f"People grade {pictures} of each submission; at least {rules.raters_per_picture} of them grade each "
                "picture. "
                f"They are asked: {questions} The grades 1 to 5 are: {', '.join(rules.grades)}."
            ),
        ),
        (
            "C7",
            (
                f"The page proposes a break after every {counted_noun(rules.session_size, 'picture')}. A rater sees at "
                f"least {rules.distance} other pictures between two versions of the same one."
            ),
        ),
        ("C8", f"The score is 0.6 x Score_H + 0.4 x Score_M. People decide Score_H, which is from 0 to {scale}."),
    ]
