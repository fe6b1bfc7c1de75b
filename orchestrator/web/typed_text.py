"""What somebody typed and was refused: a page that does not show the form again shows this, so that nothing is lost."""

from collections.abc import Iterable
from dataclasses import dataclass

from django import forms
from django.http import HttpRequest
from django.utils.safestring import SafeString


@dataclass(frozen=True, slots=True)
class TypedText:
    """One text, with the label of its field. `area` shows it as it is: to be selected and copied, not to be sent."""

    id: str
    label: str
    area: SafeString


def typed_words(form: forms.BaseForm | None) -> list[TypedText]:
    """Returns what was typed into a form that was sent, without what was chosen; nothing of None."""
    if form is None or not form.is_bound:
        return []
    return _areas(
        (str(field.label), str(field.value()))
        for field in form
        if isinstance(field.field, forms.CharField) and not field.is_hidden and field.value()
    )


def typed_in_request(request: HttpRequest) -> list[TypedText]:
    """Returns what of a refused request is more than a word. Nothing where it may be another site's, or a visitor's.

    Only a request that has its visit was found to come from a form of ours.
    """
    if request.method != "POST" or not hasattr(request, "visit"):
        return []
    return _areas(("Your text", value) for value in map(str, request.POST.values()) if len(value.split()) > 1)


def _areas(texts: Iterable[tuple[str, str]]) -> list[TypedText]:
    found = []
    for number, (label, text) in enumerate(texts, 1):
        area = forms.Textarea({"readonly": True, "rows": 4}).render(f"typed-{number}", text, {"id": f"typed-{number}"})
        found.append(TypedText(f"typed-{number}", label, area))
    return found
