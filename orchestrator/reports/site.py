"""A contest as a small site: all rounds on one page, a page a round, a page a team, and the same as text and tables.

Everything in it is made of what `redaction.redact_results` returns, so it may be put on the web before labels
are released (rule A2): no hidden picture, no label, no word that a submission wrote while it played. The pages need
nothing but each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from orchestrator.reports import file_names, formatting
from orchestrator.reports.examples import Example
from orchestrator.reports.page import Page, page_of
from orchestrator.reports.team import ContestHistory, TeamPage, private_page, team_pages
from orchestrator.scoring.results_file import Results


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
    links: Mapping[str, str]
    """The address of each team's page, by team."""


def build_site(
    rounds: Sequence[Results], story: ContestHistory, own_pictures: Mapping[str, Sequence[Example]] | None = None
) -> Site:
    """Returns the site.

    Args:
        rounds: as everybody may see them, in the order of the contest.
        story: what people did.
        own_pictures: by team, pictures that it may see on its private page, because it made them and answers on them
            are no secret any more (C9).
    """
    pages = team_pages(rounds, story)
    teams = file_names.unique_file_names(pages, "team")
    links = {team: f"teams/{name}.html" for team, name in teams.items()}
    address = {
        key: f"rounds/{name}.html"
        for key, name in file_names.unique_file_names(map(_round_key, rounds), "round").items()
    }
    return Site(
        index=replace(_index_page(rounds, address, links), head=story.head, entries=story.entries),
        rounds={address[_round_key(results)]: page_of(results) for results in rounds},
        teams={links[team]: page for team, page in pages.items()},
        private={
            f"{teams[team]}.html": private_page(page, story.season, (own_pictures or {}).get(team, ()))
            for team, page in pages.items()
        },
        links=links,
    )


def _index_page(rounds: Sequence[Results], address: Mapping[str, str], links: Mapping[str, str]) -> IndexPage:
    tasks = []
    for number, name in enumerate(dict.fromkeys(results.task.name for results in rounds), start=1):
        task_rounds = [results for results in rounds if results.task.name == name]
        tasks.append(_task_pages(name, f"t{number}-", task_rounds[::-1], address))
    submissions = {team: set[str]() for team in links}
    for results in rounds:
        for part in results.submissions:
            if part.team in submissions and not part.baseline:
                submissions[part.team].add(f"{results.task.name}/{part.id}")
    return IndexPage(
        title=rounds[0].title,
        contest=rounds[0].contest,
        notes=tuple(dict.fromkeys(note for results in rounds for note in (*results.alarms, *results.notes))),
        tasks=tuple(tasks),
        teams=tuple((team, href, len(submissions[team])) for team, href in links.items()),
    )


def _task_pages(name: str, at: str, rounds: Sequence[Results], address: Mapping[str, str]) -> TaskPages:
    task = rounds[0].task
    return TaskPages(
        name=name,
        id_prefix=at,
        budget=formatting.budget(task.norm, task.epsilon),
        pictures=formatting.counted_noun(task.pictures, "picture"),
        rounds=tuple(
            LinkedPage(page_of(results, id_prefix=f"{at}{number}-"), address[_round_key(results)])
            for number, results in enumerate(rounds, start=1)
        ),
    )


def _round_key(results: Results) -> str:
    return f"{results.round}/{results.task.name}"
