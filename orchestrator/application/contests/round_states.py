"""Where every round of a contest stands, and what one that is asked for would play: told without any backend."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from orchestrator.application.contests import seasons
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
"""So many parsed results files are kept by a process that asks for them again and again."""


@dataclass(frozen=True, slots=True)
class RoundState:
    """A round of a task as it stands.

    `blocked` says why it cannot be played yet. `begun`: whether its ledger was opened; `complete`: whether its end is
    noted in the contest's ledger. `results` are those that were written last, None before, and for a moment while they
    are written again. `newcomers` play, and are not in it yet; in a round that a worker asks for by itself nobody waits
    for organizers. `requests` ask for it and are open.
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

    `cells` are defences against attacks, clean pictures included: `played` of them are in this round's results
    already, `reusable` in those of an earlier round. `problems` are why this roster cannot play it.
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
    """A finding about which nobody decided an appeal; `appeal` is the one that waits, if there is one."""

    task: str
    round: str
    part: FindingPart
    appeal: Appeal | None


def round_states(folder: ContestFolder, contest: Contest, season: Season) -> list[RoundState]:
    """Returns every round of every task, in the order of the contest file."""
    found = []
    for task in (each.name for each in contest.file.all_tasks):
        active = [entry.id for entry in season.entries_of_task(task) if entry.is_active]
        for each in contest.format.rounds(season, task):
            place = folder.round(each.name, task)
            results = read_results(place)
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


def read_results(folder: RoundFolder) -> Results | None:
    """Returns what was last written of a round; None where nothing is, or not by this version of the software."""
    try:
        stat = folder.results_path.stat()
        return _parse_results(folder.results_path, stat.st_mtime_ns, stat.st_size)
    except (FileNotFoundError, ValidationError):
        return None


@lru_cache(maxsize=_RESULTS_KEPT)
def _parse_results(path: Path, changed: int, size: int) -> Results:
    del changed, size  # they tell one version of the file from the next
    return Results.model_validate_json(path.read_bytes())


def round_outlook(contest: Contest, season: Season, state: RoundState, states: Sequence[RoundState]) -> RoundOutlook:
    """Returns what a round would play if it began now. Starts nothing, and asks no backend.

    What is played again because an image changed or a blob was lost is told by `sparring round run --dry-run` alone.

    Raises Rejected where the contest file's baselines cannot be read.
    """
    entries = [entry for entry in season.entries_of_task(state.task) if entry.is_active]
    baselines = tuple(describe_roster(contest, complete=False))
    roster = Roster((*baselines, *map(seasons.submission_of, entries)))
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
    """Returns the findings of all rounds about which the review board did not decide yet."""
    appeals = {(appeal.submission, appeal.finding): appeal for appeal in season.appeals.values() if appeal.finding}
    found = []
    for state in states:
        for part in state.results.findings if state.results else ():
            appeal = appeals.get((part.submission, part.id))
            if appeal is None or appeal.decision is None:
                found.append(OpenFinding(state.task, state.name, part, appeal))
    return found
