"""Functions stay small enough to be read. A module is one idea, however long that is."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("sizes")  # every file is parsed once
FUNCTION_LINES = 60
PARAMETERS = 8
"""The most that any function may take. More than six is for at most one function in a hundred."""
MANY_PARAMETERS = 6


@pytest.fixture(scope="module")
def modules(root, files) -> dict[Path, str]:
    """Every Python file of ours."""
    return {path.relative_to(root): path.read_text("utf-8") for path in files if path.suffix == ".py"}


Function = ast.FunctionDef | ast.AsyncFunctionDef


@pytest.fixture(scope="module")
def functions(modules) -> dict[str, tuple[int, int]]:
    """Every function in them by its place: how many lines it has, and how many parameters.

    No tree is kept: the garbage collector would look at all of them again and again.
    """
    return {
        f"{path}:{node.lineno} {node.name}": (node.end_lineno - node.lineno + 1, parameters(node))
        for path, text in modules.items()
        for node in functions_in(ast.parse(text).body)
    }


def functions_in(statements: Iterable[ast.AST]) -> Iterator[Function]:
    """Yields the functions among statements and in them. No expression holds one, so none is looked into."""
    for node in statements:
        if isinstance(node, Function):
            yield node
        for inner in ("body", "handlers", "orelse", "finalbody", "cases"):
            yield from functions_in(getattr(node, inner, ()))


def test_functions_are_found_wherever_they_are() -> None:
    """A function counts in a class, a function, a branch, a loop, a handler and a case."""
    text = """
if x:
    def a(): pass
elif y:
    class C:
        async def b(self):
            def c(): pass
else:
    for _ in z:
        def d(): pass
    else:
        def e(): pass
try:
    def f(): pass
except E:
    def g(): pass
else:
    def h(): pass
finally:
    def i(): pass
match x:
    case 1:
        with y:
            def j(): pass
"""
    assert [node.name for node in functions_in(ast.parse(text).body)] == list("abcdefghij")


def parameters(function: Function) -> int:
    """Returns how many parameters a caller can give."""
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in {"self", "cls"}])


def test_every_folder_is_looked_at(modules) -> None:
    """The tests below see the modules of every folder that holds some."""
    assert {"orchestrator", "images", "tests", "bench", "examples"} <= {path.parts[0] for path in modules}


@pytest.mark.slow
def test_no_function_is_long(functions) -> None:
    """No function has more than 60 lines, docstring included, decorators not."""
    assert not {place: lines for place, (lines, _) in functions.items() if lines > FUNCTION_LINES}


@pytest.mark.slow
def test_few_functions_take_many_parameters(functions) -> None:
    """More than six parameters are rare, and more than eight never occur."""
    counts = {place: count for place, (_, count) in functions.items()}
    assert not {place: count for place, count in counts.items() if count > PARAMETERS}
    many = {place: count for place, count in counts.items() if count > MANY_PARAMETERS}
    assert len(many) <= len(counts) / 100, many
