"""What closing submissions now would mean, told before it is done; nothing is noted, and no backend is asked."""

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
    "What is on the ledger by then is still admitted, however long that takes, and counts.",
    "Whatever comes later is refused, and so are uploads that are not whole by then.",
    "Nothing is played by it. Teams can still withdraw, correct and appeal, and a round is asked for as before.",
    "It can be undone with a reason until finalists are named, raters' items drawn or a full bundle published.",
)
"""What follows, and whether it can be undone."""


@dataclass(frozen=True, slots=True)
class WaitingHandIn:
    """An arrival that is not admitted yet, and would count."""

    name: str
    team: str
    task: str
    arrived: str


@dataclass(frozen=True, slots=True)
class UploadUnderWay:
    """A file that is not whole yet, and would come too late.

    Attributes:
        received: its bytes that are here.
        size: all of its bytes; None where only the site knows it, as it knows the names.
    """

    received: int
    size: int | None = None
    file_name: str = ""
    team: str = ""
    task: str = ""


@dataclass(frozen=True, slots=True)
class Ineligibility:
    """Why a submission would play and not be ranked, or get no prize, as things are."""

    submission: str
    team: str
    reason: str


@dataclass(frozen=True, slots=True)
class NextRound:
    """What the next round of a task would play, with what is received by now.

    Attributes:
        task: the task.
        round: the first round that is not complete, or has not what came since; the last where all are and have.
        blocked: why it cannot be played yet; empty where it can.
        submissions: how many of teams would be in it, by what they do: attack or defence.
        teams: how many teams they are from.
        baselines: how many of the organizers' own play, too.
        cells: all cells of the round: defences against attacks, and on clean pictures.
        left: those of them that were not played in this round or an earlier one.
        problems: why it could not be played as it is.
        ineligible: submissions that would not be ranked, or get no prize.
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
    """What would be so if submissions were closed at a time.

    `obstacle` is why they cannot be, empty where they can. A task without a round yet is not among the `rounds`.
    """

    obstacle: str
    rounds: tuple[NextRound, ...]
    waiting: tuple[WaitingHandIn, ...]
    uploads: tuple[UploadUnderWay, ...]
    teams_without: tuple[str, ...]
    """Teams of which nothing would play and nothing waits."""


def closing_preview(
    folder: ContestFolder, contest: Contest, season: Season, now: datetime, uploads: Iterable[UploadUnderWay]
) -> ClosingPreview:
    """Returns what closing submissions now would mean.

    Args:
        folder: the contest's folder, with the results of its rounds.
        contest: its file.
        season: its ledger.
        now: the time.
        uploads: what teams are uploading: the service knows it, and no ledger.

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
            WaitingHandIn(each.name or each.file_name or each.image, each.team, each.task, each.time)
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
    """Returns why a submission would not be ranked now or in the end, and why it would get no prize."""
    eligibility = contest.format.eligibility(entry, where)
    unreleased = "; ".join(f"{each.place} {each.what}" for each in contest.format.release_problems(entry))
    return list(filter(None, dict.fromkeys((eligibility.unranked_reason, unreleased, eligibility.no_prize))))
