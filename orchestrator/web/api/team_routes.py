"""The routes of teams: their submissions and results, withdrawals, corrections and appeals."""

from django.http import HttpRequest, HttpResponse
from ninja import Router, Status

from orchestrator.application.contests import appeals, arrivals, submission_allowance
from orchestrator.application.contests.submission_admission import SubmissionRequest
from orchestrator.application.contests.team_founding import found_team
from orchestrator.domain.contest_events import PersonRecord
from orchestrator.domain.season import Arrival, Entry
from orchestrator.errors import Problem
from orchestrator.ledger.stores.base import format_time
from orchestrator.web import invitations
from orchestrator.web.api.access import READ, SUBMIT, Caller, caller_of
from orchestrator.web.api.problems import ApiProblem, unknown
from orchestrator.web.api.schemas import (
    AccountPart,
    AppealPart,
    AppealText,
    ArrivalPart,
    Correction,
    EvidencePart,
    ImageSubmission,
    InvitationLink,
    InvitationPart,
    NewInvitation,
    NewTeam,
    ResultPart,
    SubmissionPart,
    TeamPart,
    TriesPart,
    WatchedArrivalPart,
    Withdrawal,
    appeal_part,
    arrival_part,
    evidence_part,
    result_part,
    submission_part,
    tries_part,
)
from orchestrator.web.arrival_time import last_byte_time
from orchestrator.web.contest_site import web_settings
from orchestrator.web.rate_limits import RequestKind
from orchestrator.web.team_results import finding_labels, read_receipt, reports_of
from orchestrator.web.tokens import Scope

router = Router(auth=READ, tags=["teams"])


@router.get("/me", response=AccountPart)
def me(request: HttpRequest) -> AccountPart:
    """The account of the request's token, and what the token allows."""
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
    """Revokes the token of this request."""
    token = caller_of(request).token
    if token is not None:
        token.delete()


@router.get("/teams", response=list[TeamPart])
def teams(request: HttpRequest) -> list[TeamPart]:
    """The teams that you are a member of."""
    caller = caller_of(request)
    people = {name: [person.name for person in caller.season.teams[name]] for name in caller.actor.teams}
    return [TeamPart(team=name, people=members) for name, members in people.items()]


@router.post("/teams", response={200: TeamPart, 201: TeamPart}, auth=SUBMIT)
def found(request: HttpRequest, body: NewTeam) -> Status[TeamPart]:
    """Founds a team with you as its first member (201). Changes nothing if you are a member of it already (200)."""
    caller = caller_of(request)
    caller.spend(RequestKind.ACT, caller.actor.person)
    founder = PersonRecord(id=caller.actor.person, name=caller.account.name, organizer=caller.actor.is_organizer)
    with caller.site.administer(caller.actor.person) as admin:
        found_team(admin, body.team, founder)
        people = [person.name for person in admin.season.teams[body.team]]
    return Status(200 if body.team in caller.actor.teams else 201, TeamPart(team=body.team, people=people))


@router.post("/invitations", response={201: InvitationPart}, auth=SUBMIT)
def invite(request: HttpRequest, body: NewInvitation) -> Status[InvitationPart]:
    """Makes a link that makes one person a member of a team. The person accepts it on its page or with a program."""
    caller = caller_of(request)
    team, now = caller.require_team(body.team), caller.site.clock()
    caller.spend(RequestKind.ACT, caller.actor.person)
    link = web_settings().address + invitations.invite(by=caller.actor.person, team=team, now=now)
    return Status(201, InvitationPart(link=link, expires=format_time(now + invitations.LIFETIME)))


@router.post("/invitations/accept", response=TeamPart, auth=SUBMIT)
def accept(request: HttpRequest, body: InvitationLink) -> TeamPart:
    """Accepts an invitation to a team, which uses it up. Invitations to roles can only be accepted on their page."""
    caller = caller_of(request)
    caller.spend(RequestKind.ACT, caller.actor.person)
    found = invitations.find(body.link.rstrip("/").rpartition("/")[2], caller.site.clock())
    if found is None:
        raise unknown("invitation")
    if found.role:
        remedy = "open the link in the browser, sign in and accept it there"
        raise ApiProblem(403, "role", Problem("link", "it gives a role, which no token may take", remedy))
    invitations.accept(caller.site, found, caller.account)
    people = [person.name for person in caller.site.season().teams[found.team]]
    return TeamPart(team=found.team, people=people)


@router.get("/tries", response=list[TriesPart])
def tries(request: HttpRequest, team: str) -> list[TriesPart]:
    """How many submissions your team may still make on each side of each task."""
    caller = caller_of(request)
    name = caller.require_team(team)
    left = submission_allowance.tries_left(caller.season, caller.site.contest(), name, caller.site.clock())
    return [tries_part(each) for each in left]


@router.get("/results", response=list[ResultPart])
def results(request: HttpRequest, team: str) -> list[ResultPart]:
    """The results of your team's submissions in every round: codes, counts and rounded scores (A2)."""
    caller = caller_of(request)
    page = reports_of(caller.site).pages[caller.require_team(team)]
    return [result_part(each) for each in page.participations]


@router.get("/arrivals", response=list[ArrivalPart])
def list_arrivals(request: HttpRequest, team: str = "") -> list[ArrivalPart]:
    """The arrivals of your teams, or of one of them, in the order in which they came."""
    caller = caller_of(request)
    names = _team_names(caller, team)
    own = [each for each in caller.season.arrivals.values() if each.team in names]
    return [ArrivalPart(**_watched(caller, each).model_dump(exclude={"steps"})) for each in own]


@router.get("/arrivals/{arrival}", response=WatchedArrivalPart)
def show_arrival(request: HttpRequest, arrival: str) -> WatchedArrivalPart:
    """An arrival with the steps of its admission so far."""
    caller = caller_of(request)
    found = caller.season.arrivals.get(arrival)
    if found is None or found.team not in caller.actor.teams:
        raise unknown("arrival")
    return _watched(caller, found)


@router.post("/submissions", response={200: WatchedArrivalPart, 201: WatchedArrivalPart}, auth=SUBMIT)
def submit_image(request: HttpRequest, body: ImageSubmission) -> Status[WatchedArrivalPart]:
    """Submits an image by its digest (201). If the same image already waits or plays, returns its arrival (200)."""
    caller = caller_of(request)
    team = caller.require_team(body.team)
    caller.spend(RequestKind.SUBMISSION, f"team {team}")
    task = body.task or caller.site.contest().only_task
    known = set(caller.season.arrivals)
    with caller.site.administer_without_reports(caller.actor.person) as admin:
        wanted = SubmissionRequest(team, task, side=body.side, name=body.name, image=body.image)
        found = arrivals.record_arrival(admin, wanted, None, now=last_byte_time(request, caller.site.clock))
    return Status(200 if found.id in known else 201, _watched(caller, found))


@router.get("/submissions", response=list[SubmissionPart])
def list_submissions(request: HttpRequest, team: str = "") -> list[SubmissionPart]:
    """The received submissions of your teams, or of one of them, in the order in which they were received."""
    caller = caller_of(request)
    names = _team_names(caller, team)
    own = sorted(caller.season.entries.values(), key=lambda entry: entry.receipt_number)
    return [submission_part(entry) for entry in own if entry.team in names]


@router.get("/submissions/{submission}", response=SubmissionPart)
def show_submission(request: HttpRequest, submission: str) -> SubmissionPart:
    """A submission of one of your teams."""
    return submission_part(_own_entry(caller_of(request), submission))


@router.get("/submissions/{submission}/receipt")
def receipt(request: HttpRequest, submission: str) -> HttpResponse:
    """The signed receipt of a submission, byte for byte."""
    caller = caller_of(request)
    entry = _own_entry(caller, submission)
    document = read_receipt(caller.site, caller.actor.person, entry.id)
    return HttpResponse(document, content_type="application/json")


@router.post("/submissions/{submission}/withdraw", response=SubmissionPart, auth=SUBMIT)
def withdraw(request: HttpRequest, submission: str, body: Withdrawal) -> SubmissionPart:
    """Withdraws a submission. It stays in the ledger and counts as an attempt."""
    caller = caller_of(request)
    entry = _own_entry(caller, submission)
    caller.spend(RequestKind.ACT, caller.actor.person)
    with caller.site.administer(caller.actor.person) as admin:
        admin.withdraw(entry.id, body.reason)
        return submission_part(admin.season.entries[entry.id])


@router.post("/submissions/{submission}/correct", response=SubmissionPart, auth=SUBMIT)
def correct(request: HttpRequest, submission: str, body: Correction) -> SubmissionPart:
    """Corrects a submission's licence or source address."""
    caller = caller_of(request)
    entry = _own_entry(caller, submission)
    caller.spend(RequestKind.ACT, caller.actor.person)
    with caller.site.administer(caller.actor.person) as admin:
        admin.correct_release(entry.id, body.reason, licence=body.licence, source=body.source)
        return submission_part(admin.season.entries[entry.id])


@router.get("/submissions/{submission}/findings", response=list[EvidencePart])
def list_findings(request: HttpRequest, submission: str) -> list[EvidencePart]:
    """The findings against a submission, with the part of their evidence that is public before labels are released."""
    caller = caller_of(request)
    entry = _own_entry(caller, submission)
    return [evidence_part(each) for each in reports_of(caller.site).findings.get(entry.id, ())]


@router.get("/appeals", response=list[AppealPart])
def list_appeals(request: HttpRequest, team: str = "") -> list[AppealPart]:
    """The appeals of your teams, or of one of them."""
    caller = caller_of(request)
    names = _team_names(caller, team)
    labels = finding_labels(caller.site)
    return [appeal_part(each, labels) for each in caller.season.appeals.values() if each.team in names]


@router.post("/submissions/{submission}/appeals", response={201: AppealPart}, auth=SUBMIT)
def appeal(request: HttpRequest, submission: str, body: AppealText) -> AppealPart:
    """Appeals against a submission's disqualification, or against one finding."""
    caller = caller_of(request)
    entry = _own_entry(caller, submission)
    caller.spend(RequestKind.APPEAL, caller.actor.person)
    ids = {each.label: each.id for each in reports_of(caller.site).findings.get(entry.id, ())}
    if body.finding and body.finding not in ids:
        remedy = f"name one of: {', '.join(ids) or 'none, there is no finding against it'}"
        raise ApiProblem(422, "invalid", Problem("finding", "there is none such against this submission", remedy))
    with caller.site.administer(caller.actor.person) as admin:
        filed = appeals.file_appeal(admin, entry.team, entry.id, body.text, ids.get(body.finding, ""))
    return appeal_part(filed, finding_labels(caller.site))


def _team_names(caller: Caller, team: str) -> tuple[str, ...]:
    """Returns `team` alone if it is given, otherwise all teams of the caller. Raises ApiProblem (404)."""
    return (caller.require_team(team),) if team else caller.actor.teams


def _own_entry(caller: Caller, submission: str) -> Entry:
    entry = caller.season.entries.get(submission)
    if entry is None or entry.team not in caller.actor.teams:
        raise unknown("submission")
    return entry


def _watched(caller: Caller, arrival: Arrival) -> WatchedArrivalPart:
    return arrival_part(arrival, arrivals.read_steps(caller.site.folder.path, arrival.id))
