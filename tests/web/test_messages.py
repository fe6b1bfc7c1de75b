"""Messages of use cases on pages and in the API: readers are not on the server, so no path of it helps them."""

import json

import pytest

from orchestrator.application.contests import seasons
from orchestrator.domain.contest_events import PersonRecord, Role, RoundRequestClosed, RoundRequested
from orchestrator.web.site_messages import for_site
from tests.web.conftest import client_of, give_role, make_account


@pytest.fixture
def people(season):
    """The browsers of an organizer, and of Ada, who is in the team Reds."""
    organizer, ada = make_account("Olga"), make_account("Ada")
    give_role(season, organizer, Role.ORGANIZER)
    with seasons.administer(season, "desk") as admin:
        admin.add_team("Reds", [PersonRecord(id=ada.person, name="Ada")])
    return client_of(organizer), client_of(ada)


def text_of(page) -> str:
    """Returns a page's text."""
    return " ".join(page.content.decode().split())


def test_a_broken_contest_file_shows_no_path_and_tells_teams_to_come_back(season, people) -> None:
    """Organizers see the line of contest.yaml; a team, which cannot correct it, sees neither path nor line."""
    organizer, ada = people
    assert organizer.get("/organize/").status_code == 200
    file = season / "contest.yaml"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"nonsense": 1}))
    for page in ("/organize/", "/organize/rules/", "/organize/promote/"):
        shown = text_of(organizer.get(page))
        assert str(season) not in shown, page
        assert "nonsense" in shown or page == "/organize/promote/", page
    answer = text_of(ada.post("/my/", {"team": "Blues"}))
    assert str(season) not in answer
    assert "nonsense" not in answer
    assert "contest.yaml: cannot be read at the moment; the organizers see why under Organize" in answer


def test_a_failed_request_names_pages_beside_commands(season, people) -> None:
    """What a worker wrote into the ledger is shown without the folder, and says where on the site it is done."""
    with seasons.administer(season, "desk") as admin:
        asked = {"actor": "desk", "request": "a" * 16}
        admin.append_event(RoundRequested(**asked, round="initial", task=""))
        problem = f"the round in {season}/rounds/initial is not whole; run `sparring round run {season} initial`"
        admin.append_event(RoundRequestClosed(**asked, outcome="failed", problem=problem))
    for page in ("/organize/ledger/", "/organize/rounds/"):
        shown = text_of(people[0].get(page))
        assert "the round in rounds/initial is not whole" in shown, page
        assert str(season) not in shown, page
    assert "(here: Rounds)" in text_of(people[0].get("/organize/rounds/"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "run `sparring round run /srv/cup initial` to go on",
            "run `sparring round run cup initial` (here: Rounds) to go on",
        ),
        (
            "rules.a in /srv/cup/contest.yaml changed; see `sparring rescore /srv/cup`",
            "rules.a in contest.yaml changed; see `sparring rescore cup` (here: Rules)",
        ),
        ("`sparring contest close /srv/cup`", "`sparring contest close cup` (here: Close)"),
        ("`sparring work` runs elsewhere", "`sparring work` runs elsewhere"),
        ("/srv/cup holds no contest", "the contest's folder holds no contest"),
        ("/srv/cups/x, /srv/cup-2 and /srv/cup.old", "/srv/cups/x, /srv/cup-2 and /srv/cup.old"),
        ("run `sparring round promote` first", "run `sparring round promote` (here: Rounds) first"),
    ],
)
def test_a_message_is_written_for_readers_of_the_site(text, expected) -> None:
    """Files are named below the contest's folder, and the page that does the same follows a command."""
    assert for_site(text, "/srv/cup") == expected


def test_a_path_with_spaces_is_found_in_a_command() -> None:
    """There the shell's quotes are around it."""
    text = "run `sparring round run '/srv/my cup' initial`; /srv/my cup/secret is lost"
    assert for_site(text, "/srv/my cup") == "run `sparring round run 'my cup' initial` (here: Rounds); secret is lost"
