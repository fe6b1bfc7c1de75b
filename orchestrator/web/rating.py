"""What the rating pages compute themselves: how long a rater looked at an item, and when to suggest a pause."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core import signing
from django.http import QueryDict

from orchestrator.domain.human_grading import GivenAnswer, OwnAnswers, RatedItem

PAUSE_AFTER = timedelta(minutes=30)
"""After how much work a pause is suggested."""
PAUSE_LENGTH = timedelta(minutes=10)
"""A rater who gives no answer for this long has had a pause."""
_USUAL_PACE = timedelta(seconds=4)
"""How long an answer takes, until a rater's own answers tell."""
_NUMBER = re.compile("[0-9]{1,9}")
_SALT = "orchestrator.web.rating"
_MAXIMUM_MILLISECONDS = 24 * 60 * 60 * 1000


class StaleForm(Exception):
    """The form was not made by this service, or its stamp is damaged."""


@dataclass(frozen=True, slots=True)
class SentForm:
    """An answer as it was sent. `corrects`: whether it replaces the rater's last answer."""

    given: GivenAnswer
    corrects: bool


def stamp(item: RatedItem, now: datetime) -> str:
    """Returns the signed value of a form's hidden field: for which item the form was made, and when."""
    return signing.dumps([item.token, _milliseconds(now)], salt=_SALT)


def read_form(sent: QueryDict, now: datetime) -> SentForm:
    """Returns the answer in a form. Raises StaleForm.

    The browser's script says how long the pictures were on the screen. That is at most the time since the form was
    made, which also counts if the script did not run.
    """
    try:
        token, made = signing.loads(sent.get("stamp", ""), salt=_SALT)
    except signing.BadSignature:
        raise StaleForm from None
    elapsed = min(max(0, _milliseconds(now) - made), _MAXIMUM_MILLISECONDS)
    claimed = sent.get("milliseconds", "")
    looked = min(elapsed, int(claimed)) if _NUMBER.fullmatch(claimed) else elapsed
    choices = {name: value for name, value in sent.items() if isinstance(value, str)}
    return SentForm(GivenAnswer(token, choices, looked, _ratio(sent)), corrects="corrects" in sent)


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _ratio(sent: QueryDict) -> float:
    """Returns how many of the screen's pixels a CSS pixel has, 1 if the browser does not say."""
    try:
        ratio = float(sent.get("device_pixel_ratio", ""))
    except ValueError:
        return 1.0
    return ratio if math.isfinite(ratio) and ratio > 0 else 1.0


def at_work(times: Sequence[datetime], now: datetime) -> timedelta:
    """Returns how long a rater has given answers without a pause, from the times of all answers; zero after a pause."""
    latest = now
    for time in reversed(times):
        if latest - time >= PAUSE_LENGTH:
            break
        latest = time
    return now - latest


def minutes_left(own: OwnAnswers) -> int:
    """Returns how long the remaining items will take, in minutes, rounded up."""
    left = own.asked - own.done + own.practice_left
    return math.ceil(left * (own.pace or _USUAL_PACE) / timedelta(minutes=1))
