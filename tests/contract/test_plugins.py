"""Every plug-in there is, found by listing its folder, keeps what its kind owes."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

import orchestrator
from orchestrator import plugins
from orchestrator.backends.base import BackendSettings
from orchestrator.contests.base import Format, Rules
from orchestrator.datasets.base import Dataset, Options
from orchestrator.errors import UsageError

HOUSE = Path(orchestrator.__file__).parent
KINDS = ("backends", "contests", "datasets", "engines", "stores")
FOUND = {kind: sorted(path.stem for path in (HOUSE / kind).glob("[!_]*.py") if path.stem != "base") for kind in KINDS}
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
    """The names are those of the files, without `base` and what begins with an underscore; there is at least one."""
    assert list(plugins.names(kind)) == FOUND[kind]
    assert FOUND[kind]


@pytest.mark.parametrize(("kind", "name"), ALL)
def test_a_plug_in_is_the_last_line_of_its_file(kind, name):
    """A file ends with `plugin = TheClass`, a class made there, and both the file and the class say what they are."""
    module = importlib.import_module(f"orchestrator.{kind}.{name}")
    last = ast.parse(Path(module.__file__).read_text()).body[-1]
    assert ast.unparse(last) == f"plugin = {module.plugin.__name__}"
    assert plugins.find(kind, name) is module.plugin
    assert inspect.isclass(module.plugin)
    assert module.plugin.__module__ == module.__name__
    assert module.__doc__
    assert module.plugin.__doc__


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["none", "base", "__init__", "_probe", "", "../wiring", "local.py"])
def test_a_name_that_is_no_plug_in_is_met_with_the_others(kind, name):
    """Asking for anything but a plug-in is a usage error that lists what there is."""
    with pytest.raises(UsageError) as caught:
        plugins.find(kind, name)
    assert str(caught.value) == f"no {name!r} among the {kind}: there is {', '.join(FOUND[kind])}"


@pytest.mark.parametrize("name", FOUND["datasets"])
def test_a_dataset_has_strict_options(name):
    """A dataset is named like its file, and its options refuse keys that they do not know."""
    found = plugins.find("datasets", name)
    assert issubclass(found, Dataset)
    assert found.name == name
    assert issubclass(found.options_type, Options)
    assert found.options_type.__doc__
    assert strict(found.options_type)
    assert not inspect.isabstract(found)
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        found.options_type.model_validate({"no_such_option": 1})


@pytest.mark.parametrize("name", FOUND["contests"])
def test_a_format_has_strict_rules_with_defaults(name):
    """A format is named like its file, plays with no rules written, and refuses rules that it does not know."""
    found = plugins.find("contests", name)
    assert issubclass(found, Format)
    assert found.name == name
    assert issubclass(found.rules_type, Rules)
    assert found.rules_type.__doc__
    assert strict(found.rules_type)
    assert found(found.rules_type()).rules == found.rules_type.model_validate({})
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        found.rules_type.model_validate({"no_such_rule": 1})


@pytest.mark.parametrize("name", FOUND["backends"])
def test_a_backend_is_made_from_its_settings(name, tmp_path):
    """A backend is named like its file and does everything that the seam asks for; making it starts nothing."""
    found = plugins.find("backends", name)
    assert found.name == name
    assert {"check", "examine", "admit", "start", "sweep"} <= methods(found)
    found(BackendSettings(workspace=tmp_path / "workspace"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FOUND["engines"])
def test_an_engine_runs_plans(name):
    """An engine takes a plan, what is done, how a job is performed, and where it suits."""
    found = plugins.find("engines", name)
    assert list(inspect.signature(found.run).parameters) == ["self", "plan", "done", "perform", "suits"]


@pytest.mark.parametrize("name", FOUND["stores"])
def test_a_store_keeps_entries_or_bytes(name):
    """A store is a ledger or keeps blobs, whole."""
    found = methods(plugins.find("stores", name))
    assert found >= LEDGER or found >= BLOBS
