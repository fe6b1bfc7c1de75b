"""What was played under other rules: looked at first, then applied or dropped (A12)."""

from dataclasses import dataclass
from typing import Any

from orchestrator.application.contests import seasons
from orchestrator.application.contests.administration import ContestAdmin, validated
from orchestrator.application.rounds import play_rounds
from orchestrator.domain import contest_events
from orchestrator.errors import UsageError
from orchestrator.formats.base import Promotion
from orchestrator.scoring.results_file import Results


@dataclass(frozen=True, slots=True)
class RejudgedRound:
    """One round under the rules as they are and as they would be; who would go on, where it is the first round."""

    task: str
    round: str
    before: Results
    after: Results
    promoted_before: Promotion | None
    promoted_after: Promotion | None


def rejudge(desk: ContestAdmin, only: str | None = None) -> list[RejudgedRound]:
    """Returns every played board under the rules of the contest file as it is now, beside the ones that hold.

    Raises:
        UsageError: the rules decide what is played, or measure with somebody who did not play.
    """
    rules = desk.contest.format.rules.model_dump(mode="json")
    _check_rejudgeable(desk, rules)
    found = []
    for task in seasons.task_names(desk, only):
        for phase in desk.contest.format.phases:
            folder = desk.folder.round(phase, task)
            if not folder.exists:
                continue
            record, head = play_rounds.read_round(folder.path)
            before, after = (
                play_rounds.score_round(record, folder.path),
                play_rounds.score_round(record, folder.path, rules),
            )
            goes_on = phase == desk.contest.format.phases[0]
            promoted = (before.promoted(), after.promoted()) if goes_on else (None, None)
            found.append(RejudgedRound(task, phase, before.results(head), after.results(head), *promoted))
    return found


def record_decision(desk: ContestAdmin, reason: str, *, apply: bool) -> None:
    """Notes that the rules of the contest file hold from now on, or that they were looked at and dropped.

    Raises:
        UsageError: there is no reason, or these rules cannot be looked at; see `rejudge`.
    """
    rules = desk.contest.format.rules.model_dump(mode="json")
    _check_rejudgeable(desk, rules)
    words = {"by": desk.by, "rules": rules, "reason": reason}
    desk.act(
        validated(contest_events.RulesChanged, **words)
        if apply
        else validated(contest_events.RejudgementDropped, **words)
    )


def _check_rejudgeable(desk: ContestAdmin, rules: dict[str, Any]) -> None:
    """Raises UsageError where the contest file's rules decide what is played, or measure with who did not play."""
    for opened, roster in seasons.opened_rounds(desk):
        if changed := play_rounds.changed_rules_of_play(seasons.complete_rules(desk, opened.contest["rules"]), rules):
            raise UsageError(
                f"{', '.join(changed)} decide what is played, not how it is judged: "
                "put them back, or open a new contest"
            )
        if problems := desk.contest.format.objections(roster, opened.phase):
            what = "; ".join(f"{problem.place}: {problem.what}" for problem in problems)
            raise UsageError(
                f"the {opened.round} round of {opened.task.name} cannot be judged so: {what}; "
                "name a baseline that played it, or put the rules back"
            )
