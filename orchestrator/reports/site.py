"""A contest as a small site: all rounds on one page, a page a round, a page a team, and the same as text and tables.

Everything in it is made of what `redaction.redact_results` returns, so it may be put on the web before labels
are released (rule A2): no hidden picture, no label, no word that a submission wrote while it played. The pages need
nothing but each other. A scheme of addresses says where they lie: in a folder of files, or wherever a web service
answers.
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
    """Where a site's pages and files lie, as links of its first page say it.

    Every address is either relative to that page or absolute. It goes into the pages as it is but for escaping, so a
    name of people's choice has to be made harmless in it: quoted, or replaced by a plain one.
    """

    def index(self) -> str:
        """Returns the address of the first page."""

    def round(self, name: str, task: str) -> str:
        """Returns the address of a round's page on a task."""

    def team(self, name: str) -> str:
        """Returns the address of a team's page."""

    def file(self, name: str) -> str:
        """Returns the address of a file of text or tables, such as `cells.csv`."""


@dataclass(frozen=True, slots=True)
class FileAddresses:
    """The addresses of a folder of files: relative, and plain whatever rounds, tasks and teams are called.

    `rounds` are file names by round and task, `teams` by team, without `.html`.
    """

    rounds: Mapping[tuple[str, str], str]
    teams: Mapping[str, str]

    def index(self) -> str:
        """Returns the first page's."""
        return "index.html"

    def round(self, name: str, task: str) -> str:
        """Returns that of a round's page on a task."""
        return f"rounds/{self.rounds[name, task]}.html"

    def team(self, name: str) -> str:
        """Returns that of a team's page."""
        return f"teams/{self.teams[name]}.html"

    def file(self, name: str) -> str:
        """Returns that of a file, which lies beside the first page."""
        return name


@dataclass(frozen=True, slots=True)
class Links:
    """What a page links to: the first page, and by team the page of each that has one. A page by itself has neither."""

    index: str = ""
    teams: Mapping[str, str] = field(default_factory=dict)

    def seen_from(self, up: str) -> "Links":
        """Returns relative links as a page writes them from which `up`, such as `../`, leads to the first page."""
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

    `head` is the hash of the contest ledger's last entry, and `entries` its number; empty for a round by itself.
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
    """Pages of a site by their address, and what links them."""

    index: IndexPage
    rounds: Mapping[str, Page]
    teams: Mapping[str, TeamPage]
    private: Mapping[str, TeamPage]
    """What goes to each team alone, by file name."""
    links: Links
    """As the first page writes them."""
    addresses: SiteAddresses


def build_site(
    rounds: Sequence[Results],
    story: ContestHistory,
    own_pictures: Mapping[str, Sequence[Example]] | None = None,
    addresses: SiteAddresses | None = None,
) -> Site:
    """Returns the site.

    Args:
        rounds: as everybody may see them, in the order of the contest.
        story: what people did.
        own_pictures: by team, pictures that it may see on its private page, because it made them and answers on them
            are no secret any more (C9).
        addresses: where its pages lie; in a folder of files, where none is given.
    """
    pages = team_pages(rounds, story)
    team_files = file_names.unique_file_names(pages, "team")
    if addresses is None:
        addresses = FileAddresses(_round_files(rounds), team_files)
    links = Links(addresses.index(), {team: addresses.team(team) for team in pages})
    return Site(
        index=replace(_index_page(rounds, addresses, links), head=story.head, entries=story.entries),
        rounds={addresses.round(results.round, results.task.name): page_of(results) for results in rounds},
        teams={links.teams[team]: page for team, page in pages.items()},
        private={
            f"{team_files[team]}.html": private_page(page, story.season, (own_pictures or {}).get(team, ()))
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
