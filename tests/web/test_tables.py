"""Tables of the service: in a narrow window each cell stands on a line of its own, with the heading of its column."""

import html
import re
from html.parser import HTMLParser

from .test_rights import filled
from .world import EVERYBODY


class Tables(HTMLParser):
    """Collects each table of a page as its headings and the `data-label` of each cell, row by row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, list[str], list[list[str | None]]]] = []
        self._in_head = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Notes a table, a heading, a row or a cell."""
        given = dict(attrs)
        if tag == "table":
            self.found.append((given.get("class") or "", [], []))
        elif tag == "thead":
            self._in_head = True
        elif tag == "tbody":
            self._in_head = False
        elif tag == "tr" and not self._in_head:
            self.found[-1][2].append([])
        elif tag in ("th", "td") and not self._in_head:
            self.found[-1][2][-1].append(given.get("data-label"))
        elif tag == "th":
            self.found[-1][1].append("")

    def handle_data(self, data):
        """Adds words to the last heading."""
        if self._in_head and self.found[-1][1]:
            self.found[-1][1][-1] += data.strip()


def test_each_cell_has_the_heading_of_its_column(world) -> None:
    """On every page of the service, for everybody; the tables of reports, which are wide, scroll instead."""
    from orchestrator.web.urls import PAGES

    seen = set()
    for who in EVERYBODY:
        client = world.client(who)
        for address in (filled(world, page, who) for page in PAGES):
            answer = client.get(address)
            answer.close()
            if answer.status_code != 200 or "html" not in answer["Content-Type"]:
                continue
            for kind, heads, rows in Tables(answer.content.decode()).found:
                if "rows" in kind.split():
                    seen.add(tuple(heads))
                    assert all(row == heads for row in rows), (address, heads, rows)
    assert ("Task", "Side", "Left", "What stands against it") in seen
    assert len(seen) > 8


def test_labels_are_escaped_and_rows_begin_anew(service) -> None:
    """A heading may be any text, and a cell without a heading has an empty label."""
    from orchestrator.web.templating import labelled

    rows = "<tr><th scope=row>a</th><td>b</td></tr><tr><th>c</th><td>d</td><td>e</td></tr>"
    labels = [html.unescape(each) for each in re.findall('data-label="([^"]*)"', labelled(rows, ['"1" & 2', "x"]))]
    assert labels == ['"1" & 2', "x", '"1" & 2', "x", ""]
