"""The commands as an operator meets them: output, JSON, errors with remedies, exit codes."""

import gc
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import structlog
from pydantic import ByteSize
from typer.testing import CliRunner

from orchestrator import __main__, errors, resources
from orchestrator.cli import commands, console
from orchestrator.cli.app import app
from orchestrator.cli.effective_values import value_text
from orchestrator.domain.tasks import Norm
from orchestrator.intake.contest_file import Contest

DEMO = resources.resource_path("examples", "demo", "contest.yaml")
WARMUP = resources.resource_path("examples", "warmup", "contest.yaml")
HERE = ["round", "run", DEMO, "--out", "{}/out"]
ON_CLUSTER = [*HERE, "--engine", "kubernetes"]
runner = CliRunner()


def sparring(*arguments: object):
    """Runs one command in this process."""
    return runner.invoke(app, [str(argument) for argument in arguments])


def test_check_shows_every_effective_value() -> None:
    """`contest check` names the task, both sides and every key of its sections, and marks the defaults."""
    done = sparring("contest", "check", DEMO)
    assert done.exit_code == 0
    assert "200 pictures" in done.stdout
    assert "9: noop, noise, fgsm, bim, pgd, cw_l2, corners, softmax, meanward" in done.stdout
    assert "limits.pids = 256  (default)" in done.stdout
    assert "rules.on_violation = forfeit  (default)" in done.stdout
    assert "rules.clean_floor = {baseline: undefended, points: 10}  (default)" in done.stdout
    assert {"limits.memory = 1GiB", "limits.tmp = 64MiB  (default)", "seed = 2026"} <= set(done.stdout.splitlines())
    shown = {line.partition(" = ")[0] for line in done.stdout.splitlines()}
    for section in ("access", "limits", "replay"):
        assert {f"{section}.{key}" for key in type(getattr(Contest(DEMO).file, section)).model_fields} <= shown
    assert {"seed", "labels", "isolation", "runtime", "opens", "closes", "prizes", "trial_pictures"} <= shown


@pytest.mark.parametrize(
    "words",
    [
        "contest check {}",
        "contest pictures {} --out {}/p.zip",
        "contest sample {} --out {}/s.npz",
        "contest open {}",
        "contest power {}",
        "cluster check {}",
        "cluster render {} --offline",
        "cluster sweep {}",
        "cluster push {}",
        "submission check . --contest {}",
        "evaluate . --contest {}",
        "submission pack {}",
        "submission build {}",
        "submission import {}",
        "round run {} --out {}/out",
        "report {}",
    ],
)
def test_what_is_not_there_is_the_operators_mistake(words, tmp_path) -> None:
    """A path on the command line that leads nowhere ends every command with the code of usage, and makes nothing."""
    missing = tmp_path / "missing"
    done = sparring(*(word.replace("{}", str(missing)) for word in words.split()))
    assert done.exit_code == 2, (done.output, done.exception)
    assert "usage: " in done.stderr
    assert "missing" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_sentence_in_a_log_is_one_line(tmp_path) -> None:
    """What goes to standard error is not broken at 80 columns where that is a file: a search finds it."""
    done = sparring("submission", "check", tmp_path / "missing")
    assert "note: on the process backend your player runs with your rights and is not isolated\n" in done.stderr


def test_a_folder_without_a_contest_file_is_the_operators_mistake(tmp_path) -> None:
    """The message names the file that is looked for; a round's folder, say, has none."""
    done = sparring("contest", "check", tmp_path)
    assert (done.exit_code, "has no contest.yaml" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (ByteSize(2_000_000_000), "1953125KiB"),
        (ByteSize(1), "1"),
        ([{"norm": Norm.LINF}, 0.5], "[{norm: linf}, 0.5]"),
    ],
)
def test_a_value_is_shown_as_a_file_has_it(value, text) -> None:
    """What `contest check` prints of a value can be written into a contest file."""
    assert value_text(value) == text


def test_check_warns_of_a_season_that_could_not_be_played(tmp_path) -> None:
    """A file without submissions waits for a season: it is said what that lacks. One that lists some is one round."""
    listed, season = DEMO.parent.parent / "query" / "contest.yaml", tmp_path / "season.yaml"
    images = DEMO.parents[2] / "images"
    text = listed.read_text().replace("../../images", str(images))
    season.write_text(f"{text[: text.index('submissions:')].rstrip()}\n  - {{folder: {images}/attack_noise}}\n")
    warned = json.loads(sparring("contest", "check", season, "--json").stdout)["warnings"]
    assert any("could not play its round initial" in each and "fgsm_trained" in each for each in warned)
    for one_round in (listed, DEMO):
        assert json.loads(sparring("contest", "check", one_round, "--json").stdout)["warnings"] == []


def test_check_gives_json() -> None:
    """With --json the same is one document on stdout."""
    answer = json.loads(sparring("contest", "check", DEMO, "--json").stdout)
    assert answer["ok"]
    assert answer["summary"]["cells"] == 60
    assert answer["contest"]["isolation"] == "round"


def test_all_problems_are_listed_at_once_with_their_lines(tmp_path) -> None:
    """A contest file with several mistakes gets one message that names each line, and exit code 1."""
    text = DEMO.read_text().replace("isolation: round", "isolation: rounds").replace("  memory: 1GiB", "  memry: 1GiB")
    (tmp_path / "contest.yaml").write_text(text)
    lines = text.splitlines()

    done = sparring("contest", "check", tmp_path / "contest.yaml")

    assert done.exit_code == 1
    assert f"line {lines.index('isolation: rounds') + 1}, isolation" in done.stderr
    assert f"line {lines.index('  memry: 1GiB') + 1}, limits.memry: unknown key; did you mean 'memory'?" in done.stderr
    assert "sparring explain rejected" in done.stderr


def test_pictures_and_entries_are_looked_at_together(tmp_path) -> None:
    """Lost pictures and a lost folder are told in one run, each at its line."""
    text = DEMO.read_text().replace("{kind: digits, split: test, first: 200}", "{kind: npz, path: lost.npz}")
    text = text.replace("../../images/attack_noise", "lost").replace(
        "../../images", str(resources.resource_path("images"))
    )
    (tmp_path / "contest.yaml").write_text(text.replace("{folder: sub", f"{{folder: {DEMO.parent}/sub"))

    done = sparring("contest", "check", tmp_path / "contest.yaml")

    assert done.exit_code == 1
    assert "2 problems" in done.stderr
    assert f"task.dataset: {tmp_path}/lost.npz" in done.stderr
    assert f"baselines[1]: folder: there is no {tmp_path}/lost/submission.yaml" in done.stderr


def test_problems_come_as_json_too(tmp_path) -> None:
    """With --json an error is one document on stdout with its code and every problem."""
    (tmp_path / "contest.yaml").write_text("sparring: 1\ncontest: x\n")
    done = sparring("contest", "check", tmp_path / "contest.yaml", "--json")
    error = json.loads(done.stdout)["error"]
    assert done.exit_code == 1
    assert error["code"] == "rejected"
    assert {problem["place"] for problem in error["problems"]} >= {"line 1, title", "line 1, task"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["demo", "--nosuch", "--json"], "--nosuch"),
        (["round", "run", "--json"], "FILE|DIR"),
        (["demo", "--slots", "x", "--json"], "--slots"),
        (["nosuch", "--json"], "nosuch"),
    ],
)
def test_what_the_parser_refuses_comes_as_json_too(capsys, words, said) -> None:
    """With --json an option, argument or command that is not right is one document too, with exit code 2."""
    with pytest.raises(SystemExit) as ended:
        console.run_app(app, words)
    error = json.loads(capsys.readouterr().out)["error"]
    assert ended.value.code == 2
    assert error["code"] == "usage"
    assert said in error["message"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["contest", "check", str(DEMO), "--json"], 0),
        (["contest", "check", __file__, "--json"], 1),
        (["doctor", "--help", "--json"], 0),
        (["contest", "check", __file__], 1),
        (["--version"], 0),
    ],
)
def test_the_exit_code_is_the_command_s(words, code) -> None:
    """The command line ends with its command's exit code, with and without --json."""
    with pytest.raises(SystemExit) as ended:
        console.run_app(app, words)
    assert (ended.value.code or 0) == code


def test_strangers_are_refused_on_the_process_backend(tmp_path) -> None:
    """Without --allow-unisolated the process backend plays the organizers' own submissions only."""
    done = sparring("round", "run", DEMO, "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert done.stderr.count("--backend container") == 6
    assert not (tmp_path / "out" / "ledger.sqlite").exists()


def test_a_refused_round_can_be_run_again(tmp_path) -> None:
    """What a refused attempt left in its folder is no other's: the same command is refused for the same reason."""
    for _ in range(2):
        done = sparring("round", "run", DEMO, "--out", tmp_path / "out")
        assert done.exit_code == 1
        assert "--backend container" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["round", "run", DEMO, "--out", "{}/out", "--backend", "dcoker"], "no 'dcoker' among the sandboxes"),
        (["round", "run", DEMO, "--out", "{}/out", "--backend", "kubernetes"], "`--engine kubernetes`"),
        ([*ON_CLUSTER, "--backend", "docker"], "--backend cannot be used: --engine kubernetes"),
        ([*ON_CLUSTER, "--backend", "process", "--dry-run"], "leave that out, or give another --engine"),
        ([*ON_CLUSTER, "--allow-unisolated"], "--allow-unisolated cannot be used: --engine kubernetes"),
        ([*HERE, "--context", "mine", "--unproved-network", "x"], "--context and --unproved-network cannot be used"),
        ([*HERE, "--kubeconfig", "{}/full/mine.txt"], "--kubeconfig cannot be used: --engine local"),
        (["sandbox", "check", "--backend", "kubernetes"], "kubernetes is an engine, not a backend"),
        (["round", "run", DEMO, "--out", "{}/full"], "give an empty or new folder"),
        (["demo", "--out", "{}/out", "--slots", "0"], "give at least 1"),
        (["round", "status", "{}/nothing"], "holds no round"),
        (["report", "{}/full"], "holds no round"),
        (["baseline", "train", "--out", "{}/none/w.safetensors"], "is not a folder"),
        (
            ["baseline", "train", "--out", "{}/w.safetensors", "--recipe", "fgsm", "--epsilon", "0.03"],
            "less than one step of 1/255; did you",
        ),
        (["baseline", "train", "--out", "{}/w.safetensors", "--data", "x.npz"], "give --data and --test together"),
        (["baseline", "train", "--out", "{}/w.safetensors", "--only", "6"], "--only: "),
        (["baseline", "train", "--out", "{}/w.safetensors", "--seed", str(2**64)], "--seed"),
        (["round", "run", "{}/nothing", "initial"], "there is no"),
        (["round", "run", "{}/nothing.yaml", "--out", "{}/out"], "give a contest file, or a contest's folder"),
        (["round", "run", DEMO, "--out", "{}/out", "--slots", "0"], "give at least 1"),
        (["submission", "build", DEMO.parent, "--tag", "Upper"], "--tag Upper: no image can be called so"),
        *(
            ([*words, place], said)
            for words in (
                ["round", "run", DEMO, "--out"],
                ["round", "run", DEMO, "--dry-run", "--out"],
                ["demo", "--out"],
                ["contest", "init"],
                ["publish", "{}", "--out"],
                ["submission", "init", "attack", "mine", "--out"],
            )
            for place, said in (
                ("{}/full/mine.txt/x", "Not a directory"),
                ("/proc/nothing", "that can be made and written to"),
                ("{}/gone", "a link to nothing"),
                ("{}/out/" + 300 * "x", "with shorter names"),
            )
        ),
        *(
            ([*words, place], said)
            for words in (
                ["submission", "check", "{}", "--save"],
                ["submission", "debug", "{}", "--save"],
                ["submission", "try", "{}", "--against", "fgsm", "--pictures"],
            )
            for place, said in (
                ("{}/full/mine.txt/x", "Not a directory"),
                ("/proc/nothing", "that can be made and written to"),
                ("{}/full", "a folder lies there"),
                ("{}/gone", "a link to nothing"),
            )
        ),
    ],
)
def test_impossible_wishes_are_usage_errors(tmp_path, arguments, said) -> None:
    """What cannot be done ends with exit code 2, one message and its remedy, and writes nothing."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("keep")
    (tmp_path / "gone").symlink_to("nowhere")

    done = sparring(*(str(argument).replace("{}", str(tmp_path)) for argument in arguments))

    assert done.exit_code == 2, done.output
    assert said in " ".join(done.stderr.split())
    assert (tmp_path / "full" / "mine.txt").read_text() == "keep"
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")) == [
        "full",
        "full/mine.txt",
        "gone",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["demo", "--out", "{}/out", "--port", "8100"],
            "--port would be ignored: it is the port of the site; add --serve",
        ),
        (
            ["serve", "{}", "--no-worker", "--slots", "2", "--allow-unisolated"],
            "--slots and --allow-unisolated would be",
        ),
        (
            ["serve", "{}", "--no-worker", "--backend", "docker"],
            "give them to `sparring work`, or leave --no-worker out",
        ),
        (
            [*HERE, "--task", "digits", "--by", "me"],
            "--task and --by would be ignored: they are for a contest's folder",
        ),
        ([*HERE, "--dry-run", "--stay"], "--stay would be ignored: --dry-run plays nothing"),
        (["rescore", "{}", "--reason", "r"], "--reason would be ignored: it is for --apply or --drop"),
        (["publish", "{}", "--out", "{}/out", "--unfinished"], "--unfinished would be ignored: it is for --full"),
        (
            ["submission", "debug", "{}", "--replay", "x", "--batch", "2"],
            "--batch would be ignored: the transcript says",
        ),
        (
            ["submission", "check", "{}", "--side", "attack"],
            "--side would be ignored: the folder's submission.yaml gives",
        ),
        (["submission", "try", "{}", "--against", "fgsm", "--side", "attack"], "--side would be ignored"),
        (["submission", "debug", "{}", "--side", "attack"], "--side would be ignored"),
        (["submission", "debug", "{}", "--in-process", "--side", "attack"], "--side would be ignored"),
        (
            ["submit", "{}", "--to", "https://x.example", "--team", "t", "--no-wait", "--receipt", "x"],
            "--receipt would be",
        ),
        (
            ["baseline", "train", "--out", "{}/w", "--epsilon", "8"],
            "--epsilon would be ignored: it is for --recipe fgsm",
        ),
        (["baseline", "train", "--out", "{}/w", "--epsilon", "0"], "--epsilon would be ignored"),
        (
            ["cluster", "check", "--look-only", "--patience", "9"],
            "--patience would be ignored: --look-only makes no pods",
        ),
        (["cluster", "check", "--look-only", "--reach", "a=tcp:b:1"], "--reach would be ignored: --look-only makes no"),
    ],
)
def test_an_option_that_would_be_ignored_is_a_usage_error(tmp_path, arguments, said) -> None:
    """Whoever gives it relies on it: the message says what it is for, or what to give with it."""
    done = sparring(*(str(argument).replace("{}", str(tmp_path)) for argument in arguments))

    assert done.exit_code == 2, done.output
    assert said in " ".join(done.stderr.split())
    assert list(tmp_path.iterdir()) == []


def test_the_demo_names_what_is_not_installed(tmp_path, monkeypatch) -> None:
    """Without the demo's extra the demo says what to install, instead of playing baselines that cannot load."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "torch" else object())
    done = sparring("demo", "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "need torch; pip install 'sparring[demo]'" in done.stderr


def test_exit_codes_tell_whose_fault_it_was() -> None:
    """Every class of the error tree has the exit code that the README promises."""
    expected = {
        errors.Rejected("x", []): 1,
        errors.DeadlinePassed("x"): 1,
        errors.UsageError("x"): 2,
        errors.BackendUnavailable("x"): 3,
        errors.StoreFault("x"): 3,
        errors.Cancelled("x"): 130,
    }
    assert {error: int(console.exit_code(error)) for error in expected} == expected


def test_ctrl_c_before_a_command_begins_ends_without_a_traceback(monkeypatch) -> None:
    """Modules are imported for a second or more before a command can catch Ctrl-C: its exit code is 130 then, too."""

    def interrupted(name: str | None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "make_app", interrupted)
    monkeypatch.setattr(sys, "argv", ["sparring", "demo"])
    try:
        with pytest.raises(SystemExit) as ended:
            __main__.main()
    finally:
        gc.enable()  # which the entry point disables for the imports
    assert ended.value.code == 130


@pytest.mark.slow
def test_doctor_reports_both_backends() -> None:
    """`doctor` names machine, GPU and each backend with a status and a remedy, said once, and what it removed."""
    answer = json.loads(sparring("doctor", "--sweep", "--json").stdout)
    names = [check["name"] for check in answer["checks"]]
    assert {"machine", "gpu", "process: isolation", "sweep process", "sweep docker"} <= set(names)
    assert any(name.startswith("docker") for name in names)
    for check in answer["checks"]:
        assert check["status"] in {"ok", "warn", "fail", "absent"}
        assert check["detail"]
        assert "['" not in check["detail"]
        assert not check["remedy"] or check["remedy"] not in check["detail"]


def test_doctor_says_that_no_container_can_be_started(monkeypatch) -> None:
    """Without an engine and without root, what stands for the container backends is absent like them.

    The text has the same checks, and without `--sweep` nothing is removed.
    """
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    checks = {check["name"]: check for check in json.loads(sparring("doctor", "--json").stdout)["checks"]}
    assert checks["container: available"]["status"] == "absent"
    assert checks["container: available"]["remedy"]
    text = sparring("doctor").stdout
    assert all(name in text for name in checks)
    assert not any(name.startswith("sweep") for name in checks)


def test_no_command_logs_to_standard_output(capsys) -> None:
    """There is the command's own document, for a program to read; what is logged on the way goes to standard error."""
    structlog.reset_defaults()
    assert sparring("contest", "check", DEMO).exit_code == 0
    structlog.get_logger().warning("something_happened")
    out, err = capsys.readouterr()
    assert (out, "something_happened" in err) == ("", True)


@pytest.mark.slow
@pytest.mark.parametrize(("epochs", "accuracy"), [(5, 0.85), pytest.param(30, 0.95, marks=pytest.mark.soak)])
def test_baselines_are_trained_on_the_digits(tmp_path, epochs, accuracy) -> None:
    """`baseline train` trains by the recipe of the committed networks, which has 30 epochs, and says how far it is.

    That bits repeat is shown in tests/images/test_training.py, and other pictures are in tests/house/test_own_model.py.
    """
    train = ("baseline", "train", "--out", tmp_path / "w.safetensors", "--epochs", epochs, "--json")
    done = sparring(*train)
    facts = json.loads(done.stdout)
    assert facts["test_accuracy"] > accuracy
    assert (facts["recipe"], facts["architecture"]) == ("clean", "digits_cnn")
    said = rf"(epoch \d+ of {epochs}: loss \d+\.\d{{3}}\n){{{epochs}}}"
    assert re.fullmatch(said, done.stderr)


def test_a_baseline_for_pictures_of_another_shape_is_refused(tmp_path) -> None:
    """Where there is no network for the shape of an archive's pictures, `baseline train` says so."""
    images, data = np.zeros((20, 3, 16, 16), np.uint8), tmp_path / "train.npz"
    np.savez(data, images=images, labels=np.arange(20) % 10)
    refused = sparring("baseline", "train", "--out", tmp_path / "w.safetensors", "--data", data, "--test", data)
    assert (refused.exit_code, "no network for pictures of 3 x 16 x 16" in refused.output) == (2, True)


def test_the_module_and_the_command_are_the_same() -> None:
    """`python -m orchestrator` is `sparring`."""
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("sparring ")


def test_hostile_text_cannot_move_the_cursor() -> None:
    """Text of a submission reaches the terminal without control characters and without markup."""
    assert console.safe_text("\x1b[2J[bold]x[/]\r\n") == r"\x1b[2J\[bold]x\[/]\r\n"


def test_a_damaged_ledger_is_an_infrastructure_error(tmp_path) -> None:
    """A ledger that cannot be read ends with exit code 3 and names the file's trouble."""
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "ledger.sqlite").write_bytes(b"this is no database" * 100)
    done = sparring("round", "status", Path(folder))
    assert done.exit_code == 3
    assert "the ledger cannot be used" in done.stderr


def test_a_contest_is_told_from_its_rounds(tmp_path) -> None:
    """Where a round is wanted and its contest is given, the message says which folders are meant."""
    assert sparring("contest", "init", tmp_path / "cup").exit_code == 0
    done = sparring("replay", "3f2a", "--dir", tmp_path / "cup")
    assert done.exit_code == 2
    assert "is a contest's folder; give that of one of its rounds: no round was played yet" in done.stderr
    done = sparring("round", "status", tmp_path / "cup")
    assert done.exit_code == 2
    assert f"no round of {tmp_path / 'cup'} was begun" in done.stderr


def test_public_pictures_are_written_as_arrays(tmp_path) -> None:
    """They are those of the task's `sample`, never of its `dataset`; a task without some says whom to ask."""
    done = sparring("contest", "sample", WARMUP, "--out", tmp_path / "train.npz")
    assert done.exit_code == 0, done.output
    assert "20 pictures of 6, 7" in done.stdout
    with np.load(tmp_path / "train.npz", allow_pickle=False) as archive:
        images, labels = archive["images"], archive["labels"]
    public = Contest(WARMUP).load_public_samples("sixes-and-sevens")
    assert np.array_equal(images, public.pixels)
    assert np.array_equal(labels, public.labels)
    refused = sparring("contest", "sample", DEMO, "--out", tmp_path / "none.npz")
    assert refused.exit_code == 2
    assert "has no public pictures; ask the organizers" in refused.stderr
    assert not (tmp_path / "none.npz").exists()
