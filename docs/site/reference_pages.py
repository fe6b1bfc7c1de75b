"""What Sphinx cannot do by itself for the API reference.

It shows a type under the name that the code gives it: `Event`, and not the union of fifty classes that it stands for.
Python forgets the name of an alias when it makes an annotation. Before Sphinx looks at a module, the annotations are
therefore made once more from the module's text, with a class of the alias's name in its place. This changes the modules
in the process that builds the site, after everything in them was made, and nothing else.
"""

import ast
import builtins
import importlib
import inspect
import re
import sys
import types
import typing
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy.typing as npt
from docutils import nodes
from pydantic import BaseModel
from sphinx import addnodes
from sphinx.application import Sphinx

ALIAS = re.compile(r"[A-Z]\w*[a-z]\w*")
PACKAGE = "orchestrator"
MEMBERS = {"attribute", "method", "property", "classmethod", "staticmethod"}
BEFORE_CONTENTS = 100
"""Sphinx collects a page's contents at the same event, at 500."""


class Bare:
    """Stands for `Annotated`: of a type and what pydantic is told about it, the type is shown."""

    def __class_getitem__(cls, items: tuple[Any, ...]) -> Any:
        return items[0]


def _stand_in(module: str, name: str) -> type:
    """Returns a class that Sphinx shows as `module.name`, with parameters where the annotation has some."""
    members = {"__module__": module, "__qualname__": name, "__class_getitem__": classmethod(types.GenericAlias)}
    return type(name, (), members)


def find_aliases() -> dict[int, tuple[Any, type]]:
    """Returns the aliases of all modules of the package that are loaded: by the id of what each stands for."""
    found: dict[int, tuple[Any, type]] = {id(npt.NDArray): (npt.NDArray, _stand_in("numpy.typing", "NDArray"))}
    for module in [each for name, each in sys.modules.items() if name.split(".")[0] == PACKAGE]:
        for node in _parse(module).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                value = getattr(module, name, None)
                if ALIAS.fullmatch(name) and typing.get_origin(value) is not None:
                    found[id(value)] = (value, _stand_in(module.__name__, name))
    return found


def name_types(module: types.ModuleType, aliases: dict[int, tuple[Any, type]]) -> None:
    """Makes the annotations of a module's functions and classes again, with names in place of aliases."""
    names = {name: aliases[id(value)][1] for name, value in vars(module).items() if id(value) in aliases}
    _name_in(_parse(module).body, module, {**vars(module), **names, "Annotated": Bare})


def _parse(module: types.ModuleType) -> ast.Module:
    return ast.parse(Path(inspect.getfile(module)).read_text("utf-8"))


def _name_in(body: list[ast.stmt], owner: Any, names: dict[str, Any]) -> None:
    for node in body:
        if isinstance(node, ast.FunctionDef):
            function = inspect.unwrap(_function(vars(owner)[node.name]))
            function.__annotations__ = _annotations(_parameters(node), names)
        elif isinstance(node, ast.ClassDef):
            kind = vars(owner)[node.name]
            fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
            written = [(each.target.id, each.annotation) for each in fields if isinstance(each.target, ast.Name)]
            _name_fields(kind, _annotations(written, names))
            _name_in(node.body, kind, names)


def _function(member: Any) -> Any:
    """Returns the function of a method, a class method or a property."""
    for attribute in ("__func__", "fget", "func"):
        member = getattr(member, attribute, None) or member
    return member


def _parameters(node: ast.FunctionDef) -> list[tuple[str, ast.expr | None]]:
    given = node.args
    every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    return [*((each.arg, each.annotation) for each in every if each), ("return", node.returns)]


def _annotations(written: list[tuple[str, ast.expr | None]], names: dict[str, Any]) -> dict[str, Any]:
    return {name: eval(ast.unparse(kind), names) for name, kind in written if kind}  # noqa: S307  our own source text


def _name_fields(kind: type, fields: dict[str, Any]) -> None:
    """Sets the annotations of a class, and those of the parameters by which its fields are given."""
    kind.__annotations__ = fields
    if not (is_dataclass(kind) or issubclass(kind, BaseModel)):
        return
    signature = inspect.signature(kind)
    given = signature.parameters.values()
    parameters = [each.replace(annotation=fields.get(each.name, each.annotation)) for each in given]
    kind.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]


def _name_all(app: Sphinx) -> None:
    modules = [importlib.import_module(name) for name in app.config.public_modules]
    aliases = find_aliases()
    for module in modules:
        name_types(module, aliases)
    # An alias is shown by its name; it leads somewhere only if it has a docstring.
    app.config.nitpick_ignore |= {
        ("py:class", f"{kind.__module__}.{kind.__qualname__}") for _, kind in aliases.values()
    }


def unlink_builtins(_app: Sphinx, page: nodes.document) -> None:
    """Makes text of the names of Python's own types, which would otherwise lead to a field that is called `type`."""
    for link in list(page.findall(addnodes.pending_xref)):
        if link.get("refdomain") == "py" and hasattr(builtins, link["reftarget"]):
            link.replace_self(nodes.Text(link["reftarget"]))


def shorten_contents(_app: Sphinx, page: nodes.document) -> None:
    """Leaves the members of classes out of the contents beside a page: there are too many to find anything in them."""
    for described in page.findall(addnodes.desc):
        if described["objtype"] in MEMBERS:
            for signature in described.findall(addnodes.desc_signature):
                signature["_toc_name"] = ""


def tidy_signature(*event: Any) -> tuple[str | None, str | None]:
    """Leaves out how a class is made where nobody makes one: enumerations, and protocols that others implement.

    A default that is made anew for each object is three dots, since Sphinx can read these as Python.
    """
    _app, _what, _name, found, _options, signature, returned = event
    if isinstance(found, type) and (issubclass(found, Enum) or getattr(found, "_is_protocol", False)):
        return "", None
    return signature and signature.replace("<factory>", "..."), returned


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers it with Sphinx."""
    app.add_config_value("public_modules", [], "env")
    app.connect("builder-inited", _name_all)
    app.connect("autodoc-process-signature", tidy_signature)
    app.connect("doctree-read", unlink_builtins)
    app.connect("doctree-read", shorten_contents, priority=BEFORE_CONTENTS)
    return {"parallel_read_safe": False}
