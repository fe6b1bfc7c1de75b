"""Requests for rounds, which a worker plays."""

import secrets
from typing import Literal

from orchestrator.application.contests import seasons
from orchestrator.application.contests.administration import ContestAdmin, validated
from orchestrator.domain import contest_events
from orchestrator.domain.season import RoundRequest
from orchestrator.domain.text import printable
from orchestrator.errors import UsageError

PROBLEM_LIMIT = 10_000


def request_round(admin: ContestAdmin, round_: str, task: str = "") -> RoundRequest:
    """Requests a round of one task, or of every task, and returns the request.

    Raises UsageError: there is no such round or task, the round cannot be played yet, or it is already requested.
    """
    with admin.alone():
        for name in seasons.task_names(admin.contest, task or None):
            rounds = {each.name: each for each in admin.contest.format.rounds(admin.season, name)}
            if round_ not in rounds:
                known_rounds = f"the rounds are {', '.join(rounds)}" if rounds else "there is none yet"
                raise UsageError(f"there is no round {printable(round_, 80)!r}; {known_rounds}")
            if blocked := rounds[round_].blocked:
                raise UsageError(f"the round {round_!r} cannot be played: {blocked}")
        for known in admin.season.round_requests.values():
            if known.round == round_ and known.task in ("", task):
                raise UsageError(f"the request {known.id} asks for it already; wait for it or cancel it")
        request = secrets.token_hex(8)
        admin.append_event(
            validated(contest_events.RoundRequested, actor=admin.actor, request=request, round=round_, task=task)
        )
        return admin.season.round_requests[request]


def cancel_request(admin: ContestAdmin, request: str) -> None:
    """Cancels a request, but not a round that is already being played. Raises UsageError if it is not open."""
    with admin.alone():
        if request not in admin.season.round_requests:
            known = ", ".join(admin.season.round_requests) or "none"
            raise UsageError(f"no open request {printable(request, 80)!r} (open: {known})")
        close_request(admin, request, "cancelled")


def close_request(
    admin: ContestAdmin, request: str, outcome: Literal["played", "failed", "cancelled"], problem: str = ""
) -> None:
    """Records how a request ended, unless it was closed meanwhile."""
    with admin.alone():
        if request in admin.season.round_requests:
            admin.append_event(
                contest_events.RoundRequestClosed(
                    actor=admin.actor, request=request, outcome=outcome, problem=problem[:PROBLEM_LIMIT]
                )
            )
