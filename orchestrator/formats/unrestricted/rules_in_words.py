"""The unrestricted contest's rules, a plain sentence or two each, as visitors read them."""

from orchestrator.domain.contest_format import RuleInWords, finding_in_words
from orchestrator.domain.text import counted_noun
from orchestrator.formats.unrestricted.money import SPLIT_RULE
from orchestrator.formats.unrestricted.rater_tests import RaterRules
from orchestrator.formats.unrestricted.recusal import MIN_QUORUM, WAIVERS
from orchestrator.formats.unrestricted.rules import (
    ClosedDefences,
    EligibilityReading,
    OnFault,
    PrizeRules,
    UnrestrictedRules,
)

_ELIGIBLE = {
    EligibilityReading.PERFECT: "makes no mistake on the pictures of the eligibility set that it answers",
    EligibilityReading.RIGHT_ON_80: "is right on at least 80 % of the eligibility set",
}
_CLOSED = {
    ClosedDefences.REFUSED: "",
    ClosedDefences.ALLOWED: " A defence without published code may be staked and broken, and wins no prize itself.",
}
_FAULT = {
    OnFault.ABSTAIN: "Where a defence gives no answer at all, that is an abstention.",
    OnFault.BREAK: "Where a defence gives no answer at all, a valid picture breaks it.",
}


def rules_in_words(rules: UnrestrictedRules) -> list[RuleInWords]:
    """Returns the rules in the order of their numbers."""
    return [*_taking_part(rules), *_breaks_and_prizes(rules)]


def _taking_part(rules: UnrestrictedRules) -> list[RuleInWords]:
    """Returns what is asked of defences and of who attacks them, and when a week closes."""
    one, other = (each.name for each in rules.classes)
    last_day = f" Pictures are received until {rules.last_day}." if rules.last_day else ""
    return [
        (
            "U1",
            (
                f"A defence answers {one}, {other}, or abstains. It may abstain on at most one fifth of the "
                "eligibility set, and on anything else."
            ),
        ),
        (
            "U2",
            (
                f"A defence is eligible if it {_ELIGIBLE[rules.eligibility]}, is broken by no picture that was "
                "accepted before, takes at most a minute a picture, and the review board finds its code readable."
            ),
        ),
        (
            "U3",
            "An eligible defence is published as a whole when the week of its admission closes."
            + _CLOSED[rules.closed],
        ),
        (
            "U4",
            (
                f"A team hands in at most {counted_noun(rules.uploads_per_day, 'picture')} a day, by the calendar of "
                f"{rules.time_zone}. It needs a published preprint, or the board admits it."
            ),
        ),
        (
            "U5",
            (
                f"A week closes when {rules.week.ends.name.capitalize()} is over in {rules.time_zone}. Until then "
                f"nobody else sees its pictures.{last_day}"
            ),
        ),
    ]


def _breaks_and_prizes(rules: UnrestrictedRules) -> list[RuleInWords]:
    """Returns when a picture breaks a defence, who decides about that, and what follows from it."""
    one, other = (each.name for each in rules.classes)
    return [
        ("U6", _raters(rules, one, other)),
        (
            "U7",
            (
                "A valid picture that a defence labels as the other class breaks it. Abstaining is no break. "
                + _FAULT[rules.on_fault]
            ),
        ),
        ("U8", _appeals(rules)),
        (
            "U9",
            (
                "The review board stakes published defences and says why, or a team pays for the stake on its own. "
                "A defence that any valid picture broke is not staked."
            ),
        ),
        ("U10", _prizes(rules.prizes, rules.days_unbroken)),
        (
            "U11",
            (
                "Before a defence gets its prize, members of the board who did not vote about a picture confirm each "
                "rejection of a picture that was received after the defence was published, and before its days were "
                "over."
            ),
        ),
        ("U12", "A team with an organizer or a member of the review board gets no prize."),
        (
            "U13",
            (
                "A defence may use chance: each picture has a seed of its own, secret until the bundle. A break that "
                "most of four other seeds do not show counts, and is marked as a lucky break."
            ),
        ),
        (
            "A9, A10",
            f"Answers may depend on chance and are not asked again. {finding_in_words(rules.on_finding)}",
        ),
    ]


def _raters(rules: UnrestrictedRules, one: str, other: str) -> str:
    validity = rules.validity
    return (
        f"At least {validity.raters_per_picture} raters answer about each picture. It is valid if all are sure that it "
        f"shows a {one} and no {other}, or the other way round, that the largest one covers at least "
        f"{validity.minimum_area_percent} % of the picture by the smallest box, is complete, not hidden by "
        f"anything, and real: no case of {_depictions(rules)}. One more rater answers where a box meets less than "
        f"{validity.minimum_iou_percent} % of the median box. "
        f"{_tests(rules.raters)}All answers are published with the ids of the raters."
    )


def _tests(raters: RaterRules) -> str:
    """Returns how raters are tested; contests without public pictures have nothing to test them by."""
    practice = f"Where the task has public pictures, a rater answers {raters.practice_items} of them as practice. "
    if not raters.hidden_percent:
        return practice
    return practice + (
        f"Later about {raters.hidden_percent} % of what they are asked about are such, too. Who is right about fewer "
        f"than {raters.right_percent} % of at least {raters.hidden_minimum} is asked no more. "
    )


def _depictions(rules: UnrestrictedRules) -> str:
    return ", ".join(each.depictions for each in rules.classes)


def _appeals(rules: UnrestrictedRules) -> str:
    validity = rules.validity
    return (
        f"A team that a ruling hurts may appeal within {counted_noun(rules.appeal_days, 'day')}. "
        f"{validity.appeal_majority} of {validity.appeal_raters} new raters decide, or the review board, with a public "
        "reason. A member of the board with a conflict neither sees the case nor votes. More than half of the others, "
        f"and at least {MIN_QUORUM}, have to vote. {WAIVERS} other members may find that a computed conflict is none."
    )


def _prizes(prizes: PrizeRules | None, days: int) -> str:
    if prizes is None:
        return "Nothing is paid."
    advances = "".join(
        f" After {counted_noun(each, 'day')} {percent} % of that half are paid in advance."
        for each, percent in sorted(prizes.advances.items())
    )
    return (
        f"The pool is {prizes.pool}. One half is for the first staked defence that holds for {days} times 24 hours; "
        f"those staked together share it.{advances} The other half pays {prizes.per_break} for each staked defence "
        f"that is broken, shared among the teams that broke it in the same week. {SPLIT_RULE}"
    )
