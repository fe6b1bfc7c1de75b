"""A contest as a small site: one page of all rounds, a page a round, a page a team, and the same as text and tables.

All of it is made from the results that `redaction.redact_results` returns, so it may be published before labels are
released (rule A2): no hidden picture, no label, no text that a submission wrote while it played. The pages link only to
each other. `SiteAddresses` says where they are: in a folder of files, or at the addresses of a web service.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from orchestrator.reports import file_names, formatting
from orchestrator.reports.examples import Example
from orchestrator.reports.page import Page, page_of
from orchestrator.reports.team import ContestHistory, TeamPage, private_page, team_pages
from orchestrator.scoring.results_file import Results


class SiteAddresses(Protocol):
    """The addresses of a site's pages and files, as its first page links them.

    Every address is absolute or relative to the first page. Pages only escape it, so an implementation has to quote
    names that people chose, or replace them by plain ones.
    """

    def index(self) -> str:
        """Returns the address of the first page."""

    def round(self, name: str, task: str) -> str:
        """Returns the address of a round's page for a task."""

    def team(self, name: str) -> str:
        """Returns the address of a team's page."""

    def file(self, name: str) -> str:
        """Returns the address of a file of text or tables, such as `cells.csv`."""


@dataclass(frozen=True, slots=True)
class FileAddresses:
    """The relative addresses of a folder of files, which are plain for any names of rounds, tasks and teams.

    `rounds` are file names by round and task, `teams` by team, both without `.html`.
    """

    rounds: Mapping[tuple[str, str], str]
    teams: Mapping[str, str]

    def index(self) -> str:
        """Returns the address of the first page."""
        return "index.html"

    def round(self, name: str, task: str) -> str:
        """Returns the address of a round's page for a task."""
        return f"rounds/{self.rounds[name, task]}.html"

    def team(self, name: str) -> str:
        """Returns the address of a team's page."""
        return f"teams/{self.teams[name]}.html"

    def file(self, name: str) -> str:
        """Returns the address of a file, which is beside the first page."""
        return name


@dataclass(frozen=True, slots=True)
class Links:
    """The links of a page: to the first page, and to each team's page by team. A page by itself has none."""

    index: str = ""
    teams: Mapping[str, str] = field(default_factory=dict)

    def seen_from(self, up: str) -> "Links":
        """Returns the relative links for a page in another folder; `up`, such as `../`, leads to the first page's."""
        return Links(up + self.index, {team: up + href for team, href in self.teams.items()})


@dataclass(frozen=True, slots=True)
class LinkedPage:
    """A round and the address of its page."""

    page: Page
    href: str


@dataclass(frozen=True, slots=True)
class TaskPages:
    """The rounds of one task, the latest first."""

    name: str
    id_prefix: str
    budget: str
    pictures: str
    rounds: tuple[LinkedPage, ...]


@dataclass(frozen=True, slots=True)
class IndexPage:
    """The first page. `teams` are names, addresses and numbers of submissions.

    `head` is the hash of the contest ledger's last entry and `entries` its number; "" and 0 for a round by itself.
    """

    title: str
    contest: str
    notes: tuple[str, ...]
    tasks: tuple[TaskPages, ...]
    teams: tuple[tuple[str, str, int], ...]
    head: str = ""
    entries: int = 0


@dataclass(frozen=True, slots=True)
class Site:
    """The pages of a site by their addresses, and their links."""

    index: IndexPage
    rounds: Mapping[str, Page]
    teams: Mapping[str, TeamPage]
    private: Mapping[str, TeamPage]
    """Each team's private page, by file name."""
    links: Links
    """The links as the first page writes them."""
    addresses: SiteAddresses


def build_site(
    rounds: Sequence[Results],
    history: ContestHistory,
    own_pictures: Mapping[str, Sequence[Example]] | None = None,
    addresses: SiteAddresses | None = None,
) -> Site:
    """Returns the site of a contest.

    Args:
        rounds: redacted results of the rounds, in the order of the contest.
        history: the contest's history from its ledger.
        own_pictures: by team, pictures for its private page. The team made them, and the answers about them are no
            longer secret (C9).
        addresses: the addresses of its pages; by default those of a folder of files.
    """
    pages = team_pages(rounds, history)
    team_files = file_names.unique_file_names(pages, "team")
    if addresses is None:
        addresses = FileAddresses(_round_files(rounds), team_files)
    links = Links(addresses.index(), {team: addresses.team(team) for team in pages})
    return Site(
        index=replace(_index_page(rounds, addresses, links), head=history.head, entries=history.entries),
        rounds={addresses.round(results.round, results.task.name): page_of(results) for results in rounds},
        teams={links.teams[team]: page for team, page in pages.items()},
        private={
            f"{team_files[team]}.html": private_page(page, history.season, (own_pictures or {}).get(team, ()))
            for team, page in pages.items()
        },
        links=links,
        addresses=addresses,
    )


def _index_page(rounds: Sequence[Results], addresses: SiteAddresses, links: Links) -> IndexPage:
    tasks = []
    for number, name in enumerate(dict.fromkeys(results.task.name for results in rounds), start=1):
        task_rounds = [results for results in rounds if results.task.name == name]
        tasks.append(_task_pages(name, f"t{number}-", task_rounds[::-1], addresses))
    submissions = {team: set[str]() for team in links.teams}
    for results in rounds:
        for part in results.submissions:
            if part.team in submissions and not part.baseline:
                submissions[part.team].add(f"{results.task.name}/{part.id}")
    return IndexPage(
        title=rounds[0].title,
        contest=rounds[0].contest,
        notes=tuple(dict.fromkeys(note for results in rounds for note in (*results.alarms, *results.notes))),
        tasks=tuple(tasks),
        teams=tuple((team, href, len(submissions[team])) for team, href in links.teams.items()),
    )


def _task_pages(name: str, at: str, rounds: Sequence[Results], addresses: SiteAddresses) -> TaskPages:
    task = rounds[0].task
    return TaskPages(
        name=name,
        id_prefix=at,
        budget=formatting.budget(task.norm, task.epsilon),
        pictures=formatting.counted_noun(task.pictures, "picture"),
        rounds=tuple(
            LinkedPage(page_of(results, id_prefix=f"{at}{number}-"), addresses.round(results.round, name))
            for number, results in enumerate(rounds, start=1)
        ),
    )


def _round_files(rounds: Iterable[Results]) -> dict[tuple[str, str], str]:
    played = {(results.round, results.task.name): f"{results.round}/{results.task.name}" for results in rounds}
    files = file_names.unique_file_names(played.values(), "round")
    return {key: files[name] for key, name in played.items()}
