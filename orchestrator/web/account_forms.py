"""What people say of themselves when they sign up."""

from django import forms
from django.http import HttpRequest

from orchestrator.domain.text import reject_control_characters
from orchestrator.web.models import Account

NAME_LIMIT = 120


def clean_name(name: str) -> str:
    """Returns a name as the ledger takes it. Raises forms.ValidationError."""
    try:
        return reject_control_characters(name.strip())
    except ValueError as error:
        raise forms.ValidationError(str(error)) from error


class SignupForm(forms.Form):
    """The part of the form that is not allauth's."""

    name = forms.CharField(
        max_length=NAME_LIMIT, label="Your name", help_text="As your team, the organizers and the record will have it."
    )

    def clean_name(self) -> str:
        """Returns the name."""
        return clean_name(self.cleaned_data["name"])

    def signup(self, request: HttpRequest, user: Account) -> None:
        """Keeps the name. Called by allauth once the address is known."""
        del request
        user.name = self.cleaned_data["name"]
        user.save(update_fields=["name"])


class ProfileForm(forms.ModelForm):  # type: ignore[type-arg]  # Django's own takes none while it runs
    """What people change of themselves later."""

    class Meta:
        """Which fields there are."""

        model = Account
        fields = ("name",)
        labels = {"name": "Your name"}  # noqa: RUF012  Django's own form

    def clean_name(self) -> str:
        """Returns the name."""
        return clean_name(self.cleaned_data["name"])
