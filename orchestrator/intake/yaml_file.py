"""YAML files read into models, with every problem at its line.

YAML 1.2 through ruamel.yaml: `no` is a word, a key that occurs twice is an error, and every value knows its line.
"""

import difflib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected

M = TypeVar("M", bound=BaseModel)
Place = tuple[str | int, ...]
"""Keys and list positions from the top of a file down."""
SIZE_LIMIT = 1024 * 1024


class YamlFile:
    """A YAML mapping whose values know where they stand."""

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises Rejected when it cannot be read or is not one YAML mapping."""
        self.path = path
        self._root = _load(path)

    def model(self, kind: type[M]) -> M:
        """Returns the file's content as a model. Raises Rejected with all problems at once."""
        try:
            return kind.model_validate(self._root)
        except ValidationError as error:
            raise Rejected(str(self.path), self.problems(kind, error)) from None

    def problems(self, kind: type[BaseModel], error: ValidationError, at: Place = ()) -> list[Problem]:
        """Returns every problem that a model found in the part of this file that begins at the key `at`."""
        return [self._problem(kind, at, found) for found in error.errors(include_url=False)]

    def problem(self, place: Place, what: str, remedy: str = "") -> Problem:
        """Returns a problem at a key of this file, with its line."""
        return Problem(f"line {self.line(place)}, {_dotted(place)}", what, remedy)

    def line(self, place: Place) -> int:
        """Returns the line, from 1, of the deepest part of `place` that the file has."""
        node: Any = self._root
        line = node.lc.line
        for key in place:
            if isinstance(node, CommentedMap) and key in node:
                line = node.lc.key(key)[0]
            elif isinstance(node, CommentedSeq) and isinstance(key, int) and key < len(node):
                line = node.lc.item(key)[0]
            else:
                break
            node = node[key]
        return int(line) + 1

    def _problem(self, kind: type[BaseModel], at: Place, error: ErrorDetails) -> Problem:
        place = at + tuple(part for part in error["loc"] if not str(part).startswith(("function-", "tagged-")))
        if error["type"] == "extra_forbidden":
            close = difflib.get_close_matches(str(place[-1]), _known_keys(kind), n=1)
            remedy = (
                f"did you mean {close[0]!r}?" if close else "remove it, or look its name up in docs/contest-file.md"
            )
            return self.problem(place, "unknown key", remedy)
        message = printable(error["msg"].removeprefix("Value error, "))
        given = "" if error["type"] == "missing" else f", got {printable(repr(error['input']), 60)}"
        return self.problem(place, message[:1].lower() + message[1:] + given)


def _load(path: Path) -> CommentedMap:
    try:
        if path.stat().st_size > SIZE_LIMIT:
            raise Rejected(str(path), [Problem("file", f"larger than {SIZE_LIMIT} bytes", "split it")])
        root = YAML(typ="rt").load(path.read_text("utf-8"))
    except OSError as error:
        raise Rejected(
            str(path), [Problem("file", error.strerror or str(error), "give the path of a YAML file")]
        ) from None
    except UnicodeDecodeError as error:
        raise Rejected(str(path), [Problem("file", str(error), "store it as UTF-8")]) from None
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        what = printable(f"not YAML: {error.problem or error.context}")
        raise Rejected(str(path), [Problem(f"line {line}", what, "mend this line")]) from None
    except YAMLError as error:
        raise Rejected(str(path), [Problem("file", printable(f"not YAML: {error}"), "mend it")]) from None
    if not isinstance(root, CommentedMap):
        raise Rejected(str(path), [Problem("line 1", "not a mapping of keys to values", "start with `sparring: 1`")])
    return root


def _dotted(place: Place) -> str:
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return printable(text.lstrip(".")) or "file"


def _known_keys(kind: type[BaseModel]) -> list[str]:
    """Returns every key that the model and the models in it know."""
    schema = kind.model_json_schema()
    keys = set(schema.get("properties", {}))
    for part in schema.get("$defs", {}).values():
        keys |= set(part.get("properties", {}))
    return sorted(keys)
