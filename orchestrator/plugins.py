"""Plug-ins are files in a folder, reached by name.

A kind is a package of this software (`backends`, `contests`, `datasets`). A plug-in is a module in it whose `plugin` is
the class; `base` and names with a leading underscore are not plug-ins. There is no registry to edit.
"""

import importlib
import pkgutil
from typing import Any

from orchestrator.errors import UsageError


def names(kind: str) -> tuple[str, ...]:
    """Returns the names of all plug-ins of a kind, sorted."""
    package = importlib.import_module(f"orchestrator.{kind}")
    found = (module.name for module in pkgutil.iter_modules(package.__path__))
    return tuple(sorted(name for name in found if name != "base" and not name.startswith("_")))


def find(kind: str, name: str) -> Any:
    """Returns the plug-in class of that name. Raises UsageError, naming the others, when there is none."""
    if name not in names(kind):
        raise UsageError(f"no {name!r} among the {kind}: there is {', '.join(names(kind))}")
    return importlib.import_module(f"orchestrator.{kind}.{name}").plugin
