"""Makes tables that break no number and no word, however narrow the terminal is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.table import Table

from orchestrator.cli.console import out

_BESIDE: Final = 2
"""The characters of a column in addition to its text."""
_LONGEST_WORD: Final = 40
"""A longer word, such as an id of 64 characters, may be broken, so that other columns have room."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title and its cells, which must be safe for the terminal. Sentences may be wrapped at spaces."""

    title: str
    cells: Sequence[str]
    is_number: bool = False
    is_sentence: bool = False

    @property
    def full_width(self) -> int:
        """The width at which nothing is wrapped, including the space beside the text."""
        return max(map(cell_len, (self.title, *self.cells)), default=0) + _BESIDE

    @property
    def least_width(self) -> int:
        """The width at which only titles and sentences are wrapped, at spaces."""
        parts = [word for cell in self.cells for word in cell.split()] if self.is_sentence else self.cells
        return min(max(map(cell_len, (*self.title.split(), *parts)), default=0), _LONGEST_WORD) + _BESIDE


def fitting_tables(columns: Sequence[Column], key: int = 0, styles: Sequence[str | None] = ()) -> Iterator[Table]:
    """Yields the columns as one table, or as several if the terminal is too narrow for one.

    Args:
        columns: the columns from left to right.
        key: the index of the column that names a row. All tables have it; those after the first begin with it.
        styles: the style of each row; empty for plain rows.
    """
    width = out.width - 1  # the edge on the left
    group: list[Column] = []
    for column in columns:
        if len(group) > (columns[key] in group) and sum(c.least_width for c in [*group, column]) > width:
            yield _table(group, width, styles)
            group = [columns[key]]
        group.append(column)
    yield _table(group, width, styles)


def _table(columns: Sequence[Column], width: int, styles: Sequence[str | None]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    narrow = sum(column.full_width for column in columns) > width
    fits = sum(column.least_width for column in columns) <= width
    # Left to itself, rich narrows columns below their longest word.
    widths: Sequence[int | None] = _shared_widths(columns, width) if narrow and fits else [None] * len(columns)
    for column, column_width in zip(columns, widths, strict=True):
        whole = not column.is_sentence and column.full_width <= _LONGEST_WORD
        widest = max(map(cell_len, column.cells), default=0)
        table.add_column(
            "\n".join(column.title.split()) if narrow and cell_len(column.title) > widest else column.title,
            justify="right" if column.is_number else "left",
            no_wrap=whole,
            overflow="fold",
            width=column_width,
        )
    for number, row in enumerate(zip(*(column.cells for column in columns), strict=True)):
        table.add_row(*row, style=styles[number] if styles else None)
    return table


def _shared_widths(columns: Sequence[Column], width: int) -> list[int]:
    """Returns the width of each column's text: at least its longest word; columns of sentences share the rest."""
    widths = [column.least_width for column in columns]
    left = width - sum(widths)
    sentences = [place for place, column in enumerate(columns) if column.is_sentence]
    for number, place in enumerate(sorted(sentences, key=lambda each: columns[each].full_width)):
        taken = min(columns[place].full_width - widths[place], left // (len(sentences) - number))
        widths[place], left = widths[place] + taken, left - taken
    return [each - _BESIDE for each in widths]
