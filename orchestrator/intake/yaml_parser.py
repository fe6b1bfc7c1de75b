"""The YAML parser of `YamlFile`: ruamel.yaml with bounds, for text that strangers wrote.

It is a module of its own because its import is slow, and code that only needs the models of files reads none.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning
from ruamel.yaml.scanner import RoundTripScanner, ScannerError

from orchestrator.domain.text import printable
from orchestrator.errors import Problem

_MAX_SHOWN = 50
"""The most problems of one file that are listed."""
MAX_DEPTH = 32
"""The greatest depth of nested lists and mappings; real files need six."""
MAX_ALIASES = 64
"""The most aliases `*name` in a file: each may stand for its largest part."""
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_YAML = "tag:yaml.org,2002:"
"""The prefix of tags that a file writes as two exclamation marks."""


class YamlTextError(Exception):
    """A text is not YAML, is not one mapping, or exceeds a bound; `problems` has the reasons."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(*problems)


class _BoundExceededError(ScannerError):
    """A text exceeds a bound, whether or not it is valid YAML."""


class _BoundedScanner(RoundTripScanner):
    """Refuses a text as soon as it is nested too deeply, or has too many tokens or aliases."""

    most = 0
    """The most tokens of a text; set in the class that `bounded` returns."""
    aliases = 0

    def add_indent(self, column: int) -> bool:
        return super().add_indent(column) and self._deeper()

    def fetch_flow_collection_start(self, TokenClass: Any, to_push: str) -> None:  # noqa: N803  the parser's name
        self._deeper()
        super().fetch_flow_collection_start(TokenClass, to_push)

    def fetch_alias(self) -> None:
        self.aliases += 1
        if self.aliases > MAX_ALIASES:
            self._refuse(f"more than {MAX_ALIASES} aliases")
        super().fetch_alias()

    def fetch_more_tokens(self) -> Any:
        if self.tokens_taken > self.most:
            self._refuse(f"more than {self.most} keys, values, brackets and comments")
        return super().fetch_more_tokens()

    def _deeper(self) -> bool:
        if len(self.indents) + len(self.flow_context) > MAX_DEPTH:
            self._refuse(f"more than {MAX_DEPTH} lists and mappings nested in each other")
        return True

    def _refuse(self, problem: str) -> NoReturn:
        raise _BoundExceededError(None, None, problem, self.reader.get_mark())

    @classmethod
    def bounded(cls, most: int) -> type["_BoundedScanner"]:
        """Returns a scanner class for texts of at most `most` tokens."""
        return type(cls.__name__, (cls,), {"most": most})


def _bounded_yaml(tokens: int) -> YAML:
    """Returns a parser for one text of at most `tokens` tokens."""
    yaml = YAML(typ="rt")
    yaml.Scanner = _BoundedScanner.bounded(tokens)
    return yaml


def parse_yaml(text: str, tokens: int) -> CommentedMap:
    """Returns the mapping that a text of at most `tokens` tokens contains. Raises YamlTextError if it contains none.

    The last few mappings are kept, so callers must not change them: a site reads the same contest file for every
    request, and parsing it takes longer than most requests.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ReusedAnchorWarning)
            _refuse_values(text, _bounded_yaml(tokens))
            root = _load(text, tokens)
    except YamlTextError:
        raise
    except _BoundExceededError as error:
        place = f"line {error.problem_mark.line + 1}"
        raise YamlTextError([Problem(place, error.problem, "write a shorter file with less nesting")]) from None
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problem = printable(f"not YAML: {error.problem or error.context}")
        raise YamlTextError([Problem(f"line {line}", problem, "correct this line")]) from None
    except Exception as error:  # noqa: BLE001  a bad date, number, tag or depth raises various Python exceptions
        problem = printable(f"not YAML: {error or type(error).__name__}")
        raise YamlTextError([Problem("file", problem, "correct the file")]) from None
    if not isinstance(root, CommentedMap):
        raise YamlTextError([Problem("line 1", "not a mapping of keys to values", "start with `sparring: 1`")])
    return root


@lru_cache(maxsize=8)
def _load(text: str, tokens: int) -> Any:
    return _bounded_yaml(tokens).load(text)


def _refuse_values(text: str, yaml: YAML) -> None:
    """Raises YamlTextError if a value has a tag, which names its type, or contains half a character.

    The model decides the type of a value, and a tag may name any type. Half a character, a lone surrogate, comes from
    an escape; no record can keep one, and no program can receive one.
    """
    if "!" not in text and "\\u" not in text.lower():
        return
    found = ((event.start_mark.line + 1, problem) for event in yaml.parse(text) for problem in _value_problems(event))
    problems = [Problem(f"line {line}", what, remedy) for line, (what, remedy) in list(found)[:_MAX_SHOWN]]
    if problems:
        raise YamlTextError(problems)


def _value_problems(event: Any) -> Iterator[tuple[str, str]]:
    """Yields each problem of a parser's event for a value, with the remedy."""
    if (tag := getattr(event, "tag", None)) is not None:
        yield f"a tag, {printable(str(tag).replace(_YAML, '!!', 1), 60)}", "write the value without it"
    if _HALF_CHARACTER.search(getattr(event, "value", "")):
        yield f"half a character in {printable(repr(event.value), 60)}", "write the character itself"
