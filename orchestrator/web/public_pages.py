"""The public site of a contest, shown in the service's frame and rendered once for each state of the contest.

Every page shows redacted results (rule A2) and is made by the code that writes the site of `sparring report`.
"""

import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from django.urls import reverse
from jinja2 import DictLoader, Environment
from markupsafe import Markup

from orchestrator import reports
from orchestrator.application.contests import report_writer
from orchestrator.application.contests.report_writer import PublicSite
from orchestrator.application.rounds import round_record
from orchestrator.domain.ids import canonical_json, digest
from orchestrator.domain.season import Season
from orchestrator.ledger.round_folder import RoundFolder
from orchestrator.reports import file_names
from orchestrator.reports.site import Links
from orchestrator.reports.team import ContestHistory, TeamPage, team_pages
from orchestrator.web.contest_site import ContestSite

_BREAK = "\0"
"""The separator of title and body. No text contains it, because `printable` escapes it."""
_PARTS = f"{{% block title %}}{{% endblock %}}{_BREAK}{{% block body %}}{{% endblock %}}"
Parts = tuple[Markup, Markup]
"""The title and the body of a page."""


class ServedAddresses:
    """The addresses of the public pages. A team has the same slug as everywhere in the service."""

    def __init__(self, teams: Mapping[str, str]) -> None:
        self._teams = teams

    def index(self) -> str:
        """Returns the address of the page of all boards."""
        return reverse("boards")

    def round(self, name: str, task: str) -> str:
        """Returns the address of a round's page for a task."""
        return reverse("public-round", kwargs={"name": name, "task": task})

    def team(self, name: str) -> str:
        """Returns the address of a team's page."""
        return reverse("public-team", kwargs={"slug": self._teams[name]})

    def file(self, name: str) -> str:
        """Returns the address of a file of text or tables."""
        return reverse("public-file", kwargs={"name": name})


class PublicPages:
    """The public pages for one state of a contest. Each page is rendered at its first request.

    Attributes:
        tag: a digest of the state.
        files: files of text and tables by name; none before a round was played.
    """

    def __init__(self, tag: str, title: str, public: PublicSite | None, teams: Mapping[str, TeamPage]) -> None:
        self.tag, self._site = tag, public.site if public else None
        self.files: Mapping[str, bytes] = public.files if public else {}
        self._links = public.site.links if public else Links(reverse("boards"))
        self._teams = {href: replace(page, contest=page.contest or title) for href, page in teams.items()}
        self._rendered: dict[str, Parts] = {}

    def parts(self, address: str) -> Parts | None:
        """Returns a page by its address; None if there is no such round or team, or nothing was played."""
        if address not in self._rendered:
            made = self._render(address)
            if made is None:
                return None
            self._rendered[address] = made
        return self._rendered[address]

    def _render(self, address: str) -> Parts | None:
        if address in self._teams:
            return _parts("team.html.j2", page=self._teams[address], links=self._links)
        if self._site is None:
            return None
        if address == self._links.index:
            files = [(name, self._site.addresses.file(name)) for name in self.files]
            return _parts("index.html.j2", index=self._site.index, files=files, links=self._links)
        if address in self._site.rounds:
            return _parts("page.html.j2", page=self._site.rounds[address], links=self._links)
        return None


def _parts(template: str, **values: object) -> Parts:
    title, _, body = _environment().get_template(template).render(**values).partition(_BREAK)
    return Markup(title.strip()), Markup(body)  # noqa: S704  escaped by the reports' environment


@cache
def _environment() -> Environment:
    """Returns an environment that renders the reports' pages without a frame. The frame depends on the visitor."""
    return reports.environment(DictLoader({"base.html.j2": _PARTS}))


_lock = threading.Lock()
_known: dict[Path, PublicPages] = {}
"""The latest pages of the contest that this process serves, by its folder."""


def pages_of(site: ContestSite) -> PublicPages:
    """Returns the current public pages; while another thread makes new ones, the previous ones if there are any.

    Raises StoreFault if a ledger is damaged.
    """
    season, contest = site.season(), site.contest()
    rounds = report_writer.rounds_with_results(site.folder, contest, season)
    tag = digest(canonical_json([site.head, contest.file.title, [_state(each) for each in rounds]]))
    known = _known.get(site.folder.path)
    if known is not None and known.tag == tag:
        return known
    if not _lock.acquire(blocking=known is None) and known is not None:
        return known
    try:
        known = _known.get(site.folder.path)
        if known is None or known.tag != tag:
            known = _make(site, tag, rounds)
            _known.clear()
            _known[site.folder.path] = known
        return known
    finally:
        _lock.release()


def _state(folder: RoundFolder) -> list[str]:
    try:
        changed = str(folder.results_path.stat().st_mtime_ns)
    except FileNotFoundError:
        changed = ""
    return [str(folder.path), changed]


def _make(site: ContestSite, tag: str, rounds: list[RoundFolder]) -> PublicPages:
    history = report_writer.read_history(site.folder)
    results = [round_record.read_results(each) for each in rounds]
    title = site.contest().file.title
    if not results:
        pages = team_pages((), history)
        addresses = ServedAddresses(_team_slugs(history, pages))
        return PublicPages(tag, title, None, {addresses.team(team): page for team, page in pages.items()})
    playing = [part.team for each in results for part in each.submissions]
    public = report_writer.make_public_site(results, history, ServedAddresses(_team_slugs(history, playing)))
    return PublicPages(tag, title, public, public.site.teams)


def _team_slugs(history: ContestHistory, others: "list[str] | Mapping[str, object]") -> dict[str, str]:
    """Returns each team's slug in addresses: as `rights.team_slugs` for the season's teams, then the other teams."""
    season: Season = history.season
    return file_names.unique_file_names([*season.teams, *others], "team")
