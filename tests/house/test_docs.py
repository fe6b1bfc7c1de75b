"""The documents say what the code does: names, keys, defaults, commands, links."""

import importlib
import re
import tomllib
from dataclasses import is_dataclass
from typing import Any, ClassVar, get_origin, get_type_hints

import pytest
import typer
from pydantic import BaseModel, TypeAdapter
from ruamel.yaml import YAML
from typer.testing import CliRunner

import orchestrator
from orchestrator import errors, plugins
from orchestrator.cli.app import app
from orchestrator.cli.console import ExitCode
from orchestrator.datasets.base import Options
from orchestrator.formats.unrestricted.money import Money
from orchestrator.intake.contest_entries import EntrySection
from orchestrator.intake.contest_file import ContestFile
from orchestrator.intake.manifest import Manifest
from orchestrator.ledger.event_registry import event_models
from orchestrator.reports.tables import ROUND_CELLS
from orchestrator.scoring.results_file import Results

KINDS = sorted(plugins.PACKAGES)
FOREIGN = ("http://", "https://", "mailto:")


def section(text: str, heading: str) -> str:
    """Returns what stands under a heading, up to the next one of its level or above."""
    level = len(heading) - len(heading.lstrip("#"))
    [_, rest] = f"\n{text}".split(f"\n{heading}\n")
    return re.split(rf"\n#{{1,{level}}} ", rest)[0]


def rows(text: str) -> list[list[str]]:
    """Returns the cells of every row of the tables in a text, headers left out."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    tables = re.sub(r"\|[^\n]*\|\n\|(?: ---+ \|)+", "", "\n".join(lines))
    return [line[2:-2].split(" | ") for line in tables.splitlines() if line.startswith("|")]


def words(cell: str) -> list[str]:
    """Returns what stands in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def below(model: Any) -> list[type[BaseModel]]:
    """Returns the models in an annotation; a dataclass that pydantic checks is one too."""
    if isinstance(model, type) and (issubclass(model, BaseModel) or is_dataclass(model)):
        return [model]
    return [found for part in getattr(model, "__args__", ()) for found in below(part)]


def keys(model: type[BaseModel], prefix: str = "") -> dict[str, Any]:
    """Returns every key of a model and of the mappings in it, dotted, with its field."""
    found = {}
    for attribute, field in model.model_fields.items():
        name = field.alias or attribute
        inside = [inner for inner in below(field.annotation) if inner not in (EntrySection, Money)]
        if not inside or (not field.is_required() and field.default is None):
            found[prefix + name] = field
        for inner in inside:
            found |= keys(inner, f"{prefix}{name}.")
    return found


def rule_keys(name: str) -> dict[str, Any]:
    """Returns every key of a format's rules, those that may be null as a whole included."""
    model = plugins.load_plugin("formats", name).rules_type
    whole = {f"rules.{key}": field for key, field in model.model_fields.items() if type(None) in _parts(field)}
    return keys(model, "rules.") | whole


def _parts(field: Any) -> tuple[Any, ...]:
    return getattr(field.annotation, "__args__", ())


def _limits(part: Any) -> list[float]:
    """Returns the smallest and the largest value that a constraint of a field allows, as far as it says."""
    found = [getattr(part, name, None) for name in ("ge", "le")]
    return [float(limit) for limit in found if limit is not None]


def _below(prefix: str, expected: dict[str, Any]) -> dict[str, Any]:
    """Returns the default of each key below a prefix such as `task.*`, by the rest of the key."""
    start = prefix.removesuffix("*")
    return {key.removeprefix(start): field.get_default() for key, field in expected.items() if key.startswith(start)}


def agree(table: str, expected: dict[str, Any]) -> None:
    """Asserts that a table has a row for each key, and that its range and its default are the field's own.

    A row such as `tasks.*` says that the keys below are those of another row, such as `task.*`.
    """
    written = {words(row[0])[0]: row for row in rows(table) if words(row[0])}
    same = {key: words(written.pop(key)[1])[0] for key in list(written) if key.endswith(".*")}
    for key, other in same.items():
        assert _below(key, expected) == _below(other, expected) != {}, key
    left = {key: field for key, field in expected.items() if not key.startswith(tuple(key[:-1] for key in same))}
    assert set(written) == set(left)
    for key, row in written.items():
        field, bounds = left[key], re.match(r"([\d.]+) to ([\d.]+)", row[1].replace(",", ""))
        limits = [limit for part in field.metadata for limit in _limits(part)]
        assert not bounds or len(limits) < 2 or limits == [float(bounds[1]), float(bounds[2])], key
        if field.is_required() or row[2] == "see below":
            assert field.is_required() == (row[2] == "required"), key
            continue
        value = YAML(typ="safe").load(words(row[2])[0])
        default = field.get_default()
        assert value == default or TypeAdapter(field.rebuild_annotation()).validate_python(value) == default, key


def every(kind: type) -> list[type]:
    """Returns a class and all that derive from it."""
    return [kind, *(found for child in kind.__subclasses__() for found in every(child))]


def test_every_error_has_its_heading(document) -> None:
    """docs/limits-and-errors.md#code is there for each code, and for nothing else."""
    headings = re.findall(r"^### (.+)$", document("limits-and-errors.md"), re.MULTILINE)
    assert sorted(headings) == sorted({error.code for error in every(errors.SparringError)})


def test_every_error_shows_a_message(document) -> None:
    """Each error that can be raised has an example that begins with its code."""
    for error in every(errors.SparringError):
        text = section(document("limits-and-errors.md"), f"### {error.code}")
        assert error.code in {"error", "submission"} or f"\n    {error.code}: " in text, error.code


def test_every_reason_has_its_row(document, root) -> None:
    """The reasons of a protocol fault are those of schemas/protocol.md, in its order."""
    specified = rows(section((root / "schemas" / "protocol.md").read_text("utf-8"), "## Reasons"))
    explained = rows(section(document("limits-and-errors.md"), "### protocol"))
    assert [row[0] for row in explained] == [row[0] for row in specified]


def test_every_contest_file_key_has_its_row(document) -> None:
    """Every key stands in docs/contest-file.md with its real default."""
    text = document("contest-file.md")
    chapters = [
        section(text, f"### {name}") for name in ("The contest", "The task", "Limits", "Replay", "Access", "Cluster")
    ]
    agree("\n".join(chapters), keys(ContestFile))
    agree(section(text, "### Entries"), keys(EntrySection))
    agree(section(text, "### The manifest"), keys(Manifest))


def test_every_dataset_has_its_section(document) -> None:
    """Every kind of dataset is described with its own options; what all share stands once."""
    text = document("contest-file.md")
    shared = keys(Options)
    agree(section(text, "## Datasets").split("\n### ")[0], shared)
    assert re.findall(r"^### Dataset `(.+)`$", text, re.MULTILINE) == list(plugins.plugin_names("datasets"))
    for name in plugins.plugin_names("datasets"):
        own = keys(plugins.load_plugin("datasets", name).options_type)
        agree(section(text, f"### Dataset `{name}`"), {key: own[key] for key in own if key not in shared})


def test_every_format_has_its_section(document) -> None:
    """Every contest format is described with its rules and their defaults."""
    text = document("contest-file.md")
    assert re.findall(r"^## Format `(.+)`$", text, re.MULTILINE) == list(plugins.plugin_names("formats"))
    for name in plugins.plugin_names("formats"):
        table = section(text, f"## Format `{name}`").split("\n| rule |")[0]
        agree(table, rule_keys(name))
        assert all(re.search(r"[A-Z]\d+", row[3]) for row in rows(table))


def test_the_example_contest_passes(document, root, tmp_path) -> None:
    """The contest file that docs/contest-file.md shows is accepted as it stands, in the root of a clone."""
    (tmp_path / "contest.yaml").write_text(document("contest-file.md").split("```yaml\n")[1].split("```")[0], "utf-8")
    for folder in ("images", "examples"):
        (tmp_path / folder).symlink_to(root / folder)
    done = CliRunner().invoke(app, ["contest", "check", str(tmp_path / "contest.yaml")])
    assert done.exit_code == 0, done.output
    assert "50 pictures" in done.output


def test_every_command_has_its_section(document) -> None:
    """Every command stands in docs/commands.md, and the tables have only options that it has."""
    text = document("commands.md")
    common = {words(row[0])[0] for row in rows(text.split("\nCommon options:\n")[1].split("\n## ")[0])}
    known = set()

    def check(group: Any, path: str) -> set[str]:
        seen = set()
        for name, command in group.commands.items():
            here = f"{path} {name}"
            if hasattr(command, "commands"):
                seen |= check(command, here)
                continue
            if command.hidden:  # a former name
                continue
            options = {o for parameter in command.params for o in parameter.opts if o.startswith("--")}
            told = rows(section(text, f"## `{here}`"))
            assert {word for row in told for word in words(row[0])[:1] if word.startswith("--")} <= options, here
            known.update(options)
            seen.add(here)
        return seen

    assert set(re.findall(r"^## `(.+)`$", text, re.MULTILINE)) == check(typer.main.get_command(app), "sparring")
    assert common <= known


def test_every_former_name_has_its_row(document) -> None:
    """docs/commands.md lists each former name with that of today, which does the same and has it in its help."""
    table = rows(document("commands.md").split("\nThese former names still work:\n")[1].split("\n\n`")[0])
    names = {words(row[0])[0]: words(row[1])[0] for row in table}
    renamed = {former: now for former, now in names.items() if "--" not in former}

    def found(group: Any, path: str) -> dict[str, Any]:
        each = {f"{path} {name}": command for name, command in group.commands.items()}
        return each | {k: v for name, c in each.items() if hasattr(c, "commands") for k, v in found(c, name).items()}

    commands = found(typer.main.get_command(app), "sparring")
    hidden = {name for name, command in commands.items() if command.hidden and not hasattr(command, "commands")}
    assert hidden == set(renamed)
    for former, now in renamed.items():
        assert commands[former].help == commands[now].help
        assert f"`{former}`" in commands[now].help
    for name in (name for name in names if "--" in name):
        command, option = name.rsplit(" ", 1)
        assert any(option in parameter.opts for parameter in commands[command].params)


def test_every_exit_code_has_its_row(document) -> None:
    """docs/commands.md lists the exit codes that commands use."""
    table = rows(document("commands.md").split("\nThese former names still work:\n")[0])
    assert [int(row[0]) for row in table] == [code.value for code in ExitCode]


def test_every_result_has_its_row(document) -> None:
    """docs/results.md explains every field of results.json."""

    def fields(model: type, prefix: str = "") -> set[str]:
        found = set()
        for name, kind in get_type_hints(model).items():
            if get_origin(kind) is ClassVar:
                continue
            many = "[]" if get_origin(kind) is list else ""
            inside = below(kind)
            found |= fields(inside[0], f"{prefix}{name}{many}.") if inside else set()
            found |= set() if inside and not prefix else {prefix + name}
        return found

    text = section(document("results.md"), "## `results.json`")
    assert {word for row in rows(text) for word in words(row[0])} == fields(Results)


def test_every_column_has_its_row(document) -> None:
    """docs/results.md lists the columns of cells.csv in their order."""
    table = rows(section(document("results.md"), "## `cells.csv`"))
    assert tuple(word for row in table for word in words(row[0])) == tuple(column.name for column in ROUND_CELLS)


def test_every_event_has_its_row(document) -> None:
    """docs/results.md lists every kind of event with its fields; it says once that all of a contest have an actor."""
    kinds = event_models()
    table = {
        words(row[0])[0]: words(row[2]) for row in rows(section(document("results.md"), "## The ledger"))[: len(kinds)]
    }
    assert list(table) == list(kinds)
    for kind, model in kinds.items():
        shared = {"kind", "actor", "reason"} if "." in kind else {"kind", "actor"}
        assert set(model.model_fields) - shared <= set(table[kind]), kind


def test_every_plugin_is_named(document) -> None:
    """docs/architecture.md lists every plug-in of every kind."""
    table = {words(row[0])[0]: words(row[1]) for row in rows(section(document("architecture.md"), "## Plug-ins"))}
    assert table == {kind: list(plugins.plugin_names(kind)) for kind in KINDS}


def test_the_glossary_is_in_order(document) -> None:
    """Words stand in alphabetical order, each once, each with a place in the code that exists."""
    table = rows(document("glossary.md"))
    assert [row[0] for row in table] == sorted({row[0] for row in table})
    for row in table:
        places = words(row[2])
        assert places, row[0]
        for place in places:
            module, _, name = place.rpartition(".")
            assert hasattr(importlib.import_module(f"orchestrator.{module}"), name), place


def test_every_dependency_is_explained(document, root) -> None:
    """docs/dependencies.md has a row for each requirement and each lock file, and no other."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    names = {re.match(r"[\w.-]+", line)[0] for line in project["dependencies"] + extras}
    text = document("dependencies.md")
    explained = {words(row[0])[0] for row in rows(text)}
    locks = {str(path.relative_to(root)) for path in (root / "images").rglob("requirements*.lock")}
    assert explained == (names - {"sparring"}) | locks


def test_every_target_is_explained(root) -> None:
    """CONTRIBUTING.md lists the targets of the Makefile."""
    targets = re.search(r"^\.PHONY: (.+)$", (root / "Makefile").read_text("utf-8"), re.MULTILINE)[1].split()
    table = rows(section((root / "CONTRIBUTING.md").read_text("utf-8"), "## Begin"))
    assert sorted(words(row[0])[0] for row in table) == sorted(f"make {target}" for target in targets)


def test_this_version_is_in_the_changelog(root) -> None:
    """CHANGELOG.md has a section for what is to come and one for this version."""
    headings = re.findall(r"^## \[(.+?)\]", (root / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[:2] == ["Unreleased", orchestrator.__version__]


def test_this_version_is_cited(root) -> None:
    """CITATION.cff and README.md name the version of the package; its metadata has no other of its own."""
    cited = YAML(typ="safe").load((root / "CITATION.cff").read_text("utf-8"))
    settings = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    project, place = settings["project"], settings["tool"]["hatch"]["version"]["path"]
    assert (project.get("version"), project["dynamic"]) == (None, ["version"])
    assert (root / place).samefile(str(orchestrator.__file__))
    assert cited["version"] == orchestrator.__version__
    assert f"version {orchestrator.__version__}." in (root / "README.md").read_text("utf-8")
    assert cited["license"] == project["license"]


def test_decisions_are_short_and_whole(root) -> None:
    """Records are numbered without a gap, and each has situation, choice and price in at most 25 lines."""
    paths = sorted({*(root / "docs" / "decisions").iterdir()} - {root / "docs" / "decisions" / "README.md"})
    assert [path.name[:5] for path in paths] == [f"{number:04}-" for number in range(1, len(paths) + 1)]
    for number, path in enumerate(paths, start=1):
        text = path.read_text("utf-8")
        assert text.startswith(f"# {number}. ")
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Situation", "Choice", "Price"], path.name
        assert len(text.splitlines()) <= 25, path.name


def test_a_decision_is_called_by_its_number(documents) -> None:
    """A link whose text names a decision's number leads to the record of that number."""
    named = re.compile(r"\[decision (\d+)\]\([^)\s]*?(\d{4})-", re.IGNORECASE)
    found = [(path, *pair) for path, text in documents.items() for pair in named.findall(text)]
    assert len(found) > 20
    assert [each for each in found if int(each[1]) != int(each[2])] == []


def anchors(text: str) -> set[str]:
    """Returns the anchors of a document's headings, as code hosts make them."""
    headings = re.findall(r"^#{1,6} (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_leads_somewhere(documents, root) -> None:
    """Every relative link in a document names a file that is there, and a heading that is in it."""
    dead, seen = [], 0
    for path, text in documents.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
            if target.startswith(FOREIGN):
                continue
            seen += 1
            name, _, anchor = target.partition("#")
            there = (root / path).parent / name if name else root / path
            if not there.exists() or (anchor and anchor not in anchors(there.read_text("utf-8"))):
                dead.append(f"{path}: {target}")
    assert seen > 20
    assert not dead


MENTIONED = {
    "documents": re.compile(r"(?<![\w./-])((?:orchestrator|images|schemas|tests|bench|docs|examples|\.ci)/[\w./-]*\w)"),
    "code": re.compile(r"(?<![\w./-])((?:docs|schemas)/[\w./-]+\.(?:md|json)|images/[\w/]+\.(?:sh|lock|md))"),
}


@pytest.mark.parametrize("where", MENTIONED)
def test_every_file_that_is_mentioned_is_there(where, documents, texts, root) -> None:
    """No document, message or docstring speaks of a file that is not in the repository."""
    code = {path: text for path, text in texts.items() if path.suffix in {".py", ".sh", ".yaml", ".toml"}}
    missing, seen = [], 0
    for path, text in (documents if where == "documents" else code).items():
        for name in MENTIONED[where].findall(text):
            seen += 1
            missing += [] if (root / name).exists() else [f"{path}: {name}"]
    assert seen > 10
    assert not missing
