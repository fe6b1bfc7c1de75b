"""The commands of a contest in a folder: output, JSON, errors with remedies, exit codes."""

import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator.cli import submission_logs
from orchestrator.cli.app import app
from orchestrator.domain.submissions import Side
from orchestrator.scoring.results_file import FaultPart, SubmissionPart

SUBMISSION = Path(__file__).resolve().parents[2] / "examples" / "demo" / "submissions" / "attack_corners"
runner = CliRunner()


def sparring(*arguments: object):
    """Runs one command in this process."""
    return runner.invoke(app, [str(argument) for argument in arguments])


def said(done) -> str:
    """Returns what a command printed as an error, on one line."""
    return " ".join(done.stderr.split())


def opened(folder: Path) -> Path:
    """Makes a contest from the template, with the team Corner Shop. No deadline of it is near on a busy machine."""
    assert sparring("contest", "init", folder).exit_code == 0
    file = folder / "contest.yaml"
    file.write_text(file.read_text().replace("perturb_seconds: 120", "perturb_seconds: 7200"))
    assert sparring("team", "add", folder, "Corner Shop", "--member", "ada@example.org:Ada L.").exit_code == 0
    return folder


@pytest.fixture
def cup(tmp_path) -> Path:
    """A new contest."""
    return opened(tmp_path / "cup")


@pytest.fixture(scope="module")
def entered_once(tmp_path_factory) -> Path:
    """The same with one submission; nobody changes it."""
    folder = opened(tmp_path_factory.mktemp("entered") / "cup")
    done = sparring("submit", folder, SUBMISSION, "--team", "Corner Shop", "--allow-unisolated")
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def entered(entered_once, tmp_path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(entered_once, tmp_path / "cup"))


def test_the_status_of_a_contest_is_that_of_its_rounds(cup) -> None:
    """`round status` knows a contest's folder, as all other commands do; options for one fit no single round."""
    none = sparring("round", "status", cup)
    assert (none.exit_code, "no round of" in said(none)) == (2, True)
    rounds = cup / "rounds" / "initial" / "digits"
    rounds.mkdir(parents=True)
    refused = sparring("round", "status", rounds, "--round", "initial")
    assert (refused.exit_code, "are for a contest's folder" in said(refused)) == (2, True)


@pytest.mark.parametrize(
    "command",
    [
        ["contest", "init"],
        ["contest", "open"],
        ["team", "add"],
        ["submit"],
        ["withdraw"],
        ["disqualify"],
        ["set-source"],
        ["round", "run"],
        ["round", "promote"],
        ["board"],
        ["rescore"],
    ],
    ids=" ".join,
)
def test_every_command_has_help_and_an_example(command) -> None:
    """`--help` says what a command does, offers --json, and ends with a line that can be typed."""
    done = sparring(*command, "--help")
    assert done.exit_code == 0
    shown = " ".join(done.stdout.split())
    assert "--json" in shown
    assert f"Example: sparring {' '.join(command)}" in shown


def test_init_writes_a_file_that_is_fine(tmp_path) -> None:
    """The template is read without a problem and says what is public and what is secret."""
    done = sparring("contest", "init", tmp_path / "cup", "--template", "tournament")
    assert done.exit_code == 0
    assert re.search(r"key +sha256:[0-9a-f]{64}: publish this fingerprint, keep .*key to yourself", done.stdout)
    assert sparring("contest", "check", tmp_path / "cup" / "contest.yaml").exit_code == 0


@pytest.mark.parametrize(
    "words",
    [
        ["contest", "check", "{}"],
        ["contest", "power", "{}", "--rounds", "20"],
        ["cluster", "render", "{}", "--offline"],
        ["submission", "debug", SUBMISSION, "--contest", "{}"],
    ],
    ids=lambda words: " ".join(map(str, words[:2])),
)
def test_whoever_reads_a_contest_file_takes_its_folder(cup, words) -> None:
    """A contest's folder stands for the contest.yaml in it, whichever command is given it."""
    done = sparring(*(str(word).replace("{}", str(cup)) for word in words))
    assert done.exit_code == 0, done.output


def test_a_file_of_several_tasks_is_checked(tmp_path) -> None:
    """`contest check` reads the pictures of every task, and `round run --out` wants one."""
    text = (Path(__file__).resolve().parents[2] / "examples" / "tournament" / "contest.yaml").read_text()
    builtin = ("fgsm", "bim", "pgd")
    for name in builtin:
        text = text.replace(f"folder: baselines/{name}}}", f"builtin: attack_{name}}}")
    for name in ("undefended", "fgsm_trained"):
        text = text.replace(f"folder: baselines/{name}}}", f"builtin: defence_{name}}}")
    (tmp_path / "contest.yaml").write_text(text)
    done = sparring("contest", "check", tmp_path / "contest.yaml")
    assert done.exit_code == 0, done.output
    for task in ("digits: 50 pictures", "faint: 40 pictures", "euclid: 40 pictures", "familiar: 40 pictures"):
        assert f"task      {task}" in done.stdout
    done = sparring("round", "run", tmp_path / "contest.yaml", "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "has several tasks (digits, faint, euclid, familiar): name one, or play it as a folder" in said(done)


def test_init_and_open_give_json(tmp_path) -> None:
    """With --json both name the folder, the file and the key's fingerprint."""
    made = json.loads(sparring("contest", "init", tmp_path / "cup", "--json").stdout)
    assert set(made) == {"contest", "file", "key"}
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "contest.yaml").write_text(Path(made["file"]).read_text())
    opened = json.loads(sparring("contest", "open", tmp_path / "other", "--json").stdout)
    assert opened["key"] != made["key"]
    assert Path(opened["file"]) == tmp_path / "other" / "contest.yaml"


def test_init_and_open_say_what_to_do_with_the_key(tmp_path) -> None:
    """Whoever opens a contest of their own file is told, too, to publish the fingerprint and to keep the key."""
    cup, other = tmp_path / "cup", tmp_path / "other"
    assert "publish this fingerprint" in sparring("contest", "init", cup).stdout
    other.mkdir()
    (other / "contest.yaml").write_text((cup / "contest.yaml").read_text())
    assert "publish this fingerprint" in sparring("contest", "open", other).stdout


def test_open_lists_what_is_wrong_with_the_file(tmp_path) -> None:
    """A contest file with problems opens no contest, and every problem is named with its line."""
    (tmp_path / "contest.yaml").write_text("sparring: 1\ncontest: x\nformat: tournament\n")
    done = sparring("contest", "open", tmp_path)
    assert done.exit_code == 1
    assert "title" in said(done)
    assert not (tmp_path / "contest.sqlite").exists()


@pytest.mark.slow
def test_a_submission_gets_a_receipt(cup) -> None:
    """`submit` prints digest, time, attempts left and where the receipt lies, and warns of what is missing (A4, A6)."""
    done = sparring("submit", cup, SUBMISSION, "--team", "Corner Shop", "--task", "digits", "--allow-unisolated")
    assert done.exit_code == 0, done.output
    assert "received corners for Corner Shop on digits, attack" in done.stdout
    assert re.search(r"digest +sha256:[0-9a-f]{64}", done.stdout)
    assert "attempt 1, 2 left (A4)" in done.stdout
    assert "warning: source missing (A6); say where the source is published" in done.stdout
    assert (cup / "receipts" / "corners.json").is_file()


@pytest.mark.slow
def test_a_name_that_is_taken_gives_another_id(entered, tmp_path) -> None:
    """`submit` says which id a submission got whose name another one has, since commands want the id."""
    again = shutil.copytree(SUBMISSION, tmp_path / "again")
    (again / "README.md").write_text("another one\n")
    done = sparring("submit", entered, again, "--team", "Corner Shop", "--allow-unisolated")
    assert done.exit_code == 0, done.output
    assert "id       corners-2, because another submission or baseline is corners" in done.stdout


@pytest.mark.slow
def test_a_receipt_comes_as_json(cup) -> None:
    """With --json the receipt itself is printed, signature included, as it is kept."""
    done = sparring("submit", cup, SUBMISSION, "--team", "Corner Shop", "--allow-unisolated", "--json")
    assert json.loads(done.stdout) == json.loads((cup / "receipts" / "corners.json").read_text())
    assert len(json.loads(done.stdout)["signature"]) == 128


@pytest.mark.slow
def test_the_same_again_gets_the_same_receipt(entered) -> None:
    """The same command a second time uses up no try and says so; its JSON is the first receipt (A4)."""
    command = ("submit", entered, SUBMISSION, "--team", "Corner Shop", "--allow-unisolated")
    done = sparring(*command)
    assert done.exit_code == 0, done.output
    assert "before   the same was received already, and uses up nothing" in done.stdout
    assert "attempt 1, 2 left (A4)" in done.stdout
    assert json.loads(sparring(*command, "--json").stdout) == json.loads(
        (entered / "receipts/corners.json").read_text()
    )
    assert [path.name for path in (entered / "receipts").iterdir()] == ["corners.json"]


def test_a_refused_submission_is_told_why(cup) -> None:
    """Exit code 1, all reasons at once, each with its remedy, as text and as JSON."""
    command = ("submit", cup, SUBMISSION, "--team", "Crner Shop", "--task", "faces")
    done = sparring(*command)
    assert done.exit_code == 1
    for text in (
        "there is no 'faces'; one of digits",
        "there is no team 'Crner Shop' (known: Corner Shop); add it with `sparring team add`",
        "play it with --backend container",
        "sparring explain rejected",
    ):
        assert text in said(done)
    error = json.loads(sparring(*command, "--json").stdout)["error"]
    assert [problem["place"] for problem in error["problems"]][:2] == ["task", "team"]


def test_acts_give_json(entered) -> None:
    """Withdrawing, disqualifying, correcting and adding a team print what was done as one document."""
    corrected = sparring(
        "set-source", entered, "corners", "--source", "https://example.org", "--reason", "late", "--json"
    )
    assert json.loads(corrected.stdout) == {
        "corrected": "corners",
        "licence": None,
        "source": "https://example.org",
        "reason": "late",
        "warnings": [],
    }
    disqualified = sparring("disqualify", entered, "corners", "--reason", "two people, one team", "--json")
    assert json.loads(disqualified.stdout) == {"disqualified": "corners", "reason": "two people, one team"}
    withdrawn = sparring("withdraw", entered, "corners", "--reason", "a bug", "--json")
    assert json.loads(withdrawn.stdout) == {"withdrawn": "corners", "reason": "a bug"}
    team = sparring("team", "add", entered, "Two", "--member", "bo:Bo", "--organizer", "cem:Cem", "--json")
    assert json.loads(team.stdout) == {
        "team": "Two",
        "people": [
            {"id": "bo", "name": "Bo", "organizer": False},
            {"id": "cem", "name": "Cem", "organizer": True},
        ],
    }


def test_a_source_that_nobody_can_look_up_is_told_when_it_is_set(entered) -> None:
    """What A6 still lacks is said with the correction, not first on the board of the final round."""
    done = sparring("set-source", entered, "corners", "--source", "notaurl", "--reason", "late")
    assert done.exit_code == 0
    assert "warning: source 'notaurl' is no address (A6); give the URL where" in done.stdout


def test_who_acts_can_be_named(entered) -> None:
    """`--by` is who the ledger says acted; it is published, so nobody's user name is taken unasked."""
    assert sparring("withdraw", entered, "corners", "--reason", "a bug", "--by", "the jury").exit_code == 0
    from orchestrator.ledger.contest_folder import ContestFolder  # noqa: PLC0415  the only look behind the commands

    ledger = ContestFolder(entered).ledger()
    acted = [entry.event.actor for entry in ledger.read()]
    assert (acted[-1], set(acted[:-1])) == ("the jury", {"organizer"})
    ledger.close()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["contest", "init", "{}"], "holds a contest already; give a new folder"),
        (["contest", "init", "{}/receipts"], "is not empty; give a new folder"),
        (
            ["contest", "init", "{}/new", "--template", "golf"],
            "there is no template 'golf'; the templates are tournament",
        ),
        (["contest", "open", "{}"], "holds a contest already"),
        (["team", "add", "{}", "Nobody"], "give its people, each once (`--member ID:NAME`)"),
        (["team", "add", "{}", "Two", "--member", ":Ada"], "write a person as ID:NAME"),
        (["team", "add", "{}", "Two", "--member", "a:" + "x" * 121], "at most 120 characters"),
        (["team", "add", "{}", "", "--member", "a:A"], "needs a character that people can see"),
        (["withdraw", "{}", "nobody", "--reason", "r"], "no submission 'nobody' in this contest (known: corners)"),
        (
            ["withdraw", "{}", "corners", "--reason", ""],
            "reason: an empty text is too short; write at least",
        ),
        (["withdraw", "{}", "corners", "--reason", "r", "--by", "x" * 121], "is too long a name"),
        (["set-source", "{}", "corners", "--reason", "r"], "nothing to correct: give a licence or a source"),
        (["round", "run", "{}"], "give the round to play, and no --out; `sparring contest show "),
        (["round", "run", "{}/receipts"], "holds no contest; give a contest's folder"),
        (["round", "run", "{}", "semi"], "has no round 'semi'; it has initial, final"),
        (["round", "run", "{}", "final"], "run `sparring round promote` first"),
        (["round", "run", "{}", "initial", "--task", "faces"], "there is no task 'faces'; the tasks are digits"),
        (["round", "promote", "{}"], "the round initial of digits was not played; run `sparring round run"),
        (["board", "{}"], "no round was played in"),
        (["board", "{}", "--round", "final"], "the round 'final' of digits was not played"),
        (["rescore", "{}", "--apply", "--drop", "--reason", "r"], "--apply and --drop: choose one"),
        (["rescore", "{}", "--apply"], "say why: --reason"),
        (["rescore", "{}", "--apply", "--reason", "r"], "contest.yaml are those in force; there is nothing to apply"),
        (["submission", "logs", "{}", "corners", "--round", "nope"], "no round 'nope' of"),
        (["board", "{}/receipts"], "holds no contest; give a contest's folder"),
        (["board", "{}-mistyped"], "-mistyped; make a contest with `sparring contest init"),
        (["board", "{} mistyped"], " mistyped'`, or give another path"),
        (["board", "{}/contest.yaml"], "contest.yaml is a file; give the contest's folder, "),
        (["board", "{}/key"], "key is a file; give a contest's folder"),
        (["submit", str(SUBMISSION), "{}", "--team", "T"], "is the folder of a submission; the contest's folder comes"),
    ],
)
def test_impossible_wishes_are_usage_errors(entered, arguments, text) -> None:
    """What cannot be done ends with exit code 2 and one message with its remedy; the record is as it was."""
    before = (entered / "contest.sqlite").stat().st_mtime_ns, sorted(entered.rglob("receipts/*"))
    done = sparring(*(str(argument).replace("{}", str(entered)) for argument in arguments))
    assert done.exit_code == 2, done.output
    assert text in said(done)
    assert ((entered / "contest.sqlite").stat().st_mtime_ns, sorted(entered.rglob("receipts/*"))) == before


def test_a_rounds_folder_is_no_contests(cup) -> None:
    """A command for contests says of a round's folder what it is, and names what shows it, or its contest's folder."""
    within, alone = cup / "rounds" / "initial" / "digits", cup.parent / "demo"
    for folder in (within, alone):
        folder.mkdir(parents=True)
        (folder / "ledger.sqlite").touch()
    for command in ("board", "status"):
        assert f"is the folder of a round; give the folder of its contest, {cup}" in said(sparring(command, within))
        found = said(sparring(command, alone))
        assert "is the folder of a round, not of a contest" in found
        assert f"`sparring round status {alone}`" in found
        assert f"`sparring report {alone}`" in found


def test_a_round_that_was_interrupted_is_not_called_unplayed(cup) -> None:
    """`contest show` tells a round that was begun from one that nobody played."""
    begun = cup / "rounds" / "initial" / "digits"
    begun.mkdir(parents=True)
    (begun / "ledger.sqlite").touch()
    rounds = json.loads(sparring("contest", "show", cup, "--json").stdout)["tasks"][0]["rounds"]
    assert rounds["initial"] == "begun, not finished (`sparring round status`)"


def test_a_usage_error_comes_as_json(cup) -> None:
    """With --json an error is one document on standard output."""
    done = sparring("board", cup, "--json")
    assert done.exit_code == 2
    assert json.loads(done.stdout)["error"]["code"] == "usage"


def test_rescoring_nothing_shows_nothing(entered) -> None:
    """Before the first round there is no board to compare, and nothing is written."""
    done = sparring("rescore", entered, "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (0, [])


def test_rescoring_by_the_rules_in_force_asks_for_nothing(entered) -> None:
    """Nobody is told to apply a change that is not there."""
    assert "rules in contest.yaml are those in force: there is nothing to apply" in sparring("rescore", entered).stdout


def test_an_altered_contest_ledger_is_ours(cup) -> None:
    """A record that does not hold is no fault of any team: exit code 3."""
    (cup / "contest.sqlite").write_bytes(b"no database at all")
    for name in ("contest.sqlite-wal", "contest.sqlite-shm"):
        (cup / name).unlink(missing_ok=True)
    done = sparring("board", cup)
    assert done.exit_code == 3
    assert "store" in said(done)


def test_reporting_before_a_round_is_a_usage_error(entered) -> None:
    """A contest's folder without a played round has nothing to report, and the message says what to run."""
    done = sparring("report", entered)
    assert done.exit_code == 2
    assert f"sparring round run {entered} initial" in said(done)


@pytest.mark.parametrize("person", ["Carl", "carl@example.org", "carl@example.org: ", ":Carl"])
def test_a_person_needs_a_name_for_the_pages(cup, person) -> None:
    """Pages show the name; an ID in its place would publish an address of mail."""
    refused = sparring("team", "add", cup, "Crown", "--member", person)
    assert refused.exit_code == 2
    assert "write a person as ID:NAME" in said(refused)


@pytest.mark.slow
def test_what_is_not_there_is_one_problem(cup) -> None:
    """A path that leads nowhere is no image whose manifest is incomplete; nothing is noted."""
    before = (cup / "contest.sqlite").read_bytes()
    for words in (["../nope"], ["nope"], ["./nope/", "--allow-unisolated"]):
        refused = sparring("submit", cup, *words, "--team", "Corner Shop")
        assert refused.exit_code == 2
        assert f"there is no file or folder {words[0]}; give a folder with a submission.yaml" in said(refused)
    assert (cup / "contest.sqlite").read_bytes() == before


@pytest.mark.slow
def test_a_contest_shows_what_its_ledger_says(entered) -> None:
    """Teams by their names, submissions with their state, the contest with its rounds; IDs of people are in none."""
    sparring("withdraw", entered, "corners", "--reason", "a bug")
    shown = [
        sparring(*words, entered, "--json") for words in (["contest", "show"], ["team", "list"], ["submission", "list"])
    ]
    contest, teams, submissions = (json.loads(done.stdout) for done in shown)
    assert (contest["teams"], contest["tasks"][0]["submissions"]) == (1, {})
    assert contest["tasks"][0]["rounds"]["initial"] == "not played"
    assert contest["tasks"][0]["rounds"]["final"].startswith("cannot be played yet: ")
    assert teams == [{"team": "Corner Shop", "people": ["Ada L."], "organizers": False, "submissions": 0}]
    (corners,) = submissions
    assert (corners["id"], corners["side"], corners["state"]) == ("corners", "attack", "withdrawn: a bug")
    assert not any("ada@example.org" in done.stdout for done in shown)
    for words in (["contest", "show"], ["team", "list"], ["submission", "list"]):
        assert "corners" in sparring(*words, entered).stdout or words != ["submission", "list"]


@pytest.mark.slow
def test_submissions_are_narrowed_and_spellings_taken(entered) -> None:
    """`defense` is a defence; a task or a team that is none is refused with those that there are."""
    assert json.loads(sparring("submission", "list", entered, "--side", "defense", "--json").stdout) == []
    assert len(json.loads(sparring("submission", "list", entered, "--side", "attack", "--json").stdout)) == 1
    assert "digits: 1 attack\n" in sparring("contest", "show", entered).stdout
    with (entered / "contest.yaml").open("a", encoding="utf-8") as file:
        file.write("\nprizes: [A cake for the first place.]\n")
    assert "prize     A cake for the first place.\n" in sparring("contest", "show", entered).stdout
    assert sparring("submission", "list", entered, "--team", "Nobody", "--json").exit_code == 2
    unknown = sparring("submission", "list", entered, "--team", "Nobody")
    assert (unknown.exit_code, "there is no team 'Nobody'; there is Corner Shop" in said(unknown)) == (2, True)
    refused = sparring("submission", "list", entered, "--task", "cats")
    assert (refused.exit_code, "there is no task 'cats'; the tasks are digits" in said(refused)) == (2, True)
    wrong = sparring("submission", "list", entered, "--side", "both")
    assert (wrong.exit_code, "write attack or defence" in said(wrong)) == (2, True)
    licensed = sparring("correct", entered, "corners", "--license", "MIT", "--reason", "published", "--json")
    assert json.loads(licensed.stdout)["licence"] == "MIT"


def test_lists_cut_no_id_and_no_date_on_a_narrow_terminal(entered, monkeypatch) -> None:
    """What does not fit beside each other is printed in several tables, and a name of several words in lines."""
    long = "ada@example.org:Wolfeschlegelsteinhausenbergerdorff the Second"
    assert sparring("team", "add", entered, "A team with a name of eight words", "--member", long).exit_code == 0
    monkeypatch.setenv("COLUMNS", "50")
    received = json.loads(sparring("submission", "list", entered, "--json").stdout)[0]["received"]
    assert received in sparring("submission", "list", entered).stdout
    teams = sparring("team", "list", entered).stdout
    assert "Wolfeschlegelsteinhausenbergerdorff" in teams
    assert "…" not in teams


def test_the_last_organizer_stays(cup) -> None:
    """Nobody could run the contest on its site any more; with a second one the first may go."""
    assert sparring("role", "grant", cup, "organizer", "person-1:Olga").exit_code == 0
    refused = sparring("role", "revoke", cup, "organizer", "person-1", "--reason", "leaves")
    assert (refused.exit_code, "this is the last organizer" in said(refused)) == (2, True)
    assert sparring("role", "grant", cup, "organizer", "person-2:Otto").exit_code == 0
    assert sparring("role", "revoke", cup, "organizer", "person-1", "--reason", "leaves").exit_code == 0


def test_the_logs_of_a_submission_begin_with_its_receipt(entered) -> None:
    """`submission logs` names who handed it in and when, as text and as JSON; an unknown id is a usage error."""
    done = sparring("submission", "logs", entered, "corners")
    assert (done.exit_code, done.stdout.startswith("corners of Corner Shop, received 20")) == (0, True)
    assert done.stdout.endswith("\nin no round that was begun\n")
    document = json.loads(sparring("submission", "logs", entered, "corners", "--json").stdout)
    assert document == {"submission": "corners", "team": "Corner Shop", "rounds": []}
    refused = sparring("submission", "logs", entered, "circles")
    assert (refused.exit_code, "'circles' was not received" in said(refused)) == (2, True)


def test_the_logs_say_faults_in_our_own_words() -> None:
    """Each fault, each reason why candidates do not count and each finding has a line."""
    part = SubmissionPart(
        id="corners",
        name="corners",
        team="Corner Shop",
        side=Side.ATTACK,
        baseline=False,
        image="sha256:0",
        status="faulted",
        findings=["3f2a"],
        forfeits=5,
        forfeit_reasons={"budget": 5},
        violations=5,
        largest=60.0,
        faults=[FaultPart(code="deadline", reason="", times=2, pictures=64, message="It was late.")],
        sandboxes=3,
        seconds=1.5,
        cpu_seconds=None,
        peak_bytes=None,
        bytes_in=None,
        bytes_out=None,
        endings={},
    )
    assert list(submission_logs.describe_submission(part)) == [
        "deadline, 2 times, 64 pictures charged: It was late. (sparring explain deadline)",
        "candidates that do not count: 5 over the budget",
        "finding 3f2a",
        "3 sandboxes, 1.5 s of work",
    ]
