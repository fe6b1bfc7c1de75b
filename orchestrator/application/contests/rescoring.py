"""Scores played rounds under changed rules, and records that these rules are applied or dropped (A12)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from orchestrator.application.contests import seasons
from orchestrator.application.contests.administration import ContestAdmin, validated
from orchestrator.application.rounds import play_rounds, round_record
from orchestrator.domain import contest_events, events
from orchestrator.domain.contest_events import FormatEvent
from orchestrator.domain.submissions import Roster
from orchestrator.errors import UsageError
from orchestrator.scoring.results_file import Results, RowPart


@dataclass(frozen=True, slots=True)
class RescoredRound:
    """One round's results and outcome under the rules in force (`before`) and under the changed rules (`after`)."""

    task: str
    round: str
    before: Results
    after: Results
    outcome_before: FormatEvent | None
    outcome_after: FormatEvent | None


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A row of a board that differs under the changed rules; `before` is None if there was no such board or row."""

    board: str
    title: str
    submission: str
    before: RowPart | None
    after: RowPart


def changed_rows(one: RescoredRound) -> list[ChangedRow]:
    """Returns the rows that differ in rank, score or reason, board by board."""
    then = {(board.name, row.submission): row for board in one.before.boards for row in board.rows}
    found = []
    for board in one.after.boards:
        for row in board.rows:
            old = then.get((board.name, row.submission))
            if old is None or (old.rank, old.exact, old.reason) != (row.rank, row.exact, row.reason):
                found.append(ChangedRow(board.name, board.title, row.submission, old, row))
    return found


def changed_rules(admin: ContestAdmin) -> dict[str, tuple[Any, Any]]:
    """Returns the rules in contest.yaml that differ from the rules in force, as name: (value in force, value in file).

    Rules in force are those by which the played rounds were judged. Empty if nothing was played.
    """
    recorded_rules = admin.season.rules or next(
        (opening.contest["rules"] for opening, _ in _round_openings(admin)), None
    )
    now = admin.contest.format.rules
    before = now if recorded_rules is None else type(now).model_validate(recorded_rules)
    # Compares values, not texts: a file's 1.0 is 1 in the ledger.
    changed = [name for name in type(now).model_fields if getattr(now, name) != getattr(before, name)]
    texts = [rules.model_dump(mode="json") for rules in (before, now)]
    return {name: (texts[0][name], texts[1][name]) for name in changed}


def rescore(admin: ContestAdmin, only: str | None = None) -> list[RescoredRound]:
    """Returns every played round under the rules in force and under the present rules of the contest file.

    Raises:
        UsageError: a changed rule decides what is played, or a rule measures with a baseline that did not play.
    """
    rules = admin.contest.format.rules.model_dump(mode="json")
    _check_rescorable(admin, rules)
    rescored = []
    for task in seasons.task_names(admin.contest, only):
        for name in (round_.name for round_ in admin.contest.format.rounds(admin.season, task)):
            folder = admin.folder.round(name, task)
            if not folder.exists:
                continue
            record, head = round_record.read_round(folder.path)
            before = round_record.score_round(record, folder.path)
            after = round_record.score_round(record, folder.path, rules)
            outcomes: tuple[FormatEvent | None, FormatEvent | None] = (None, None)
            if name == admin.contest.format.promotes_from:
                first, second = (scoring.outcome(actor=admin.actor, task=task) for scoring in (before, after))
                outcomes = first, second
            rescored.append(RescoredRound(task, name, before.results(head), after.results(head), *outcomes))
    return rescored


def record_decision(admin: ContestAdmin, reason: str, *, apply: bool) -> None:
    """Records that the contest file's rules are in force from now on, or that they were considered and dropped.

    Raises:
        UsageError: there is no reason, nothing to apply, or played rounds cannot be scored by them; see `rescore`.
    """
    if apply and not changed_rules(admin):
        raise UsageError(f"the rules in {admin.contest.path} are those in force; there is nothing to apply")
    rules = admin.contest.format.rules.model_dump(mode="json")
    _check_rescorable(admin, rules)
    kind: type[contest_events.RulesChanged | contest_events.RejudgementDropped] = (
        contest_events.RulesChanged if apply else contest_events.RejudgementDropped
    )
    admin.append_event(validated(kind, actor=admin.actor, rules=rules, reason=reason))


def _check_rescorable(admin: ContestAdmin, rules: dict[str, Any]) -> None:
    """Raises UsageError if played rounds cannot be scored by the contest file's rules; see `rescore`."""
    for opening, roster in _round_openings(admin):
        if changed := play_rounds.changed_rules_of_play(
            admin.contest.format, _complete_rules(admin, opening.contest["rules"]), rules
        ):
            raise UsageError(
                f"{', '.join(changed)} decide what is played, not how it is judged: "
                "put them back, or open a new contest"
            )
        if problems := admin.contest.format.roster_problems(roster, opening.phase):
            reasons = "; ".join(f"{problem.place}: {problem.what}" for problem in problems)
            raise UsageError(
                f"the {opening.round} round of {opening.task.name} cannot be judged so: {reasons}; "
                "name a baseline that played it, or put the rules back"
            )


def _round_openings(admin: ContestAdmin) -> Iterator[tuple[events.RoundOpened, Roster]]:
    """Yields the opening event and the roster of each round that was begun."""
    for folder in admin.begun_rounds():
        record, _ = round_record.read_round(folder.path)
        if record.round.opening is not None:
            yield record.round.opening, record.round.roster


def _complete_rules(admin: ContestAdmin, rules: dict[str, Any]) -> dict[str, Any]:
    """Returns the rules completed with the defaults that the contest file left out."""
    kind = type(admin.contest.format.rules)
    complete: dict[str, Any] = kind.model_validate(rules).model_dump(mode="json")
    return complete
