"""The contest as the service reads it, while others work on it."""

from orchestrator.application.contests import seasons
from orchestrator.domain.contest_events import PersonRecord


def add_team(folder, name: str) -> None:
    """Adds a team with one person, as a command does."""
    with seasons.administer(folder) as admin:
        admin.add_team(name, [PersonRecord(id=f"{name}@example.org", name=name)])


def test_a_new_process_knows_what_was_before(contest):
    """Everything is read from the ledger's beginning."""
    from orchestrator.web.contest_site import ContestSite

    add_team(contest, "Corner")
    season = ContestSite(contest).season()
    assert season.opening is not None
    assert list(season.teams) == ["Corner"]


def test_what_others_note_is_seen_and_what_was_handed_out_stays(contest):
    """A season is a value: a request that saw it goes on with what it saw."""
    from orchestrator.web.contest_site import ContestSite

    site = ContestSite(contest)
    before = site.season()
    add_team(contest, "Corner")
    after = site.season()
    assert list(before.teams) == []
    assert list(after.teams) == ["Corner"]
    assert site.season() is after


def test_the_contest_file_is_read_again_where_it_changed(contest):
    """Organizers edit it beside the service."""
    from orchestrator.web.contest_site import ContestSite

    site = ContestSite(contest)
    first = site.contest()
    assert site.contest() is first
    path = contest / "contest.yaml"
    path.write_text(path.read_text().replace("An attack-versus-defence tournament", "Another title"))
    assert site.contest().file.title == "Another title"
