"""What teams do: see what they handed in and what became of it, take it back, correct it, object."""

from django.http import HttpRequest, HttpResponse
from ninja import Router, Status

from orchestrator.application.contests import appeals, arrivals
from orchestrator.application.contests.arrivals import HandIn
from orchestrator.domain.season import Arrival, Entry
from orchestrator.web.api.access import READ, SUBMIT, Caller, caller_of
from orchestrator.web.api.problems import unknown
from orchestrator.web.api.schemas import (
    AccountPart,
    AppealPart,
    AppealText,
    ArrivalPart,
    Correction,
    ImageHandIn,
    SubmissionPart,
    TeamPart,
    WatchedArrivalPart,
    Withdrawal,
    appeal_part,
    arrival_part,
    submission_part,
)
from orchestrator.web.rate_limits import RequestKind
from orchestrator.web.tokens import Scope

router = Router(auth=READ, tags=["teams"])


@router.get("/me", response=AccountPart)
def me(request: HttpRequest) -> AccountPart:
    """Whose token this is, and what it may do."""
    caller = caller_of(request)
    if caller.token is None:
        raise unknown("account")
    return AccountPart(
        person=caller.actor.person,
        name=caller.account.name,
        teams=list(caller.actor.teams),
        roles=sorted(caller.actor.roles),
        token=caller.token.name,
        scope=Scope(caller.token.scope),
        expires=caller.token.expires.isoformat(),
    )


@router.delete("/token", response={204: None})
def revoke_token(request: HttpRequest) -> None:
    """Ends the token that this request came with."""
    token = caller_of(request).token
    if token is not None:
        token.delete()


@router.get("/teams", response=list[TeamPart])
def teams(request: HttpRequest) -> list[TeamPart]:
    """The teams that one is in."""
    caller = caller_of(request)
    people = {name: [person.name for person in caller.season.teams[name]] for name in caller.actor.teams}
    return [TeamPart(team=name, people=members) for name, members in people.items()]


@router.get("/arrivals", response=list[ArrivalPart])
def list_arrivals(request: HttpRequest, team: str = "") -> list[ArrivalPart]:
    """What one's teams, or one of them, handed in, in the order in which it came."""
    caller = caller_of(request)
    names = _team_names(caller, team)
    own = [each for each in caller.season.arrivals.values() if each.team in names]
    return [ArrivalPart(**_watched(caller, each).model_dump(exclude={"steps"})) for each in own]


@router.get("/arrivals/{arrival}", response=WatchedArrivalPart)
def show_arrival(request: HttpRequest, arrival: str) -> WatchedArrivalPart:
    """One of them, with the steps of its admission so far."""
    caller = caller_of(request)
    found = caller.season.arrivals.get(arrival)
    if found is None or found.team not in caller.actor.teams:
        raise unknown("arrival")
    return _watched(caller, found)


@router.post("/submissions", response={200: WatchedArrivalPart, 201: WatchedArrivalPart}, auth=SUBMIT)
def hand_in_image(request: HttpRequest, body: ImageHandIn) -> Status[WatchedArrivalPart]:
    """Hands in an image by its digest. The same again, while it waits or plays, is the arrival that is known (200)."""
    caller = caller_of(request)
    team = caller.require_team(body.team)
    caller.spend(RequestKind.SUBMISSION, f"team {team}")
    task = body.task or caller.site.contest().only_task
    known = set(caller.season.arrivals)
    with caller.site.note_at_once(caller.actor.person) as admin:
        wish = HandIn(team, task, body.side, body.name, image=body.image)
        found = arrivals.record_arrival(admin, wish, None)
    return Status(200 if found.id in known else 201, _watched(caller, found))


@router.get("/submissions", response=list[SubmissionPart])
def list_submissions(request: HttpRequest, team: str = "") -> list[SubmissionPart]:
    """What was received of one's teams, or of one of them, in the order in which it came."""
    caller = caller_of(request)
    names = _team_names(caller, team)
    own = sorted(caller.season.entries.values(), key=lambda entry: entry.receipt_number)
    return [submission_part(entry) for entry in own if entry.team in names]


@router.get("/submissions/{submission}", response=SubmissionPart)
def show_submission(request: HttpRequest, submission: str) -> SubmissionPart:
    """One of them."""
    return submission_part(_own_entry(caller_of(request), submission))


@router.get("/submissions/{submission}/receipt")
def receipt(request: HttpRequest, submission: str) -> HttpResponse:
    """Its signed receipt, byte for byte."""
    caller = caller_of(request)
    entry = _own_entry(caller, submission)
    path = caller.site.folder.path / "receipts" / f"{entry.id}.json"
    if not path.exists():  # whoever received it was killed before it was written
        with caller.site.note_at_once(caller.actor.person) as admin:
            admin.restore_receipts()
    return HttpResponse(path.read_bytes(), content_type="application/json")


@router.post("/submissions/{submission}/withdraw", response=SubmissionPart, auth=SUBMIT)
def withdraw(request: HttpRequest, submission: str, body: Withdrawal) -> SubmissionPart:
    """Takes a submission back. It stays on record and counts as an attempt."""
    caller = caller_of(request)
    entry = _own_entry(caller, submission)
    caller.spend(RequestKind.ACT)
    with caller.site.administer(caller.actor.person) as admin:
        admin.withdraw(entry.id, body.reason)
        return submission_part(admin.season.entries[entry.id])


@router.post("/submissions/{submission}/correct", response=SubmissionPart, auth=SUBMIT)
def correct(request: HttpRequest, submission: str, body: Correction) -> SubmissionPart:
    """Corrects what a submission says of its licence or its source address."""
    caller = caller_of(request)
    entry = _own_entry(caller, submission)
    caller.spend(RequestKind.ACT)
    with caller.site.administer(caller.actor.person) as admin:
        admin.correct_release(entry.id, body.reason, licence=body.licence, source=body.source)
        return submission_part(admin.season.entries[entry.id])


@router.get("/appeals", response=list[AppealPart])
def list_appeals(request: HttpRequest, team: str = "") -> list[AppealPart]:
    """The objections of one's teams, or of one of them."""
    caller = caller_of(request)
    names = _team_names(caller, team)
    return [appeal_part(each) for each in caller.season.appeals.values() if each.team in names]


@router.post("/submissions/{submission}/appeals", response={201: AppealPart}, auth=SUBMIT)
def appeal(request: HttpRequest, submission: str, body: AppealText) -> AppealPart:
    """Objects to what was decided about a submission, or to one finding against it."""
    caller = caller_of(request)
    entry = _own_entry(caller, submission)
    caller.spend(RequestKind.APPEAL)
    with caller.site.administer(caller.actor.person) as admin:
        return appeal_part(appeals.file_appeal(admin, entry.team, entry.id, body.text, body.finding))


def _team_names(caller: Caller, team: str) -> tuple[str, ...]:
    """Returns the teams that are meant: one that is named, or all of this person's."""
    return (caller.require_team(team),) if team else caller.actor.teams


def _own_entry(caller: Caller, submission: str) -> Entry:
    entry = caller.season.entries.get(submission)
    if entry is None or entry.team not in caller.actor.teams:
        raise unknown("submission")
    return entry


def _watched(caller: Caller, arrival: Arrival) -> WatchedArrivalPart:
    return arrival_part(arrival, arrivals.read_steps(caller.site.folder.path, arrival.id))
