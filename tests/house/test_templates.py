"""Templates that a site may serve under a policy without inline style and script."""

import re

import pytest

INLINE = re.compile(r"\s(?:style|on[a-z]+)\s*=|<(?:style\b|script\b(?!\s+src=))|javascript:", re.IGNORECASE)
"""An attribute of style, a handler of an event, an element of either that holds it, or an address that is a script."""
JINJA = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", re.DOTALL)
WHOLE_FILES = {
    "orchestrator/reports/templates/base.html.j2": ["<style"],
    "orchestrator/formats/attack_set/grading/templates/grading.html.j2": ["<style", "<script", "<script"],
}
"""Heads of pages that are files by themselves, with the elements that each has; a script may be data."""


def inline_parts(template: str) -> list[str]:
    """Returns what of a template such a policy forbids."""
    return [found.strip() for found in INLINE.findall(JINJA.sub(" ", template))]


@pytest.mark.parametrize(
    ("template", "found"),
    [
        pytest.param('<b style="left: {{ at }}%">', ["style="], id="style"),
        pytest.param('<b{% if loud %}style = "color: red"{% endif %}>', ["style ="], id="conditional-style"),
        pytest.param("<a onclick=go() href='javascript:go()'>", ["onclick=", "javascript:"], id="handler-and-address"),
        pytest.param('<script src="/static/a.js" defer></script>', [], id="script-of-a-file"),
        pytest.param("<STYLE>b {}</STYLE>", ["<STYLE"], id="element"),
        pytest.param('{% set one = page.style %}<svg width="{{ one }}%"/>', [], id="set-and-svg"),
    ],
)
def test_inline_parts_are_told_from_jinja(template, found):
    """Attributes, handlers, elements and addresses are found however they are written; names in Jinja are not."""
    assert inline_parts(template) == found


def test_templates_have_no_inline_style_and_no_handler(texts):
    """Every template of ours can be served under `style-src 'self'`; only heads of whole files hold their style."""
    templates = {str(path): text for path, text in texts.items() if path.suffix == ".j2"}
    assert len(templates) >= 18
    found = {path: inline_parts(text) for path, text in templates.items()}
    assert {path: parts for path, parts in found.items() if parts} == WHOLE_FILES
