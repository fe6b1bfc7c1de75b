"""Whoever sends a form with a mistake sees at the top of the page which field is wrong, wherever the form is."""

import html
import re

from .world import PEOPLE

REASON = 2000
"""How many characters a reason may have."""


def summary(page: str) -> dict[str, str]:
    """Returns the wrong fields that the top of a page names: each label, by the id that its link leads to."""
    [told] = re.findall(r'<div class="messages" role="alert">(.*?)</div>', page, re.DOTALL) or [""]
    return {place: html.unescape(label) for place, label in re.findall(r'<a href="#([^"]+)">(.*?)</a>', told)}


def sent(world, name: str, path: str, said: dict[str, str]) -> str:
    """Returns the page that somebody is shown after a form that is refused for its fields."""
    client = world.client(next(each for each in PEOPLE if each.name == name))
    return client.post(path, said).content.decode()


def test_each_wrong_field_is_named_at_the_top_and_the_link_leads_to_it(world) -> None:
    """The title begins with the error, so that readers of screens hear of it first."""
    page = sent(world, "Olga", "/organize/announce/", {"once": "a", "title": "x" * 121, "text": ""})
    assert summary(page) == {"id_title": "Title", "id_text": "Text"}
    assert all(f'id="{place}"' in page for place in summary(page))
    assert "<title>Error: Announce" in page


def test_a_page_without_a_mistake_names_nothing(world) -> None:
    """Neither before a form is sent, nor after one that is taken."""
    client = world.client(next(each for each in PEOPLE if each.name == "Olga"))
    for page in (
        client.get("/organize/announce/").content.decode(),
        sent(world, "Olga", "/organize/announce/", {"once": "a", "title": "News", "text": "All is well."}),
    ):
        assert summary(page) == {}
        assert "<title>Announce" in page


def test_pages_of_accounts_name_wrong_fields_too(world) -> None:
    """Their forms are allauth's."""
    from django.test import Client

    page = Client(HTTP_HOST="127.0.0.1:8000").post("/account/signup/", {"email": "no address", "name": ""})
    assert list(summary(page.content.decode()).values()) == ["Email", "Your name"]


def test_choices_are_grouped_under_their_question(service) -> None:
    """An appeal is about one of several subjects: the group has the question as its legend, and ids that exist once."""
    from django.template import engines

    from orchestrator.web.team_forms import AppealForm

    template = engines["jinja2"].env.from_string('{% from "forms.html.j2" import fields %}{{ fields(form) }}')
    page = template.render(form=AppealForm([("a", "the first"), ("b", "the second")], {}))
    ids = re.findall(r' id="([^"]+)"', page)
    assert "<legend>About</legend>" in page
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'for="([^"]*)"', page)) <= set(ids)
