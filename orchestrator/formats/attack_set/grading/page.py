"""The page on which one rater grades: a single HTML file that needs no network, no other file and no server.

Texts of organizers are escaped and made printable; what the script reads is JSON in which no markup can begin. The
content security policy names this page's own script and style by their digests, so nothing else in it runs. An item is
known by its random token alone.
"""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from orchestrator.domain.text import printable
from orchestrator.formats.attack_set.grading.answers_csv import COLUMNS, TOKEN_PREFIX
from orchestrator.formats.attack_set.grading.sheets import MINIMUM_MILLISECONDS, GradingTask, Sheet
from orchestrator.reports import colours

MAX_SCALE: Final = 8
MAX_PAIR_WIDTH: Final = 1200
"""CSS pixels: what a screen of 1366 x 768, the smallest that is common, has for the pair."""
MAX_PICTURE_HEIGHT: Final = 560
PAIR_GAP: Final = 24
"""CSS pixels between the two pictures of a pair."""
MAX_TEXT: Final = 2000
"""The longest text in one place of the page, in characters."""
NO_CLASS_KEY: Final = "x"
PROPER_KEYS: Final = {"y": "Yes", "n": "No"}
_TEMPLATES: Final = ChoiceLoader([PackageLoader(__package__), PackageLoader("orchestrator.reports")])
_DIGITS: Final = "1234567890"
_LETTERS: Final = "abcdefghijklmopqrstuvwz"
"""Keys of the eleventh class and those after it: every letter without a meaning of its own."""


def grading_page(sheet: Sheet) -> str:
    """Returns the HTML page of a rater's sheet. The same sheet gives the same text.

    Raises:
        ValueError: an item whose task has no wording, or an item of the quality task without its original.
    """
    _check(sheet)
    environment = _environment()
    scale = picture_scale(sheet.height, sheet.width)
    style = environment.get_template("grading.css.j2").render(scale=scale, sheet=sheet)
    script = _script()
    return environment.get_template("grading.html.j2").render(
        sheet=sheet,
        tasks=[task for task in GradingTask if any(item.task is task for item in sheet.items)],
        practice=sum(item.practice for item in sheet.items),
        classes=list(zip(class_keys(sheet.classes), sheet.classes, strict=True)),
        no_class_key=NO_CLASS_KEY,
        proper_keys=PROPER_KEYS,
        scale=scale,
        minimum=MINIMUM_MILLISECONDS,
        data=_script_data(sheet, scale),
        style=Markup(style),  # noqa: S704  of our own template, and numbers
        script=Markup(script),  # noqa: S704  our own file
        policy=_security_policy(style, script),
    )


def picture_scale(height: int, width: int) -> int:
    """Returns how many CSS pixels a side of a picture's pixel has: 8 for 32 x 32.

    It is the largest whole number of 1 to 8 at which the pair fits on a common screen, and depends on the pictures
    alone, so that every rater sees them equally large.
    """
    fits = min((MAX_PAIR_WIDTH - PAIR_GAP) // (2 * width), MAX_PICTURE_HEIGHT // height)
    return max(1, min(MAX_SCALE, fits))


def class_keys(classes: Sequence[str], without: str = "") -> tuple[str, ...]:
    """Returns the key of each class: 1 to 9, 0 for the tenth, then letters; "" for a class after the 33rd.

    Classes that are all called by one digit have that digit: who sees a 5 presses 5. Letters in `without` mean
    something else where the keys are used.
    """
    if all(len(name) == 1 and name in _DIGITS for name in classes):
        return tuple(classes)
    count = len(classes)
    keys = "".join(key for key in _DIGITS + _LETTERS if key not in without)[:count]
    return (*keys, *[""] * (count - len(keys)))


def _check(sheet: Sheet) -> None:
    for item in sheet.items:
        if item.task not in sheet.wording:
            raise ValueError(f"item {item.token}: the sheet has no wording of the task {item.task.value}")
        if item.task is GradingTask.QUALITY and not item.original:
            raise ValueError(f"item {item.token}: quality is graded beside the original, which is missing")


def _script_data(sheet: Sheet, scale: int) -> dict[str, object]:
    """Returns what the script knows. Texts of organizers are not in it: the page shows them itself."""
    return {
        "plan": sheet.plan,
        "rater": sheet.rater,
        "classes": len(sheet.classes),
        "items": [item.model_dump(mode="json") for item in sheet.items],
        "session_size": sheet.session_size,
        "minimum": MINIMUM_MILLISECONDS,
        "pair_width": 2 * scale * sheet.width + PAIR_GAP,
        "picture_height": scale * sheet.height,
        "columns": COLUMNS,
        "token_prefix": TOKEN_PREFIX,
    }


def _security_policy(style: str, script: str) -> str:
    """Returns the policy: the one script and the one style that have these digests, and pictures in the page."""
    return (
        f"default-src 'none'; script-src '{_source_digest(script)}'; style-src '{_source_digest(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _source_digest(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


@cache
def _script() -> str:
    """Returns the script as it is in its file: it is no template, and the same for every page."""
    return _TEMPLATES.get_source(_environment(), "grading.js")[0]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=_TEMPLATES,
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_make_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(palette=colours.PALETTES["light"], pair_gap=PAIR_GAP)
    return environment


def _make_printable(value: object) -> object:
    """Makes every text of a sheet printable before it is escaped; its lines stay lines."""
    if type(value) is not str:
        return value
    return "\n".join(printable(line, MAX_TEXT) for line in value[: 2 * MAX_TEXT].split("\n"))
