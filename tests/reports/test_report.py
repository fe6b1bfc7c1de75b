"""The report of a round: complete, harmless, self-contained, the same every time."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from orchestrator import reports
from orchestrator.reports import formatting
from orchestrator.reports.examples import Example
from orchestrator.scoring.results_file import Results

from .pages import Tree, example, parts, results_of

LONG = "a-very-long-name-that-goes-on-and-on-until-sixty-four-characters"
HOSTILE = [
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "\x1b[31mred\x1b[0m\x07",
    "\u202egnp.exe\u2066",
    "{{ 7 * 7 }}{% raw %}",
    "https://evil.example/x.js",
    "</style></title></table>",
    "line\nbreak\r\u2028end",
    "\ud800half a pair",
]


def poisoned(text: str) -> tuple[Results, list[Example]]:
    """Returns the sample round with `text` before every string in it, keys of the rules included."""

    def poison(value: Any, key: str = "") -> Any:
        if isinstance(value, str):
            kept = {"side", "status", "kind", "stage", "epsilon", "fresh_copy", "format"}
            return value if key in kept else text + value
        if isinstance(value, list):
            return [poison(item) for item in value]
        if isinstance(value, dict):
            poisoned_keys = key in {"rules", "values"}  # as the names of columns, which are values too
            return {text + name if poisoned_keys else name: poison(item, name) for name, item in value.items()}
        return value

    results = Results.model_validate(poison(results_of().model_dump(mode="json")))
    texts = ("attack", "defence", "label", "clean_answer", "adversarial_answer", "forfeit")
    return results, [example(**dict.fromkeys(texts, text))]


def test_page_is_balanced_html_with_sound_references():
    """Every tag closes in order, ids are unique, and whatever points at an id finds it."""
    tree = Tree(reports.render_round(results_of(), [example()]))
    ids = [attrs["id"] for _, attrs in tree.tags if "id" in attrs]
    assert max(Counter(ids).values()) == 1
    targets = [attrs["aria-labelledby"] for _, attrs in tree.tags if "aria-labelledby" in attrs]
    targets += [attrs["href"].removeprefix("#") for attrs in tree.named("a")]
    assert len(targets) > 10
    assert set(targets) <= set(ids)


def test_tables_are_accessible():
    """Tables have captions, heading cells a scope, pictures a description, and scroll boxes take the keyboard."""
    tree = Tree(reports.render_round(results_of(), [example()]))
    assert len(tree.named("table")) == len(tree.named("caption")) >= 6
    assert all(attrs.get("scope") in {"col", "row", "colgroup", "rowgroup"} for attrs in tree.named("th"))
    assert all(attrs["alt"] for attrs in tree.named("img"))
    boxes = [attrs for attrs in tree.named("div") if attrs.get("class") == "scroll"]
    assert boxes
    assert all(attrs["tabindex"] == "0" and attrs["role"] == "region" for attrs in boxes)


def test_page_needs_nothing_from_outside():
    """No script, no address, no import; the content security policy allows inline style and data pictures only."""
    page = reports.render_round(results_of(), [example()])
    tree = Tree(page)
    assert not tree.named("script")
    assert not tree.named("link")
    assert not [attrs for _, attrs in tree.tags if "style" in attrs]
    assert not re.search(r"https?:|//[a-z]|@import|url\(|javascript:|\son[a-z]+=", page)
    assert all(attrs["src"].startswith("data:image/png;base64,") for attrs in tree.named("img"))
    assert all(attrs["href"].startswith("#") for attrs in tree.named("a"))
    policy = tree.named("meta")[1]
    assert policy["http-equiv"] == "Content-Security-Policy"
    assert policy["content"].startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline';")
    assert "script-src" not in policy["content"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text):
    """Whatever is in a name, a team, a message or a note changes no tag, no attribute and no line of the page."""
    harmless = Tree(reports.render_round(*poisoned("x")))
    page = reports.render_round(*poisoned(text))
    tree = Tree(page)
    assert [tag for tag, _ in tree.tags] == [tag for tag, _ in harmless.tags]
    assert [attrs.keys() for _, attrs in tree.tags] == [attrs.keys() for _, attrs in harmless.tags]
    assert all(character.isprintable() or character == "\n" for character in page)
    assert page.count("\n") == reports.render_round(*poisoned("x")).count("\n")
    page.encode("utf-8")


def test_bars_are_drawn_as_wide_as_their_numbers():
    """Shares of outcomes and the bars of a board are drawings, for a policy may forbid style in attributes."""
    cells = results_of().model_dump()["cells"]
    for cell in cells:
        if cell["attack"] == "pgd":
            cell |= {"not_played": cell["total"], "held": 0, "fooled": 0, "abstained": 0, "forfeits": 0}
    tree = Tree(reports.render_round(results_of(cells=cells), []))
    shares = {
        str(attrs["class"]): str(attrs["width"]) for attrs in tree.named("svg") if "%" in (attrs.get("width") or "")
    }
    assert shares.keys() == {"held", "abstained", "fooled", "not-played"}
    assert shares["not-played"] == "33.333%"
    assert sum(float(width.rstrip("%")) for width in shares.values()) == pytest.approx(100, abs=0.01)
    bars = [str(attrs["width"]) for attrs in tree.named("rect") if attrs.get("height") == "100%"]
    assert len(bars) == len([attrs for attrs in tree.named("svg") if attrs.get("class") == "meter"]) > 6
    assert "100.0%" in bars


def test_hostile_text_is_shown_escaped():
    """A script tag is there to be read, its brackets escaped; escape sequences and overrides are visible."""
    page = reports.render_round(*poisoned("<script>alert(1)</script>"))
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 20
    assert "<script" not in page
    assert "\\x1b[31mred" in reports.render_round(*poisoned("\x1b[31mred"))
    assert "\\u202egnp" in reports.render_round(*poisoned("\u202egnp"))


def test_templates_never_switch_escaping_off():
    """No template marks a value as safe or turns autoescape off."""
    templates = list((Path(reports.__file__).parent / "templates").glob("*.j2"))
    assert len(templates) >= 7
    for template in templates:
        assert not re.search(r"\|\s*safe|autoescape|Markup", template.read_text(encoding="utf-8")), template.name


def test_same_results_same_bytes():
    """Two renderings of equal results are equal."""
    assert reports.render_round(results_of(), [example()]) == reports.render_round(results_of(), [example()])


def test_head_says_what_was_played():
    """The facts, the notes, the findings and the fingerprints are on the page."""
    page = Tree(reports.render_round(results_of(), [])).words
    for text in (
        "Spring tournament",
        "500 of 1 \N{MULTIPLICATION SIGN} 8 \N{MULTIPLICATION SIGN} 8, 3 classes",
        "Linf 51/255",
        "Isolation round",
        "Backend docker",
        "One sandbox saw several versions of a picture.",
        "1 finding",
        "1 of 90 pictures got another decision.",
        "sparring 0.1.0",
        *("sha256:" + pair * 32 for pair in ("ab", "cd", "ef")),
        "clean_floor.points 10",
    ):
        assert text in page, text


def test_notes_and_findings_come_before_the_boards():
    """What a reader has to know first stands first."""
    page = reports.render_round(results_of(), [example()])
    places = [page.index(f'id="{name}"') for name in ("notes", "findings-short", "boards", "matrix", "submissions")]
    places += [page.index(f'id="{name}"') for name in ("pictures", "reading")]
    assert places == sorted(places)


def test_boards_show_every_row():
    """Ranks, ties, scores, violations, teams, and the reason of what is not ranked."""
    page = reports.render_round(results_of(), [])
    tree = Tree(page)
    for part in results_of().boards:
        for line in part.rows:
            assert f'<bdi class="id">{line.submission}</bdi>' in page
            assert f"team of {line.submission}" in tree.words
            assert line.reason in tree.words
    assert page.count("41.26") == 2
    assert page.count("tied</span>") == 2
    assert "\N{MINUS SIGN}0.12" in tree.words
    assert "no score" in tree.words
    assert "↑ higher is better" in tree.words
    assert "↓ lower is better" in tree.words
    assert "rules A13, A16" in tree.words
    assert 'title="exactly 313/20 points"' in page


def test_forfeits_have_their_reasons_beside_them():
    """Both pages of a submission say why its candidates do not count."""
    parts = results_of().model_dump()["submissions"]
    told = [{**part, "forfeits": 24, "forfeit_reasons": {"missing": 8, "shape": 16}} for part in parts]
    words_of = Tree(reports.render_round(results_of(submissions=told), [])).words
    assert words_of.count("24 8 not delivered 16 wrong shape") == 3
    assert "not delivered" not in Tree(reports.render_round(results_of(), [])).words


def test_first_of_a_board_is_marked_and_the_unranked_are_apart():
    """Each rank 1 is highlighted; rows without rank come in a group of their own."""
    page = reports.render_round(results_of(), [])
    assert page.count('<tr class="first">') == 3
    assert page.count("Shown, not ranked") == 2


def test_matrix_shows_every_cell():
    """Each cell has its accuracy, its delta and all its counts in the tooltip."""
    tree = Tree(reports.render_round(results_of(), []))
    titles = [attrs.get("title", "") for attrs in tree.named("td")]
    for part in results_of().cells:
        told = next(t for t in titles if t.startswith(f"{part.defence} against {part.attack or 'clean pictures'}:"))
        assert formatting.percent(part.held, part.total) in told
        for count in (f"held {part.held}", f"fooled {part.fooled}", "abstained 3", "forfeits 2", "faults 1"):
            assert count in told
        assert formatting.percent(part.held, part.total) in tree.words
    assert "35.8" in tree.words
    assert tree.words.count("baseline") >= 4


def test_matrix_is_a_full_grid():
    """Every row of the matrix fills every column, headings spanning as they say."""
    page = reports.render_round(results_of(), [])
    table = page[page.index('<table class="heat">') :]
    rows = Tree(table[: table.index("</table>") + len("</table>")]).rows
    widths = [sum(int(attrs.get("colspan") or 1) for _, attrs in cells) for cells in rows]
    assert widths == [4, 3, 4, 4, 4, 4, 4, 4]  # two of heads, clean pictures, then attacks below their groups


def test_cells_stand_beside_their_attack():
    """Baselines come first on both sides, whatever the order of the results; cells follow rows and columns."""
    turned = results_of().model_dump()["submissions"][::-1]
    page = reports.render_round(results_of(submissions=turned), [])
    heat = page[page.index('<table class="heat">') :]
    tree = Tree(heat[: heat.index("</table>") + len("</table>")])
    attacks = ["clean pictures", "pgd", LONG, "square"]
    defences = ["undefended", "moody", "madry"]
    columns = [attrs["title"].split(",")[0] for attrs in tree.named("th") if attrs.get("class") == "col"]
    assert columns == defences
    told = [attrs["title"].split(":")[0] for attrs in tree.named("td") if "title" in attrs]
    assert told == [f"{defence} against {attack}" for attack in attacks for defence in defences]


@pytest.mark.parametrize(
    ("delta", "shown"),
    [
        (12.34, "\N{BLACK DOWN-POINTING SMALL TRIANGLE} lost 12.3"),
        (-0.4, "\N{BLACK UP-POINTING SMALL TRIANGLE} gained 0.4"),
        (0.04, "60.2% 0.0"),
    ],
)
def test_delta_says_which_way(delta, shown):
    """A loss points down, a gain up, and what rounds to nothing has no direction."""
    cells = results_of().model_dump()["cells"]
    cells[1]["delta"] = delta
    assert shown in Tree(reports.render_round(results_of(cells=cells), [])).words


def test_missing_cells_are_pending_until_the_round_is_complete():
    """A cell without a result says pending while jobs are open, and not played afterwards."""
    gone = {("madry", "square"), ("moody", None)}
    cells = [part for part in results_of().model_dump()["cells"] if (part["defence"], part["attack"]) not in gone]
    done = results_of().model_dump()["jobs"]
    open_jobs = [*done, *done, {**done[0], "id": "1" * 16, "status": "pending", "seconds": None}]
    page = reports.render_round(results_of(cells=cells, complete=False, jobs=open_jobs), [])
    assert page.count("<small>pending</small>") == 2
    assert 'title="madry against square: not played yet"' in page
    assert "2 cells are pending." in page
    assert "2 of 3 jobs finished. Every board is provisional." in page
    closed = reports.render_round(results_of(cells=cells), [])
    assert "<small>pending</small>" not in closed
    assert closed.count("not part of this round") == 2
    assert "provisional" not in closed


def test_nothing_played_yet_is_a_page():
    """A round without cells, boards, findings and submissions renders."""
    empty = results_of(cells=[], boards=[], findings=[], submissions=[], jobs=[], complete=False, notes=[], rules={})
    assert "This format ranks nothing yet." in Tree(reports.render_round(empty, [])).words


def test_submissions_show_use_and_faults():
    """Status, time, memory, violations, distance and every fault with its first message."""
    page = Tree(reports.render_round(results_of(), [])).words
    for text in (
        "61.5 s",
        "300 MiB",
        "3 2 clean 1 out-of-memory",
        "187.46/255",
        "disqualified",
        "out-of-memory kernel 15 12 killed at 2 GiB",
    ):
        assert text in page, text


def test_unmeasured_use_says_so():
    """A figure that a backend cannot measure is a dash with words, not a zero."""
    unmeasured = {**parts(submissions="madry"), "cpu_seconds": None, "peak_bytes": None}
    page = reports.render_round(results_of(submissions=[unmeasured]), [])
    assert page.count('<span class="vh">not measured</span>') == 2


def test_same_names_stay_apart():
    """Two submissions of one name are told apart by their ids, and the long one is not cut."""
    page = reports.render_round(results_of(), [])
    assert page.count("<bdi>Same</bdi>") >= 4
    assert LONG in Tree(page).words


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, "fooled"),
        ({"adversarial_answer": "two"}, "held"),
        ({"adversarial_answer": "abstained"}, "abstained"),
        ({"adversarial_answer": "no answer"}, "no answer"),
        ({"adversarial_answer": "not asked", "forfeit": "over the budget"}, "forfeit"),
    ],
)
def test_gallery_says_what_became_of_a_picture(changes, outcome):
    """An example shows its three pictures, the answers and the outcome in words."""
    shown = example(**changes)
    tree = Tree(reports.render_round(results_of(), [shown]))
    assert len(tree.named("img")) == 3
    assert f"{outcome} {shown.clean_answer} → {shown.adversarial_answer}" in tree.words
    assert "difference \N{MULTIPLICATION SIGN} 6 at most 20/255" in tree.words
    assert ("does not count: over the budget" in tree.words) is bool(shown.forfeit)
