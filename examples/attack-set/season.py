"""Plays a whole attack-set contest with the commands of `sparring`, and shows each of them.

    python examples/attack-set/season.py OUT
    python examples/attack-set/season.py OUT --pictures ZIP --surrogate WEIGHTS --hidden WEIGHTS

Without pictures of your own it plays on the handwritten digits that scikit-learn ships. OUT/cup becomes the contest's
folder, OUT/submissions what the three teams submit, OUT/pages and OUT/more_pages_N the raters' pages, OUT/full what is
published. The raters do not exist: what each of them says is in `recorded_answers.npz`. README.md tells what happens
and why.
"""

import argparse
import io
import json
import shlex
import shutil
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from PIL import Image
from typer.main import get_command

from orchestrator.application.contests import seasons
from orchestrator.application.grading import human_grading
from orchestrator.cli.app import app
from orchestrator.formats.attack_set.events import GradingPlanned
from orchestrator.formats.attack_set.grading.sheets import GradingTask
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import ContestFolder

HERE = Path(__file__).resolve().parent
IMAGES = HERE.parents[1] / "images"
sys.path.insert(0, str(IMAGES / "_base" / "python"))
from gradient_attacks import fgsm, pgd  # noqa: E402  a helper of players, which is no package
from sparring_models import load_network  # noqa: E402

COMMAND = get_command(app)
TEAMS = {"Idle Hands": "untouched", "One Step": "fgsm", "Twenty Steps": "pgd"}
RATERS = [f"r{number:02}" for number in range(1, 18)]
MORE_RATERS = [[f"r{number:02}" for number in range(first, first + 5)] for first in (18, 23, 28)]
"""Who is asked, once those before are done, as long as something is missing: where two of three agree, five decide."""
EPSILON = {8: 48.0, 32: 8.0}
"""Side of the pictures -> the largest change of a value that the two attacks make, in steps of 1/255."""


def run(*words: object) -> None:
    """Prints a command and runs it. Raises SystemExit with its exit code where it fails."""
    arguments = [str(word) for word in words]
    print("\n$ sparring", shlex.join(arguments), flush=True)
    code = COMMAND.main(arguments, prog_name="sparring", standalone_mode=False)
    if code:
        raise SystemExit(code)


def make_contest(out: Path, given: argparse.Namespace) -> Path:
    """Writes the contest's folder and the hidden model's; returns the former."""
    cup, hidden = out / "cup", out / "hidden"
    shutil.copytree(IMAGES / "defence_undefended", hidden)
    (hidden / "Dockerfile").unlink()
    manifest = (hidden / "submission.yaml").read_text("utf-8")
    (hidden / "submission.yaml").write_text(manifest.replace("sparring/defence-undefended", "sparring/hidden-model"))
    dataset = {"kind": "digits", "split": "test", "first": 100}
    if given.pictures:
        shutil.copy(given.hidden, hidden / "weights.safetensors")
        dataset = {"kind": "zip", "path": str(given.pictures.resolve())}
    cup.mkdir(parents=True)
    text = (HERE / "contest.yaml").read_text("utf-8")
    (cup / "contest.yaml").write_text(text.replace("DATASET", json.dumps(dataset)).replace("HIDDEN", str(hidden)))
    return cup


def make_archives(cup: Path, folder: Path, surrogate: Path) -> None:
    """Makes what the teams submit: the pictures as they are, and after one and after twenty steps on the surrogate."""
    folder.mkdir()
    samples = Contest(cup / "contest.yaml").load_samples()
    task = SimpleNamespace(shape=samples.shape, classes=samples.classes, threads=1)
    network, epsilon = load_network(surrogate, task), EPSILON[samples.shape[1]]
    changed = {
        "untouched": samples.pixels,
        "fgsm": fgsm(network, samples.pixels, samples.labels, epsilon),
        "pgd": pgd(network, samples.pixels, samples.labels, epsilon, rng=np.random.default_rng(0), steps=20),
    }
    for name, pixels in changed.items():
        with zipfile.ZipFile(folder / f"{name}.zip", "w") as archive:
            for number, picture in enumerate(pixels):
                file = io.BytesIO()
                Image.fromarray(picture[0] if len(picture) == 1 else picture.transpose(1, 2, 0)).save(file, "PNG")
                archive.writestr(f"images/{number}.png", file.getvalue())


def answer_pages(cup: Path, pages: Path) -> list[Path]:
    """Writes what each rater would have saved, from the recorded answers; returns the files.

    A real rater fills in the page. Here the plan, which only organizers have, says what each item is.
    """
    recorded = np.load(HERE / "recorded_answers.npz")
    sources = {name: number for number, name in enumerate(recorded["sources"].tolist())}
    ledger = ContestFolder(cup).ledger()
    plan = [entry.event.plan for entry in ledger.read() if isinstance(entry.event, GradingPlanned)][-1]
    ledger.close()
    labels = Contest(cup / "contest.yaml").load_samples().labels
    files = []
    for sheet in plan.sheets:
        rater, answers = int(sheet.rater[1:]) - 1, []
        for item in sheet.items:
            source = sources[item.submission or item.kind.value]
            if item.task is GradingTask.VALID:
                valid = bool(recorded["valid"][rater, source, item.position])
                said = {"class_index": int(labels[item.position]) if valid else None, "proper": valid}
            else:
                said = {"grade": int(recorded["grades"][rater, source, item.position])}
            answers.append({"token": item.token, "milliseconds": 3000, **said})
        files.append(pages / f"answers-{sheet.rater}.json")
        files[-1].write_text(json.dumps({"plan": plan.digest, "rater": sheet.rater, "answers": answers}))
    return files


def grade(cup: Path, command: str, raters: list[str], pages: Path) -> int:
    """Has raters look at pictures: a plan, a page for each, and the answers.

    Returns how many answers are missing that nobody was asked for.
    """
    run("grade", command, cup, *(word for rater in raters for word in ("--rater", rater)))
    run("grade", "export", cup, "--out", pages)
    run("grade", "import", cup, *answer_pages(cup, pages))
    run("grade", "status", cup)
    with seasons.administer(cup) as admin:
        return human_grading.grading_progress(admin.contest, admin.season).unassigned


def main() -> None:
    """Plays the contest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="a new folder")
    parser.add_argument("--pictures", type=Path, help="a zip with images/ and label.txt, 32 x 32")
    parser.add_argument("--surrogate", type=Path, help="weights from which the attacks take gradients")
    parser.add_argument("--hidden", type=Path, help="weights of the hidden model")
    given = parser.parse_args()
    if given.pictures and not (given.surrogate and given.hidden):
        parser.error("--pictures needs --surrogate and --hidden")
    given.out.mkdir(parents=True)
    cup = make_contest(given.out, given)
    make_archives(cup, given.out / "submissions", given.surrogate or IMAGES / "attack_pgd" / "weights.safetensors")
    run("contest", "check", cup / "contest.yaml")
    run("contest", "open", cup)
    run("contest", "pictures", cup, "--out", given.out / "pictures.zip")
    for number, (team, name) in enumerate(TEAMS.items()):
        run("team", "add", cup, team, "--member", f"member{number}@example.org:Member")
        run("submission", "check", given.out / "submissions" / f"{name}.zip", "--contest", cup / "contest.yaml")
        run("submit", cup, given.out / "submissions" / f"{name}.zip", "--team", team)
    run("round", "run", cup, "board", "--backend", "process", "--allow-unisolated")
    run("publish", cup, "--out", given.out / "sealed")
    run("contest", "close", cup, "--reason", "the last day is over")
    missing = grade(cup, "plan", RATERS, given.out / "pages")
    for number, raters in enumerate(MORE_RATERS, start=1):
        if missing:
            missing = grade(cup, "more", raters, given.out / f"more_pages_{number}")
    if missing:
        raise SystemExit(f"{missing} answers are missing still; record more raters")
    run("board", cup)
    run("contest", "record", cup, "attack_set.scores_released")
    run("report", cup)
    run("publish", cup, "--out", given.out / "full", "--full")
    run("verify", given.out / "full", "--sealed", given.out / "sealed")


if __name__ == "__main__":
    main()
