"""Renders pages with the reports' Jinja environment, extended with the service's own templates."""

import re
from collections.abc import Sequence
from typing import Any

from allauth.socialaccount.adapter import get_adapter
from django.contrib.messages import get_messages
from django.forms import BaseForm, BoundField
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render as django_render
from django.urls import reverse
from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from orchestrator import reports
from orchestrator.domain.text import printable
from orchestrator.web import static_files
from orchestrator.web.contest_site import current_site
from orchestrator.web.people import paragraphs
from orchestrator.web.rights import Visit, actor_of, team_slugs
from orchestrator.web.site_messages import for_site
from orchestrator.web.typed_text import typed_words

_BACKTICKS = re.compile(r"`([^`\n]+)`")
_ROW_OR_CELL = re.compile(r"<(tr|th|td)\b")


def environment(**_options: Any) -> Environment:
    """Returns the Jinja environment of pages, with the reports' filters, escaping and blocks."""
    made = reports.environment(PackageLoader("orchestrator.web"))
    made.globals.update(
        url=_url,
        static=static_files.address,
        sign_in_providers=_sign_in_providers,
        typed_words=typed_words,
        wrong_fields=wrong_fields,
    )
    made.filters.update(paragraphs=paragraphs, labelled=labelled, commands=commands)
    return made


def commands(text: str) -> Markup:
    """Returns a message as HTML, for readers of the site: what it has between backticks, such as a command, is code.

    The environment leaves markup alone, so the text is made printable and cut here as in any other place.
    """
    shown = str(escape(printable(for_site(text, str(current_site().folder.path)), reports.MAX_TEXT)))
    return Markup(_BACKTICKS.sub(r"<code>\1</code>", shown))  # noqa: S704  escaped


def wrong_fields(form: object) -> list[BoundField]:
    """Returns the visible fields of a sent form that have errors; none for anything else."""
    return [each for each in form if each.errors and not each.is_hidden] if isinstance(form, BaseForm) else []


def labelled(rows: str, headings: Sequence[str]) -> Markup:
    """Returns a table's rows with each cell's heading as its attribute `data-label`, which the style sheet shows.

    Our templates make the rows and escape all text in them, so each `<` begins a tag.
    """
    columns = iter(headings)

    def label(found: re.Match[str]) -> str:
        nonlocal columns
        if found[1] == "tr":
            columns = iter(headings)
            return found[0]
        return f'{found[0]} data-label="{escape(next(columns, ""))}"'

    return Markup(_ROW_OR_CELL.sub(label, rows))  # noqa: S704  of our own template


def _url(name: str, /, **kwargs: object) -> str:
    return reverse(name, kwargs=kwargs)


def _sign_in_providers(request: HttpRequest) -> list[tuple[str, str]]:
    """Returns the providers through which people can sign in: each one's name and the address of its form."""
    providers = get_adapter().list_providers(request)
    return [(provider.name, provider.get_login_url(request)) for provider in providers]


def page_context(request: HttpRequest) -> dict[str, object]:
    """Returns the variables that every page's template has: the contest and the visit among them."""
    site = current_site()
    visit = getattr(request, "visit", None)
    if visit is None:  # a view of allauth's, or an error before any view
        season = site.season()
        visit = Visit(request, site, season, actor_of(request, season), slugs=team_slugs(season))
    return {
        "visit": visit,
        "contest": site.contest().file,
        "closes_itself": site.contest().format.closes_itself,
        "people_grade": site.contest().format.human_grading() is not None,
        "messages": get_messages(request),
    }


def render(visit: Visit, template: str, *, status: int = 200, **values: object) -> HttpResponse:
    """Returns a page for a visit."""
    return django_render(visit.request, template, values, status=status, using="jinja2")
