"""YAML files read into models, with every problem at its line.

YAML 1.2 through ruamel.yaml: `no` is a word, a key that occurs twice is an error, and every value knows its line. A
file may be a stranger's: whatever it makes the parser do, it is refused in words of bounded length, and soon. The
parser's work grows with the square of how deep brackets lie in each other, so depth and tokens are bounded while it
reads.
"""

import difflib
import stat
import warnings
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning
from ruamel.yaml.scanner import RoundTripScanner, ScannerError

from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected

M = TypeVar("M", bound=BaseModel)
Place = tuple[str | int, ...]
"""Keys and list positions from the top of a file down."""
SIZE_LIMIT = 1024 * 1024
SHOWN = 50
"""How many problems of one file are listed; the rest are counted."""
DEEPEST = 32
"""How deep lists and mappings may lie in each other; real files need six."""
ALIASES = 64
"""How often a file may say `*name`: each stands for a part that may be the largest there is."""
BYTES_A_TOKEN = 16
"""A file may have one token (a key, a value, a bracket) for so many of the bytes that it may have."""
_LONGEST_NUMBER = 64
_YAML = "tag:yaml.org,2002:"
"""What a file writes as two exclamation marks."""


class YamlFile:
    """A YAML mapping whose values know where they stand."""

    def __init__(self, path: Path, limit: int = SIZE_LIMIT) -> None:
        """Reads the file.

        Raises:
            Rejected: it cannot be read, exceeds `limit` bytes, `DEEPEST` levels, `ALIASES` or a token for each
                `BYTES_A_TOKEN` of those bytes, or is not one YAML mapping.
        """
        self.path = path
        self._root = _parse(path, _read(path, limit), limit // BYTES_A_TOKEN)

    def model(self, kind: type[M]) -> M:
        """Returns the file's content as a model. Raises Rejected with all problems at once."""
        try:
            return kind.model_validate(self._root)
        except ValidationError as error:
            raise Rejected(str(self.path), self.problems(kind, error)) from None

    def problems(self, kind: type[BaseModel], error: ValidationError, at: Place = ()) -> list[Problem]:
        """Returns every problem that a model found in the part of this file that begins at the key `at`."""
        found = error.errors(include_url=False)
        more = [Problem("file", f"and {len(found) - SHOWN} more problems")] if len(found) > SHOWN else []
        return [self._problem(kind, at, each) for each in found[:SHOWN]] + more

    def value(self, *place: str | int) -> Any:
        """Returns what the file has at a key, unchecked; None where it has nothing."""
        node: Any = self._root
        for key in place:
            if isinstance(node, list) and isinstance(key, int):
                node = node[key] if key < len(node) else None
            else:
                node = node.get(key) if isinstance(node, Mapping) else None
        return node

    def problem(self, place: Place, what: str, remedy: str = "") -> Problem:
        """Returns a problem at a key of this file, with its line."""
        return Problem(f"line {self.line(place)}, {_dotted(place)}", what, remedy)

    def line(self, place: Place) -> int:
        """Returns the line, from 1, of the deepest part of `place` that the file has."""
        node: Any = self._root
        line = node.lc.line
        for key in place:
            in_list = isinstance(node, CommentedSeq) and isinstance(key, int) and key < len(node)
            if not in_list and not (isinstance(node, CommentedMap) and key in node):
                break
            marks = node.lc.data or {}
            # What a merge key `<<` brought in has no line of its own here.
            line = marks[key][0] if key in marks else line
            node = node[key]
        return int(line) + 1

    def _problem(self, kind: type[BaseModel], at: Place, error: ErrorDetails) -> Problem:
        place = at + error["loc"]
        if error["type"] == "extra_forbidden":
            close = difflib.get_close_matches(str(place[-1]), _known_keys(kind), n=1)
            remedy = (
                f"did you mean {close[0]!r}?" if close else "remove it, or look its name up in docs/contest-file.md"
            )
            return self.problem(place, "unknown key", remedy)
        message = printable(error["msg"].removeprefix("Value error, "))
        given = "" if error["type"] == "missing" else f", got {_shown(error['input'])}"
        allowed = _patterns(kind).get(error.get("ctx", {}).get("pattern", ""))
        return self.problem(place, message[:1].lower() + message[1:] + given, f"write {allowed}" if allowed else "")


def _read(path: Path, limit: int) -> str:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise Rejected(str(path), [Problem("file", "not a regular file", "give the path of a YAML file")])
        if status.st_size > limit:
            raise Rejected(str(path), [Problem("file", f"{status.st_size} bytes, at most {limit}", "shorten it")])
        return path.read_text("utf-8")
    except OSError as error:
        what = error.strerror or str(error)
        raise Rejected(str(path), [Problem("file", what, "give the path of a YAML file")]) from None
    except UnicodeDecodeError as error:
        raise Rejected(str(path), [Problem("file", str(error), "store it as UTF-8")]) from None


class _TooMuch(ScannerError):
    """A text exceeds a bound, whatever else it is."""


class _Bounded(RoundTripScanner):
    """Refuses a text that is too deep, or has too many tokens, as soon as it is."""

    most = 0
    """How many tokens a text may have; for the class that `bounded` makes."""
    aliases = 0

    def add_indent(self, column: int) -> bool:
        return super().add_indent(column) and self._deeper()

    def fetch_flow_collection_start(self, TokenClass: Any, to_push: str) -> None:  # noqa: N803  the parser's name
        self._deeper()
        super().fetch_flow_collection_start(TokenClass, to_push)

    def fetch_alias(self) -> None:
        self.aliases += 1
        if self.aliases > ALIASES:
            self._refuse(f"more than {ALIASES} aliases")
        super().fetch_alias()

    def fetch_more_tokens(self) -> Any:
        if self.tokens_taken > self.most:
            self._refuse(f"more than {self.most} keys, values, brackets and comments")
        return super().fetch_more_tokens()

    def _deeper(self) -> bool:
        if len(self.indents) + len(self.flow_context) > DEEPEST:
            self._refuse(f"more than {DEEPEST} lists and mappings in each other")
        return True

    def _refuse(self, what: str) -> NoReturn:
        raise _TooMuch(None, None, what, self.reader.get_mark())

    @classmethod
    def bounded(cls, most: int) -> type["_Bounded"]:
        """Returns the scanner for a text of at most so many tokens."""
        return type(cls.__name__, (cls,), {"most": most})


def _bounded(tokens: int) -> YAML:
    """Returns a parser for one text of at most so many tokens."""
    yaml = YAML(typ="rt")
    yaml.Scanner = _Bounded.bounded(tokens)
    return yaml


def _parse(path: Path, text: str, tokens: int) -> CommentedMap:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ReusedAnchorWarning)
            _refuse_tags(path, text, _bounded(tokens))
            root = _bounded(tokens).load(text)
    except Rejected:
        raise
    except _TooMuch as error:
        place = f"line {error.problem_mark.line + 1}"
        raise Rejected(str(path), [Problem(place, error.problem, "write it shorter and flatter")]) from None
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        what = printable(f"not YAML: {error.problem or error.context}")
        raise Rejected(str(path), [Problem(f"line {line}", what, "mend this line")]) from None
    except Exception as error:  # noqa: BLE001  a bad date, number, tag or depth raises whatever Python makes of it
        what = printable(f"not YAML: {error or type(error).__name__}")
        raise Rejected(str(path), [Problem("file", what, "mend it")]) from None
    if not isinstance(root, CommentedMap):
        raise Rejected(str(path), [Problem("line 1", "not a mapping of keys to values", "start with `sparring: 1`")])
    return root


def _refuse_tags(path: Path, text: str, yaml: YAML) -> None:
    """Raises Rejected where a file says of which type a value is: the model says that, and a tag may name any."""
    if "!" not in text:
        return
    tagged = ((event.start_mark.line + 1, event.tag) for event in yaml.parse(text) if _tag(event))
    problems = [
        Problem(
            f"line {line}", f"a tag, {printable(str(tag).replace(_YAML, '!!', 1), 60)}", "write the value without it"
        )
        for line, tag in list(tagged)[:SHOWN]
    ]
    if problems:
        raise Rejected(str(path), problems)


def _tag(event: Any) -> bool:
    return getattr(event, "tag", None) is not None


def _shown(value: Any) -> str:
    """Returns a value in a few words: aliases can make a short file mean a huge one."""
    if isinstance(value, Mapping):
        return f"a mapping of {len(value)} keys"
    if isinstance(value, Collection) and not isinstance(value, str | bytes):
        return f"a list of {len(value)} items"
    if isinstance(value, int) and value.bit_length() > _LONGEST_NUMBER:
        return f"a number of {value.bit_length()} bits"
    return printable(repr(value), 60)


def _dotted(place: Place) -> str:
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
def _patterns(kind: type[BaseModel]) -> dict[str, str]:
    """Returns the patterns that the model and the models in it ask for, with what each means in words."""
    found: dict[str, str] = {}
    left: list[Any] = [kind.model_json_schema()]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            if isinstance(node.get("pattern"), str) and "description" in node:
                found[node["pattern"]] = node["description"]
            left += node.values()
        elif isinstance(node, list):
            left += node
    return found
