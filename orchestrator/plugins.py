"""Loads plug-ins by name.

Each kind of plug-in has a package of this software. Our plug-ins are the modules and packages in it that assign
`plugin`: the class, or its place as "module:Class", so that listing plug-ins imports none. Other distributions add
plug-ins as entry points of the group `sparring.<kind>`, such as `sparring.formats`. There is no registry to edit.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from orchestrator.errors import UsageError

PACKAGES = {
    "datasets": "orchestrator.datasets",
    "executors": "orchestrator.executors",
    "formats": "orchestrator.formats",
    "sandboxes": "orchestrator.sandboxes",
    "stores": "orchestrator.ledger.stores",
}
"""Kind -> the package of our plug-ins, whose module `base` defines the interface."""
_ASSIGNED = re.compile(r"^plugin = ", re.MULTILINE)


def plugin_names(kind: str) -> tuple[str, ...]:
    """Returns the names of all plug-ins of a kind, sorted."""
    return tuple(sorted({*_own_names(kind), *_entry_points(kind)}))


def load_plugin(kind: str, name: str, other_names: Iterable[str] = ()) -> Any:
    """Returns the plug-in class of that name. `other_names` are what else the user may choose.

    Raises:
        UsageError: there is no such plug-in, with the known names; or another distribution's plug-in cannot be loaded,
            or has the name of one of ours.
    """
    if name in _own_names(kind):
        plugin = importlib.import_module(f"{PACKAGES[kind]}.{name}").plugin
        return pkgutil.resolve_name(plugin) if isinstance(plugin, str) else plugin
    foreign = _entry_points(kind)
    if name not in foreign:
        known = ", ".join(sorted({*other_names, *plugin_names(kind)}))
        raise UsageError(f"no {name!r} among the {kind}: there is {known}")
    try:
        return foreign[name].load()
    except (ImportError, AttributeError) as error:
        problem = f"{name!r} among the {kind} is {foreign[name].value}, which cannot be loaded: {error}"
        raise UsageError(f"{problem}; install the distribution that adds it again") from error


@cache
def _own_names(kind: str) -> frozenset[str]:
    package = PACKAGES[kind]
    path = importlib.import_module(package).__path__
    return frozenset(found.name for found in pkgutil.iter_modules(path) if _is_plugin(f"{package}.{found.name}"))


def _is_plugin(module: str) -> bool:
    """Returns whether a module assigns `plugin`, without running it."""
    spec = find_spec(module)
    return spec is not None and spec.origin is not None and bool(_ASSIGNED.search(Path(spec.origin).read_text("utf-8")))


def _entry_points(kind: str) -> dict[str, EntryPoint]:
    """Returns the plug-ins of other distributions by name. Raises UsageError if one has the name of one of ours."""
    entries = {entry.name: entry for entry in entry_points(group=f"sparring.{kind}")}
    if both := sorted(entries.keys() & _own_names(kind)):
        problem = f"{both[0]!r} among the {kind} is ours, and {entries[both[0]].value} bears its name"
        raise UsageError(f"{problem}; remove the distribution that adds it")
    return entries
