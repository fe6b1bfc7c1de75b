"""Functions stay small enough to be read. A module is one idea, however long that is."""

import ast
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


@pytest.fixture(scope="module")
def functions(modules) -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function in them, with its place."""
    return [
        (f"{path}:{node.lineno} {node.name}", node)
        for path, text in modules.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Returns how many parameters a caller can give."""
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in {"self", "cls"}])


def test_every_folder_is_looked_at(modules) -> None:
    """The tests below see the modules of every folder that holds some."""
    assert {"orchestrator", "images", "tests", "bench", "examples"} <= {path.parts[0] for path in modules}


def test_no_function_is_long(functions) -> None:
    """No function has more than 60 lines, docstring included, decorators not."""
    lengths = {place: node.end_lineno - node.lineno + 1 for place, node in functions}
    assert not {place: lines for place, lines in lengths.items() if lines > FUNCTION_LINES}


def test_few_functions_take_many_parameters(functions) -> None:
    """More than six parameters are rare, and more than eight never occur."""
    counts = {place: parameters(node) for place, node in functions}
    assert not {place: count for place, count in counts.items() if count > PARAMETERS}
    many = {place: count for place, count in counts.items() if count > MANY_PARAMETERS}
    assert len(many) <= len(counts) / 100, many
