"""Promotes submissions from one round to the next, from the boards of the round that the format promotes from."""

from collections.abc import Mapping
from pathlib import Path

from orchestrator.application.contests import seasons
from orchestrator.application.contests.administration import ContestAdmin
from orchestrator.application.rounds import round_record
from orchestrator.domain.contest_events import FormatEvent
from orchestrator.domain.text import shell_word
from orchestrator.errors import Problem, Rejected, UsageError


def promote(admin: ContestAdmin, only: str | None = None, reason: str = "") -> dict[str, FormatEvent]:
    """Records the outcome of the round that the format promotes from, on all tasks or on none; returns it by task.

    Raises:
        UsageError: the format promotes nobody; that round is not complete; or a later round was begun with the
            submissions of an earlier promotion, and no `reason` is given.
    """
    first = _promoting_round(admin)
    later_rounds = rounds_after_promotion(admin, only)
    if later_rounds and not reason:
        raise UsageError(
            f"the {later_rounds[0][0]} round of {later_rounds[0][1]} was begun with those who went on; "
            "to promote again and then play what is new, give --reason"
        )
    with admin.alone():  # between reading boards and recording outcomes, no team withdraws and no round continues
        promoted = {task: _promotion(admin, first, task, reason) for task in seasons.task_names(admin.contest, only)}
        for event in promoted.values():
            admin.append_event(event)
    return promoted


def preview_promotion(admin: ContestAdmin, only: str | None = None) -> dict[str, FormatEvent]:
    """Returns the events that `promote` would append now, by task. Raises like it, but needs no reason."""
    first = _promoting_round(admin)
    return {task: _promotion(admin, first, task, "") for task in seasons.task_names(admin.contest, only)}


def promotion_warnings(admin: ContestAdmin, promoted: Mapping[str, FormatEvent]) -> dict[str, list[str]]:
    """Returns warnings for organizers about a promotion, by task: see `Format.outcome_warnings`."""
    return {task: admin.contest.format.outcome_warnings(admin.season, event) for task, event in promoted.items()}


def rounds_after_promotion(admin: ContestAdmin, only: str | None = None) -> list[tuple[str, str]]:
    """Returns the rounds after the promotion that were begun, as (round, task). With any, `promote` needs a reason.

    Raises UsageError if the format promotes nobody.
    """
    names = seasons.round_names(admin.contest, admin.season)
    later = names[names.index(_promoting_round(admin)) + 1 :]
    return [
        (name, task)
        for task in seasons.task_names(admin.contest, only)
        for name in later
        if admin.folder.round(name, task).exists
    ]


def _promoting_round(admin: ContestAdmin) -> str:
    first: str = admin.contest.format.promotes_from
    if not first:
        raise UsageError(f"the format {admin.contest.file.format} promotes nobody from one round to another")
    return first


def _promotion(admin: ContestAdmin, first: str, task: str, reason: str) -> FormatEvent:
    """Returns the event with the outcome of a round's boards.

    Raises:
        UsageError: the round was not played, changed since it was recorded as complete, or lacks a submission that was
            received later; or the boards have no outcome yet.
        Rejected: a baseline that promotion is measured with failed on every picture.
    """
    path, known = _played_folder(admin, first, task), admin.season.played_rounds.get((first, task))
    record, head = round_record.read_round(path)
    again = f"run `sparring round run {shell_word(admin.folder.path)} {first}`"
    if not record.round.closed or known is None or known.head != head:
        raise UsageError(f"the round {first} of {task} is not finished; {again} to go on")
    roster = {submission.id for submission in record.round.roster}
    late = [entry.id for entry in admin.season.entries_of_task(task) if entry.is_active and entry.id not in roster]
    if late:
        raise UsageError(
            f"{', '.join(late)} came after the round {first} of {task} was played; {again}: only what is new is played"
        )
    scoring = round_record.score_round(record, path)
    if alarms := scoring.alarms():
        raise Rejected(f"round {first} of {task}", [Problem("baseline", alarm) for alarm in alarms])
    event = scoring.outcome(actor=admin.actor, task=task, reason=reason)
    if event is None:
        raise UsageError(f"nothing follows from the boards of the round {first} of {task} yet; see `sparring board`")
    return event


def _played_folder(admin: ContestAdmin, phase: str, task: str) -> Path:
    folder = admin.folder.round(phase, task)
    if not folder.exists:
        raise UsageError(
            f"the round {phase} of {task} was not played; "
            f"run `sparring round run {shell_word(admin.folder.path)} {phase}`"
        )
    return folder.path
