"""Reads YAML files into models, and reports every problem with its line.

Files are YAML 1.2, read with ruamel.yaml: `no` is a word, a key that occurs twice is an error, and every value has its
line number. A file may be a stranger's: whatever it makes the parser do, it is refused soon, with a message of bounded
length. The parser's work grows with the square of the depth of nested brackets, so depth and tokens are bounded while
it reads.
"""

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from orchestrator.domain.field_errors import KeyPath, dotted_path, field_errors
from orchestrator.errors import Problem, Rejected

M = TypeVar("M", bound=BaseModel)
SIZE_LIMIT = 1024 * 1024
MAX_PROBLEMS = 50
"""The most problems of one file that are listed; the rest are counted."""
BYTES_PER_TOKEN = 16
"""A file may have one token (a key, a value, a bracket) for each 16 bytes of its size limit."""


class YamlFile:
    """A YAML mapping with the line number of every value."""

    def __init__(self, path: Path, limit: int = SIZE_LIMIT) -> None:
        """Reads the file.

        Raises:
            Rejected: it cannot be read, exceeds `limit` bytes, the parser's bounds or a token for each
                `BYTES_PER_TOKEN` of those bytes, or is not one YAML mapping.
        """
        # Users of models alone do not need the parser.
        from orchestrator.intake.yaml_parser import YamlTextError, parse_yaml  # noqa: PLC0415  see above

        self.path = path
        try:
            self._root: Any = parse_yaml(self._read_text(limit), limit // BYTES_PER_TOKEN)
        except YamlTextError as error:
            raise self.rejection(*error.problems) from None

    def parse_model(self, kind: type[M]) -> M:
        """Returns the file's content as a model. Raises Rejected with all problems."""
        try:
            return kind.model_validate(self._root)
        except ValidationError as error:
            raise self.rejection(*self.validation_problems(kind, error)) from None

    def validation_problems(self, kind: type[BaseModel], error: ValidationError, at: KeyPath = ()) -> list[Problem]:
        """Returns the problems of a model's ValidationError about the part of this file below the key `at`."""
        found = field_errors(error, kind)
        more = [Problem("file", f"and {len(found) - MAX_PROBLEMS} more problems")] if len(found) > MAX_PROBLEMS else []
        return [self.problem_at(at + each.path, each.what, each.remedy) for each in found[:MAX_PROBLEMS]] + more

    def value_at(self, *place: str | int) -> Any:
        """Returns the value at a key, unchecked; None if there is none."""
        node: Any = self._root
        for key in place:
            if isinstance(node, list) and isinstance(key, int):
                node = node[key] if key < len(node) else None
            else:
                node = node.get(key) if isinstance(node, Mapping) else None
        return node

    def problem_at(self, place: KeyPath, what: str, remedy: str = "") -> Problem:
        """Returns a problem at a key of this file, with its line."""
        return Problem(f"line {self.line_of(place)}, {dotted_path(place) or 'file'}", what, remedy)

    def line_of(self, place: KeyPath) -> int:
        """Returns the line, from 1, of the deepest part of `place` that the file has."""
        node: Any = self._root
        line = node.lc.line
        for key in place:
            in_list = isinstance(node, list) and isinstance(key, int) and key < len(node)
            if not in_list and not (isinstance(node, dict) and key in node):
                break
            marks = node.lc.data or {}
            # A value from a merge key `<<` has no line of its own here.
            line = marks[key][0] if key in marks else line
            node = node[key]
        return int(line) + 1

    def rejection(self, *problems: Problem) -> Rejected:
        """Returns the error that refuses this file for these problems."""
        return Rejected(str(self.path), problems)

    def _read_text(self, limit: int) -> str:
        try:
            status = self.path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise self.rejection(Problem("file", "not a regular file", "give the path of a YAML file"))
            if status.st_size > limit:
                raise self.rejection(Problem("file", f"{status.st_size} bytes, at most {limit}", "shorten it"))
            return self.path.read_text("utf-8")
        except OSError as error:
            problem = error.strerror or str(error)
            raise self.rejection(Problem("file", problem, "give the path of a YAML file")) from None
        except UnicodeDecodeError as error:
            raise self.rejection(Problem("file", str(error), "store it as UTF-8")) from None
