"""Reads and writes `label.txt`: one line per picture, `name class` (rules B6 and C1). A class is a number or a name."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from orchestrator.domain.text import parse_digits, printable
from orchestrator.errors import Problem

FILE_NAME = "label.txt"
_MAX_DIGITS = 5


@dataclass(frozen=True, slots=True)
class LabelLine:
    """One valid line: its number from 1, the picture's name in `images/`, and its class as written."""

    number: int
    name: str
    label: str

    @property
    def place(self) -> str:
        """The name of the line in errors."""
        return f"{FILE_NAME} line {self.number}"


def parse_label_lines(text: str) -> tuple[list[LabelLine], list[Problem]]:
    """Returns every valid line, and the problems of the others. Empty lines are skipped."""
    lines: list[LabelLine] = []
    problems = []
    seen: set[str] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        *name_parts, label = line.rsplit(maxsplit=1)
        parsed = LabelLine(number, "".join(name_parts).strip(), label)
        name = parsed.name
        if not name or PurePosixPath(name).name != name or name.startswith("."):
            problems.append(Problem(parsed.place, f"{printable(line)!r} is not `name class`", "write `0.png 7`"))
        elif name in seen:
            problems.append(Problem(parsed.place, f"{printable(name)!r} is listed twice", "list each picture once"))
        else:
            seen.add(name)
            lines.append(parsed)
    return lines, problems


def class_names(labels: Iterable[str]) -> list[str]:
    """Returns the classes of these labels: the numbers from 0 to the largest one, or the names, sorted."""
    found = set(labels)
    numbers = [class_number(label) for label in found]
    if found and min(numbers) >= 0:
        return [str(number) for number in range(max(numbers) + 1)]
    return sorted(found)


def class_number(label: str) -> int:
    """Returns the number that the label is, in at most five digits; -1 if it is not a number."""
    number = parse_digits(label, _MAX_DIGITS)
    return -1 if number is None else number


def class_position(label: str, classes: Sequence[str]) -> int:
    """Returns the index of a label's class, by name or else by number; -1 if there is no such class."""
    position = classes.index(label) if label in classes else class_number(label)
    return position if position < len(classes) else -1


def label_texts(labels: Iterable[int], classes: Sequence[str]) -> tuple[str, ...]:
    """Returns each picture's class for `label.txt`: its name, or its number if some name is not one word."""
    one_word = all(len(name.split()) == 1 and name.isprintable() for name in classes)
    return tuple(classes[label] if one_word else str(label) for label in labels)
