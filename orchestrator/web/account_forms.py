"""The forms in which people give their name."""

from django import forms
from django.http import HttpRequest

from orchestrator.domain.text import reject_control_characters
from orchestrator.web.models import Account

NAME_LIMIT = 120


def clean_name(name: str) -> str:
    """Returns a name without surrounding spaces. Raises forms.ValidationError if it has control characters."""
    try:
        return reject_control_characters(name.strip())
    except ValueError as error:
        raise forms.ValidationError(str(error)) from error


class SignupForm(forms.Form):
    """The field that this service adds to allauth's sign-up form."""

    name = forms.CharField(
        max_length=NAME_LIMIT,
        label="Your name",
        help_text="Your team and the organizers see it, and the contest's record keeps it.",
    )

    def clean_name(self) -> str:
        """Returns the name."""
        return clean_name(self.cleaned_data["name"])

    def signup(self, request: HttpRequest, user: Account) -> None:
        """Saves the name. allauth calls this once the address is known."""
        del request
        user.name = self.cleaned_data["name"]
        user.save(update_fields=["name"])


class ProfileForm(forms.ModelForm):  # type: ignore[type-arg]  # Django's class takes no type argument at run time
    """The form with which people change their name later."""

    class Meta:
        """The model and its fields."""

        model = Account
        fields = ("name",)
        labels = {"name": "Your name"}  # noqa: RUF012  Django expects a plain dictionary

    def clean_name(self) -> str:
        """Returns the name."""
        return clean_name(self.cleaned_data["name"])
