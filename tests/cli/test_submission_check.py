"""`sparring submission check`, `try` and `debug` on the process backend: steps, remedies, transcripts, pictures."""

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from orchestrator.cli.app import app
from orchestrator.protocol import transcript
from tests import plain_player
from tests.application.conftest import FAULTY_PLAYER

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
STEPS = [
    "manifest",
    "build",
    "image policy",
    "hello",
    "one picture",
    "a batch",
    "limits",
    "replay",
    "memory and time",
    "expected score",
]
runner = CliRunner()


@pytest.fixture
def player(tmp_path):
    """Returns a function that makes the folder of a player, which is told its behaviour: attack_honest."""

    def made(kind: str, **manifest: object) -> Path:
        folder = tmp_path / kind
        folder.mkdir(exist_ok=True)
        side, _, behaviour = kind.partition("_")
        for file in plain_player.files(behaviour, FAULTY_PLAYER):
            shutil.copy(file, folder)
        said = {"sparring": 1, "name": kind, "side": side, "command": ["python", "player.py", side, behaviour]}
        (folder / "submission.yaml").write_text(json.dumps(said | manifest))
        return folder

    return made


@pytest.fixture
def contest(tmp_path, player) -> Path:
    """A contest of eight pictures whose brightest quarter is their label, with an honest baseline on each side."""
    labels = np.arange(8) % 4
    images = np.full((8, 4, 4), 100, np.uint8)
    for image, label in zip(images, labels, strict=True):
        row, column = divmod(int(label), 2)
        image[2 * row : 2 * row + 2, 2 * column : 2 * column + 2] += 50
    np.savez(tmp_path / "quarters.npz", images=images, labels=labels)
    entries = {"mover": "attack_honest", "measure": "defence_honest"}
    body = {
        "sparring": 1,
        "contest": "cup",
        "title": "A cup",
        "format": "tournament",
        "task": {
            "name": "quarters",
            "dataset": {"kind": "npz", "path": "quarters.npz"},
            "budget": {"norm": "linf", "epsilon": 60},
        },
        "limits": {"memory": "512MiB", "ready_seconds": 15, "perturb_batch": 8, "classify_seconds": 3},
        "baselines": [{"folder": str(player(kind)), "name": name} for name, kind in entries.items()],
    }
    path = tmp_path / "contest.yaml"
    path.write_text(json.dumps(body))
    return path


def submission(verb: str, *arguments: object):
    """Runs one of the commands."""
    return runner.invoke(app, ["submission", verb, *map(str, arguments)])


@pytest.mark.slow
def test_an_honest_attack_passes_every_step(player, contest) -> None:
    """All ten steps are numbered; on process two are skipped, and the last says what it is worth."""
    done = submission("check", player("attack_honest"), "--contest", contest)
    assert done.exit_code == 0, done.output
    lines = [line for line in done.stdout.splitlines() if line[:3].strip().isdecimal()]
    assert [line[4:20].strip() for line in lines] == STEPS
    assert [line.split()[0] for line in lines] == [str(number) for number in range(1, 11)]
    assert "measure: 100.0 % (68 to 100) on clean pictures, 0.0 % (0 to 32) under it, delta 100.0" in lines[-1]
    assert "source missing (A6); say where the source is published" in done.stdout
    assert done.stdout.rstrip().endswith("it would be received, with a warning: see manifest")
    assert done.stderr.count("runs with your rights") == 1


@pytest.mark.slow
def test_it_is_said_which_pictures_are_played(player, contest) -> None:
    """A player for other pictures than the shipped contest's is told so before it fails, and what to give."""
    own = runner.invoke(app, ["submission", "check", str(player("attack_honest")), "--contest", str(contest)])
    assert "plays    cup, task quarters: pictures of 1 x 4 x 4, 4 classes\n" in own.stdout
    for_colours = player("defence_gone", command=["python", "-c", "raise SystemExit('expected 3 channels, got 1')"])
    shipped = runner.invoke(app, ["submission", "check", str(for_colours)])
    assert shipped.exit_code == 1
    first, last = shipped.stdout.splitlines()[0], shipped.stdout.splitlines()[-1]
    assert first.startswith("plays    trial-match, task digits: pictures of 1 x 8 x 8, 10 classes.")
    assert "`--contest FILE`" in first
    assert "`--contest FILE`" in last


@pytest.mark.slow
def test_an_honest_defence_passes_every_step(player, contest) -> None:
    """The same as one JSON document."""
    done = submission("check", player("defence_honest"), "--contest", contest, "--json")
    answer = json.loads(done.stdout)
    assert (done.exit_code, answer["passed"]) == (0, True)
    assert [(step["number"], step["name"]) for step in answer["steps"]] == list(enumerate(STEPS, start=1))
    assert [step["passed"] for step in answer["steps"]] == [True, None, None, *[True] * 7]
    assert "100.0 % (68 to 100) on clean pictures, 0.0 % (0 to 32) under mover" in answer["steps"][-1]["detail"]
    assert [entry["header"]["type"] for entry in answer["said"]][:2] == ["hello", "ready"]


@pytest.mark.slow
def test_a_defence_with_one_answer_to_everything_passes_with_a_warning(player, contest) -> None:
    """The line and the document say which class it always answered, and what the cause often is."""
    done = submission("check", player("defence_constant"), "--contest", contest)
    assert done.exit_code == 0, done.output
    warning = "it answered the same class, '0', for all 8 pictures, which show 4 classes"
    assert warning in done.stdout
    assert "limits" in done.stdout.splitlines()[-1]
    steps = json.loads(submission("check", player("defence_constant"), "--contest", contest, "--json").stdout)["steps"]
    assert [warning in step["near_limit"] for step in steps if step["name"] == "limits"] == [True]
    lone = json.loads(contest.read_text()) | {"trial_pictures": 1}
    contest.write_text(json.dumps(lone))
    assert "the same class" not in submission("check", player("defence_constant"), "--contest", contest).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "number", "fault", "remedy"),
    [
        ("attack_prints", 4, "protocol: expected a frame, got 'Downloading", "print to stderr"),
        ("defence_dies_loading", 4, "died: the player ended with exit code 7", "last words on stderr"),
        ("defence_never_ready", 4, "deadline: no complete answer", "do less, or load less"),
        ("attack_wrong_shape", 5, "reported: the player reported 'reply': pixels must have shape", "traceback"),
        ("defence_nonsense", 5, "reported: ", "traceback"),
        ("defence_hangs", 5, "deadline: ", "do less"),
        ("attack_crashes", 6, "died: the player ended with exit code 3", "last words on stderr"),
        ("attack_one_step_too_far", 7, "of 8 pictures 8 beyond the budget", "project once more"),
        ("defence_chance", 8, "pictures differ", "no memory of other pictures"),
    ],
)
def test_what_is_broken_fails_at_its_step(player, contest, kind, number, fault, remedy) -> None:
    """The first failure ends the check with its number, the problem and what to do; then comes the conversation."""
    done = submission("check", player(kind), "--contest", contest)
    text = done.stdout
    assert done.exit_code == 1, done.output
    numbered = [line for line in text.splitlines() if line[:3].strip().isdecimal()]
    assert f"{STEPS[number - 1]:16} FAILED" in numbered[-1]
    assert len(numbered) == number
    assert fault in text
    assert remedy in text.partition("remedy: ")[2]
    assert " >  hello #1" in text
    assert "stderr" in text


@pytest.mark.slow
def test_an_attack_by_chance_is_told(player, contest) -> None:
    """Where the contest replays no attacks, chance is allowed; the participant should know."""
    done = submission("check", player("attack_own_chance"), "--contest", contest)
    assert done.exit_code == 0
    assert "warning: it is not reproducible from its seed" in done.stdout
    assert done.stdout.rstrip().endswith("it would be received, with warnings: see manifest, replay")


def test_a_broken_manifest_fails_first(player, contest) -> None:
    """Nothing is started where the manifest is not one; every problem is named at once, each with its remedy."""
    done = submission("check", player("attack_honest", side="both", name="No Name"), "--contest", contest)
    assert done.exit_code == 1
    assert "manifest         FAILED" in done.stdout
    assert "name: 'No Name' is not allowed here (write lower case, digits, - and _)" in done.stdout
    assert "side: 'both' is not allowed here (write attack or defence)" in done.stdout
    assert "remedy: fix these 2 problems" in done.stdout
    assert "hello" not in done.stdout
    shipped = runner.invoke(app, ["submission", "check", str(player("attack_honest", side="both"))])
    assert "for other pictures" not in shipped.stdout.splitlines()[-1]


def test_hostile_last_words_are_shown_harmless(player, contest) -> None:
    """Escape sequences and markup of a player are printed as text."""
    folder = player("defence_stderr")
    body = (folder / "player.py").read_text().replace("return self.told(labels, pixels)", "raise OSError('[bold]x')")
    (folder / "player.py").write_text(body)
    done = submission("check", folder, "--contest", contest)
    assert done.exit_code == 1
    assert "\x1b" not in done.stdout
    assert "\\x1b[31m<script>" in done.stdout


def test_what_cannot_be_checked_is_a_usage_error(player, contest, tmp_path) -> None:
    """A file, a missing folder, an unknown task and an unknown baseline end with exit code 2 and the remedy."""
    folder = player("attack_honest")
    for arguments, words in (
        (("check", contest), "is a file"),
        (("check", tmp_path / "nowhere"), "check the path, or for the name of an image give --backend container"),
        (("check", folder, "--contest", contest, "--task", "halves"), "has no task 'halves'"),
        (("try", folder, "--against", "mover", "--contest", contest), "the contest has measure"),
        (("debug", folder, "--contest", contest, "--replay", tmp_path / "none"), "cannot be read as a transcript"),
    ):
        done = submission(*arguments)
        assert done.exit_code == 2, (arguments, done.output)
        assert words in " ".join(done.stderr.split())


def test_a_cell_is_tried_and_its_pictures_shown(player, contest, tmp_path) -> None:
    """`try` counts one cell, and its page holds the pictures with what became of them."""
    target = tmp_path / "page.html"
    arguments = ("--against", "measure", "--contest", contest, "--pictures", target)
    done = submission("try", player("attack_honest"), *arguments)
    assert done.exit_code == 0, done.output
    assert "clean    100.0 % (68 to 100) of 8 pictures held by measure" in done.stdout
    assert "attacked 0.0 % (0 to 32) held under attack_honest" in done.stdout
    page = target.read_text()
    assert page.count("data:image/png;base64,") == 3 * 8
    assert "attack_honest against measure" in page


@pytest.mark.slow
def test_a_baseline_that_cannot_play_here_measures_nothing(player, contest, tmp_path) -> None:
    """Where a package of a baseline is missing, `try` says what to install in place of an accuracy of 0 %."""
    gone = player("defence_gone", command=["python", "-c", "import not_installed"])
    body = json.loads(contest.read_text())
    body["baselines"].append({"folder": str(gone), "name": "gone"})
    contest.write_text(json.dumps(body))
    page = tmp_path / "page.html"
    done = submission("try", player("attack_honest"), "--against", "gone", "--contest", contest, "--pictures", page)
    assert done.exit_code == 2, done.output
    assert "the baseline could not play here, so nothing was measured (gone: died" in done.stderr
    assert "pip install 'sparring[demo]' --extra-index-url https://download.pytorch.org/whl/cpu" in done.stderr
    assert not page.exists()


@pytest.mark.slow
@pytest.mark.parametrize(("tried", "against", "starts"), [("attack", "measure", 1), ("defence", "mover", 2)])
def test_how_often_a_defence_starts_in_a_trial(player, contest, tmp_path, tried, against, starts) -> None:
    """A baseline starts once. A defence that is tried starts for each cell, as in a round."""
    folder, counted = player(f"{tried}_honest"), player("defence_honest") / "player.py"
    counted.write_text(f"open({str(tmp_path / 'starts')!r}, 'a').write('.')\n{counted.read_text()}")
    page = tmp_path / "page.html"
    done = submission("try", folder, "--against", against, "--contest", contest, "--pictures", page)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "starts").read_text() == "." * starts


@pytest.mark.slow
def test_a_trial_with_faults_ends_with_one(player, contest, tmp_path) -> None:
    """What the submission broke is counted, and the exit code says it."""
    page = tmp_path / "page.html"
    arguments = ("--against", "mover", "--contest", contest, "--pictures", page, "--json")
    done = submission("try", player("defence_raw_label"), *arguments)
    answer = json.loads(done.stdout)
    assert done.exit_code == 1
    assert set(answer["faults"]) == {"defence_raw_label: protocol"}
    assert sum(answer["faults"].values()) == 16


@pytest.mark.slow
def test_an_attack_that_queries_is_checked_and_tried(player, contest, tmp_path) -> None:
    """A stand-in that is never wrong answers until the queries are spent; then a baseline does, through the broker."""
    rays = EXAMPLES / "query" / "players" / "attack_rays"
    del player
    body = json.loads(contest.read_text())
    contest.write_text(json.dumps(body | {"access": {"kind": "none", "queries": 40}}))
    options = [str(rays), "--contest", str(contest), "--access", "decision"]
    done = runner.invoke(app, ["submission", "check", "--json", *options])
    assert done.exit_code == 0, done.output
    steps = {step["name"]: step for step in json.loads(done.stdout)["steps"]}
    assert list(steps) == STEPS
    assert all(step["passed"] is not False for step in steps.values())
    assert ", 320 queries, answered with the true labels" in steps["a batch"]["detail"]
    assert "measure: 100.0 %" in steps["expected score"]["detail"]
    page = tmp_path / "page.html"
    done = runner.invoke(
        app, ["submission", "try", "--json", "--against", "measure", "--pictures", str(page), *options]
    )
    assert done.exit_code == 0, done.output
    cells = json.loads(done.stdout)["cells"]
    assert cells["attacked"]["held"] < cells["clean"]["held"]
    done = runner.invoke(app, ["submission", "debug", "--json", "--batch", "1", *options])
    assert done.exit_code == 0, done.output
    said = [entry["header"]["type"] for entry in json.loads(done.stdout)["said"]]
    assert said.count("query") == said.count("reply") == 40


@pytest.mark.slow
def test_an_attack_that_queries_is_told_where_it_may_not(contest) -> None:
    """Without access it delivers what it has, and asks nothing."""
    rays = EXAMPLES / "query" / "players" / "attack_rays"
    done = runner.invoke(app, ["submission", "check", "--json", str(rays), "--contest", str(contest)])
    assert done.exit_code == 0, done.output
    assert "queries" not in done.stdout


def test_a_fault_of_an_attack_that_queries_is_its_own(player, contest, tmp_path) -> None:
    """Not the defence's, in whose job it happened."""
    options = ["--contest", str(contest), "--access", "scores", "--pictures", str(tmp_path / "page.html"), "--json"]
    folder = player("attack_wrong_shape")
    done = runner.invoke(app, ["submission", "try", str(folder), "--against", "measure", *options])
    assert done.exit_code == 1, done.output
    assert {place.partition(":")[0] for place in json.loads(done.stdout)["faults"]} == {"attack_wrong_shape"}


@pytest.mark.slow
def test_a_conversation_is_shown_saved_and_held_again(player, contest, tmp_path) -> None:
    """`debug` shows hello and one question; asked the same, a changed player differs, and where is shown."""
    talk = tmp_path / "talk.jsonl"
    folder = player("defence_honest")
    done = submission("debug", folder, "--contest", contest, "--batch", 3, "--save", talk)
    assert done.exit_code == 0, done.output
    assert [line.split()[3] for line in done.stdout.splitlines()[:4]] == ["hello", "ready", "classify", "answers"]
    assert len(transcript.read_transcript(talk.read_text())) == 4
    again = submission("debug", folder, "--contest", contest, "--replay", talk)
    assert again.exit_code == 0
    assert "2 of 2 replies are the same" in again.stdout
    other = submission("debug", player("defence_constant"), "--contest", contest, "--replay", talk)
    assert other.exit_code == 1
    assert "reply 2 differs" in other.stdout
    assert "1 of 2 replies are the same" in other.stdout


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["check", "debug"])
def test_the_command_that_replays_a_saved_conversation_can_be_copied(player, contest, tmp_path, verb) -> None:
    """It names the folder, the contest and the access of the conversation, so it runs from where this one ran."""
    folder, talk = player("attack_honest"), tmp_path / "my talk.jsonl"
    done = submission(verb, folder, "--contest", contest, "--access", "decision", "--save", talk)
    [line] = [line for line in done.stderr.splitlines() if "again: " in line]
    words = shlex.split(line.partition("again: ")[2])
    assert words[:3] == ["sparring", "submission", "debug"]
    again = submission("debug", *words[3:])
    assert "replies are the same" in again.stdout, again.output
    assert words[3:] == [str(folder), "--contest", str(contest), "--access", "decision", "--replay", str(talk)]


def test_a_player_that_falls_silent_is_no_endless_replay(player, contest, tmp_path) -> None:
    """Where the recorded reply does not come, that is said, within a bounded time."""
    talk = tmp_path / "talk.jsonl"
    submission("debug", player("defence_honest"), "--contest", contest, "--batch", 1, "--save", talk)
    done = submission("debug", player("defence_dies_loading"), "--contest", contest, "--replay", talk)
    assert done.exit_code == 1
    assert "nothing came in time" in done.stdout
    assert "0 of 2 replies are the same" in done.stdout


@pytest.mark.parametrize("side", ["attack", "defence"])
@pytest.mark.parametrize(
    ("framework", "tool"),
    [
        ("bare", "python3"),
        pytest.param("c", "gcc", marks=pytest.mark.slow),
        pytest.param("javascript", "node", marks=pytest.mark.slow),
    ],
)
def test_players_without_the_helper_pass(contest, tmp_path, require, framework, tool, side) -> None:
    """A player in the standard library alone, in C or in JavaScript, as `init` makes it, passes every step."""
    if shutil.which(tool) is None:
        require(tool, f"there is no {tool}")
    folder = tmp_path / "mine"
    assert submission("init", side, "mine", "--framework", framework, "--out", folder).exit_code == 0
    if framework == "c":
        subprocess.run(["make", "-C", str(folder)], check=True, capture_output=True)
    done = submission("check", folder, "--contest", contest, "--json")
    answer = json.loads(done.stdout)
    assert (done.exit_code, answer["passed"]) == (0, True), answer["steps"][-1]
    assert [step["name"] for step in answer["steps"]] == STEPS


def test_a_warm_up_s_attacks_are_no_baselines(player, contest) -> None:
    """A defence of a contest whose attacks the format brings is checked, and told what plays them."""
    body = json.loads(contest.read_text())
    del body["task"]["budget"], body["baselines"]
    body |= {"format": "warmup", "rules": {"throughput": None}}
    body["task"]["dataset"]["only"] = ["0", "1"]
    contest.write_text(json.dumps(body))
    done = submission("check", player("defence_honest"), "--contest", contest)
    assert done.exit_code == 0, done.output
    assert "`sparring evaluate`" in done.stdout


@pytest.mark.parametrize("words", [["check"], ["try", "--against", "fgsm"], ["debug"], ["pack"]])
def test_a_folder_without_a_manifest_is_no_submission(words, tmp_path) -> None:
    """The message names the file that is missing, and what to give or to run instead."""
    done = submission(*words, tmp_path)
    assert done.exit_code == 1, done.output
    said = " ".join(done.output.split())
    assert f"{tmp_path}/submission.yaml" in said
    assert "missing" in said
    assert "give the folder of a submission, or make one with `sparring submission init`" in said


@pytest.mark.parametrize("words", [["check"], ["try", "--against", "measure"]])
def test_an_attack_for_a_contest_that_takes_none_is_refused(words, player, contest) -> None:
    """Such a contest has no budget: the attack is not started, and the message says what to submit."""
    body = json.loads(contest.read_text())
    del body["task"]["budget"], body["baselines"][0]
    body |= {"format": "warmup", "rules": {"throughput": None}}
    body["task"]["dataset"]["only"] = ["0", "1"]
    contest.write_text(json.dumps(body))
    done = submission(*words, player("attack_honest"), "--contest", contest)
    assert done.exit_code == 1, done.output
    assert "side: the format warmup takes no attack programs" in done.output
    assert "submit a defence" in done.output


def test_a_contest_without_an_opponent_is_named_as_the_reason(player, contest) -> None:
    """Nothing is to be installed or built where the contest file has no baseline of the other side."""
    body = json.loads(contest.read_text())
    del body["baselines"]
    contest.write_text(json.dumps(body))
    done = submission("check", player("defence_honest"), "--contest", contest)
    assert done.exit_code == 0, done.output
    assert "the contest file names no attack to play against: add one under `baselines`" in done.stdout
