"""The forms of teams. They check what is typed; the contest's rules are checked later."""

from collections.abc import Sequence
from typing import Any, Self

from django import forms

from orchestrator.domain.season import Entry
from orchestrator.domain.submissions import Side
from orchestrator.web.account_forms import NAME_LIMIT, clean_name
from orchestrator.web.settings import FORM_BYTES

REASON_LIMIT, TEXT_LIMIT = 2000, 10_000
"""The longest reason and the longest text that the ledger takes, in characters."""
CHOOSE = ("", "Choose")
"""The first choice of what cannot be undone: nothing is chosen before somebody chooses it."""
_WORD_LIMIT = 500
_ARCHIVE_TYPES = ".zip,.tar,.gz,.tgz"
_TOO_LARGE = f"A form takes files of up to {FORM_BYTES // 1024**2} MiB. This page has the command for larger ones."


class TeamForm(forms.Form):
    """Founds a team."""

    team = forms.CharField(
        max_length=NAME_LIMIT,
        label="Name of the team",
        help_text="Everybody sees it on boards, and it stays. The names of its people are not published.",
    )

    def clean_team(self) -> str:
        """Returns the name."""
        return clean_name(self.cleaned_data["team"])


class _SubmitForm(forms.Form):
    """A form with the task, which is shown as a choice only if there are several."""

    def __init__(self, tasks: Sequence[str], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = forms.ChoiceField(choices=[(task, task) for task in tasks], label="Task")
        if len(tasks) == 1:
            field.widget, field.initial = forms.HiddenInput(), tasks[0]
        self.fields = {"task": field, **self.fields}


class FileForm(_SubmitForm):
    """Submits a file: a submission, whose manifest gives its name and side, or pictures."""

    name = forms.CharField(
        max_length=64,
        required=False,
        label="Name",
        help_text="1 to 64 of a-z, 0-9, _ and -. Left empty, it is the file's name without its ending.",
    )
    file = forms.FileField(
        label="File",
        max_length=255,
        widget=forms.ClearableFileInput(
            attrs={"accept": _ARCHIVE_TYPES, "data-most-bytes": FORM_BYTES, "data-too-large": _TOO_LARGE}
        ),
        help_text=f"At most {FORM_BYTES // 1024**2} MiB.",
    )

    def __init__(self, tasks: Sequence[str], *args: Any, pictures: bool, **kwargs: Any) -> None:
        super().__init__(tasks, *args, **kwargs)
        if not pictures:
            del self.fields["name"]


class ImageForm(_SubmitForm):
    """Submits an image that is in a registry."""

    side = forms.ChoiceField(label="Side")
    name = forms.CharField(max_length=64, label="Name", help_text="1 to 64 of a-z, 0-9, _ and -, no _ or - first.")
    image = forms.CharField(
        max_length=_WORD_LIMIT,
        label="Image",
        help_text="With its digest, such as registry.example.org/team/player@sha256:… A tag alone may change.",
    )

    def __init__(self, tasks: Sequence[str], sides: Sequence[Side], *args: Any, **kwargs: Any) -> None:
        super().__init__(tasks, *args, **kwargs)
        self.fields["side"].choices = [(side.value, side.value) for side in sides]  # type: ignore[attr-defined]


class WithdrawForm(forms.Form):
    """Withdraws a submission."""

    reason = forms.CharField(
        max_length=REASON_LIMIT, label="Why", widget=forms.Textarea(attrs={"rows": 3}), help_text="It is published."
    )


class ReleaseForm(forms.Form):
    """The licence and source of a submission (rule A6), as they are and as they should be."""

    licence = forms.CharField(max_length=_WORD_LIMIT, required=False, label="Licence", help_text="Its SPDX id, as MIT.")
    source = forms.CharField(
        max_length=_WORD_LIMIT, required=False, label="Source", help_text="Where the source is published."
    )

    @classmethod
    def of_entry(cls, entry: Entry, data: Any = None) -> Self:
        """Returns the form with the licence and source that the ledger has now."""
        return cls(data, initial={"licence": entry.licence, "source": entry.source})

    def changed_words(self) -> dict[str, str | None]:
        """Returns the new licence and source, None for one that stays."""
        return {name: self.cleaned_data[name] if name in self.changed_data else None for name in ("licence", "source")}


class CorrectionForm(ReleaseForm):
    """Corrects a submission's licence and source."""

    reason = forms.CharField(max_length=REASON_LIMIT, label="Why it changes", help_text="It is published.")

    def clean(self) -> dict[str, Any]:
        """Refuses a correction that changes nothing."""
        if not {"licence", "source"} & set(self.changed_data):
            raise forms.ValidationError("The record already says this: change the licence, the source, or both.")
        return self.cleaned_data


class AppealForm(forms.Form):
    """Objects to a finding, or to a disqualification."""

    about = forms.ChoiceField(label="About", widget=forms.RadioSelect)
    text = forms.CharField(
        max_length=TEXT_LIMIT,
        label="What speaks against it",
        widget=forms.Textarea(attrs={"rows": 8}),
        help_text="For the review board and the organizers; it is not published.",
    )

    def __init__(self, subjects: Sequence[tuple[str, str]], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["about"].choices = subjects  # type: ignore[attr-defined]
        if len(subjects) == 1:
            self.fields["about"].initial = subjects[0][0]
