"""contest.yaml: what it means, and how it is refused."""

import re
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from PIL import Image

from orchestrator.domain.access import MAX_TRANSCRIPT_BYTES, Access, AccessKind
from orchestrator.domain.tasks import Budget, Isolation, Limits, Norm
from orchestrator.errors import Rejected, UsageError
from orchestrator.intake.admission import describe_roster
from orchestrator.intake.contest_file import Contest, ContestFile
from orchestrator.integrity.detection_power import SamplingDesign


def test_what_is_left_out_has_the_documents_defaults(contest):
    """True labels, isolation `attack`, A15's minutes, and nobody entered yet (A2, A15)."""
    file = contest().file
    assert (file.labels, file.isolation, file.seed) == (True, Isolation.ATTACK, 0)
    assert file.sandbox_policy().limits == Limits()
    assert (file.limits.perturb_seconds, file.limits.perturb_batch) == (256 * 60, 64)
    assert (file.replay.design(), file.baselines, file.submissions) == (SamplingDesign(0.99, 0.01, 0.001, 0.0), [], [])


def test_everything_can_be_said(contest):
    """Every section of the file arrives where it belongs."""
    file = contest(
        seed="7",
        labels="none",
        isolation="picture",
        limits="{memory: 512MiB, cpus: 0.5, gpus: 1, restarts: 0}",
        replay="{power: 0.5, cheat: 0.02, noise: 0, attacks: 1}",
        rules="{on_missing: ask}",
        baselines="[{folder: a}]",
        submissions="[{image: 'x:cpu', name: n, side: defence, team: T, submitted: 2026-03-01T10:00:00+02:00}]",
    ).file
    limits = file.sandbox_policy().limits
    assert (limits.memory, limits.cpus, limits.gpus, limits.restarts) == (512 * 1024**2, 0.5, 1, 0)
    assert (file.labels, file.isolation, file.seed) == ("none", Isolation.PICTURE, 7)
    assert file.replay.design() == SamplingDesign(power=0.5, cheat=0.02, noise=0.0, attacks=1.0)
    entry = file.submissions[0]
    assert (entry.image, entry.name, entry.side, entry.team) == ("x:cpu", "n", "defence", "T")
    assert entry.submitted == datetime(2026, 3, 1, 8, tzinfo=UTC)
    assert (file.baselines[0].folder, file.baselines[0].team) == ("a", "organizers")


def test_the_rules_are_the_formats(contest):
    """The format is found by name and made with the rules, decimals exact."""
    found = contest(rules="{on_missing: clean, clean_floor: {points: 12.5}, initial: {weights: {a: 0.1, b: 0.9}}}")
    rules = found.format.rules
    assert (found.format.name, rules.on_missing) == ("tournament", "clean")
    assert rules.clean_floor.points == Decimal("12.5")
    assert rules.initial.weights == {"a": Decimal("0.1"), "b": Decimal("0.9")}
    assert contest(rules="{clean_floor: null}").format.rules.clean_floor is None


def test_the_file_survives_the_ledger(contest):
    """What the ledger keeps of the file makes the same rules again."""
    found = contest(rules="{clean_floor: {points: 12.5}, initial: {weights: {a: 0.1}}}")
    kept = found.file.model_dump(mode="json")["rules"]
    assert type(found.format.rules).model_validate(kept) == found.format.rules


@pytest.mark.parametrize(
    ("written", "epsilon"),
    [
        ("8", 8),
        ("8.0", 8),
        ("'8'", 8),
        ("0x10", 16),
        ("1e1", 10),
        ("25.5", Fraction(51, 2)),
        ("1.001", Fraction(1001, 1000)),
        ("2.1", Fraction(21, 10)),
        ("2039.999", Fraction(2_039_999, 1000)),
        ("2040", 255 * 8),
    ],
)
def test_epsilon_is_exact(contest, written, epsilon):
    """An epsilon is the decimal that stands in the file, in steps of 1/255 (A14)."""
    found = contest(task=f"{{name: t, dataset: {{kind: digits}}, budget: {{norm: l2, epsilon: {written}}}}}")
    assert found.make_task(found.load_samples()).budget == Budget(Norm.L2, epsilon)


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("written", ["0.03", "0.0313725", "'0.03'"])
def test_an_epsilon_of_less_than_a_step_is_asked_about(problems, norm, written):
    """It was meant as a share of the range; of less than 1/255, in either norm, no value of a picture could change."""
    task = f"{{name: t, dataset: {{kind: digits}}, budget: {{norm: {norm}, epsilon: {written}}}}}"
    (problem,) = problems(task=task)
    given = written.strip("'")
    assert problem.startswith(
        f"line 5, task.budget.epsilon: {given} is less than one step of 1/255; did you mean 8, which is 8/255?"
    )


@pytest.mark.parametrize(
    ("written", "what"),
    [
        ("8/255", "'8/255' is a fraction; write 8, in steps of 1/255"),
        (".inf", "inf is not finite; write a number"),
        (".nan", "nan is not finite; write a number"),
        ("0", "0 is too small; write at least 1"),
        ("-8", "-8 is too small; write at least 1"),
        ("8.0001", "8.0001 has too many decimals; write at most 3 decimals"),
        ("true", "true is not a number; write a number"),
        ("[8]", "a list of 1 item is not a number; write a number"),
        ("", "nothing is not a number; write a number"),
    ],
)
def test_an_epsilon_that_is_none_is_refused(problems, written, what):
    """Fractions, signs, words and more than three decimals are named with what was given."""
    task = f"{{name: t, dataset: {{kind: digits}}, budget: {{epsilon: {written}}}}}"
    assert problems(task=task) == [f"line 5, task.budget.epsilon: {what}"]


@pytest.mark.parametrize(
    ("written", "size"),
    [("2GiB", 2 * 1024**3), ("64MB", 64_000_000), ("1.5 GiB", 1536 * 1024**2), ("4096", 4096), ("'1k'", 1000)],
)
def test_sizes_have_units(contest, written, size):
    """Binary and decimal units, with or without a space, become bytes."""
    found = contest(limits=f"{{memory: {written}, tmp: {written}, shm: {written}}}").file.sandbox_policy().limits
    assert (found.memory, found.tmp, found.shm) == (size, size, size)
    assert isinstance(found.memory, int)


@pytest.mark.parametrize("written", ["0", "-1", "2 parsecs", "lots", "[]", ".inf", "0 MiB"])
@pytest.mark.parametrize("key", ["memory", "tmp", "shm"])
def test_a_size_is_more_than_nothing(problems, key, written):
    """No size is 0, which an engine would read as no limit, and none is below."""
    [problem] = problems(limits=f"{{{key}: {written}}}")
    assert problem.startswith(f"line 6, limits.{key}: ")


@pytest.mark.parametrize("key", ["cpus", "ready_seconds", "perturb_seconds", "classify_seconds"])
@pytest.mark.parametrize("written", ["0", "-1", ".inf", ".nan", "soon"])
def test_a_limit_is_a_positive_number(problems, key, written):
    """Zero, infinity and words are no limits."""
    [problem] = problems(limits=f"{{{key}: {written}}}")
    assert re.fullmatch(rf"line 6, limits\.{key}: \S+ is (too small; write more than 0|not .+ a number)", problem)


def test_an_unknown_key_is_met_with_a_guess(problems):
    """The nearest known key is offered, at the line of the wrong one, at any depth."""
    found = problems(isolaton="attack", limits="{memroy: 1GiB}")
    assert found == [
        "line 7, limits.memroy: unknown key; did you mean 'memory'?",
        "line 6, isolaton: unknown key; did you mean 'isolation'?",
    ]


def test_an_unknown_key_like_no_other_is_to_be_looked_up(problems):
    """Where no key is near, the remedy is the documentation."""
    assert problems(zzzzzz="1") == [
        "line 6, zzzzzz: unknown key; remove it; the keys here are " + ", ".join(ContestFile.model_fields)
    ]


def test_all_problems_come_at_once(problems):
    """Every problem has its line: types, ranges, unknown words, missing and unknown keys."""
    found = problems(
        sparring="2",
        title="''",
        format=None,
        seed="-1",
        labels="false",
        isolation="some",
        limits="{pids: 1, gpus: 2}",
        replay="{power: 1.0}",
        submissions="\n  - {team: T}\n  - {folder: x, side: both}",
    )
    assert found == [
        "line 1, sparring: 2 is not allowed here; write 1",
        "line 3, title: an empty text is too short; write at least 1 character",
        "line 1, format: missing; add it",
        "line 5, seed: -1 is too small; write at least 0",
        "line 6, labels: false is not allowed here; write true or none",
        "line 7, isolation: 'some' is not allowed here; write attack, round or picture",
        "line 8, limits.pids: 1 is too small; write at least 8",
        "line 8, limits.gpus: 2 is not allowed here; write 0 or 1",
        "line 9, replay.power: 1.0 is too large; write less than 1",
        (
            "line 11, submissions[0]: the entry does not say what plays; give `builtin`, or `folder`, or `image` with "
            "`name` and `side`, or `pictures` with `name`"
        ),
        "line 12, submissions[1].side: 'both' is not allowed here; write attack or defence",
    ]


def test_what_entries_and_pictures_lack_comes_with_the_problems_of_keys(problems, submitted, tmp_path):
    """A missing folder, a broken manifest, a doubled name and lost pictures are told beside a wrong key."""
    submitted("sparring: 1\nname: a\nside: attack\ncommand: [x]\n", "a")
    submitted("name: A\n", "broken")
    found = problems(
        title="''",
        task="{name: t, dataset: {kind: npz, path: lost.npz}, budget: {epsilon: 8}}",
        baselines="\n  - {folder: nowhere}\n  - {builtin: attack_nop}\n  - {builtin: attack_noop, side: defence}",
        submissions="\n  - {folder: a}\n  - {folder: a}\n  - {team: T}\n  - {folder: broken}\n  - {folder: a, name: b}",
    )
    assert found[0].startswith("line 3, title: ")
    assert found[1].startswith(
        "line 13, submissions[2]: the entry does not say what plays; give `builtin`, or `folder`"
    )
    assert found[2].startswith(f"line 5, task.dataset: {tmp_path}/lost.npz: ")
    assert found[3:6] == [
        (
            f"line 7, baselines[0]: folder: there is no {tmp_path}/nowhere/submission.yaml; "
            "write the path relative to the folder of the contest file"
        ),
        *(
            line
            for line in found
            if line.startswith("line 8, baselines[1]: builtin: there is no 'attack_nop'; one of ")
        ),
        "line 9, baselines[2]: side: the contest file says defence, its submission.yaml attack; make them agree",
    ]
    assert found[6] == "line 12, submissions[1]: a second 'a'; give one of them a `name:`"
    assert found[7].startswith("line 14, submissions[3]: line 1, sparring: missing; add it")
    assert not [line for line in found if "submissions[0]" in line or "submissions[4]" in line]


@pytest.mark.parametrize("entries", ["x", "{folder: nowhere}", "[1, [], null, folder]", "\n  - {folder: [x]}"])
def test_entries_that_are_none_are_the_files_own_problem(problems, entries):
    """Whatever stands where entries belong, it is told once, and nothing is looked for."""
    found = problems(submissions=entries)
    assert found
    assert all("submissions" in line for line in found)
    assert not [line for line in found if "there is no" in line]


@pytest.mark.parametrize(
    ("task", "epsilon", "largest"),
    [("{epsilon: 255.001}", "255.001", "255 in linf"), ("{epsilon: 2040}", "2040", "255 in linf")],
)
def test_a_budget_that_bounds_nothing_is_refused(problems, task, epsilon, largest):
    """No value of a picture can change by more than 255, so a wider budget is a mistake in its unit (A14)."""
    assert problems(task=f"{{name: t, dataset: {{kind: digits}}, budget: {task}}}", seed="-1") == [
        "line 6, seed: -1 is too small; write at least 0",
        (
            f"line 5, task.budget.epsilon: {epsilon} bounds nothing: two pictures differ by at most {largest}; "
            "give a smaller one, in steps of 1/255: 8 means 8/255"
        ),
    ]


def test_the_widest_budget_is_no_mistake(contest):
    """255 for linf is allowed: everything is."""
    found = contest(task="{name: t, dataset: {kind: digits}, budget: {epsilon: 255}}")
    assert found.make_task(found.load_samples()).budget == Budget(Norm.LINF, Fraction(255))


def test_an_l2_budget_that_bounds_nothing_is_refused(contest, problems):
    """Pictures of 8 x 8 values differ by at most 255 * 8 in l2: told with the pictures, or with the other problems."""
    task = "{name: t, dataset: {kind: digits}, budget: {norm: l2, epsilon: 2040.001}}"
    said = "line 5, task.budget.epsilon: 2040.001 bounds nothing: two pictures differ by at most 2040 in l2; give a "
    found = contest(task=task)
    with pytest.raises(Rejected, match=r"2040\.001 bounds nothing"):
        found.make_task(found.load_samples())
    assert problems(task=task, seed="-1")[1].startswith(said)


def test_the_plug_ins_problems_come_together(problems):
    """The rules' and the dataset's problems are told at once, each at its line."""
    dataset = "{name: t, dataset: {kind: digits, first: 0, splt: test}, budget: {epsilon: 8}}"
    assert problems(task=dataset, rules="{on_mising: held, clean_floor: {points: 200}}") == [
        "line 6, rules.clean_floor.points: 200 is too large; write at most 100",
        "line 6, rules.on_mising: unknown key; did you mean 'on_missing'?",
        "line 5, task.dataset.first: 0 is too small; write more than 0",
        "line 5, task.dataset.splt: unknown key; did you mean 'split'?",
    ]


@pytest.mark.parametrize(
    ("dataset", "problem"),
    [
        ("{kind: digitz}", "task.dataset.kind: no 'digitz' among the datasets: there is digits, folder, idx, npz, zip"),
        ("{kind: base}", "task.dataset.kind: no 'base' among the datasets: there is digits, folder, idx, npz, zip"),
        ("{path: x}", "task.dataset: `kind` is missing; add it: one of digits, folder, idx, npz, zip"),
        ("{kind: 3}", "task.dataset: `kind` is missing; add it: one of digits, folder, idx, npz, zip"),
        ("{kind: npz}", "task.dataset.path: missing; add it"),
        (
            "{kind: digits, classes: [one]}",
            "task.dataset.classes: a list of 1 item is too short; write at least 2",
        ),
        ("digits", "task.dataset: 'digits' is not a mapping; write keys with their values"),
    ],
)
def test_a_dataset_is_found_by_its_kind(problems, dataset, problem):
    """An unknown kind is met with the known ones, and its options are its own."""
    [found] = problems(task=f"{{name: t, dataset: {dataset}, budget: {{epsilon: 8}}}}")
    assert found.startswith(f"line 5, {problem}")


def test_the_line_of_an_option_is_its_own(problems):
    """A dataset option that stands on its own line is found there."""
    task = "\n  name: t\n  dataset:\n    kind: digits\n    split: all\n  budget: {epsilon: 8}"
    assert problems(task=task) == ["line 9, task.dataset.split: 'all' is not allowed here; write test or train"]


@pytest.mark.parametrize("name", ["tornament", "base", "__init__", "attack-set"])
def test_a_format_is_found_by_its_name(problems, name):
    """An unknown format is refused, with the known ones where it could be a name at all."""
    [problem] = problems(format=name)
    assert problem.startswith("line 4, format: ")
    assert "tournament" in problem or "write lower case, digits, - and _" in problem


@pytest.mark.parametrize("name", ["Upper", "", "-x", "a b", "a/b", "x" * 65, "ünï", "a\n"])
def test_names_are_slugs(problems, name):
    """A contest's name is lower case, digits, dashes and underscores, at most 64 of them."""
    [problem] = problems(contest=f'"{name}"')
    assert problem.startswith("line 2, contest: ")
    assert problem.endswith(" is not allowed here; write lower case, digits, - and _")


@pytest.mark.parametrize("written", ["2026-03-01", "2026-03-01T10:00:00", "'2026-03-01T10:00:00'"])
def test_a_time_says_its_zone(problems, written):
    """A time without a zone is refused: it decides ties (A16)."""
    [problem] = problems(submissions=f"[{{folder: x, submitted: {written}}}]")
    assert problem.startswith("line 6, submissions[0].submitted: ")
    assert problem.endswith(" has no time zone; end it with Z, which is UTC, or with an offset such as +01:00")


def test_a_date_that_is_none_is_refused(problems):
    """A thirteenth month is told as such, and is no crash."""
    [problem] = problems(submissions="[{folder: x, submitted: 2026-13-01T00:00:00Z}]")
    assert problem == "file: not YAML: month must be in 1..12; correct the file"


def test_a_task_is_its_pictures_and_its_budget(contest):
    """Count, shape, classes and digest are those of the pictures that `first` leaves."""
    found = contest(task="{name: t, dataset: {kind: digits, first: 3}, budget: {norm: linf, epsilon: 8}}")
    samples = found.load_samples()
    task = found.make_task(samples)
    assert (task.name, task.count, task.shape, task.classes) == ("t", 3, (1, 8, 8), tuple("0123456789"))
    assert (task.digest, task.budget) == (samples.digest, Budget(Norm.LINF, Fraction(8)))


def test_pictures_lie_beside_the_contest_file(contest, tmp_path):
    """Relative paths start at the contest file, and what is wrong with the pictures is told at its line."""
    dataset = "{name: t, dataset: {kind: folder, path: set}, budget: {epsilon: 8}}"
    with pytest.raises(Rejected) as caught:
        contest(task=dataset).load_samples()
    [problem] = caught.value.problems
    assert str(problem).startswith(f"line 5, task.dataset: {tmp_path}/set: [Errno 2] No such file or directory")
    (tmp_path / "set" / "images").mkdir(parents=True)
    (tmp_path / "set" / "label.txt").write_text("0.png 0\n")
    Image.fromarray(np.full((2, 2), 9, np.uint8)).save(tmp_path / "set" / "images" / "0.png")
    assert contest(task=dataset).load_samples().pixels.tolist() == [[[[9, 9], [9, 9]]]]


def test_a_contest_file_is_found_from_anywhere(write, tmp_path, monkeypatch):
    """The folder is absolute even when the path was not."""
    write()
    monkeypatch.chdir(tmp_path)
    assert Contest(tmp_path.joinpath("contest.yaml").relative_to(tmp_path)).folder == tmp_path


@pytest.mark.parametrize(
    "written", ["teams", "r.example/Teams", "https://r.example", "r.example/a:1", "r.example//x", "r.example/a b"]
)
def test_a_registry_that_is_none_is_refused_where_it_stands(problems, written) -> None:
    """Such a prefix would send every name to docker.io. The file is refused when it is read, whatever plays it."""
    what = f"'{written}' is not a registry; write it like registry.example.org/teams"
    assert problems(cluster=f"{{registry: {written!r}}}") == [f"line 6, cluster.registry: {what}"]


@pytest.mark.parametrize("written", ["none", "''", "localhost:5000", "registry.example.org/teams/"])
def test_a_registry_may_have_a_port_and_a_path(contest, written) -> None:
    """So may there be none, and it may be left open."""
    assert contest(cluster=f"{{registry: {written}}}").file.cluster.registry == written.strip("'")


def test_problems_of_plugins_are_listed_with_the_files_own(contest) -> None:
    """A bad title, an unknown rule and an unknown dataset option are three problems of one message."""
    task = "{name: t, dataset: {kind: digits, frist: 5}, budget: {norm: linf, epsilon: 8}}"
    with pytest.raises(Rejected) as caught:
        contest(title="''", rules="{foo: 1}", task=task)
    text = str(caught.value)
    assert "title" in text
    assert "rules.foo: unknown key" in text
    assert "did you mean 'first'?" in text


BUDGET = "budget: {epsilon: 8}"
TWO = f"{{name: two, dataset: {{kind: digits}}, {BUDGET}}}"


def test_a_contest_may_have_several_tasks(contest):
    """Each has its own pictures and budget, and is asked for by its name."""
    listed = f"\n  - {{name: one, dataset: {{kind: digits, first: 3}}, {BUDGET}}}\n  - {TWO}"
    found = contest(task=None, tasks=listed)
    assert [len(found.load_samples(name)) for name in ("one", "two")] == [3, 500]
    assert found.make_task(found.load_samples("one"), "one").name == "one"
    with pytest.raises(UsageError, match="has several tasks"):
        found.load_samples()
    with pytest.raises(UsageError, match="has no task 'three'; it has one, two"):
        found.load_samples("three")


def test_every_tasks_problems_are_named(problems):
    """A wrong dataset of the second task is at its line, beside the wrong budget of the first."""
    wrong = TWO.replace("digits", "dgits")
    listed = f"\n  - {{name: one, dataset: {{kind: digits}}, budget: {{epsilon: 0}}}}\n  - {wrong}"
    assert problems(task=None, tasks=listed) == [
        "line 6, tasks[0].budget.epsilon: 0 is too small; write at least 1",
        "line 7, tasks[1].dataset.kind: no 'dgits' among the datasets: there is digits, folder, idx, npz, zip",
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tasks": f"\n  - {{name: one, dataset: {{kind: digits}}, {BUDGET}}}"}, "both `task` and `tasks`"),
        ({"task": None}, "task: missing; give `task`, or several under `tasks`"),
        ({"task": None, "tasks": "[]"}, "task: missing; give `task`, or several under `tasks`"),
        ({"task": None, "tasks": f"\n  - &t {{name: one, dataset: {{kind: digits}}, {BUDGET}}}\n  - *t"}, "same name"),
        ({"opens": "2026-03-02T00:00:00Z", "closes": "2026-03-02T01:00:00+01:00"}, "`closes` is not after `opens`"),
        ({"opens": "2026-03-02T00:00:00"}, "opens: 2026-03-02T00:00:00 has no time zone"),
    ],
)
def test_what_contradicts_itself_is_refused(problems, changes, said):
    """One task or several, each name once; times have a zone, and the close is after the opening."""
    [problem] = problems(**changes)
    assert said in problem


def test_two_folders_have_two_images(contest, problems, submitted, tmp_path):
    """A copy of a folder has the same `image:`; one of them would play the other's, or take its name."""
    said = "sparring: 1\nname: {}\nside: attack\ncommand: [x]\nimage: team/entry\n"
    for name in ("original", "copy"):
        submitted(said.format(name), folder=name)
    entries = "[{folder: original}, {folder: copy}]"
    with pytest.raises(Rejected) as caught:
        describe_roster(contest(submissions=entries))
    [problem] = map(str, caught.value.problems)
    assert problem in problems(submissions=entries, seed="x")
    assert "submissions[1]: its image team/entry has the same name as the image of" in problem
    assert f"{tmp_path / 'original'}, another folder; give each folder an `image:` of its own" in problem


def test_one_folder_may_enter_twice(contest, submitted):
    """Under two names; and folders whose manifests name no image are told apart by their files alone."""
    submitted("sparring: 1\nname: a\nside: attack\ncommand: [x]\nimage: team/entry\n", folder="a")
    submitted("sparring: 1\nname: b\nside: attack\ncommand: [x]\n", folder="b")
    submitted("sparring: 1\nname: c\nside: attack\ncommand: [x]\n", folder="c")
    entries = "[{folder: a}, {folder: ./a, name: again}, {folder: b}, {folder: c}]"
    assert len(describe_roster(contest(submissions=entries)).submissions) == 4


@pytest.mark.parametrize("written", ["3 bananas", "lots", "[1]"])
def test_a_size_that_is_none_is_refused_with_the_units(problems, written):
    """The units that a size may have are in the remedy: GB too, which is another number than GiB."""
    (problem,) = problems(limits=f"{{memory: {written}}}")
    assert "limits.memory" in problem
    if written != "[1]":
        assert (
            f"{written!r} is not a size; write bytes, or a number with a unit: 512MiB and 2GiB are powers of 1024"
            in problem
        )


@pytest.mark.parametrize(
    ("access", "said"),
    [
        ("{kind: decision, scores_price: 2}", "scores_price has no effect: with `kind: decision`"),
        ("{kind: scores, gradient_price: 2}", "gradient_price has no effect: with `kind: scores`"),
        ("{kind: scores, queries: 5, scores_price: 6}", "scores_price is more than `queries`"),
        ("{transcript: full}", "is for contests in which attacks query"),
    ],
)
def test_prices_and_transcripts_without_effect_are_refused(problems, access, said):
    """A price of what nobody may ask, one that nobody could pay, and a transcript where nothing is asked."""
    (problem,) = problems(access=access)
    assert said in problem


def test_each_kind_of_query_has_the_price_of_the_file(contest):
    """Kinds that are not allowed have none; the cheapest says how many pictures may be asked about."""
    access = contest(access="{kind: scores, queries: 100, decision_price: 3, scores_price: 7}").file.access.to_access()
    assert access.prices == {AccessKind.DECISION: 3, AccessKind.SCORES: 7}
    assert access.most_pictures == 33
    assert access.prices_in_words == "a label counts as 3, scores count as 7"
    assert Access().prices_in_words == ""


@pytest.mark.parametrize(("kind", "size"), [("scores", 64 + 4 * 10), ("gradient", 64 + 4 * (10 + 64))])
def test_a_transcript_that_could_be_too_large_is_refused(contest, kind, size):
    """`contest check` names the line, both sizes and the remedy; with one query less the transcript fits.

    A query of a digit of 8 x 8 takes its bytes, ten scores and perhaps a gradient.
    """
    most = MAX_TRANSCRIPT_BYTES // (size * len(contest().load_samples()))
    many = "{{kind: {}, queries: {}, transcript: full}}".format
    fits = contest(access=many(kind, most))
    fits.make_task(fits.load_samples())
    larger = contest(access=many(kind, most + 1))
    with pytest.raises(Rejected) as caught:
        larger.make_task(larger.load_samples())
    (problem,) = map(str, caught.value.problems)
    assert "access.transcript: the transcript of one attack on one defence may take 128 MiB, and on the task" in problem
    assert problem.startswith("line ")
    assert "write `transcript: digest`, or lower `access.queries` or the number of pictures" in problem
