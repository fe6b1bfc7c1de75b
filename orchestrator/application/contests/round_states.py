"""The state of every round of a contest, and what a requested round would play, without the use of a backend."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from orchestrator.application.contests import season_rounds
from orchestrator.domain.contest_format import RoundOfSeason
from orchestrator.domain.plan import Cell
from orchestrator.domain.season import Appeal, RoundRequest, Season
from orchestrator.domain.submissions import Roster, Side
from orchestrator.errors import Problem
from orchestrator.intake.admission import describe_roster
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.round_folder import RoundFolder
from orchestrator.scoring.results_file import FindingPart, Results

_RESULTS_KEPT = 32
"""The number of parsed results files that a process keeps in memory, since a site reads them again and again."""


@dataclass(frozen=True, slots=True)
class RoundState:
    """The state of a round of a task.

    `blocked` says why it cannot be played yet. `begun`: whether its ledger was opened; `complete`: whether the
    contest's ledger records it as complete. `results` are the latest written ones, None before the first and for a
    moment while they are written again. `newcomers` are active submissions that are not in the round yet; there are
    none in an automatic round, which a worker requests without organizers. `requests` are its open requests.
    """

    task: str
    name: str
    blocked: str
    begun: bool
    complete: bool
    results: Results | None
    newcomers: tuple[str, ...]
    requests: tuple[RoundRequest, ...]


@dataclass(frozen=True, slots=True)
class RoundOutlook:
    """What a round would play now, counted by the format's schedule.

    Of its `cells`, clean pictures included, `played` are in this round's results already, and `reusable` in those of an
    earlier round. `problems` are the reasons why this roster cannot play it.
    """

    state: RoundState
    attacks: int
    defences: int
    baselines: int
    cells: int
    played: int
    reusable: int
    problems: tuple[Problem, ...]

    @property
    def left(self) -> int:
        """The cells that would be played."""
        return self.cells - self.played - self.reusable


@dataclass(frozen=True, slots=True)
class OpenFinding:
    """A finding without a decided appeal; `appeal` is the one that waits for a decision, if there is one."""

    task: str
    round: str
    part: FindingPart
    appeal: Appeal | None


def round_states(folder: ContestFolder, contest: Contest, season: Season) -> list[RoundState]:
    """Returns the state of every round of every task, in the order of the contest file."""
    found = []
    for task in (each.name for each in contest.file.all_tasks):
        active = [entry.id for entry in season.entries_of_task(task) if entry.is_active]
        for each in contest.format.rounds(season, task):
            place = folder.round(each.name, task)
            results = written_results(place)
            known = {part.id for part in results.submissions} if results else set(active if place.exists else ())
            asked = (request for request in season.round_requests.values() if request.round == each.name)
            found.append(
                RoundState(
                    task=task,
                    name=each.name,
                    blocked=each.blocked,
                    begun=place.exists,
                    complete=(each.name, task) in season.played_rounds and not (results and not results.complete),
                    results=results,
                    newcomers=() if each.automatic else tuple(name for name in active if name not in known),
                    requests=tuple(request for request in asked if request.task in ("", task)),
                )
            )
    return found


def written_results(folder: RoundFolder) -> Results | None:
    """Returns the written results of a round; None if there are none, or another version of the software wrote them."""
    try:
        stat = folder.results_path.stat()
        return _parse_results(folder.results_path, stat.st_mtime_ns, stat.st_size)
    except (FileNotFoundError, ValidationError):
        return None


@lru_cache(maxsize=_RESULTS_KEPT)
def _parse_results(path: Path, changed: int, size: int) -> Results:
    del changed, size  # as keys of the cache, they distinguish the versions of the file
    return Results.model_validate_json(path.read_bytes())


def round_outlook(contest: Contest, season: Season, state: RoundState, states: Sequence[RoundState]) -> RoundOutlook:
    """Returns what a round would play if it began now. Starts nothing, and uses no backend.

    Only `sparring round run --dry-run` also counts what is played again because an image changed or a blob was lost.

    Raises Rejected if the contest file's baselines cannot be read.
    """
    entries = [entry for entry in season.entries_of_task(state.task) if entry.is_active]
    baselines = tuple(describe_roster(contest))
    roster = Roster((*baselines, *map(season_rounds.submission_of, entries)))
    scheduled = set(contest.format.schedule(roster, RoundOfSeason(state.name, state.task, season)))
    of_task = [each for each in states if each.task == state.task]
    earlier = of_task[: [each.name for each in of_task].index(state.name)]
    own = scheduled & _cells(state)
    before = {cell for each in earlier for cell in _cells(each)}
    return RoundOutlook(
        state=state,
        attacks=len(roster.by_side(Side.ATTACK)),
        defences=len(roster.by_side(Side.DEFENCE)),
        baselines=len(baselines),
        cells=len(scheduled),
        played=len(own),
        reusable=len((scheduled - own) & before),
        problems=tuple(contest.format.roster_problems(roster, state.name)),
    )


def _cells(state: RoundState) -> set[Cell]:
    return {Cell(cell.defence, cell.attack) for cell in state.results.cells} if state.results else set()


def open_findings(states: Sequence[RoundState], season: Season) -> list[OpenFinding]:
    """Returns the findings of all rounds without an appeal that was decided."""
    appeals = {(appeal.submission, appeal.finding): appeal for appeal in season.appeals.values() if appeal.finding}
    found = []
    for state in states:
        for part in state.results.findings if state.results else ():
            appeal = appeals.get((part.submission, part.id))
            if appeal is None or appeal.decision is None:
                found.append(OpenFinding(state.task, state.name, part, appeal))
    return found
