"""Commands about what people enter: roles, appeals, announcements, requests, and the worker."""

import json

import pytest
from typer.testing import CliRunner

from orchestrator.application.contests import seasons
from orchestrator.cli.app import app
from orchestrator.domain import contest_events
from orchestrator.domain.submissions import Side


@pytest.fixture
def cup(tmp_path):
    """Returns the folder of a new contest with a team that has a submission on record."""
    path = tmp_path / "cup"
    seasons.create_contest(path, "tournament", "desk")
    with seasons.administer(path, "desk") as admin:
        admin.add_team("Corner Shop", [contest_events.PersonRecord(id="ada", name="Ada")])
        words = {"id": "corners", "name": "corners", "team": "Corner Shop", "task": "digits", "side": Side.ATTACK}
        admin.append_event(
            contest_events.SubmissionReceived(
                actor="desk", **words, digest="sha256:0", image="", attempt=1, attempts_left=0
            )
        )
    return path


def run(*words: str, code: int = 0) -> str:
    """Runs a command; returns what it prints."""
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == code, done.output
    return done.output


def test_roles_by_command(cup) -> None:
    """Granted, listed, revoked; a person without a name is refused."""
    run("role", "grant", str(cup), "rater", "person-1:Rae")
    assert json.loads(run("role", "list", str(cup), "--json")) == [
        {"role": "rater", "person": "person-1", "name": "Rae"}
    ]
    assert "person-1 Rae" in run("role", "list", str(cup))
    run("role", "grant", str(cup), "rater", "person-1", code=2)
    run("role", "revoke", str(cup), "rater", "person-1", "--reason", "left")
    assert json.loads(run("role", "list", str(cup), "--json")) == []
    run("role", "grant", str(cup), "king", "person-1:Rae", code=2)


def test_appeals_by_command(cup) -> None:
    """Filed, listed with its state, decided once."""
    words = ["corners", "--team", "Corner Shop", "--text", "our batch was cut"]
    [appeal] = json.loads(run("appeal", "file", str(cup), *words, "--json"))
    assert "open" in run("appeal", "list", str(cup))
    decide = ["appeal", "decide", str(cup), appeal["id"], "--dismiss", "--reason", "it was not"]
    assert "dismissed: it was not" in run(*decide)
    run(*decide, code=2)
    [listed] = json.loads(run("appeal", "list", str(cup), "--json"))
    assert (listed["text"], listed["decision"]["upheld"]) == ("our batch was cut", False)


def test_announcements_by_command(cup) -> None:
    """Noted with its title and text."""
    run("contest", "announce", str(cup), "Round one", "--text", "It begins on Monday.")
    with seasons.administer(cup) as admin:
        assert [(said.title, said.text) for said in admin.season.announcements] == [
            ("Round one", "It begins on Monday.")
        ]


def test_requests_and_a_worker_by_command(cup) -> None:
    """A cancelled request is nothing to do: a worker ends with 0 then, and with 2 where there is no contest."""
    asked = json.loads(run("round", "request", str(cup), "initial", "--json"))
    assert (asked["round"], asked["task"]) == ("initial", "")
    run("round", "cancel", str(cup), asked["id"])
    assert run("work", str(cup), "--once", "--allow-unisolated", "--json") == ""
    run("work", str(cup / "nothing"), "--once", code=2)
