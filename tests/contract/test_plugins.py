"""Every plug-in there is, found by listing its folder, keeps what its kind owes."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from orchestrator import plugins
from orchestrator.datasets.base import Dataset, Options
from orchestrator.domain.contest_format import Format, FormatRules
from orchestrator.errors import UsageError
from orchestrator.sandboxes.base import BackendSettings

KINDS = tuple(sorted(plugins.PACKAGES))
FOUND = {
    "datasets": ["digits", "folder", "idx", "npz", "zip"],
    "executors": ["kubernetes", "local"],
    "formats": ["attack_set", "tournament", "unrestricted", "warmup"],
    "sandboxes": ["docker", "pod", "process", "runc"],
    "stores": ["folder", "memory", "sql"],
}
ALL = [(kind, name) for kind, names in FOUND.items() for name in names]
LEDGER = {"head", "append", "read", "close"}
BLOBS = {"put", "get"}


def methods(plugin):
    """Returns the public names of a class."""
    return {name for name in dir(plugin) if not name.startswith("_")}


def models(model):
    """Returns a model and every model in it."""
    found = {model}
    for field in model.model_fields.values():
        for part in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if inspect.isclass(part) and issubclass(part, BaseModel):
                found |= models(part)
    return found


def strict(model):
    """Tells whether a model, and every model in it, is frozen and refuses keys that it does not know."""
    return all((m.model_config.get("extra"), m.model_config.get("frozen")) == ("forbid", True) for m in models(model))


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_of_a_kind_is_a_plug_in(kind):
    """The names are those of the modules and packages that assign `plugin`; helpers beside them are none."""
    assert list(plugins.plugin_names(kind)) == FOUND[kind]


@pytest.mark.parametrize(("kind", "name"), ALL)
def test_a_plug_in_is_the_last_line_of_its_file(kind, name):
    """A module ends with `plugin = TheClass`, a package's __init__ with where it is; all say what they are."""
    module = importlib.import_module(f"{plugins.PACKAGES[kind]}.{name}")
    found = plugins.load_plugin(kind, name)
    last = ast.unparse(ast.parse(Path(module.__file__).read_text()).body[-1])
    place = repr(f"{found.__module__}:{found.__name__}") if hasattr(module, "__path__") else found.__name__
    assert last == f"plugin = {place}"
    assert inspect.isclass(found)
    assert found.__module__.startswith(module.__name__)
    assert module.__doc__
    assert found.__doc__


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name", ["none", "base", "__init__", "_probe", "", "../domain", "local.py", "linux", "image_files"]
)
def test_a_name_that_is_no_plug_in_is_met_with_the_others(kind, name):
    """Asking for anything but a plug-in is a usage error that lists what there is."""
    with pytest.raises(UsageError) as caught:
        plugins.load_plugin(kind, name)
    assert str(caught.value) == f"no {name!r} among the {kind}: there is {', '.join(FOUND[kind])}"


def added(tmp_path, monkeypatch, entry):
    """Puts a distribution that adds a plug-in on the path, as pip would install it."""
    (tmp_path / "elsewhere.py").write_text("class Echo:\n    name = 'echo'\n")
    (tmp_path / "elsewhere-1.dist-info").mkdir()
    (tmp_path / "elsewhere-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1\n")
    (tmp_path / "elsewhere-1.dist-info" / "entry_points.txt").write_text(f"[sparring.formats]\n{entry}\n")
    monkeypatch.syspath_prepend(tmp_path)


def test_another_distribution_adds_one(tmp_path, monkeypatch):
    """An entry point of the group `sparring.formats` is a format like ours."""
    added(tmp_path, monkeypatch, "echo = elsewhere:Echo")
    assert plugins.plugin_names("formats") == ("attack_set", "echo", "tournament", "unrestricted", "warmup")
    assert plugins.load_plugin("formats", "echo").name == "echo"
    assert plugins.load_plugin("formats", "tournament").name == "tournament"


@pytest.mark.parametrize(
    ("entry", "name", "message"),
    [
        ("echo = elsewhere:Gone", "echo", "cannot be loaded: module 'elsewhere' has no attribute 'Gone'; install"),
        ("echo = nowhere:Echo", "echo", "cannot be loaded: No module named 'nowhere'; install"),
        ("tournament = elsewhere:Echo", "none", "is ours, and elsewhere:Echo bears its name; remove"),
    ],
)
def test_another_distributions_mistake_is_named(tmp_path, monkeypatch, entry, name, message):
    """What cannot be loaded, or takes the name of one of ours, is a usage error with the remedy."""
    added(tmp_path, monkeypatch, entry)
    with pytest.raises(UsageError, match=message):
        plugins.load_plugin("formats", name)


@pytest.mark.parametrize("name", FOUND["datasets"])
def test_a_dataset_has_strict_options(name):
    """A dataset is named like its file, and its options refuse keys that they do not know."""
    found = plugins.load_plugin("datasets", name)
    assert issubclass(found, Dataset)
    assert found.name == name
    assert issubclass(found.options_type, Options)
    assert found.options_type.__doc__
    assert strict(found.options_type)
    assert not inspect.isabstract(found)
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        found.options_type.model_validate({"no_such_option": 1})


@pytest.mark.parametrize("name", FOUND["formats"])
def test_a_format_has_strict_rules_with_defaults(name):
    """A format is named like its file, plays with no rules written, and refuses rules that it does not know."""
    found = plugins.load_plugin("formats", name)
    assert issubclass(found, Format)
    assert found.name == name
    assert issubclass(found.rules_type, FormatRules)
    assert found.rules_type.__doc__
    assert strict(found.rules_type)
    assert found(found.rules_type()).rules == found.rules_type.model_validate({})
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        found.rules_type.model_validate({"no_such_rule": 1})


@pytest.mark.parametrize("name", FOUND["sandboxes"])
def test_a_backend_is_made_from_its_settings(name, tmp_path):
    """A backend is named like its file and does everything that the seam asks for; making it starts nothing."""
    found = plugins.load_plugin("sandboxes", name)
    assert found.name == name
    assert {"require_available", "diagnose", "admit", "start", "clean_up"} <= methods(found)
    found(BackendSettings(workspace=tmp_path / "workspace"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FOUND["executors"])
def test_an_engine_runs_plans(name):
    """An engine takes a plan, what is done, how a job is performed, and where it suits."""
    found = plugins.load_plugin("executors", name)
    assert list(inspect.signature(found.run).parameters) == [
        "self",
        "plan",
        "finished_jobs",
        "make_job",
        "prefers_device",
    ]


@pytest.mark.parametrize("name", FOUND["stores"])
def test_a_store_keeps_entries_or_bytes(name):
    """A store is a ledger or keeps blobs, whole."""
    found = methods(plugins.load_plugin("stores", name))
    assert found >= LEDGER or found >= BLOBS
