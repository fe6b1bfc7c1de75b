"""The rules of the unrestricted contest, in a few plain sentences each, for visitors."""

from orchestrator.domain.contest_format import RuleInWords, finding_in_words
from orchestrator.domain.text import counted_noun
from orchestrator.formats.unrestricted.money import SPLIT_RULE
from orchestrator.formats.unrestricted.rater_tests import RaterRules
from orchestrator.formats.unrestricted.recusal import MIN_QUORUM, WAIVERS
from orchestrator.formats.unrestricted.round_names import OTHER_SEEDS
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
    ClosedDefences.ALLOWED: " A defence without published code may be staked and broken, but wins no prize itself.",
}
_FAULT = {
    OnFault.ABSTAIN: "If a defence gives no answer at all to a picture, that counts as an abstention.",
    OnFault.BREAK: "If a defence gives no answer at all to a valid picture, the picture breaks it.",
}


def rules_in_words(rules: UnrestrictedRules) -> list[RuleInWords]:
    """Returns the rules in the order of their ids."""
    return [*_taking_part(rules), *_breaks_and_prizes(rules)]


def _taking_part(rules: UnrestrictedRules) -> list[RuleInWords]:
    """Returns the rules for defences and for the teams that attack them, and when a week closes."""
    one, other = (each.name for each in rules.classes)
    last_day = f" Pictures are received until {rules.last_day}." if rules.last_day else ""
    return [
        (
            "U1",
            (
                f"A defence labels each picture as {one} or {other}, or abstains. It may abstain on at most one fifth "
                "of the eligibility set, and on any number of other pictures."
            ),
        ),
        (
            "U2",
            (
                f"A defence is eligible if it {_ELIGIBLE[rules.eligibility]}, no picture that was accepted before "
                "breaks it, it takes at most a minute on average for a picture that it is asked about, and the review "
                "board finds its code readable."
            ),
        ),
        (
            "U3",
            "An eligible defence is published, with all of its code, when the week closes in which it passed the test."
            + _CLOSED[rules.closed],
        ),
        (
            "U4",
            (
                f"A team submits at most {counted_noun(rules.uploads_per_day, 'picture')} a day, by the calendar of "
                f"{rules.time_zone}. The team needs a published preprint, or the permission of the review board."
            ),
        ),
        (
            "U5",
            (
                f"A week closes when {rules.week.ends.name.capitalize()} is over in {rules.time_zone}. Until then only "
                f"the team that submitted a picture sees it.{last_day}"
            ),
        ),
    ]


def _breaks_and_prizes(rules: UnrestrictedRules) -> list[RuleInWords]:
    """Returns when a picture breaks a defence, who decides that, and what follows from it."""
    one, other = (each.name for each in rules.classes)
    return [
        ("U6", _raters(rules, one, other)),
        (
            "U7",
            (
                "A valid picture breaks every defence that labels it as the other class. An abstention is not a break. "
                + _FAULT[rules.on_fault]
            ),
        ),
        ("U8", _appeals(rules)),
        (
            "U9",
            (
                "The review board stakes published defences and gives its reasons, or a team pays the stake on its own "
                "defence. A defence that a valid picture has broken cannot be staked."
            ),
        ),
        ("U10", _prizes(rules.prizes, rules.days_unbroken)),
        (
            "U11",
            (
                "Before a defence gets its prize, or the stake on an unbroken defence is given back, the board "
                "confirms the rejection of every picture that was received after the defence was published and before "
                "its days or the contest were over. A member who voted about a picture cannot confirm its rejection."
            ),
        ),
        ("U12", "A team with an organizer, or a present or former member of the review board, gets no prize."),
        (
            "U13",
            (
                "A defence may use random numbers. Each picture has its own seed, which is secret until the bundle is "
                f"published. A break that at most {OTHER_SEEDS // 2} of {OTHER_SEEDS} other seeds repeat counts, and "
                "is marked as a lucky break."
            ),
        ),
        (
            "A9, A10",
            (
                "Answers may depend on random numbers, so defences are not asked again to compare their answers. "
                f"{finding_in_words(rules.on_finding)}"
            ),
        ),
    ]


def _raters(rules: UnrestrictedRules, one: str, other: str) -> str:
    validity = rules.validity
    return (
        f"At least {validity.raters_per_picture} raters answer about each picture. It is valid if all of them are sure "
        f"that it shows one class, {one} or {other}, and not the other, and if all say that the largest object of that "
        f"class is complete, not hidden by anything, and real (not, for example, {_depictions(rules)}). In addition, "
        f"the smallest of the boxes that they draw around it has to cover at least {validity.minimum_area_percent} % "
        "of the picture. One more rater answers if the intersection of a box with the median box is less than "
        f"{validity.minimum_iou_percent} % of their union; a box that then alone disagrees does not count. "
        f"{_tests(rules.raters)}All answers are published with the ids of the raters."
    )


def _tests(raters: RaterRules) -> str:
    """Returns how raters are tested, which needs public pictures."""
    practice = (
        f"If the task has public pictures, a rater first answers about {raters.practice_items} of them as practice. "
    )
    if not raters.hidden_percent:
        return practice
    return practice + (
        f"Later about {raters.hidden_percent} % of the pictures that a rater gets are such pictures, without notice. "
        f"A rater who is right about fewer than {raters.right_percent} % of at least {raters.hidden_minimum} of them "
        "gets no more pictures. "
    )


def _depictions(rules: UnrestrictedRules) -> str:
    return ", ".join(each.depictions for each in rules.classes)


def _appeals(rules: UnrestrictedRules) -> str:
    validity = rules.validity
    return (
        f"A team that a ruling puts at a disadvantage may appeal within {counted_noun(rules.appeal_days, 'day')}. "
        f"{validity.appeal_raters} new raters decide, of whom at least {validity.appeal_majority} have to agree, or "
        "the review board decides and publishes its reason. If the raters do not agree, the board may decide within "
        f"{counted_noun(rules.appeal_days, 'day')} of the last answer, and otherwise the ruling stands. "
        "A member of the board with a conflict of interest neither sees the case nor votes. A picture concerns its "
        "team and the teams of defences that it breaks or may still break; withholding a prize concerns its team and "
        "the teams that may win it instead. "
        f"More than half of the other members, and at least {MIN_QUORUM}, have to vote. If "
        "the software computed a conflict from addresses of the same organization, "
        f"{WAIVERS} other members may decide that it is none."
    )


def _prizes(prizes: PrizeRules | None, days: int) -> str:
    if prizes is None:
        return "There are no prizes."
    advances = "".join(
        f" After {counted_noun(each, 'day')} {percent} % of that half are paid in advance."
        for each, percent in sorted(prizes.advances.items())
    )
    return (
        f"The pool is {prizes.pool}. One half is for the first staked defence that stays unbroken for {days} times 24 "
        f"hours; defences that were staked together share it.{advances} The other half pays {prizes.per_break} for "
        "each staked defence that is broken, shared among the teams that broke it in the first week in which it was "
        f"broken. {SPLIT_RULE}"
    )
