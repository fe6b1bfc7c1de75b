"""The grading page as text: what is in it, what is not, and what it lets run."""

import base64
import hashlib
import json
import re

import pytest

from orchestrator.formats.attack_set.grading.page import class_keys, grading_page, picture_scale
from orchestrator.formats.attack_set.grading.sheets import GradingTask, SheetItem
from orchestrator.reports import colours
from tests.reports.pages import Tree
from tests.reports.test_report import HOSTILE

from .conftest import GRADES, sheet_of

VALID, QUALITY = GradingTask.VALID, GradingTask.QUALITY
SCRIPTS = re.compile(r"<script([^>]*)>(.*?)</script>", re.DOTALL)


def embedded(page: str) -> str:
    """Returns the JSON text that the page's script reads."""
    return next(text for attributes, text in SCRIPTS.findall(page) if "application/json" in attributes)


def poisoned(text: str) -> str:
    """Returns the page of a sheet with `text` in everything that organizers write."""
    return grading_page(
        sheet_of(
            VALID,
            QUALITY,
            contest=text,
            classes=[text, "cat"],
            wording={VALID: text, QUALITY: text},
            grades=[text, *GRADES[1:]],
        )
    )


@pytest.mark.parametrize("text", [*HOSTILE, "<!--<script>", "]]>"])
def test_hostile_text_stays_text(text) -> None:
    """Names and wording change no tag, no attribute and nothing of what the script reads."""
    page, harmless = poisoned(text), poisoned("x")
    tree, expected = Tree(page), Tree(harmless)
    assert [tag for tag, _ in tree.tags] == [tag for tag, _ in expected.tags]
    assert [attrs.keys() for _, attrs in tree.tags] == [attrs.keys() for _, attrs in expected.tags]
    assert SCRIPTS.findall(page) == SCRIPTS.findall(harmless)
    assert all(character.isprintable() or character == "\n" for character in page)
    page.encode("utf-8")


def test_no_markup_begins_in_the_embedded_json() -> None:
    """Even a picture that is no base64 cannot end the script element."""
    text = "</script><script>alert(1)</script><!--"
    broken = SheetItem(token="ab" * 8, task=VALID, picture=text)
    page = grading_page(sheet_of(items=[broken]))
    assert "<" not in embedded(page)
    assert json.loads(embedded(page))["items"][0]["picture"] == text
    assert len(SCRIPTS.findall(page)) == 2


def test_lines_of_the_wording_stay_lines() -> None:
    """A question of two lines is shown as two."""
    page = grading_page(sheet_of(VALID, wording={VALID: "first line\nsecond line"}))
    assert page.count("first line\nsecond line") == 2


def test_the_policy_names_the_script_and_the_style_by_their_digests() -> None:
    """The content security policy allows exactly the script and the style that are in the page, and data pictures."""
    page = grading_page(sheet_of(VALID))
    scripts = [text for attributes, text in SCRIPTS.findall(page) if not attributes]
    styles = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert len(scripts) == len(styles) == 1
    policy = next(meta for meta in Tree(page).named("meta") if meta.get("http-equiv") == "Content-Security-Policy")
    parts = dict(part.strip().split(" ", 1) for part in policy["content"].split(";"))
    digests = [
        "'sha256-" + base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() + "'" for s in scripts + styles
    ]
    none = dict.fromkeys(("default-src", "base-uri", "form-action"), "'none'")
    assert parts == {**none, "script-src": digests[0], "style-src": digests[1], "img-src": "data:"}


def test_the_page_needs_nothing_from_outside() -> None:
    """No address, no import, no attribute that runs; the only link is an empty icon, so that none is asked for."""
    page = grading_page(sheet_of(VALID, QUALITY))
    without_pictures = page.replace(embedded(page), "")
    assert not re.search(r"https?:|[\"'(]//|@import|url\(|javascript:|\son[a-z]+=|\sstyle=", without_pictures)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|fetch\(", page)
    assert Tree(page).named("link") == [{"rel": "icon", "href": "data:,"}]


def test_an_item_is_its_token_and_its_pictures() -> None:
    """The script reads nothing else of an item, and the rest of the page is the same whatever the items are."""
    one, other = sheet_of(VALID, QUALITY), sheet_of(VALID, QUALITY, QUALITY)
    pages = [grading_page(one), grading_page(other)]
    read = json.loads(embedded(pages[1]))
    assert {frozenset(item) for item in read["items"]} == {frozenset(SheetItem.model_fields)}
    assert read.keys() == {
        *("plan", "rater", "classes", "items", "session_size", "minimum", "pair_width", "picture_height"),
        *("columns", "token_prefix"),
    }
    rest = [page.replace(embedded(page), "") for page in pages]
    assert rest[0] == rest[1]
    assert not any(item.token in rest[1] for item in other.items)


def test_the_page_is_accessible() -> None:
    """Ids are unique, references find them, pictures have a description, and groups of buttons a legend."""
    tree = Tree(grading_page(sheet_of(VALID, QUALITY)))
    ids = [attrs["id"] for _, attrs in tree.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {attrs["aria-labelledby"] for _, attrs in tree.tags if "aria-labelledby" in attrs} <= set(ids)
    assert all(attrs["alt"] for attrs in tree.named("img"))
    assert len(tree.named("fieldset")) == len(tree.named("legend")) == 3
    assert all(attrs["aria-pressed"] == "false" for attrs in tree.named("button") if "data-kind" in attrs)
    assert "This page needs JavaScript" in tree.words


@pytest.mark.parametrize(
    ("text", "background"),
    [
        ("surface", "defence"),
        ("ink", "defence-back"),
        ("muted", "surface"),
        ("warn", "warn-back"),
        ("ink", "warn-back"),
    ],
)
def test_text_has_enough_contrast(text, background) -> None:
    """Buttons in each state, and messages, reach 4.5 : 1."""
    palette = colours.PALETTES["light"]
    assert colours.contrast(palette[text], palette[background]) >= 4.5


def test_labels_on_the_grey_have_enough_contrast() -> None:
    """They are black on grey 128."""
    page = grading_page(sheet_of(QUALITY))
    assert ".stage { background: rgb(128, 128, 128);" in page
    assert ".stage figcaption { color: #000;" in page
    assert colours.contrast("#000000", "#808080") >= 4.5


@pytest.mark.parametrize(
    ("height", "width", "scale"),
    [(32, 32, 8), (28, 28, 8), (1, 1, 8), (64, 64, 8), (96, 96, 5), (224, 224, 2), (299, 299, 1), (2000, 3000, 1)],
)
def test_scale(height, width, scale) -> None:
    """Pictures are enlarged by the largest whole number to 8 at which a pair fits on a common screen."""
    assert picture_scale(height, width) == scale


def test_keys_of_classes() -> None:
    """Digits, then letters without a meaning of their own, each once; classes beyond have none."""
    assert class_keys(["cat", "dog", "cow"]) == ("1", "2", "3")
    assert class_keys([f"class {n}" for n in range(12)])[9:] == ("0", "a", "b")
    keys = class_keys([f"class {n}" for n in range(40)])
    assert len(keys) == 40
    assert keys[33:] == ("",) * 7
    assert len({*keys[:33], "x", "y", "n"}) == 36


def test_a_class_that_is_called_by_a_digit_has_its_key() -> None:
    """Whoever sees a 5 presses 5; with other names among them the keys are places."""
    assert class_keys([str(digit) for digit in range(10)]) == tuple("0123456789")
    assert class_keys(["1", "7"]) == ("1", "7")
    assert class_keys(["0", "1", "none"]) == ("1", "2", "3")
    assert class_keys([str(number) for number in range(11)])[0] == "1"


def test_a_sheet_that_cannot_be_shown_is_refused() -> None:
    """A task without wording, and a quality item without its original, are named."""
    with pytest.raises(ValueError, match="no wording of the task valid"):
        grading_page(sheet_of(VALID, wording={QUALITY: "?"}))
    lone = SheetItem(token="ab" * 8, task=QUALITY, picture="")
    with pytest.raises(ValueError, match=r"item abababababababab: .*original"):
        grading_page(sheet_of(items=[lone]))


def test_the_same_sheet_gives_the_same_page() -> None:
    """Nothing of the machine or the time is in it."""
    assert grading_page(sheet_of(VALID)) == grading_page(sheet_of(VALID))
