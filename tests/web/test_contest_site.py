"""The contest as the service reads it, while others work on it."""

import shutil

import pytest

from orchestrator.application.contests import seasons
from orchestrator.domain.contest_events import ContestAnnounced, PersonRecord
from orchestrator.errors import Rejected, StoreFault, UsageError
from orchestrator.ledger.stores import sql


def add_team(folder, name: str) -> None:
    """Adds a team with one person, as a command does."""
    with seasons.administer(folder) as admin:
        admin.add_team(name, [PersonRecord(id=f"{name}@example.org", name=name)])


def test_a_new_process_knows_what_was_before(contest):
    """Everything is read from the ledger's beginning."""
    from orchestrator.web.contest_site import current_site

    add_team(contest, "Corner")
    season = current_site().season()
    assert season.opening is not None
    assert list(season.teams) == ["Corner"]


def test_what_others_note_is_seen_and_what_was_handed_out_stays(contest):
    """A season is a value: a request that saw it goes on with what it saw."""
    from orchestrator.web.contest_site import current_site

    site = current_site()
    before = site.season()
    add_team(contest, "Corner")
    after = site.season()
    assert list(before.teams) == []
    assert list(after.teams) == ["Corner"]
    assert site.season() is after


def test_a_ledger_that_cannot_be_read_is_not_taken_for_an_empty_one(contest, monkeypatch):
    """Each request is told, and not only the first; once the ledger can be read, everything in it is there."""
    from orchestrator.web.contest_site import current_site

    def unknown(body: object) -> None:
        raise UsageError("the format chess is not installed")

    add_team(contest, "Corner")
    with monkeypatch.context() as patched:
        patched.setattr(sql, "parse_event", unknown)
        for _ in range(2):
            with pytest.raises(StoreFault, match="chess is not installed"):
                current_site().season()
    assert list(current_site().season().teams) == ["Corner"]


@pytest.mark.slow
def test_the_contest_file_is_read_again_where_it_changed(contest):
    """Organizers edit it beside the service."""
    from orchestrator.web.contest_site import current_site

    site = current_site()
    first = site.contest()
    assert site.contest() is first
    path = contest / "contest.yaml"
    path.write_text(path.read_text().replace("An attack-versus-defence tournament", "Another title"))
    assert site.contest().file.title == "Another title"


def announce(admin, title: str) -> None:
    """Announces something, in the name of who acts."""
    admin.append_event(ContestAnnounced(actor=admin.actor, title=title, text="It is so."))


def announced(folder) -> list[tuple[str, str]]:
    """Returns who announced what, as a new process reads it."""
    with seasons.open_ledger(folder) as admin:
        return [(each.actor, each.title) for each in admin.season.announcements]


def test_a_contest_that_was_opened_to_act_on_is_used_again(contest):
    """The next person acts on the same one, which knows what others noted and what its file says by then."""
    from orchestrator.web.contest_site import current_site

    site = current_site()
    with site.administer_without_reports("ada") as first:
        announce(first, "One")
    add_team(contest, "Corner")
    path = contest / "contest.yaml"
    path.write_text(path.read_text().replace("An attack-versus-defence tournament", "Another title"))
    with site.administer_without_reports("bob") as second:
        assert second is first
        assert list(second.season.teams) == ["Corner"]
        assert second.contest.file.title == "Another title"
        announce(second, "Two")
    assert announced(contest) == [("ada", "One"), ("bob", "Two")]


def test_two_who_act_at_once_have_a_contest_each(contest):
    """What one of them noted is known to the other before it notes something."""
    from orchestrator.web.contest_site import current_site

    site = current_site()
    with site.administer_without_reports("ada") as one, site.administer_without_reports("bob") as other:
        assert one is not other
        announce(one, "One")
        announce(other, "Two")
        assert [each.title for each in other.season.announcements] == ["One", "Two"]


def test_a_contest_in_which_an_act_failed_is_opened_anew(contest):
    """Nothing of what went wrong is left to the next act."""
    from orchestrator.web.contest_site import current_site

    site = current_site()
    with pytest.raises(ZeroDivisionError), site.administer_without_reports("ada") as first:
        raise ZeroDivisionError
    with site.administer_without_reports("ada") as second:
        assert second is not first


def test_nobody_acts_while_the_contest_file_is_wrong(contest):
    """It is refused with what is wrong, also where the contest was opened before, until the file is mended."""
    from orchestrator.web.contest_site import current_site

    site = current_site()
    with site.administer_without_reports("ada"):
        pass
    path = contest / "contest.yaml"
    text = path.read_text()
    path.write_text(text + "nonsense: 1\n")
    with pytest.raises(Rejected, match="nonsense"), site.administer_without_reports("ada"):
        pass
    path.write_text(text)
    with site.administer_without_reports("ada") as admin:
        announce(admin, "Mended")


def test_a_ledger_that_was_put_back_from_a_copy_is_written_to(contest, service_database):
    """Nothing is noted in the file that was there before."""
    from orchestrator.web.contest_site import current_site

    if service_database is not None:
        pytest.skip("the ledger is in a database")
    site = current_site()
    with site.administer_without_reports("ada") as admin:
        shutil.copy(contest / "contest.sqlite", contest / "copy.sqlite")
        announce(admin, "Lost")
    site.close()
    with site.administer_without_reports("ada"):
        pass
    (contest / "copy.sqlite").replace(contest / "contest.sqlite")
    for name in ("contest.sqlite-wal", "contest.sqlite-shm"):
        (contest / name).unlink(missing_ok=True)
    with site.administer_without_reports("ada") as admin:
        announce(admin, "Kept")
    assert [title for _, title in announced(contest)] == ["Kept"]
