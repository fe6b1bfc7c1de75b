"""The page on which one rater grades: a single HTML file that needs no network, no other file and no server.

Texts of organizers are escaped and made printable; the script reads its data from JSON in which no markup can begin.
The content security policy names this page's own script and style by their digests, so nothing else in it runs. Only a
random token identifies an item.
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
"""CSS pixels for the pair on a screen of 1366 x 768, the smallest common size."""
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
"""The keys of the eleventh and further classes: all letters without another meaning."""


def grading_page(sheet: Sheet) -> str:
    """Returns the HTML page of a rater's sheet. The same sheet gives the same text.

    Raises:
        ValueError: the sheet has no wording for an item's task, or an item of the quality task has no original.
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
    """Returns the size of a picture's pixel in CSS pixels, such as 8 for pictures of 32 x 32.

    It is the largest integer from 1 to 8 at which the pair fits on a common screen. It depends only on the size of the
    pictures, so that every rater sees them in the same size.
    """
    fits = min((MAX_PAIR_WIDTH - PAIR_GAP) // (2 * width), MAX_PICTURE_HEIGHT // height)
    return max(1, min(MAX_SCALE, fits))


def class_keys(classes: Sequence[str], without: str = "") -> tuple[str, ...]:
    """Returns the key of each class: 1 to 9, 0 for the tenth, then letters; "" for a class after the 33rd.

    If the name of every class is one digit, its key is that digit: a rater who sees a 5 presses 5. `without` are
    letters with another meaning where the keys are used.
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
    """Returns the data of the script, without texts of organizers, which are in the page's HTML."""
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
    """Returns the policy: it allows the script and the style with these digests, and pictures in `data:` URLs."""
    return (
        f"default-src 'none'; script-src '{_source_digest(script)}'; style-src '{_source_digest(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _source_digest(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


@cache
def _script() -> str:
    """Returns the text of the script file: it is not a template, and is the same for every page."""
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
    """Makes a text of a sheet printable before it is escaped; its line breaks are kept."""
    if type(value) is not str:
        return value
    return "\n".join(printable(line, MAX_TEXT) for line in value[: 2 * MAX_TEXT].split("\n"))
