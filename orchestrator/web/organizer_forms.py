"""The forms of organizers and the review board."""

from django import forms

from orchestrator.domain.contest_events import Role
from orchestrator.web.form_actions import OnceForm
from orchestrator.web.team_forms import CHOOSE, REASON_LIMIT, TEXT_LIMIT, ReleaseForm

_TITLE_LIMIT = 120


class ReasonField(forms.CharField):
    """The reason of an act, which the ledger keeps."""

    def __init__(
        self, *, required: bool = True, label: str = "Reason", help_text: str = "It is kept on the record."
    ) -> None:
        super().__init__(
            max_length=REASON_LIMIT,
            required=required,
            label=label,
            help_text=help_text,
            widget=forms.Textarea({"rows": 3}),
        )


class ReasonForm(OnceForm):
    """Asks for a reason."""

    reason = ReasonField(help_text="The team reads it, and it may be published.")


class RevokeForm(OnceForm):
    """Revokes a role."""

    reason = ReasonField()


class CloseForm(OnceForm):
    """Closes submissions."""

    reason = ReasonField(required=False, help_text="Everybody sees it. You may leave it empty.")


class ReopenForm(OnceForm):
    """Receives submissions again after a close."""

    reason = ReasonField(help_text="Teams that stopped at the close want to know it; it may be published.")


class PromoteForm(OnceForm):
    """Promotes to the next round the submissions that the page showed."""

    shown = forms.CharField(widget=forms.HiddenInput, max_length=80)
    reason = ReasonField(required=False, help_text="Required if a later round has begun with those who went on before.")


class CorrectionForm(OnceForm, ReleaseForm):
    """Corrects a submission's licence and source (A6)."""

    reason = ReasonField(help_text="The team reads it, and it may be published.")


class RoundForm(OnceForm):
    """Requests a round, of one task or of all."""

    def __init__(self, tasks: list[str], *args: object) -> None:
        super().__init__(*args)
        choices = [("", "every task"), *((task, task) for task in tasks)]
        self.fields["task"] = forms.ChoiceField(required=False, label="Task", choices=choices)


class AnnouncementForm(OnceForm):
    """Publishes an announcement."""

    title = forms.CharField(max_length=_TITLE_LIMIT, label="Title")
    text = forms.CharField(
        max_length=TEXT_LIMIT,
        label="Text",
        help_text="Plain text; an empty line begins a new paragraph. Once published, it stays.",
        widget=forms.Textarea({"rows": 10}),
    )


class RulesForm(OnceForm):
    """Applies or drops the changed rules in contest.yaml that the page showed."""

    shown = forms.CharField(widget=forms.HiddenInput, max_length=80)
    decision = forms.ChoiceField(
        label="Decision",
        choices=[CHOOSE, ("apply", "Judge by them from now on"), ("drop", "Drop them")],
        help_text="Dropped rules stay in contest.yaml until somebody puts the old ones back.",
    )
    reason = ReasonField(help_text="It may be published.")


class PublishForm(OnceForm):
    """Publishes a bundle under the name that the page showed."""

    name = forms.CharField(widget=forms.HiddenInput, max_length=20)
    unfinished = forms.BooleanField(
        required=False,
        label="Publish it although rounds with the same labels are still to be played",
        help_text="Only for a full bundle: its readers know the labels of those rounds.",
    )


class InviteForm(OnceForm):
    """Invites to a role."""

    role = forms.ChoiceField(
        label="Role",
        choices=[
            (Role.RATER.value, "rater: judges pictures"),
            (Role.BOARD.value, "review board: decides appeals"),
            (Role.ORGANIZER.value, "organizer: may do everything on these pages"),
        ],
    )


class DecisionForm(OnceForm):
    """Decides an appeal."""

    decision = forms.ChoiceField(
        label="Decision",
        choices=[CHOOSE, ("uphold", "Uphold: the team is right"), ("dismiss", "Dismiss: it stays as it was")],
    )
    reason = ReasonField(help_text="The team reads it.")
