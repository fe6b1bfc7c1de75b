"""Appeals of teams, and the review board's decisions about them."""

import secrets

from orchestrator.application.contests.administration import ContestAdmin, validated
from orchestrator.application.rounds import round_record
from orchestrator.domain import contest_events, recusal
from orchestrator.domain.season import Appeal
from orchestrator.domain.text import printable
from orchestrator.errors import UsageError


def file_appeal(admin: ContestAdmin, team: str, submission: str, text: str, finding: str = "") -> Appeal:
    """Records a team's appeal about its own submission, or about a finding against it, and returns the appeal.

    Raises:
        UsageError: the team has no such submission, there is no such finding against it, or an appeal about it is open.
    """
    event = validated(
        contest_events.AppealFiled,
        actor=admin.actor,
        appeal=secrets.token_hex(8),
        team=team,
        submission=submission,
        finding=finding,
        text=text,
    )
    with admin.alone():
        entry = admin.season.entries.get(submission)
        if entry is None or entry.team != team:
            own = ", ".join(each.id for each in admin.season.entries.values() if each.team == team) or "none yet"
            raise UsageError(f"{printable(submission, 80)!r} is no submission of this team (its own: {own})")
        if finding and finding not in (known := _findings_against(admin, submission)):
            found = ", ".join(known) or "none"
            raise UsageError(f"no finding {printable(finding, 80)!r} against {submission} (known: {found})")
        for appeal in admin.season.appeals.values():
            if appeal.decision is None and (appeal.submission, appeal.finding) == (submission, finding):
                raise UsageError(f"the appeal {appeal.id} about it is open; wait for its decision")
        admin.append_event(event)
        return admin.season.appeals[event.appeal]


def decide_appeal(admin: ContestAdmin, appeal: str, reason: str, *, upheld: bool) -> Appeal:
    """Records the decision about an appeal, and returns the appeal.

    Raises:
        UsageError: the appeal is unknown or already decided, or the actor has a stake in it (see `recusal`).
    """
    event = validated(contest_events.AppealDecided, actor=admin.actor, appeal=appeal, upheld=upheld, reason=reason)
    with admin.alone():
        known = admin.season.appeals.get(appeal)
        if known is None:
            open_ones = ", ".join(each.id for each in admin.season.appeals.values() if each.decision is None) or "none"
            raise UsageError(f"no appeal {printable(appeal, 80)!r} in this contest (open: {open_ones})")
        if known.decision is not None:
            raise UsageError(f"{appeal} was decided already: {printable(known.decision.reason)}; nothing is left to do")
        if stake := recusal.appeal_reason(admin.season, known, admin.actor):
            raise UsageError(f"you take no part in this appeal: {stake}")
        admin.append_event(event)
        return admin.season.appeals[appeal]


def _findings_against(admin: ContestAdmin, submission: str) -> list[str]:
    """Returns the ids of the findings against a submission in all rounds."""
    records = (round_record.read_round(folder.path)[0] for folder in admin.begun_rounds())
    return [found.id for record in records for found in record.round.findings if found.submission == submission]
