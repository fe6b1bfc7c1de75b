"""Adapters with which this service changes allauth's behaviour."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.core.mail import EmailMessage
from django.http import HttpRequest
from django.urls import reverse

from orchestrator.web.contest_site import current_site, web_settings
from orchestrator.web.mail import TEXTS


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth has no types
    """Who may sign up, and the words of mails and messages."""

    error_messages = DefaultAccountAdapter.error_messages | {
        "too_many_login_attempts": "Too many tries. Wait a minute, then ask for a new code.",
        "incorrect_code": "This is not the code. Try again, or ask for a new one.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Returns True: anybody may have an account. Teams and roles decide what a person may do."""
        del request
        return True

    def render_mail(
        self,
        template_prefix: str,
        email: str | list[str],
        context: dict[str, Any],
        headers: dict[str, str] | None = None,
    ) -> EmailMessage:
        """Returns a mail with a text of `mail.TEXTS` in place of allauth's template."""
        subject, text = TEXTS[template_prefix]
        words = {
            "code": context.get("code", ""),
            "contest": current_site().contest().file.title,
            "address": web_settings().address,
            "signup_url": web_settings().address + reverse("account_signup"),
            "login_url": web_settings().address + reverse("account_request_login_code"),
        }
        to = [email] if isinstance(email, str) else email
        return EmailMessage(
            " ".join(subject.format(**words).split()), text.format(**words), self.get_from_email(), to, headers=headers
        )

    def send_account_already_exists_mail(self, email: str) -> None:
        """Mails a person who signs up again that the account exists. The page does not say so to anybody."""
        self.send_mail("account/email/account_already_exists", email, {})


class ProviderAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]  # allauth has no types
    """What an account takes from a provider when a person signs up through it."""

    def populate_user(self, request: HttpRequest, sociallogin: Any, data: dict[str, Any]) -> Any:
        """Returns the account as the provider describes it, before it is saved."""
        account = super().populate_user(request, sociallogin, data)
        account.name = str(data.get("name") or "")
        return account

    def get_signup_form_initial_data(self, sociallogin: Any) -> dict[str, Any]:
        """Returns the initial values of the sign-up form, with the provider's name, which the person can change."""
        initial: dict[str, Any] = super().get_signup_form_initial_data(sociallogin)
        return {**initial, "name": sociallogin.user.name}
