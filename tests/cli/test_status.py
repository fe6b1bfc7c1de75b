"""`sparring status` of an unrestricted contest."""

import json

from typer.testing import CliRunner

from orchestrator.application.contests import roles, seasons
from orchestrator.application.contests.unrestricted_contest import open_unrestricted
from orchestrator.cli.app import app
from orchestrator.domain.contest_events import PersonRecord, Role
from orchestrator.formats.unrestricted import events

from ..web import week_world


def status(*words: object) -> str:
    """Returns what the command prints."""
    done = CliRunner().invoke(app, ["status", *map(str, words)])
    assert done.exit_code == 0, done.output
    return " ".join(done.stdout.split())


def test_cases_of_which_nobody_is_told_are_counted(tmp_path) -> None:
    """Each member and the only organizer have a conflict: no case, picture or team is named (U8)."""
    world = week_world.make(tmp_path / "cup")
    assert "review board" not in status(world.folder)
    assert json.loads(status(world.folder, "--json"))["untold_cases"] == 0
    with open_unrestricted(world.folder) as contest:
        for member in ("b2", "b3"):
            noted = events.ConflictNoted(actor=member, member=member, team="kites", source="declared")
            contest.propose(noted, world.now)
    assert "review board" not in status(world.folder)  # the organizer is told on the site
    with seasons.administer(world.folder, "desk", lambda: world.now) as admin:
        roles.grant_role(admin, PersonRecord(id=week_world.PEOPLE["Org"], name="Org"), Role.BOARD)
    with open_unrestricted(world.folder) as contest:
        seat = {"member": "o1", "case": "readable:d2", "person": week_world.PEOPLE["Org"]}
        contest.propose(events.BoardMemberSeated(actor="desk", **seat), world.now)
        noted = events.ConflictNoted(actor="o1", member="o1", team="kites", source="declared")
        contest.propose(noted, world.now)
    told = status(world.folder)
    assert "2 cases of the review board cannot be decided: members are missing" in told
    assert not [each for each in ("kites", world.appeals["kites"], *world.pictures.values()) if each in told]
