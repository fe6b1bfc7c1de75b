"""Texts of a refused form. A page that does not show the form again shows them, so that they are not lost."""

from collections.abc import Iterable
from dataclasses import dataclass

from django import forms
from django.http import HttpRequest
from django.utils.safestring import SafeString


@dataclass(frozen=True, slots=True)
class TypedText:
    """A text, with the label of its field. `area` is a read-only text area, from which the person can copy it."""

    id: str
    label: str
    area: SafeString


def typed_words(form: forms.BaseForm | None) -> list[TypedText]:
    """Returns the texts typed into a form that was sent, without choices and hidden fields. Empty for None."""
    if form is None or not form.is_bound:
        return []
    return _areas(
        (str(field.label), str(field.value()))
        for field in form
        if isinstance(field.field, forms.CharField) and not field.is_hidden and field.value()
    )


def typed_in_request(request: HttpRequest) -> list[TypedText]:
    """Returns the texts of two or more words in a refused POST request, none if the request has no visit.

    A request without a visit may come from another site, or from a person without the right.
    """
    return typed_in_form(request) if hasattr(request, "visit") else []


def typed_in_form(request: HttpRequest) -> list[TypedText]:
    """Returns the texts of two or more words in a POST request whose CSRF token was checked."""
    if request.method != "POST":
        return []
    return _areas(("Your text", value) for value in map(str, request.POST.values()) if len(value.split()) > 1)


def _areas(texts: Iterable[tuple[str, str]]) -> list[TypedText]:
    found = []
    for number, (label, text) in enumerate(texts, 1):
        area = forms.Textarea({"readonly": True, "rows": 4}).render(f"typed-{number}", text, {"id": f"typed-{number}"})
        found.append(TypedText(f"typed-{number}", label, area))
    return found
