"""The sample round, and a strict parser of its page."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.reports.examples import Example
from orchestrator.scoring.results_file import Results

VOID = {"meta", "img", "br", "link", "hr", "input"}


class Tree(HTMLParser):
    """Parses a page strictly: every opened tag has to be closed, in order. Keeps what the tests need."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[tuple[str, dict[str, str | None]]]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == [], "tags left open"

    def handle_starttag(self, tag, attrs):
        """Opens a tag."""
        assert len({key for key, _ in attrs}) == len(attrs), f"an attribute twice in <{tag}>"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        """Closes the tag that was opened last."""
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> in the wrong place"

    def handle_data(self, data):
        """Keeps what a reader sees."""
        if self.open and self.open[-1] != "style":
            self.text.append(data)

    @property
    def words(self) -> str:
        """The page's text, in single spaces."""
        return " ".join(" ".join(self.text).split())

    def named(self, tag: str) -> list[dict[str, str | None]]:
        """Returns the attributes of every such tag."""
        return [attrs for name, attrs in self.tags if name == tag]


def results_of(**changes) -> Results:
    """Returns a complete round of 3 attacks and 3 defences, one of each side a baseline."""
    values = json.loads((Path(__file__).parent / "round.json").read_text(encoding="utf-8"))
    return Results.model_validate(values | changes)


def parts(**wanted) -> dict[str, Any]:
    """Returns the values of the one part that has the wanted id among a list of the sample round."""
    [(name, part_id)] = wanted.items()
    return next(part for part in results_of().model_dump()[name] if part["id"] == part_id)


def example(**changes) -> Example:
    """Returns a picture of `madry` that was changed by 20 steps everywhere."""
    clean = np.arange(64, dtype=np.uint8).reshape(1, 8, 8)
    texts = {
        "attack": "square",
        "defence": "madry",
        "label": "two",
        "clean_answer": "two",
        "adversarial_answer": "one",
        "forfeit": "",
    }
    return Example(picture=17, clean=clean, adversarial=clean + np.uint8(20), **(texts | changes))
