"""Forms of which a page has one for each row of a list, such as each waiting team."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from django import forms
from django.utils.html import format_html

Row = tuple[Mapping[str, str], str]
"""The values of the hidden fields of a row's form, and the row's name in its labels."""


class RowForm(forms.Form):
    """The form of one row. Labels with `{}` name the row."""

    row_fields: ClassVar[tuple[str, ...]]
    """The names of the hidden fields that identify the row."""

    def __init__(self, data: Mapping[str, Any] | None = None, *, about: str = "", **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        about = about or " ".join(str((data or {}).get(name, "")) for name in self.row_fields)
        for field in self.fields.values():
            if field.label and "{}" in field.label:
                field.label = format_html(str(field.label), about)


def row_forms(kind: type[RowForm], rows: Iterable[Row], sent: forms.BaseForm | None = None) -> list[RowForm]:
    """Returns a form for each row: the sent one with what was typed, the others empty."""
    data = sent.data if isinstance(sent, kind) else {}
    return [
        kind(
            data if data and all(data.get(name) == row[name] for name in kind.row_fields) else None,
            about=about,
            initial=dict(row),
            auto_id=f"{kind.__name__.lower()}-{number}-%s",
        )
        for number, (row, about) in enumerate(rows, 1)
    ]


def lost_form(sent: forms.BaseForm | None, *shown: Iterable[forms.BaseForm]) -> forms.BaseForm | None:
    """Returns the sent form if its row no longer exists, so that the page can still show what was typed; else None."""
    return sent if sent is not None and not any(form.is_bound for several in shown for form in several) else None
