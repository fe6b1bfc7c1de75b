"""Previews the effects of closing submissions now. Records nothing, and uses no backend."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from orchestrator.application.contests import round_states
from orchestrator.application.contests.round_states import RoundState
from orchestrator.application.contests.submission_closing import closing_obstacle
from orchestrator.domain.contest_format import RoundOfSeason
from orchestrator.domain.season import Entry, Season
from orchestrator.domain.submissions import Side
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import ContestFolder

CONSEQUENCES = (
    "Submissions that are in the ledger by then are still admitted, however long that takes, and count.",
    "Later submissions are refused, and so are uploads that are not complete by then.",
    "Closing plays nothing. Teams can still withdraw, correct and appeal, and organizers request rounds as before.",
    "It can be undone with a reason until finalists are named, raters' items are drawn or a full bundle is published.",
)
"""The effects of closing in sentences, with how long it can be undone."""


@dataclass(frozen=True, slots=True)
class WaitingArrival:
    """An arrival that is not admitted yet, and would still count."""

    name: str
    team: str
    task: str
    arrived: str


@dataclass(frozen=True, slots=True)
class UploadUnderWay:
    """An upload that is not complete yet, and would come too late.

    Attributes:
        received: the number of bytes that have arrived.
        size: the file's size in bytes; None if only the site knows it, which then also keeps the names.
    """

    received: int
    size: int | None = None
    file_name: str = ""
    team: str = ""
    task: str = ""


@dataclass(frozen=True, slots=True)
class Ineligibility:
    """Why a submission would play but get no rank, or no prize, as things are now."""

    submission: str
    team: str
    reason: str


@dataclass(frozen=True, slots=True)
class NextRound:
    """What the next round of a task would play with the submissions received so far.

    Attributes:
        task: the task.
        round: the first round that is incomplete or lacks newer submissions, the last round if there is none.
        blocked: why it cannot be played yet; empty if it can.
        submissions: the number of teams' submissions in it, by side: attack or defence.
        teams: the number of teams with a submission in it.
        baselines: the number of baselines in it.
        cells: the number of all its cells, clean pictures included.
        left: the number of cells that neither this round nor an earlier one has played.
        problems: why it could not be played with this roster.
        ineligible: submissions that would get no rank or no prize.
    """

    task: str
    round: str
    blocked: str
    submissions: dict[str, int]
    teams: int
    baselines: int
    cells: int
    left: int
    problems: tuple[str, ...]
    ineligible: tuple[Ineligibility, ...]


@dataclass(frozen=True, slots=True)
class ClosingPreview:
    """The effects of closing submissions at a time.

    `obstacle` is why they cannot be closed, empty if they can. A task without a round yet is not among the `rounds`.
    """

    obstacle: str
    rounds: tuple[NextRound, ...]
    waiting: tuple[WaitingArrival, ...]
    uploads: tuple[UploadUnderWay, ...]
    teams_without: tuple[str, ...]
    """Teams with neither an active submission nor a waiting arrival."""


def closing_preview(
    folder: ContestFolder, contest: Contest, season: Season, now: datetime, uploads: Iterable[UploadUnderWay]
) -> ClosingPreview:
    """Returns the effects of closing submissions now.

    Args:
        folder: the contest's folder, with the results of its rounds.
        contest: the contest file.
        season: the fold of the contest's ledger.
        now: the time.
        uploads: the incomplete uploads, which only the site knows, not the ledger.

    Raises:
        Rejected: the contest file's baselines cannot be read.
    """
    states = round_states.round_states(folder, contest, season)
    tasks = [task.name for task in contest.file.all_tasks]
    pending = season.pending_arrivals.values()
    active = {entry.team for entry in season.entries.values() if entry.is_active}
    return ClosingPreview(
        obstacle=closing_obstacle(contest, season, now),
        rounds=tuple(
            _next_round(contest, season, of_task, states)
            for task in tasks
            if (of_task := [each for each in states if each.task == task])
        ),
        waiting=tuple(
            WaitingArrival(each.name or each.file_name or each.image, each.team, each.task, each.time)
            for each in pending
        ),
        uploads=tuple(uploads),
        teams_without=tuple(sorted(season.teams.keys() - active - {each.team for each in pending})),
    )


def _next_round(
    contest: Contest, season: Season, of_task: Sequence[RoundState], states: Sequence[RoundState]
) -> NextRound:
    state = next((each for each in of_task if each.newcomers or not each.complete), of_task[-1])
    outlook = round_states.round_outlook(contest, season, state, states)
    entries = [entry for entry in season.entries_of_task(state.task) if entry.is_active]
    sides = (Side.ATTACK,) if contest.format.picture_formats() else contest.format.programs
    where = RoundOfSeason(state.name, state.task, season)
    return NextRound(
        task=state.task,
        round=state.name,
        blocked=state.blocked,
        submissions={side.value: sum(entry.side is side for entry in entries) for side in sides},
        teams=len({entry.team for entry in entries}),
        baselines=outlook.baselines,
        cells=outlook.cells,
        left=outlook.left,
        problems=tuple(map(str, outlook.problems)),
        ineligible=tuple(
            Ineligibility(entry.id, entry.team, reason)
            for entry in entries
            for reason in _reasons_against(contest, entry, where)
        ),
    )


def _reasons_against(contest: Contest, entry: Entry, where: RoundOfSeason) -> list[str]:
    """Returns why a submission would get no rank, now or in the final round, and why it would get no prize."""
    eligibility = contest.format.eligibility(entry, where)
    unreleased = "; ".join(f"{each.place} {each.what}" for each in contest.format.release_problems(entry))
    return list(filter(None, dict.fromkeys((eligibility.unranked_reason, unreleased, eligibility.no_prize))))
