"""The texts of mails, and a backend that logs mails if no mail server is configured."""

from collections.abc import Iterable, Mapping, Sequence

from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend

from orchestrator.logs import get_logger

_log = get_logger()
_NOT_YOU = "If it was not you, ignore this mail: without the code nothing happens."
_UNKNOWN = (
    "Somebody asked for a code to sign in to {contest} with this address, and no account has it.\n\n"
    "To sign up, go to {signup_url}\n\nIf it was not you, ignore this mail.\n"
)
_KNOWN = (
    "Somebody asked to sign up at {contest} with this address, which has an account already.\n\n"
    "To sign in, go to {login_url}\n\nIf it was not you, ignore this mail.\n"
)
_CODE = (
    "{code} is your code for {contest}",
    f"Your code for {{contest}} ({{address}}) is\n\n{{code}}\n\nIt is valid for 15 minutes.\n\n{_NOT_YOU}\n",
)
TEXTS: Mapping[str, tuple[str, str]] = {
    "account/email/login_code": _CODE,
    "account/email/email_confirmation": _CODE,
    "account/email/email_confirmation_signup": _CODE,
    "account/email/unknown_account": ("No account at {contest}", _UNKNOWN),
    "account/email/account_already_exists": ("You have an account at {contest}", _KNOWN),
}
"""Subject and text of each mail, by the name that allauth gives it."""


def send(addresses: Iterable[str], subject: str, text: str) -> None:
    """Sends a separate mail to each of these addresses. A failure is logged and raises nothing: the act stands."""
    for address in addresses:
        try:
            EmailMessage(" ".join(subject.split()), text, to=[address]).send()
        except OSError as error:  # also smtplib's errors if the mail server refuses
            _log.warning("mail_failed", subject=subject, reason=str(error))


class LogBackend(BaseEmailBackend):
    """Writes mails to the log instead of sending them, for a trial on one's own machine."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        """Logs each mail; returns how many there were."""
        for message in email_messages:
            lines = message.body.splitlines()
            _log.warning("mail_not_sent", to=message.to, subject=message.subject, text_lines=lines)
        return len(email_messages)
