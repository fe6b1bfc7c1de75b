"""The site of a contest: pages that fit together, need nothing else, and show nothing hidden."""

import re
from collections import Counter
from functools import cache
from pathlib import PurePosixPath
from posixpath import normpath
from urllib.parse import quote, unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import DictLoader

from orchestrator import redaction, reports
from orchestrator.bundles.receipts import encode_receipt
from orchestrator.domain import contest_events
from orchestrator.domain.submissions import Side
from orchestrator.formats.tournament.events import FinalistsPromoted
from orchestrator.reports import file_names
from orchestrator.reports.site import build_site
from orchestrator.reports.team import ContestHistory

from .pages import Tree, results_of
from .test_report import HOSTILE

FILES = ["report.md", "cells.csv"]
DIGEST = "sha256:" + "ab" * 32
SAVED = "data:application/json,"
NOON = "2026-03-01T12:00:00.000+00:00"


def person(name: str, *, organizer: bool = False) -> contest_events.PersonRecord:
    """Returns a person whose id is an address."""
    return contest_events.PersonRecord(id=f"{name}@example.org", name=name, organizer=organizer)


def history(team: str = "team of square", text: str = "x", contest_format: str = "tournament") -> ContestHistory:
    """Returns acts about one team: its people, a submission with everything that can happen to it, a refusal."""
    whom = {"actor": "desk", "id": "square"}
    about = {"actor": "desk", "team": team, "task": "digits", "side": Side.ATTACK}
    received = {
        "id": "square",
        "name": "square",
        "digest": DIGEST,
        "image": "i",
        "folder": "",
        "attempt": 2,
        "attempts_left": 1,
    }
    promoted = {"actor": "desk", "task": "digits", "defences": [], "superseded": {}, "reason": ""}
    said = [
        (contest_events.ContestOpened, {"contest": {"format": contest_format, "rules": {}}}),
        (
            contest_events.TeamAdded,
            {"actor": "desk", "team": team, "people": [person("Ada"), person("Otto", organizer=True)]},
        ),
        (
            contest_events.SubmissionReceived,
            {**about, **received, "licence": text, "source": text, "warnings": [f"{text} warned"]},
        ),
        (
            contest_events.SubmissionRefused,
            {**about, "name": text, "problems": [f"{text} Ada plays defence (A1)", "second"]},
        ),
        (
            contest_events.SubmissionCorrected,
            {**whom, "licence": f"{text}MIT", "source": None, "reason": f"{text} late"},
        ),
        (FinalistsPromoted, {**promoted, "attacks": ["square"]}),
        (FinalistsPromoted, {**promoted, "attacks": [], "superseded": {"square": f"{text}-2"}}),
        (contest_events.SubmissionDisqualified, {**whom, "reason": f"{text} cheated"}),
        (contest_events.SubmissionWithdrawn, {**whom, "reason": f"{text} went home"}),
    ]
    happened = [kind.model_construct(**values) for kind, values in said]  # also what no contest would take
    return ContestHistory(tuple((NOON, act) for act in happened), {"square": receipt(text)})


def receipt(text: str) -> bytes:
    """Returns what stands for a receipt's file, longer than any text in a page. No file holds half a pair."""
    return encode_receipt({"warnings": [text.encode("utf-8", "replace").decode()] * 600, "signature": "ab" * 64})


def rounds(text: str = ""):
    """Returns two rounds of one task and one of another, with `text` before each team's name."""
    submissions = results_of().model_dump()["submissions"]
    teams = [{**part, "team": text + part["team"]} for part in submissions]
    task = results_of().model_dump()["task"]
    return [
        redaction.redact_results(results_of(submissions=teams, round="initial")),
        redaction.redact_results(results_of(submissions=teams, round="final")),
        redaction.redact_results(results_of(submissions=teams, round="initial", task={**task, "name": "faint"})),
    ]


def pages_of(text: str = "", told: str = "x") -> dict[str, str]:
    """Returns all pages of a site, the private ones below `private/`."""
    site = build_site(rounds(text), history(f"{text}team of square", told))
    private = {f"private/{name}": page for name, page in reports.render_private(site).items()}
    return reports.render_site(site, FILES) | private


class ServedAddresses:
    """Addresses of a web service, absolute, every name quoted."""

    def index(self):
        """Returns the first page's."""
        return "/contests/cup/"

    def round(self, name, task):
        """Returns a round's."""
        return f"/contests/cup/rounds/{quote(name, safe='')}/{quote(task, safe='')}/"

    def team(self, name):
        """Returns a team's."""
        return f"/contests/cup/teams/{quote(name.encode('utf-8', 'replace'), safe='')}/"

    def file(self, name):
        """Returns a file's."""
        return f"/contests/cup/files/{name}"


BASE_OF_A_SERVICE = """<!DOCTYPE html><html lang="en"><head>
<title>{% block title %}{% endblock %} - {{ service }}</title>
<link rel="stylesheet" href="/style.css"></head><body><nav><a href="/">{{ service }}</a></nav>
{% block body %}{% endblock %}</body></html>"""


def served_pages(text: str = "") -> dict[str, str]:
    """Returns the pages as a web service renders them within a frame of its own, by address."""
    addresses = ServedAddresses()
    site = build_site(rounds(text), history(f"{text}team of square", text), addresses=addresses)
    environment = reports.environment(DictLoader({"base.html.j2": BASE_OF_A_SERVICE}))

    def rendered(template, **values):
        return environment.get_template(template).render(service="<Ours>", links=site.links, **values)

    files = [(name, addresses.file(name)) for name in FILES]
    pages = {addresses.index(): rendered("index.html.j2", index=site.index, files=files)}
    pages |= {href: rendered("page.html.j2", page=page) for href, page in site.rounds.items()}
    return pages | {href: rendered("team.html.j2", page=page) for href, page in site.teams.items()}


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", *HOSTILE])
def test_a_web_service_frames_the_pages_and_says_where_they_lie(text):
    """Its base wins, its addresses are in every link, and `style-src 'self'` forbids nothing on a page."""
    pages = served_pages(text)
    targets = {*pages, "/", *(f"/contests/cup/files/{name}" for name in FILES)}
    found = set()
    for href, page in pages.items():
        tree = Tree(page)
        assert page.startswith(BASE_OF_A_SERVICE.splitlines()[0]), href
        assert tree.words.count("<Ours>") == 2, href
        assert not tree.named("style"), href
        assert not [attrs for _, attrs in tree.tags if "style" in attrs], href
        links = {str(attrs["href"]) for attrs in tree.named("a")}
        found |= {link for link in links if not link.startswith(("#", SAVED))}
    assert found == targets


def test_the_stylesheet_is_what_files_hold_inline():
    """A page that is a file by itself has the same style that a service serves once; nothing in it is markup."""
    style = reports.stylesheet()
    assert f"<style>\n{style}</style>" in pages_of()["index.html"]
    assert not re.search(r"[<&]|url\(|@import|\{[{%#]", style)


def test_what_scrolls_holds_the_words_that_only_screen_readers_say():
    """Those are positioned: what scrolls without being their place lets them widen a page on a phone."""
    rules = re.findall(r"([^{}]+)\{([^{}]*)\}", reports.stylesheet())
    scrolled = {selector.strip(): body for selector, body in rules if "overflow-x: auto" in body}
    assert {".board", ".scroll"} <= {selector.split("*/")[-1].strip() for selector in scrolled}
    assert all("position: relative" in body for body in scrolled.values())


def test_every_page_is_there_and_sound():
    """One first page, a page a round, one for each team but the baselines' alone, each balanced, no id twice."""
    pages = pages_of()
    assert {name for name in pages if name.startswith("rounds/")} == {
        "rounds/initial-digits.html",
        "rounds/final-digits.html",
        "rounds/initial-faint.html",
    }
    long = "team of a-very-long-name-that-goes-on-and-on-until-sixty-four-characters"
    teams = ("team of square", long, "team of madry", "team of moody")
    assert {name for name in pages if name.startswith("teams/")} == {
        f"teams/{file}.html" for file in file_names.unique_file_names(teams, "team").values()
    }
    for page in pages.values():
        tree = Tree(page)
        ids = Counter(attrs["id"] for _, attrs in tree.tags if "id" in attrs)
        assert max(ids.values()) == 1
        assert len(tree.named("table")) == len(tree.named("caption"))
        targets = {attrs["aria-labelledby"] for _, attrs in tree.tags if "aria-labelledby" in attrs}
        targets |= {attrs["href"][1:] for attrs in tree.named("a") if attrs["href"].startswith("#")}
        assert targets <= ids.keys()


def test_every_link_leads_to_a_page_of_the_site():
    """Links are relative and find a page or a file of the site; a private page links nowhere."""
    pages = pages_of()
    seen = 0
    for name, page in pages.items():
        for attrs in Tree(page).named("a"):
            if attrs["href"].startswith(("#", SAVED)):
                continue
            assert not name.startswith("private/")
            seen += 1
            assert normpath(PurePosixPath(name).parent / attrs["href"]) in {*pages, *FILES}, (name, attrs["href"])
    assert seen > 50


def test_the_site_needs_nothing_from_outside_and_shows_no_picture():
    """No script, no address, no picture, and the same policy as every page."""
    for name, page in pages_of().items():
        tree = Tree(page)
        assert not tree.named("script"), name
        assert not tree.named("img"), name
        assert not tree.named("link"), name
        assert not re.search(r"https?:|//[a-z]|@import|url\(|javascript:|\son[a-z]+=", page), name
        policy = next(attrs for attrs in tree.named("meta") if "http-equiv" in attrs)
        assert policy["content"].startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline';")


@cache
def harmless_trees() -> list[Tree]:
    """Returns the pages of a site on which nothing is hostile."""
    return [Tree(page) for page in pages_of("x", "x").values()]


@pytest.mark.parametrize("text", [*HOSTILE, "t" * 300, "../../../etc/passwd", "CON", ".", "\N{KATAKANA LETTER A}"])
def test_hostile_names_change_no_tag_and_no_file_name(text):
    """Whatever a team is called and whatever was said of it, pages keep their tags, and files their plain names."""
    harmless, hostile = harmless_trees(), pages_of(text, text)
    assert len(harmless) == len(hostile)
    for name in hostile:
        assert re.fullmatch(r"(rounds/|teams/|private/)?[a-z0-9-]+\.html", name), name
    for before, page in zip(harmless, hostile.values(), strict=True):
        after = Tree(page)
        assert [tag for tag, _ in before.tags] == [tag for tag, _ in after.tags]
        assert [attrs.keys() for _, attrs in before.tags] == [attrs.keys() for _, attrs in after.tags]
        assert page.replace("\n", "").isprintable()
        page.encode("utf-8")


@pytest.mark.parametrize(("contest_format", "said"), [("tournament", "2, 1 left"), ("unrestricted", "2")])
def test_attempts_are_counted_down_where_there_are_so_many_only(contest_format, said):
    """An unrestricted contest takes as many defences of a team as it submits."""
    site = build_site(rounds(), history(contest_format=contest_format))
    page = Tree(reports.render_site(site, FILES)["teams/team-of-square.html"]).words
    assert f"UTC Attempt {said} Licence" in page


def test_a_team_page_tells_what_became_of_everything():
    """People, submissions with receipt and acts in order, refusals, ranks, cells, faults, replays, use."""
    page = Tree(pages_of()["teams/team-of-square.html"]).words
    for text in (
        "People 2",
        "Of the organizing institution 1, no prizes (A5)",
        "Received 2026-03-01 12:00:00 UTC Attempt 2, 1 left Licence xMIT Source x Digest " + DIGEST,
        "x warned",
        "Corrected: licence is now xMIT: x late",
        "Promoted to the final",
        "Not promoted: x-2",
        "Disqualified: x cheated",
        "Withdrawn: x went home",
        "Receipt is signed",
        "For 2 reasons.",
        "out-of-memory",
    ):
        assert text in page, text
    part = next(p for p in rounds()[0].submissions if p.id == "square")
    assert str(part.forfeits) in page
    for cell in (cell for cell in rounds()[0].cells if cell.attack == "square"):
        assert f"{cell.defence} {100 * cell.held / cell.total:.1f}%" in page


@pytest.mark.parametrize("text", [*HOSTILE, "x"])
def test_a_receipt_is_saved_from_a_page_byte_for_byte(text):
    """Whatever is in it and however long it is, the link of either page holds the file as it was handed out."""
    pages = pages_of(told=text)
    for name in ("teams/team-of-square.html", "private/team-of-square.html"):
        [link] = [attrs for attrs in Tree(pages[name]).named("a") if "download" in attrs]
        assert link["download"] == "square.json"
        assert re.fullmatch(re.escape(SAVED) + r"[\w.%~-]+", link["href"], re.ASCII)
        assert unquote_to_bytes(link["href"].removeprefix(SAVED)) == receipt(text)


def test_people_and_reasons_are_on_the_private_page_alone():
    """Names and why something was refused go to the team; the web sees numbers; nobody sees an address."""
    pages = pages_of()
    own = Tree(pages["private/team-of-square.html"]).words
    assert "People Ada, Otto" in own
    assert "x Ada plays defence (A1)" in own
    for name, page in pages.items():
        assert "@example.org" not in page
        if name != "private/team-of-square.html":
            assert not re.search(r"\bAda\b|\bOtto\b|plays defence", page), name


def test_a_team_sees_its_own_cells_only():
    """A team's page has the cells of its submissions and of nobody else."""
    page = pages_of()["teams/team-of-madry.html"]
    cells = page[page.index('class="plain cells') :].split("</table>")[0]
    assert [word for word in ("moody", "undefended") if word in cells] == []
    assert all(word in cells for word in ("pgd", "square", "clean pictures"))


def test_findings_are_codes_and_counts_on_every_page():
    """Kind, rules and counts are told; no picture's number, no answer, no margin, no seed and no command."""
    for name, page in pages_of().items():
        text = Tree(page).words
        assert "abstained two" not in text, name
        assert "sparring replay" not in text, name
        assert "815" not in text, name
        assert "0.25" not in re.sub(r"\d\.\d+%|<style>.*</style>", "", text), name
    assert "90 compared, 1 of them disagree." in Tree(pages_of()["teams/team-of-moody.html"]).words


def test_the_first_page_has_every_round_of_every_task():
    """The latest round of a task comes first and is open; boards, matrix and findings of all are there."""
    page = pages_of()["index.html"]
    tree = Tree(page)
    assert [attrs.get("open", "closed") for attrs in tree.named("details")] == [None, "closed", None]
    assert page.count('<table class="heat">') == 3
    assert page.index("final</bdi> round") < page.index("initial</bdi> round")
    assert tree.words.count("90 compared, 1 of them disagree.") == 3


def test_same_rounds_same_bytes():
    """Two sites of equal rounds are equal."""
    assert pages_of() == pages_of()


def test_a_place_among_prizes_is_told_where_it_differs():
    """Where organizers are ranked above, the place of the next is said beside its rank (A5)."""
    boards = results_of().model_dump()["boards"]
    boards[0]["rows"][1] |= {"rank": 2, "prize_rank": 1, "no_prize": ""}
    words = "place 1 among those who may get a prize"
    assert words in Tree(reports.render_round(results_of(boards=boards), [])).words
    initial = results_of(boards=boards, round="initial")
    assert words not in Tree(reports.render_round(initial, [])).words


def test_only_a_round_that_decides_prizes_tells_a_place_for_prizes():
    """On the page of a team: a place in the initial round is no prize, and is not called one."""
    [page] = [page for name, page in pages_of().items() if name == "teams/team-of-square.html"]
    final, *others = sorted(page.split('<section aria-labelledby="played-')[1:], key=lambda part: "final" not in part)
    assert [part.count("for prizes") for part in (final, *others)] == [1, 0, 0]


@given(st.lists(st.text(), max_size=12))
def test_file_names_are_plain_and_never_collide(teams):
    """Any names give as many file names, plain and in small letters; whoever comes later changes nobody's."""
    found = file_names.unique_file_names(teams, "team")
    assert found.keys() == set(teams)
    assert len(set(found.values())) == len(found)
    for file in found.values():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", file)
        assert len(file) < 64
    assert file_names.unique_file_names([*teams, "one more"], "team").items() >= found.items()


def test_file_names_say_who_it_is():
    """Letters with marks lose them; device names and what would be the first page get another name."""
    teams = ["Corner Shop", "corner  shop!", "Ünïted", "CON", "index", "\N{KATAKANA LETTER A}", "-2"]
    assert list(file_names.unique_file_names(teams, "team").values()) == [
        *("corner-shop", "corner-shop-2", "united", "the-con", "the-index", "team", "2"),
    ]
