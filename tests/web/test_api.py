"""The API: tokens and scopes, device login, what teams can read and do, limits of requests."""

import threading
from datetime import timedelta

import pytest

from orchestrator.application.contests import announcements, appeals, arrivals, seasons
from orchestrator.domain import contest_events
from orchestrator.domain.contest_events import PersonRecord
from orchestrator.domain.submissions import Side
from tests.web.conftest import acts, client_of

DIGEST = "sha256:" + "ab" * 32


@pytest.fixture
def clock(contest):
    """The time of day of the contest that is served."""
    from orchestrator.web.contest_site import current_site
    from tests.web.api_client import Clock

    current_site().clock = Clock()
    return current_site().clock


@pytest.fixture
def team(contest, clock):
    """Programs of Ada, of the team Corner Shop."""
    from tests.web import api_client

    api = api_client.make_api("Ada", now=clock.now)
    api_client.join_team(contest, api.account, clock=clock)
    return api


@pytest.fixture
def others(contest, clock, team):
    """Programs of Bob, of another team."""
    from tests.web import api_client

    api = api_client.make_api("Bob", now=clock.now)
    api_client.join_team(contest, api.account, "Others", clock=clock)
    return api


@pytest.fixture
def submission(contest, clock, team):
    """A submission of Corner Shop that was received."""
    event = contest_events.SubmissionReceived(
        actor=team.account.person,
        id="corners",
        name="corners",
        team="Corner Shop",
        task="digits",
        side=Side.ATTACK,
        digest=DIGEST,
        image="",
        attempt=1,
        attempts_left=2,
    )
    with seasons.administer(contest, "organizer", clock) as admin:
        admin.append_event(event)
    return event.id


def anonymous():
    """Programs without a token."""
    from tests.web.api_client import Api

    return Api(None, "")


def codes(answer):
    """Returns an answer's status and code."""
    return answer.status_code, answer.json()["code"]


def test_everybody_reads_the_contest(team):
    """Contest, status, rounds, announcements and boards need no token."""
    everybody = anonymous()
    found = everybody.get("/contest").json()
    assert (found["format"], found["tasks"]) == ("tournament", ["digits"])
    assert found["key"].startswith("sha256:")
    assert everybody.get("/status").json()["state"] == "open"
    assert {each["round"]: each["state"] for each in everybody.get("/rounds").json()}["initial"] == "ready"
    assert everybody.get("/announcements").json() == []
    assert everybody.get("/boards").json() == []
    assert codes(everybody.get("/boards?task=nothing")) == (404, "not-found")


def test_announcements_name_nobody(contest, clock, team):
    """What was announced has its words and its time, and not who wrote it."""
    with seasons.administer(contest, "person-of-ours", clock) as admin:
        announcements.announce(admin, "Extended", "A week more.")
    [found] = anonymous().get("/announcements").json()
    assert found == {"time": "2027-03-01T12:00:00.000+00:00", "title": "Extended", "text": "A week more."}


def test_openapi_describes_it(team):
    """The description is served where it is said to be, and names the routes."""
    description = anonymous().get("/openapi.json").json()
    assert {"/api/v1/boards", "/api/v1/uploads/{upload}", "/api/v1/submissions/{submission}/withdraw"} <= set(
        description["paths"]
    )


def test_an_unknown_address_is_answered_in_json(team):
    """Programs get no HTML."""
    assert codes(team.get("/nothing")) == (404, "not-found")


def test_a_token_is_needed(team):
    """What belongs to teams needs one."""
    answer = anonymous().get("/me")
    assert codes(answer) == (401, "no-token")
    assert answer["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("token", ["spar_000000000000_00", "spar", "ghp_x_y", "spar__"])
def test_an_unknown_token_is_refused(team, token):
    """Also where nothing about it is a token."""
    assert codes(team.get("/me", Authorization=f"Bearer {token}")) == (401, "unknown-token")


def test_a_wrong_secret_is_refused(team):
    """The id alone opens nothing."""
    wrong = team.token[:-1] + ("0" if team.token[-1] != "0" else "1")
    assert codes(team.get("/me", Authorization=f"Bearer {wrong}")) == (401, "unknown-token")


def test_an_expired_token_says_so(team, clock):
    """When it expired, and how to get another."""
    clock.pass_time(days=91)
    answer = team.get("/me")
    assert codes(answer) == (401, "expired-token")
    [problem] = answer.json()["problems"]
    assert problem["what"] == "this token expired on 2027-05-30 at 12:00 UTC"
    assert problem["remedy"] == "get another with `sparring login http://127.0.0.1:8000`"


def test_a_narrow_scope_only_reads(contest, clock, team, submission):
    """With `read` everything can be read, and nothing done."""
    from orchestrator.web import tokens
    from orchestrator.web.tokens import Scope

    team.token = tokens.issue(team.account, "reader", Scope.READ, now=clock.now, lifetime=timedelta(days=1))
    assert team.get("/me").json()["scope"] == "read"
    assert codes(team.post(f"/submissions/{submission}/withdraw", {"reason": "a bug"})) == (403, "scope")


def test_a_session_is_no_token(team):
    """Cookies open nothing of the API."""
    browser = client_of(team.account)
    assert browser.get("/api/v1/me").status_code == 401


def test_the_last_use_is_noted(team, clock):
    """People see which of their tokens are used."""
    from orchestrator.web.models import ApiToken

    team.get("/me")
    assert ApiToken.objects.get().last_used == clock.now


def test_no_secret_is_kept(team):
    """The tables hold the digest alone."""
    from orchestrator.web.models import ApiToken

    secret = team.token.rpartition("_")[2]
    assert secret not in str(ApiToken.objects.values().get())


def test_a_program_revokes_its_token(team):
    """Which is what `sparring logout` does."""
    assert team.send("DELETE", "/token").status_code == 204
    assert codes(team.get("/me")) == (401, "unknown-token")


def test_an_account_that_is_deleted_takes_its_tokens(team):
    """Nobody acts in its name any more."""
    team.account.delete()
    assert codes(team.get("/me")) == (401, "unknown-token")


def test_own_teams_are_shown(team, others):
    """With their people, and nobody else's."""
    assert team.get("/teams").json() == [{"team": "Corner Shop", "people": ["Ada"]}]
    assert others.get("/me").json()["teams"] == ["Others"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        pytest.param("GET", "/submissions/corners", None, id="read"),
        pytest.param("GET", "/submissions/corners/receipt", None, id="receipt"),
        pytest.param("GET", "/submissions?team=Corner%20Shop", None, id="list"),
        pytest.param("GET", "/arrivals?team=Corner%20Shop", None, id="arrivals"),
        pytest.param("GET", "/appeals?team=Corner%20Shop", None, id="appeals"),
        pytest.param("POST", "/submissions/corners/withdraw", {"reason": "x"}, id="withdraw"),
        pytest.param("POST", "/submissions/corners/correct", {"reason": "x", "licence": "MIT"}, id="correct"),
        pytest.param("POST", "/submissions/corners/appeals", {"text": "x"}, id="appeal"),
        pytest.param(
            "POST",
            "/submissions",
            {"team": "Corner Shop", "image": f"r/x@{DIGEST}", "name": "x", "side": "attack"},
            id="submit",
        ),
    ],
)
def test_what_is_others_is_not_there(others, submission, method, path, body):
    """404, as for what does not exist."""
    assert codes(others.send(method, path, body)) == (404, "not-found")
    assert others.get("/submissions").json() == []


def test_a_receipt_is_the_signed_file(contest, team, submission):
    """Byte for byte, so that it verifies; one that is missing is written again."""
    assert not (contest / "receipts" / "corners.json").exists()
    answer = team.get(f"/submissions/{submission}/receipt")
    assert answer.content == (contest / "receipts" / "corners.json").read_bytes()


def test_withdrawing_leaves_an_event_of_the_person(contest, team, submission):
    """Once; the second time is a conflict."""
    answer = team.post(f"/submissions/{submission}/withdraw", {"reason": "a bug"})
    assert (answer.status_code, answer.json()["state"], answer.json()["reason"]) == (200, "withdrawn", "a bug")
    [withdrawn] = acts(contest, contest_events.SubmissionWithdrawn)
    assert withdrawn.actor == team.account.person
    assert codes(team.post(f"/submissions/{submission}/withdraw", {"reason": "again"})) == (409, "usage")


def test_correcting(team, submission):
    """The licence is what it is said to be now."""
    answer = team.post(f"/submissions/{submission}/correct", {"licence": "MIT", "reason": "was missing"})
    assert answer.json()["licence"] == "MIT"


def test_unknown_fields_are_refused(team, submission):
    """A misspelt key is no key that is ignored."""
    answer = team.post(f"/submissions/{submission}/withdraw", {"reason": "x", "resaon": "y"})
    assert codes(answer) == (422, "invalid")
    assert [problem["place"] for problem in answer.json()["problems"]] == ["resaon"]


def test_appealing(team, submission):
    """An objection is listed, open; a second one about the same is a conflict."""
    answer = team.post(f"/submissions/{submission}/appeals", {"text": "It was not slow."})
    assert answer.status_code == 201
    [listed] = team.get("/appeals").json()
    assert (listed, listed["state"]) == (answer.json(), "open")
    assert codes(team.post(f"/submissions/{submission}/appeals", {"text": "again"})) == (409, "usage")


@pytest.fixture
def accused(season):
    """Programs of Ada, who is in the team Two as well: its defence was found to answer by chance."""
    from tests.web import api_client

    api = api_client.make_api("Ada", now=seasons.now())
    with seasons.administer(season, "desk") as admin:
        known = [PersonRecord(id=one.id, name=one.name) for one in admin.season.teams["Two"]]
        admin.add_team("Two", [*known, PersonRecord(id=api.account.person, name="Ada")])
    return api


def test_a_team_appeals_against_a_finding(season, accused):
    """A finding is named as on the pages: its id in the ledger, which follows from hidden data, is in no answer."""
    with seasons.administer(season, "desk") as admin:
        [secret] = appeals._findings_against(admin, "defence_chance")
    path = "/submissions/defence_chance"
    [found] = accused.get(f"{path}/findings").json()
    assert (found["finding"], found["round"], found["task"]) == ("initial-quarters-finding-1", "initial", "quarters")
    assert "different decisions" in found["meaning"]
    assert found["evidence"]["submission"] == "defence_chance"
    wrong = accused.post(f"{path}/appeals", {"text": "No.", "finding": "finding-9"})
    assert codes(wrong) == (422, "invalid")
    assert "initial-quarters-finding-1" in wrong.json()["problems"][0]["remedy"]
    filed = accused.post(f"{path}/appeals", {"text": "Our machine was warm.", "finding": found["finding"]})
    assert (filed.status_code, filed.json()["finding"]) == (201, found["finding"])
    assert accused.get("/appeals").json() == [filed.json()]
    assert acts(season, contest_events.AppealFiled)[-1].finding == secret
    assert all(secret not in answer.content.decode() for answer in (wrong, filed, accused.get(f"{path}/findings")))


def test_a_team_sees_its_results_and_its_tries(season, accused):
    """Every round with the rows of its boards, and what may still be submitted: what its pages show."""
    [played] = accused.get("/results?team=Two").json()
    assert (played["round"], played["task"], played["submission"]["id"]) == ("initial", "quarters", "defence_chance")
    assert {row["row"]["submission"] for row in played["rows"]} == {"defence_chance"}
    tries = {(one["task"], one["side"]): one for one in accused.get("/tries?team=Two").json()}
    defence, attack = tries["quarters", "defence"], tries["quarters", "attack"]
    assert (defence["used"], defence["allowed"], defence["problems"]) == (1, 3, [])
    assert "A1" in attack["problems"][0]
    for path in ("/results", "/tries"):
        assert codes(accused.get(f"{path}?team=One")) == (404, "not-found")


def test_a_team_is_founded_and_joined(team, others):
    """Once, however often it is asked for; the invitation lets in one person."""
    assert team.post("/teams", {"team": "Rooks"}).json() == {"team": "Rooks", "people": ["Ada"]}
    assert team.post("/teams", {"team": "Rooks"}).status_code == 200
    assert codes(others.post("/teams", {"team": "rooks"})) == (409, "usage")
    assert codes(others.post("/invitations", {"team": "Rooks"})) == (404, "not-found")
    made = team.post("/invitations", {"team": "Rooks"})
    assert made.status_code == 201
    page = made.json()["link"].partition("8000")[2]
    assert client_of(others.account).post(page).status_code == 302
    assert {"team": "Rooks", "people": ["Ada", "Bob"]} in others.get("/teams").json()


def added_teams(contest):
    """Returns who noted which team with which people, in the order of the ledger."""
    found = acts(contest, contest_events.TeamAdded)
    return [(each.actor, each.team, [person.name for person in each.people]) for each in found]


def test_a_program_accepts_an_invitation_to_a_team(contest, team, others):
    """It leaves the entry that the page leaves, in the person's name, once; the answer is the team."""
    link = team.post("/invitations", {"team": "Corner Shop"}).json()["link"]
    done = others.post("/invitations/accept", {"link": link})
    assert (done.status_code, done.json()) == (200, {"team": "Corner Shop", "people": ["Ada", "Bob"]})
    by_program = added_teams(contest)[-1]
    assert by_program == (others.account.person, "Corner Shop", ["Ada", "Bob"])
    assert codes(others.post("/invitations/accept", {"link": link})) == (404, "not-found")
    assert codes(others.post("/invitations/accept", {"link": "https://cup.example/invitations/no/"})) == (
        404,
        "not-found",
    )
    page = others.post("/invitations", {"team": "Others"}).json()["link"].partition("8000")[2]
    assert client_of(team.account).post(page).status_code == 302
    assert added_teams(contest)[-1] == (team.account.person, "Others", ["Bob", "Ada"])


def test_no_program_accepts_an_expired_invitation(contest, clock, team, others):
    """It is answered like one that never was."""
    link = team.post("/invitations", {"team": "Corner Shop"}).json()["link"]
    clock.pass_time(days=15)
    assert codes(others.post("/invitations/accept", {"link": link})) == (404, "not-found")


def test_no_token_takes_a_role(contest, clock, team):
    """An invitation to one is for a person at its page: it is refused, and not used up."""
    from orchestrator.web import invitations

    path = invitations.invite(by="organizer", role=contest_events.Role.ORGANIZER, now=clock.now)
    assert codes(team.post("/invitations/accept", {"link": path})) == (403, "role")
    assert acts(contest, contest_events.RoleGranted) == []
    assert client_of(team.account).post(path).status_code == 302
    assert [each.person.name for each in acts(contest, contest_events.RoleGranted)] == ["Ada"]


def test_accepting_is_counted_and_needs_the_right_to_submit(contest, clock, team, others, monkeypatch):
    """Acts of an account; a token that may only read accepts nothing."""
    from orchestrator.web import rate_limits, tokens
    from orchestrator.web.rate_limits import Limit, RequestKind
    from tests.web.api_client import Api

    link = team.post("/invitations", {"team": "Corner Shop"}).json()["link"]
    day = timedelta(days=1)
    reads = Api(others.account, tokens.issue(others.account, "reads", tokens.Scope.READ, now=clock.now, lifetime=day))
    assert codes(reads.post("/invitations/accept", {"link": link})) == (403, "scope")
    monkeypatch.setitem(rate_limits.LIMITS, RequestKind.ACT, Limit(1, 3600, "few"))
    assert codes(others.post("/invitations/accept", {"link": "no"})) == (404, "not-found")
    assert codes(others.post("/invitations/accept", {"link": link})) == (429, "too-many-requests")
    assert added_teams(contest)[-1][2] == ["Bob"]


def test_the_rules_hold_for_who_joins_by_a_program(contest, clock, team, others, submission):
    """Who defends in one team cannot join one that attacks (A1): the invitation stays good for somebody else."""
    event = acts(contest, contest_events.SubmissionReceived)[0]
    with seasons.administer(contest, "organizer", clock) as admin:
        theirs = {"id": "theirs", "name": "theirs", "team": "Others", "side": Side.DEFENCE}
        admin.append_event(event.model_copy(update=theirs))
    link = team.post("/invitations", {"team": "Corner Shop"}).json()["link"]
    refused = others.post("/invitations/accept", {"link": link})
    assert (refused.status_code, "A1" in refused.content.decode()) == (409, True)
    assert added_teams(contest)[-1][2] == ["Bob"]
    free = api_of_a_new_person(clock)
    assert free.post("/invitations/accept", {"link": link}).status_code == 200


def api_of_a_new_person(clock):
    """Returns the programs of somebody in no team."""
    from tests.web import api_client

    return api_client.make_api("Nina", now=clock.now)


def test_an_image_is_handed_in_by_its_digest(team):
    """It arrives at once; the same again is the same arrival."""
    wish = {"team": "Corner Shop", "image": f"registry.example.org/x@{DIGEST}", "name": "x", "side": "attack"}
    first, again = team.post("/submissions", wish), team.post("/submissions", wish)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["arrival"] == again.json()["arrival"]
    assert (first.json()["state"], first.json()["digest"]) == ("waiting", DIGEST)
    assert [each["arrival"] for each in team.get("/arrivals").json()] == [first.json()["arrival"]]


def test_an_image_without_its_digest_is_refused(team):
    """With the place and the remedy."""
    wish = {"team": "Corner Shop", "image": "registry.example.org/x:latest", "name": "x", "side": "attack"}
    answer = team.post("/submissions", wish)
    assert codes(answer) == (409, "rejected")
    assert answer.json()["problems"][0]["place"] == "image"


def test_the_steps_of_an_admission_are_shown(contest, team, others):
    """While it goes on, to its team alone."""
    wish = {"team": "Corner Shop", "image": f"registry.example.org/x@{DIGEST}", "name": "x", "side": "attack"}
    arrival = team.post("/submissions", wish).json()["arrival"]
    step = '{"time": "t", "step": "image policy", "passed": false, "problem": "no", "remedy": "mend it"}\n'
    (arrivals.arrival_folder(contest, arrival) / "steps.jsonl").write_text(step, "utf-8")
    shown = team.get(f"/arrivals/{arrival}").json()
    assert shown["state"] == "in admission"
    assert [(each["step"], each["remedy"]) for each in shown["steps"]] == [("image policy", "mend it")]
    assert codes(others.get(f"/arrivals/{arrival}")) == (404, "not-found")


def test_device_login(team, clock):
    """A program shows a code; a person types it, sees who asks, lets it in; the program gets its token once."""
    begun = anonymous().post("/device", {"name": "laptop", "scope": "submit"}).json()
    assert begun["verification_uri"] == "http://127.0.0.1:8000/account/device/"
    ask = {"device_code": begun["device_code"]}
    assert codes(anonymous().post("/device/token", ask)) == (400, "authorization_pending")
    assert codes(anonymous().post("/device/token", ask)) == (400, "slow_down")
    browser = client_of(team.account)
    typed = begun["user_code"].replace("-", " ").lower()
    assert "laptop" in browser.post("/account/device/", {"code": typed}).content.decode()
    clock.pass_time(seconds=6)
    assert codes(anonymous().post("/device/token", ask)) == (400, "authorization_pending")
    browser.post("/account/device/", {"code": begun["user_code"], "answer": "approve"})
    team.token = anonymous().post("/device/token", ask).json()["token"]
    assert team.get("/me").json()["token"] == "laptop"  # noqa: S105  its name
    assert codes(anonymous().post("/device/token", ask)) == (400, "expired_token")


def test_device_login_denied(team):
    """The program is told so."""
    begun = anonymous().post("/device", {"name": "laptop"}).json()
    client_of(team.account).post("/account/device/", {"code": begun["user_code"], "answer": "deny"})
    assert codes(anonymous().post("/device/token", {"device_code": begun["device_code"]})) == (400, "access_denied")


def test_device_login_expires(team, clock):
    """After ten minutes nobody can approve it."""
    begun = anonymous().post("/device", {"name": "laptop"}).json()
    clock.pass_time(minutes=10)
    page = client_of(team.account).post("/account/device/", {"code": begun["user_code"], "answer": "approve"})
    assert "No program waits with this code" in page.content.decode()
    assert codes(anonymous().post("/device/token", {"device_code": begun["device_code"]})) == (400, "expired_token")


def test_codes_cannot_be_guessed_for_long(team):
    """After ten wrong ones a person waits."""
    browser = client_of(team.account)
    answers = [browser.post("/account/device/", {"code": "BBBB-BBBB"}) for _ in range(11)]
    assert [answer.status_code for answer in answers] == [200] * 10 + [429]
    assert answers[-1]["Retry-After"] == "60"


def test_tokens_are_made_and_revoked_on_a_page(team):
    """A new one is shown once, and works until it is revoked."""
    import re

    browser = client_of(team.account)
    page = browser.post("/account/tokens/", {"name": "ci", "scope": "read", "days": "7"})
    team.token = re.search(r"spar_[0-9a-f]{12}_[0-9a-f]{64}", page.content.decode())[0]
    assert page["Cache-Control"] == "no-store"
    assert team.get("/me").json()["token"] == "ci"  # noqa: S105  its name
    assert team.token not in browser.get("/account/tokens/").content.decode()
    browser.post(f"/account/tokens/{team.token.split('_')[1]}/revoke/")
    assert team.get("/me").status_code == 401


@pytest.mark.parametrize("days", ["0", "181"])
def test_no_token_holds_for_long(team, days):
    """At most 180 days."""
    from orchestrator.web.models import ApiToken

    client_of(team.account).post("/account/tokens/", {"name": "ci", "scope": "read", "days": days})
    assert ApiToken.objects.count() == 1


def test_nobody_revokes_anothers_token(team, others):
    """There is no such token for them."""
    answer = client_of(others.account).post(f"/account/tokens/{team.token.split('_')[1]}/revoke/")
    assert answer.status_code == 404
    assert team.get("/me").status_code == 200


def test_too_many_requests_are_put_off(team, clock, monkeypatch):
    """With the seconds after which there is one more."""
    from orchestrator.web import rate_limits
    from orchestrator.web.rate_limits import Limit, RequestKind

    monkeypatch.setitem(rate_limits.LIMITS, RequestKind.READ, Limit(2, 60, "for this test"))
    assert [team.get("/me").status_code for _ in range(3)] == [200, 200, 429]
    answer = team.get("/me")
    assert codes(answer) == (429, "too-many-requests")
    assert answer["Retry-After"] == "30"
    clock.pass_time(seconds=30)
    assert [team.get("/me").status_code for _ in range(2)] == [200, 429]


def test_another_token_is_no_new_bucket(team, others, clock, monkeypatch):
    """A person has fifty tokens and can make new ones; what counts is whose they are."""
    from orchestrator.web import rate_limits, tokens
    from orchestrator.web.rate_limits import Limit, RequestKind
    from tests.web.api_client import Api

    monkeypatch.setitem(rate_limits.LIMITS, RequestKind.READ, Limit(2, 60, "for this test"))
    assert [team.get("/me").status_code for _ in range(2)] == [200, 200]
    second = tokens.issue(team.account, "second", tokens.Scope.READ, now=clock.now, lifetime=timedelta(days=1))
    assert codes(Api(team.account, second).get("/me")) == (429, "too-many-requests")
    assert others.get("/me").status_code == 200


def test_a_bucket_is_counted_once_by_many_threads(team, clock, monkeypatch):
    """Of forty at once, exactly as many pass as may."""
    from django.db import connection

    from orchestrator.web import rate_limits
    from orchestrator.web.rate_limits import Limit, RequestKind

    monkeypatch.setitem(rate_limits.LIMITS, RequestKind.ACT, Limit(7, 3600, "for this test"))
    waits = []

    def take():
        try:
            waits.extend(rate_limits.wait_seconds(RequestKind.ACT, "somebody", clock.now) for _ in range(10))
        finally:
            connection.close()

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(waits), waits.count(0)) == (40, 7)


def test_every_kind_of_request_has_a_limit(service):
    """With the sentence that says why."""
    from orchestrator.web.rate_limits import LIMITS, RequestKind

    assert set(LIMITS) == set(RequestKind)
    assert all(limit.why.endswith(".") for limit in LIMITS.values())
