"""What the review board does: appeals are decided once, by members who have no stake in them."""

import pytest

from orchestrator.application.contests import appeals, seasons
from orchestrator.domain import contest_events
from orchestrator.domain.contest_events import PersonRecord, Role
from tests.web.conftest import acts, client_of
from tests.web.test_organizers import HOSTILE, browser_with, hidden_fields

TEXT = f"We never drew at random. {HOSTILE}"


@pytest.fixture
def appeal(season) -> str:
    """The address of Two's appeal about the finding against its defence on quarters."""
    with seasons.administer(season, "two") as admin:
        [finding] = appeals._findings_against(admin, "defence_chance")
        filed = appeals.file_appeal(admin, "Two", "defence_chance", TEXT, finding)
    return f"/review/{filed.id}/"


def join(season, team, *browsers) -> None:
    """Adds people to a team."""
    with seasons.administer(season, "desk") as admin:
        known = [PersonRecord(id=one.id, name=one.name) for one in admin.season.teams.get(team, ())]
        admin.add_team(team, [*known, *(PersonRecord(id=one.person, name=one.person) for one in browsers)])


@pytest.mark.slow
@pytest.mark.parametrize("decision", ["uphold", "dismiss"])
def test_a_member_decides_once(season, appeal, decision) -> None:
    """The evidence and the team's words are on the page; the decision is the member's, and the second click nothing."""
    board = browser_with(season, "Bea", Role.BOARD)
    assert appeal in board.get("/review/").content.decode()
    page = board.get(appeal)
    text = page.content.decode()
    for word in ("We never drew at random.", "Evidence of finding", "The same question gets different decisions"):
        assert word in text
    form = hidden_fields(page) | {"decision": decision, "reason": "We played it again."}
    for _ in range(2):
        assert board.post(appeal, form).status_code == 302
    [decided] = acts(season, contest_events.AppealDecided)
    assert (decided.actor, decided.upheld) == (board.person, decision == "uphold")
    assert "We played it again." in board.get(appeal).content.decode()
    late = board.post(appeal, form | {"once": "another"})
    assert late.status_code == 409
    assert "was decided already" in late.content.decode()
    assert len(acts(season, contest_events.AppealDecided)) == 1


def test_strangers_words_are_escaped(season, appeal) -> None:
    """The team's text is text."""
    text = browser_with(season, "Bea", Role.BOARD).get(appeal).content.decode()
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text
    assert "\u202e" not in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("team", "reason"),
    [("Two", "you are in the team that appeals"), ("One", "a team of yours competes on the same task")],
    ids=["own team", "rival"],
)
def test_a_member_with_a_stake_sees_nothing(season, appeal, team, reason) -> None:
    """Neither on the list nor by its address, and a decision is refused; also for who joined that team since."""
    board = browser_with(season, "Bea", Role.BOARD)
    form = hidden_fields(board.get(appeal)) | {"decision": "uphold", "reason": "Mine."}
    join(season, team, board)
    listed = board.get("/review/").content.decode()
    assert appeal not in listed
    assert "1 appeal is not shown" in listed
    for answer in (board.get(appeal), board.post(appeal, form)):
        assert answer.status_code == 403
        assert reason in answer.content.decode()
        assert "never drew" not in answer.content.decode()
    assert not acts(season, contest_events.AppealDecided)


def test_an_organizer_on_the_board_finds_no_appeal_of_their_stake(season, appeal) -> None:
    """Not in what waits, nor in who did what; an organizer who is not on the board sees it."""
    both, other = browser_with(season, "Bea", Role.BOARD), browser_with(season, "Olga", Role.ORGANIZER)
    join(season, "Two", both)
    with seasons.administer(season, "desk") as admin:
        record = PersonRecord(id=both.person, name="Bea")
        admin.append_event(contest_events.RoleGranted(actor="desk", person=record, role=Role.ORGANIZER))
    for browser, is_told in ((both, False), (other, True)):
        waits, done = (browser.get(each).content.decode() for each in ("/organize/", "/organize/ledger/"))
        assert ("never drew" in done, "open since" in waits) == (is_told, is_told)
        assert f"<dt>Open appeals</dt><dd>{int(is_told)}</dd>" in waits


@pytest.mark.slow
def test_a_member_who_competes_elsewhere_decides(season, appeal) -> None:
    """Three plays on another task alone: its people have no stake in this one."""
    board = browser_with(season, "Bea", Role.BOARD)
    join(season, "Three", board)
    form = hidden_fields(board.get(appeal)) | {"decision": "dismiss", "reason": "It was found twice."}
    assert board.post(appeal, form).status_code == 302
    assert acts(season, contest_events.AppealDecided)[0].actor == board.person


@pytest.mark.parametrize("roles", [(Role.ORGANIZER,), (Role.RATER,), ()], ids=["organizer", "rater", "nobody"])
def test_only_the_board_reviews(season, appeal, roles) -> None:
    """Organizers too are not of the board unless they have that role."""
    client = browser_with(season, "Olga", *roles)
    for address in ("/review/", appeal):
        assert client.get(address).status_code == 403
        assert client.post(address, {"decision": "uphold", "reason": "x", "once": "x"}).status_code == 403
        assert client_of().get(address).status_code == 302
    assert not acts(season, contest_events.AppealDecided)


def test_an_unknown_appeal_is_not_there(season) -> None:
    """404, as for everything that is not."""
    assert browser_with(season, "Bea", Role.BOARD).get("/review/0000000000000000/").status_code == 404
