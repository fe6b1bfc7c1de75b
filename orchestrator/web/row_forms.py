"""Forms about one row of a list, such as one of the teams that wait. Each is on a page of its own.

Two forms on one page would lose what somebody typed into one of them when the other is sent.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self
from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest
from django.utils.html import format_html

Row = tuple[Mapping[str, str], str]
"""The values of a form's hidden fields, which identify the row, and the row's name."""


class RowForm(forms.Form):
    """The form of one row. Labels with `{}` name the row."""

    row_fields: ClassVar[tuple[str, ...]]
    """The names of the hidden fields that identify the row."""

    def __init__(self, data: Mapping[str, Any] | None = None, *, about: str = "", **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        self.about = about
        for field in self.fields.values():
            if field.label and "{}" in field.label:
                field.label = format_html(str(field.label), about or "this row")

    @classmethod
    def of_request(cls, request: HttpRequest, rows: Iterable[Row]) -> Self:
        """Returns the form that a request sends or asks for. Its `about` is "" if its row is not in the list."""
        given = request.POST if request.method == "POST" else request.GET
        row = {name: str(given.get(name, "")) for name in cls.row_fields}
        about = next((name for values, name in rows if values == row), "")
        return cls(request.POST, about=about) if request.method == "POST" else cls(about=about, initial=row)


def row_links(address: str, rows: Iterable[Row]) -> list[tuple[str, str]]:
    """Returns the address of each row's form and the name of the row."""
    return [(f"{address}?{urlencode(values)}", name) for values, name in rows]
