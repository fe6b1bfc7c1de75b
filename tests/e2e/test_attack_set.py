"""An attack-set season from the contest file to verified bundles, by the command line (C1 to C6, C9, X2, X4)."""

import io
import json
import shutil
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from orchestrator.application.contests import roles, seasons
from orchestrator.application.grading import human_grading
from orchestrator.application.grading.raters import rater_id
from orchestrator.application.grading.rating_desk import RatingDesk
from orchestrator.cli.app import app
from orchestrator.datasets.digits import DigitsDataset, DigitsOptions
from orchestrator.domain.contest_events import PersonRecord, Role
from orchestrator.domain.human_grading import GivenAnswer
from orchestrator.formats.attack_set.events import GradingPlanned
from orchestrator.formats.attack_set.grading.plan import GradingPlan
from orchestrator.formats.attack_set.grading.sheets import GradingTask
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import ContestFolder

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("attack-set")]

UNISOLATED = ("--backend", "process", "--allow-unisolated")
PICTURES = 20
CONTEST = f"""sparring: 1
contest: digits
title: Digits that mislead
format: attack_set
task:
  name: digits
  dataset: {{kind: digits, split: test, first: {PICTURES}}}
isolation: round
limits: {{memory: 1GiB}}
replay: {{power: 0.5, cheat: 0.2}}
rules: {{tries_per_day: 2, count: correct, grading: {{distance: 2, pictures: 12}}}}
baselines:
  - {{folder: ../hidden}}
"""
HIDDEN = """
from sparring_player import Defence, serve
# isort: split
import numpy as np


class Hidden(Defence):
    scores = True

    def load(self, task):
        self.means = np.load("means.npy")

    def classify(self, pixels):
        scores = -((pixels.reshape(len(pixels), 1, 64) - self.means) ** 2).mean(axis=2) / 500
        return scores.argmax(axis=1), scores.astype(np.float32)


serve(Hidden())
"""


def sparring(*words: object, code: int = 0) -> str:
    """Runs a command and returns what it printed."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, (words, result.output, result.exception)
    return result.output


def class_means() -> np.ndarray:
    """Returns the mean picture of each class among those for training [10, 64]."""
    known = DigitsDataset().load_samples(DigitsOptions(split="train"), Path())
    return np.stack([known.pixels[known.labels == label].reshape(-1, 64).mean(axis=0) for label in range(10)])


def write_zip(path: Path, pixels: np.ndarray, *, left_out: int | None = None) -> Path:
    """Writes pictures u8 [n, 1, 8, 8] as an entry; one of them may be left out."""
    with zipfile.ZipFile(path, "w") as archive:
        for number, picture in enumerate(pixels):
            if number != left_out:
                file = io.BytesIO()
                Image.fromarray(picture[0]).save(file, "PNG")
                archive.writestr(f"images/{number}.png", file.getvalue())
    return path


@pytest.fixture(scope="module")
def season(tmp_path_factory) -> SimpleNamespace:
    """Returns a contest in which two teams submitted and everything was played, with all that was printed."""
    root = tmp_path_factory.mktemp("attack-set")
    hidden, cup = root / "hidden", root / "cup"
    hidden.mkdir()
    (hidden / "player.py").write_text(HIDDEN)
    np.save(hidden / "means.npy", class_means())
    (hidden / "submission.yaml").write_text(
        "sparring: 1\nname: hidden\nside: defence\ncommand: [python3, player.py]\nlicence: Apache-2.0\n"
    )
    cup.mkdir()
    (cup / "contest.yaml").write_text(CONTEST)
    samples = Contest(cup / "contest.yaml").load_samples()
    rng = np.random.default_rng(1)
    noisy = np.clip(samples.pixels + rng.integers(-120, 121, samples.pixels.shape), 0, 255).astype(np.uint8)
    sparring("contest", "open", cup)
    for team in ("Reds", "Blues"):
        sparring("team", "add", cup, team, "--member", f"{team}@example.org:{team}")
    said = {"reds": sparring("submit", cup, write_zip(root / "untouched.zip", samples.pixels), "--team", "Reds")}
    said["again"] = sparring("submit", cup, root / "untouched.zip", "--team", "Reds")
    noise = write_zip(root / "noise.zip", noisy)
    said["blues"] = sparring("submit", cup, noise, "--team", "Blues")
    said["check"] = sparring("submission", "check", noise, "--contest", cup / "contest.yaml")
    said["played"] = sparring("round", "run", cup, "board", *UNISOLATED)
    return SimpleNamespace(root=root, cup=cup, samples=samples, noisy=noisy, said=said)


def results(cup: Path) -> dict[str, object]:
    """Returns the results of the round."""
    return json.loads((cup / "rounds" / "board" / "digits" / "results.json").read_text())


def test_teams_get_receipts_and_see_what_they_handed_in(season) -> None:
    """The receipt counts the day's tries; the same archive again is no second try."""
    assert "attempt 1, 1 left on this day (C9)" in season.said["reds"]
    assert "received already" in season.said["again"]
    assert f"pictures {PICTURES}, {PICTURES} of them changed" in season.said["check"]
    assert "it would be received" in season.said["check"]


def test_scores_equal_a_restatement(season) -> None:
    """The hidden model's answers, computed here, give the board's numbers (C3 to C6)."""
    means = class_means()

    def scores(pixels: np.ndarray) -> np.ndarray:
        found = -((pixels.reshape(len(pixels), 1, 64) - means) ** 2).mean(axis=2) / 500
        return found.astype(np.float32).astype(np.float64)

    clean, found = scores(season.samples.pixels), scores(season.noisy)
    right = clean.argmax(axis=1) == season.samples.labels
    fooled = right & (found.argmax(axis=1) != season.samples.labels)
    powers = np.exp(found - found.max(axis=1, keepdims=True))
    first, second = np.sort(powers / powers.sum(axis=1, keepdims=True), axis=1)[:, :-3:-1].T
    rows = {row["submission"]: row for row in results(season.cup)["boards"][0]["rows"]}
    values = {name: value["value"] for name, value in rows["noise"]["values"].items()}
    assert values["asr"] == pytest.approx(100 * fooled.sum() / right.sum())
    assert values["nte"] == pytest.approx((first - second)[right].mean(), abs=1e-6)
    assert rows["untouched"]["score"] == 0


def test_no_attack_starts_a_sandbox(season) -> None:
    """Pictures are imported: their submissions used nothing, and nobody replays them."""
    parts = {part["id"]: part for part in results(season.cup)["submissions"]}
    assert parts["noise"]["sandboxes"] == 0
    assert {job["submission"] for job in results(season.cup)["jobs"] if job["stage"] == "replay"} == {"hidden"}


def test_refusals_name_everything_and_use_up_nothing(season, tmp_path) -> None:
    """A picture that is missing is named; a program, another side and a third try are refused (C2, C9)."""
    cup = tmp_path / "cup"
    shutil.copytree(season.cup, cup)
    shutil.copytree(season.root / "hidden", tmp_path / "hidden")
    short = write_zip(tmp_path / "short.zip", season.noisy, left_out=7)
    assert "images/7: missing" in sparring("submit", cup, short, "--team", "Reds", code=1)
    assert "pictures, in an archive" in sparring("submit", cup, tmp_path / "hidden", "--team", "Reds", code=1)
    assert "leave --side out" in sparring("submit", cup, short, "--team", "Reds", "--side", "defence", code=2)
    full = write_zip(tmp_path / "full.zip", season.noisy)
    if "0 left" in sparring("submit", cup, full, "--team", "Reds"):  # else midnight passed since the first
        third = write_zip(tmp_path / "third.zip", season.samples.pixels[::-1])
        assert "has submitted 2 of 2" in sparring("submit", cup, third, "--team", "Reds", code=1)


def test_what_is_new_alone_is_played(season, tmp_path) -> None:
    """Another archive costs one job of the hidden model and its replay; the team's first is shown, replaced (X4)."""
    cup = tmp_path / "cup"
    shutil.copytree(season.cup, cup)
    shutil.copytree(season.root / "hidden", tmp_path / "hidden")
    before = {job["id"] for job in results(cup)["jobs"]}
    newer = write_zip(tmp_path / "newer.zip", 255 - season.samples.pixels)
    sparring("submit", cup, newer, "--team", "Reds")
    sparring("round", "run", cup, "board", *UNISOLATED)
    new = [job for job in results(cup)["jobs"] if job["id"] not in before]
    assert sorted((job["stage"], job["submission"]) for job in new if job["stage"] != "replay") == [
        ("classify", "hidden"),
        ("perturb", "newer"),
    ]
    rows = {row["submission"]: row for row in results(cup)["boards"][0]["rows"]}
    assert (rows["newer"]["rank"] is None, rows["untouched"]["reason"]) == (False, "replaced by newer")


def pages(cup: Path, folder: str) -> list[Path]:
    """Returns the pages in a folder of the contest's reports."""
    return sorted((cup / folder).rglob("*.html"))


def test_everybody_else_sees_rounded_numbers_until_the_release(season, tmp_path) -> None:
    """The site has no cells and whole points; after the release it has what the organizers see (C9)."""
    cup = tmp_path / "cup"
    shutil.copytree(season.cup, cup)
    shutil.copytree(season.root / "hidden", tmp_path / "hidden")
    exact = {row["submission"]: row["score"] for row in results(cup)["boards"][0]["rows"]}
    sparring("report", cup)
    page = (cup / "site" / "report.md").read_text()
    assert "rounded to a hundredth" in page
    assert f"{exact['noise']:.2f}" not in page
    private = [file.read_text() for file in pages(cup, "teams")]
    assert not any("data:image/png" in text for text in [*private, *(file.read_text() for file in pages(cup, "site"))])
    assert all("pictures and logs come from public samples only" in text for text in private)
    sparring("contest", "record", cup, "attack_set.scores_released")
    sparring("report", cup)
    page = (cup / "site" / "report.md").read_text()
    assert "rounded to a hundredth" not in page
    assert f"{exact['noise']:.2f}" in page
    own = {file.stem: file.read_text() for file in pages(cup, "teams")}
    assert all("data:image/png" in text for text in own.values())
    assert not any("public samples only" in text for text in own.values())
    [blues] = [text for text in own.values() if "team Blues" in text or "Blues" in text.split("</title>")[0]]
    assert "adversarial picture" in blues
    assert "untouched" not in blues
    assert not any("data:image/png" in file.read_text() for file in pages(cup, "site"))


def test_a_sealed_bundle_tells_no_answer_and_a_full_one_everything(season, tmp_path) -> None:
    """The sealed one has no cells, no scores and nothing that the hidden model used; the full one is counted again.

    Each fault of the model is a picture that counts as misclassified, and costs time and a sandbox (C9).
    """
    cup = tmp_path / "cup"
    shutil.copytree(season.cup, cup)
    shutil.copytree(season.root / "hidden", tmp_path / "hidden")
    sealed, full = tmp_path / "sealed", tmp_path / "full"
    sparring("publish", cup, "--out", sealed)
    assert "0 cells" in sparring("verify", sealed)
    assert [path.stat().st_size for path in sealed.rglob("cells.jsonl")] == [0]
    [stated] = [json.loads(path.read_text()) for path in sealed.rglob("results.json")]
    assert {row["score"] for row in stated["boards"][0]["rows"]} == {None}
    assert stated["cells"] == []
    [work] = [json.loads(path.read_text())["work"] for path in sealed.rglob("round.json")]
    hidden = [part for part in work if part["submission"] == "hidden"]
    assert {part["stage"] for part in hidden} == {"classify", "replay"}
    assert all(part["seconds"] == 0 and part["faults"] == [] for part in hidden)
    [used] = [part for part in stated["submissions"] if part["id"] == "hidden"]
    assert [used[name] for name in ("sandboxes", "cpu_seconds", "bytes_out", "endings")] == [0, None, None, {}]
    assert "scores are not released" in sparring("publish", cup, "--out", full, "--full", code=1)
    sparring("contest", "record", cup, "attack_set.scores_released")
    sparring("publish", cup, "--out", full, "--full")
    assert f"opened   {PICTURES} commitments" in sparring("verify", full, "--sealed", sealed)
    [stated] = [json.loads(path.read_text()) for path in full.rglob("results.json")]
    assert stated["boards"] == results(cup)["boards"]


GRADES = {"original": 5, "anchor": 1, "untouched": 5, "noise": 2}
"""What a careful rater says of the difference, by what an item is."""


def latest_plan(cup: Path) -> GradingPlanned:
    """Returns the plan that was noted last."""
    ledger = ContestFolder(cup).ledger()
    try:
        return [entry.event for entry in ledger.read() if isinstance(entry.event, GradingPlanned)][-1]
    finally:
        ledger.close()


def answer_pages(cup: Path, pages: Path, *, careless: str = "") -> list[Path]:
    """Answers every item of every exported page, as whoever knows the plan would, and returns the files.

    The careless rater gives every picture the same grade. Nobody calls a picture of `noise` proper.
    """
    plan, labels = latest_plan(cup).plan, Contest(cup / "contest.yaml").load_samples().labels
    files = []
    for sheet in plan.sheets:
        page = (pages / f"{sheet.rater}.html").read_text()
        answers = []
        for item in sheet.items:
            assert item.token in page
            if item.task is GradingTask.VALID:
                said = {"class_index": int(labels[item.position]), "proper": item.submission != "noise"}
            else:
                said = {"grade": 3 if sheet.rater == careless else GRADES[item.submission or item.kind.value]}
            answers.append({"token": item.token, "milliseconds": 2000, **said})
        files.append(pages / f"answers-{sheet.rater}.json")
        files[-1].write_text(json.dumps({"version": 1, "plan": plan.digest, "rater": sheet.rater, "answers": answers}))
    return files


def raters_named(*names: str) -> list[str]:
    """Returns the options of `sparring grade plan` that name raters."""
    return [word for name in names for word in ("--rater", name)]


@pytest.fixture
def graded(season, tmp_path) -> SimpleNamespace:
    """Returns the contest after four raters graded, one of them carelessly, with what was printed."""
    cup, pages = tmp_path / "cup", tmp_path / "pages"
    shutil.copytree(season.cup, cup)
    shutil.copytree(season.root / "hidden", tmp_path / "hidden")
    sparring("contest", "close", cup)
    said = {"plan": sparring("grade", "plan", cup, *raters_named("r01", "r02", "r03", "r04"))}
    sparring("grade", "export", cup, "--out", pages)
    said["before"] = sparring("grade", "status", cup)
    said["import"] = sparring("grade", "import", cup, *answer_pages(cup, pages, careless="r04"))
    said["after"] = sparring("grade", "status", cup)
    return SimpleNamespace(cup=cup, pages=pages, said=said, root=tmp_path)


def test_a_plan_is_drawn_anew_until_the_first_answer(season, tmp_path) -> None:
    """With a plan no submission has a rank; another one, of more raters, has the same submissions all the same."""
    cup = tmp_path / "cup"
    shutil.copytree(season.cup, cup)
    shutil.copytree(season.root / "hidden", tmp_path / "hidden")
    sparring("contest", "close", cup)
    sparring("grade", "plan", cup, *raters_named("r01", "r02", "r03"))
    first = latest_plan(cup).plan
    sparring("grade", "plan", cup, *raters_named("r01", "r02", "r03", "r04"))
    anew = latest_plan(cup).plan
    assert anew.submissions == first.submissions
    assert anew.raters == ("r01", "r02", "r03", "r04")
    sparring("disqualify", cup, "noise", "--reason", "not their own")
    sparring("grade", "plan", cup, *raters_named("r01", "r02", "r03"))
    assert latest_plan(cup).plan.submissions == tuple(name for name in first.submissions if name != "noise")


def test_people_decide_beside_the_machine(graded) -> None:
    """Score = 0.6 x 100 x Score_H + 0.4 x Score_M; who grades everything alike is removed (C7, C8)."""
    assert "raters       4" in graded.said["plan"]
    assert "0 of" in graded.said["before"]
    assert "removed" in graded.said["after"]
    board = results(graded.cup)["boards"][0]
    rows = {row["submission"]: row for row in board["rows"]}
    values = {name: value["value"] for name, value in rows["untouched"]["values"].items()}
    assert (values["valid"], values["quality"], values["score_h"]) == (100, 100, 1)
    assert rows["untouched"]["score"] == pytest.approx(60 + 0.4 * values["score_m"])
    assert rows["noise"]["values"]["quality"]["value"] == pytest.approx(40)
    assert rows["noise"]["values"]["valid"]["value"] == 0
    assert "indicative" in rows["untouched"]["remark"]
    notes = " ".join(results(graded.cup)["notes"])
    assert "3 of 4 raters count" in notes
    assert "Rater r04 was removed" in notes


def test_a_second_file_replaces_nothing_and_brings_nobody_back(graded) -> None:
    """It is on record, the command says what does not count, and board and raters stay as they are (C7)."""
    status, board = sparring("grade", "status", graded.cup), results(graded.cup)["boards"]
    said = sparring("grade", "import", graded.cup, answer_pages(graded.cup, graded.pages)[3])
    assert "items answered before: the earlier answers count" in said
    assert "no answer of this rater counts: the mean grade of originals is 0.00 above that of anchors" in said
    assert sparring("grade", "status", graded.cup) == status
    assert results(graded.cup)["boards"] == board


def test_answers_one_by_one_count_as_those_of_the_pages(season, graded, tmp_path) -> None:
    """What the site's desk notes item by item gives the same boards, to the last digit, once it is counted (C7)."""
    root = tmp_path / "site"
    cup = root / "cup"
    shutil.copytree(season.cup, cup)
    shutil.copytree(season.root / "hidden", root / "hidden")
    labels, now = Contest(cup / "contest.yaml").load_samples().labels, datetime.now(UTC)
    with seasons.administer(cup) as admin:
        persons = {rater_id(admin.folder.key(), person): person for person in ("p1", "p2", "p3", "p4")}
        for person in persons.values():
            roles.grant_role(admin, PersonRecord(id=person, name=person), Role.RATER)
        # The plan of the pages, so that the two are asked the same; its raters have other names on the site.
        plan = latest_plan(graded.cup).plan
        names = dict(zip(plan.raters, persons, strict=True))
        renamed = json.loads(plan.model_dump_json())
        for sheet in renamed["sheets"]:
            sheet["rater"] = names[sheet["rater"]]
        admin.append_event(GradingPlanned(actor="organizer", task="digits", plan=GradingPlan.model_validate(renamed)))
    before = results(cup)
    desk = RatingDesk(ContestFolder(cup), Contest(cup / "contest.yaml"), lambda: now)
    items = {item.token: item for _, item in plan.items()}
    for name, person in persons.items():
        while (asked := desk.view(person).own.next) is not None:
            item = items[asked.token]
            if item.task is GradingTask.VALID:
                said = {
                    "class_index": str(labels[item.position]),
                    "proper": "no" if item.submission == "noise" else "yes",
                }
            else:
                said = {"grade": str(3 if name == names["r04"] else GRADES[item.submission or item.kind.value])}
            desk.answer(person, GivenAnswer(asked.token, said, 2000))
    desk.close()
    assert results(cup) == before  # nothing is computed while people answer
    with seasons.administer(cup) as admin:
        human_grading.count_answers(admin)
    stated, expected = (json.dumps(results(each)["boards"]) for each in (cup, graded.cup))
    assert stated == expected
    assert "removed" in sparring("grade", "status", cup)


def test_what_is_missing_and_appeals_go_to_others(graded) -> None:
    """The removed rater's pictures, and one of which a team appeals, are asked of others, never of who was removed."""
    assert "nobody was asked for" in graded.said["after"]
    cup, pages = graded.cup, graded.root / "more"
    picture = latest_plan(cup).plan.positions[0]
    raters = (f"r{number:02}" for number in range(4, 13))
    sparring("grade", "more", cup, "--appeal", f"noise={picture}", *raters_named(*raters))
    assert latest_plan(cup).appeals == {"noise": [picture]}
    assert "r04" not in latest_plan(cup).plan.raters
    sparring("grade", "export", cup, "--out", pages)
    sparring("grade", "import", cup, *answer_pages(cup, pages))
    assert "missing  0 answers" in sparring("grade", "status", cup)
    rows = {row["submission"]: row for row in results(cup)["boards"][0]["rows"]}
    assert "provisional" not in rows["untouched"]["remark"]


def test_nothing_is_published_while_raters_are_at_work(graded) -> None:
    """A bundle would show whose pictures they grade; after the release a stranger computes the grades again (X2)."""
    out = graded.root / "full"
    assert "scores are not released" in sparring("publish", graded.cup, "--out", out, "--full", code=1)
    sparring("contest", "record", graded.cup, "attack_set.scores_released")
    sparring("publish", graded.cup, "--out", out, "--full")
    sparring("verify", out)
    [stated] = [json.loads(path.read_text()) for path in out.rglob("results.json")]
    assert stated["boards"] == results(graded.cup)["boards"]
    assert stated["boards"][0]["rows"][0]["values"]["score_h"]["value"] is not None


def test_answers_that_do_not_fit_are_named_and_none_is_noted(graded) -> None:
    """A file of another plan, one with unknown tokens and one that is no file of a page leave the ledger as it is."""
    before = sparring("grade", "status", graded.cup, "--json")
    good, bad = sorted(graded.pages.glob("answers-*.json"))[:2]
    document = json.loads(bad.read_text())
    for changed, word in (
        ({"plan": "0" * 64}, "a plan that was replaced"),
        ({"answers": [{**document["answers"][0], "token": "0" * 16}]}, "0000000000000000"),
        ({"rater": "Not A Rater"}, "rater"),
    ):
        bad.write_text(json.dumps(document | changed))
        assert word in sparring("grade", "import", graded.cup, good, bad, code=1)
    assert sparring("grade", "status", graded.cup, "--json") == before
    missing = graded.root / "missing.json"
    assert "cannot be read" in sparring("grade", "import", graded.cup, missing, code=2)
