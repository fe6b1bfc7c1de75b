"""Plug-ins, reached by name.

A kind of plug-in is a package of this software, and a plug-in of ours is a module or a package in it that assigns
`plugin`: the class, or where that is to be found as "module:Class", so that naming it loads nothing. Other
distributions add theirs as entry points of the group `sparring.<kind>`, such as `sparring.formats`. There is no
registry to edit.
"""

import importlib
import pkgutil
import re
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
"""Kind -> the package that ours lie in, and whose `base` says what a plug-in owes."""
_ASSIGNED = re.compile(r"^plugin = ", re.MULTILINE)


def plugin_names(kind: str) -> tuple[str, ...]:
    """Returns the names of all plug-ins of a kind, sorted."""
    return tuple(sorted({*_own_names(kind), *_entry_points(kind)}))


def load_plugin(kind: str, name: str) -> Any:
    """Returns the plug-in class of that name.

    Raises:
        UsageError: there is none, with the names that there are; or one of another distribution cannot be loaded, or
            bears the name of one of ours.
    """
    if name in _own_names(kind):
        plugin = importlib.import_module(f"{PACKAGES[kind]}.{name}").plugin
        return pkgutil.resolve_name(plugin) if isinstance(plugin, str) else plugin
    foreign = _entry_points(kind)
    if name not in foreign:
        raise UsageError(f"no {name!r} among the {kind}: there is {', '.join(plugin_names(kind))}")
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
    """Returns what other distributions add. Raises UsageError where one bears the name of one of ours."""
    entries = {entry.name: entry for entry in entry_points(group=f"sparring.{kind}")}
    if both := sorted(entries.keys() & _own_names(kind)):
        problem = f"{both[0]!r} among the {kind} is ours, and {entries[both[0]].value} bears its name"
        raise UsageError(f"{problem}; remove the distribution that adds it")
    return entries
