"""YAML files read into models, with every problem at its line.

YAML 1.2 through ruamel.yaml: `no` is a word, a key that occurs twice is an error, and every value knows its line. A
file may be a stranger's: whatever it makes the parser do, it is refused in words of bounded length, and soon. The
parser's work grows with the square of how deep brackets lie in each other, so depth and tokens are bounded while it
reads.
"""

import difflib
import stat
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected

M = TypeVar("M", bound=BaseModel)
KeyPath = tuple[str | int, ...]
"""Keys and list positions from the top of a file down."""
SIZE_LIMIT = 1024 * 1024
MAX_PROBLEMS = 50
"""How many problems of one file are listed; the rest are counted."""
BYTES_PER_TOKEN = 16
"""A file may have one token (a key, a value, a bracket) for so many of the bytes that it may have."""
_SIZE_ERRORS = frozenset({"byte_size", "byte_size_unit"})
_SIZE_REMEDY = "write bytes, or a number with a unit: 512MiB and 2GiB are powers of 1024, 500MB and 2GB of 1000"
_MAX_NUMBER_BITS = 64


class YamlFile:
    """A YAML mapping whose values know where they stand."""

    def __init__(self, path: Path, limit: int = SIZE_LIMIT) -> None:
        """Reads the file.

        Raises:
            Rejected: it cannot be read, exceeds `limit` bytes, the parser's bounds or a token for each
                `BYTES_PER_TOKEN` of those bytes, or is not one YAML mapping.
        """
        from orchestrator.intake.yaml_parser import parse_yaml  # noqa: PLC0415  models alone need none of it

        self.path = path
        self._root: Any = parse_yaml(path, _read_text(path, limit), limit // BYTES_PER_TOKEN)

    def parse_model(self, kind: type[M]) -> M:
        """Returns the file's content as a model. Raises Rejected with all problems at once."""
        try:
            return kind.model_validate(self._root)
        except ValidationError as error:
            raise Rejected(str(self.path), self.validation_problems(kind, error)) from None

    def validation_problems(self, kind: type[BaseModel], error: ValidationError, at: KeyPath = ()) -> list[Problem]:
        """Returns every problem that a model found in the part of this file that begins at the key `at`."""
        found = error.errors(include_url=False)
        more = [Problem("file", f"and {len(found) - MAX_PROBLEMS} more problems")] if len(found) > MAX_PROBLEMS else []
        return [self._validation_problem(kind, at, each) for each in found[:MAX_PROBLEMS]] + more

    def value_at(self, *place: str | int) -> Any:
        """Returns what the file has at a key, unchecked; None where it has nothing."""
        node: Any = self._root
        for key in place:
            if isinstance(node, list) and isinstance(key, int):
                node = node[key] if key < len(node) else None
            else:
                node = node.get(key) if isinstance(node, Mapping) else None
        return node

    def problem_at(self, place: KeyPath, what: str, remedy: str = "") -> Problem:
        """Returns a problem at a key of this file, with its line."""
        return Problem(f"line {self.line_of(place)}, {_dotted_path(place)}", what, remedy)

    def line_of(self, place: KeyPath) -> int:
        """Returns the line, from 1, of the deepest part of `place` that the file has."""
        node: Any = self._root
        line = node.lc.line
        for key in place:
            in_list = isinstance(node, list) and isinstance(key, int) and key < len(node)
            if not in_list and not (isinstance(node, dict) and key in node):
                break
            marks = node.lc.data or {}
            # What a merge key `<<` brought in has no line of its own here.
            line = marks[key][0] if key in marks else line
            node = node[key]
        return int(line) + 1

    def _validation_problem(self, kind: type[BaseModel], at: KeyPath, error: ErrorDetails) -> Problem:
        place = at + error["loc"]
        if error["type"] == "extra_forbidden":
            close = difflib.get_close_matches(str(place[-1]), _known_keys(kind), n=1)
            remedy = (
                f"did you mean {close[0]!r}?" if close else "remove it, or look its name up in docs/contest-file.md"
            )
            return self.problem_at(place, "unknown key", remedy)
        if error["type"] in _SIZE_ERRORS:
            return self.problem_at(place, f"{_display(error['input'])} is no size", _SIZE_REMEDY)
        message = printable(error["msg"].removeprefix("Value error, "))
        given = "" if error["type"] == "missing" else f", got {_display(error['input'])}"
        allowed = _pattern_texts(kind).get(error.get("ctx", {}).get("pattern", ""))
        return self.problem_at(place, message[:1].lower() + message[1:] + given, f"write {allowed}" if allowed else "")


def _read_text(path: Path, limit: int) -> str:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise Rejected(str(path), [Problem("file", "not a regular file", "give the path of a YAML file")])
        if status.st_size > limit:
            raise Rejected(str(path), [Problem("file", f"{status.st_size} bytes, at most {limit}", "shorten it")])
        return path.read_text("utf-8")
    except OSError as error:
        problem = error.strerror or str(error)
        raise Rejected(str(path), [Problem("file", problem, "give the path of a YAML file")]) from None
    except UnicodeDecodeError as error:
        raise Rejected(str(path), [Problem("file", str(error), "store it as UTF-8")]) from None


def _display(value: Any) -> str:
    """Returns a value in a few words: aliases can make a short file mean a huge one."""
    if isinstance(value, Mapping):
        return f"a mapping of {len(value)} keys"
    if isinstance(value, Collection) and not isinstance(value, str | bytes):
        return f"a list of {len(value)} items"
    if isinstance(value, int) and value.bit_length() > _MAX_NUMBER_BITS:
        return f"a number of {value.bit_length()} bits"
    return printable(repr(value), 60)


def _dotted_path(place: KeyPath) -> str:
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return printable(text.lstrip(".")) or "file"


@lru_cache
def _known_keys(kind: type[BaseModel]) -> list[str]:
    """Returns every key that the model and the models in it know."""
    schema = kind.model_json_schema()
    keys = set(schema.get("properties", {}))
    for part in schema.get("$defs", {}).values():
        keys |= set(part.get("properties", {}))
    return sorted(keys)


@lru_cache
def _pattern_texts(kind: type[BaseModel]) -> dict[str, str]:
    """Returns the patterns that the model and the models in it ask for, with what each means in words."""
    texts: dict[str, str] = {}
    left: list[Any] = [kind.model_json_schema()]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            if isinstance(node.get("pattern"), str) and "description" in node:
                texts[node["pattern"]] = node["description"]
            left += node.values()
        elif isinstance(node, list):
            left += node
    return texts
