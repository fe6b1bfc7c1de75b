"""The documentation site builds without a warning, is whole, and loads nothing from elsewhere."""

import contextlib
import importlib.util
import io
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from posixpath import dirname, join, normpath
from urllib.parse import unquote, urlsplit

import pytest

from .conftest import ROOT, blocks_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("documentation site")]

ADDRESSES = {"href", "src", "srcset", "data", "poster", "action"}
"""Attributes by which a page names something else."""
ELSEWHERE = re.compile(r"^(?:[a-z]+:)?//", re.IGNORECASE)

PUBLIC = (
    "bundles.reader",
    "datasets.base",
    "domain.plan",
    "errors",
    "executors.base",
    "domain.contest_format",
    "ledger.stores.base",
    "protocol.session",
    "sandboxes.base",
    "scoring.results_file",
)
TABLE = """.. list-table::
   :header-rows: 1

   * - a
     - b
   * - ``c``
     - d"""


@dataclass
class Page(HTMLParser):
    """The parts of a page that links are about."""

    path: Path
    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    navigation: set[str] = field(default_factory=set)
    resources: list[str] = field(default_factory=list)
    """What a browser loads with the page, and where forms lead."""
    styles: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text("utf-8"))

    def handle_starttag(self, tag, attrs) -> None:
        """Sorts what a tag names."""
        values = dict(attrs)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        self.styles += values.get("style") or ""
        found = [value for name, value in attrs if name in ADDRESSES and value]
        if tag == "a":
            self.links += found
            self.navigation |= set(found) if "reference internal" in (values.get("class") or "") else set()
        else:
            self.resources += found


def build(root: Path, out: Path, *options: str) -> subprocess.CompletedProcess:
    """Runs the command of `make docs` in a checkout, with another folder for what it makes."""
    line = re.search(r"^docs: .+\n\t(.+)$", (root / "Makefile").read_text("utf-8"), re.MULTILINE)[1]
    command = line.replace("$(BIN)/python", shlex.quote(sys.executable)).replace("build/", f"{shlex.quote(str(out))}/")
    # Nothing is written beside the modules of this checkout either.
    command = command.replace(" -m ", " -B -m ", 1)
    return subprocess.run([*shlex.split(command), *options], cwd=root, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(root, tmp_path_factory) -> Path:
    """The site, built as `make docs` builds it."""
    out = tmp_path_factory.mktemp("site")
    done = build(root, out)
    assert done.returncode == 0, done.stderr[-4000:]
    assert not done.stderr
    return out / "site"


@pytest.fixture(scope="module")
def pages(site) -> dict[str, Page]:
    """Its pages, by their path from its root."""
    return {str(path.relative_to(site)): Page(path) for path in sorted(site.rglob("*.html"))}


def target(page: str, link: str) -> tuple[str, str]:
    """Returns where a link of a page leads: a path from the root, and an anchor."""
    parts = urlsplit(link)
    there = normpath(join(dirname(page), unquote(parts.path))) if parts.path else page
    return there, unquote(parts.fragment)


def test_every_page_is_in_the_navigation(pages, documents) -> None:
    """The start page's navigation leads to every Markdown file of docs/, and to those beside README.md."""
    listed = {target("index.html", link)[0] for link in pages["index.html"].navigation}
    expected = {path for path in documents if path.parts[0] == "docs" or path.parent == Path()}
    assert len(expected) > 60
    assert {str(path.with_suffix(".html")) for path in expected} - {"README.html"} <= listed


def test_the_navigation_begins_with_tutorials(site) -> None:
    """Tutorials are the first group beside every page, and what results look like is one of them."""
    groups = (site / "index.html").read_text("utf-8").split('<span class="caption-text">')[1:]
    assert groups[0].startswith("Tutorials")
    assert {"docs/submit-an-attack.html", "docs/your-own-model.html", "docs/gallery.html"} <= set(
        re.findall(r'href="([^"#]+)"', groups[0])
    )


def test_a_page_is_marked_in_the_navigation(site) -> None:
    """The navigation beside a page marks the page and the pages above it, and only the lists that it is in are open."""
    tree = (site / "docs" / "api" / "errors.html").read_text("utf-8").partition('<div class="sidebar-tree">')[2]
    marked = re.findall(r'<li class="toctree-l\d([^"]* current[^"]*)"><a [^>]*href="([^"]+)">([^<]+)</a>', tree)
    assert [words for words, *_ in marked] == [" has-children current", " current current-page"]
    assert [found for _, *found in marked] == [["../../docs/api/README.html", "Python API"], ["#", "Errors"]]
    opened = re.findall(r'checked="" aria-label="Toggle navigation of ([^"]+)"', tree)
    assert opened == ["Python API"]
    start = (site / "index.html").read_text("utf-8")
    assert start.count("Toggle navigation of ") > 2
    assert 'checked=""' not in start


def test_the_site_is_searched_without_a_server(site, pages) -> None:
    """Every page has the search field, and the index, which a page loads as a script, has words of the pages' text."""
    fields = [name for name, page in pages.items() if not any(each.endswith("search.html") for each in page.resources)]
    assert [name for name in fields if name.startswith(("docs/", "README", "index"))] == []
    index = (site / "searchindex.js").read_text("utf-8")
    assert index.startswith("Search.setIndex(")
    assert '"torch_def":' in index, "words are cut to their stems"


def test_the_pictures_of_the_gallery_are_shown(pages, site) -> None:
    """The page of what results look like shows every picture of docs/gallery/."""
    shown = {Path(each).name for each in pages["docs/gallery.html"].resources if each.endswith(".png")}
    assert shown == {path.name for path in (ROOT / "docs" / "gallery").iterdir()}


def test_every_link_of_the_site_leads_somewhere(pages, site) -> None:
    """Each link that stays in the site leads to a file that is there and, where it names one, to an anchor in it."""
    dead, seen = [], 0
    for name, page in pages.items():
        for link in (*page.links, *page.resources):
            if urlsplit(link).scheme or ELSEWHERE.match(link):
                continue
            seen += 1
            path, anchor = target(name, link)
            if not (site / path).is_file() or (anchor and path in pages and anchor not in pages[path].anchors):
                dead.append(f"{name}: {link}")
    assert seen > 10_000
    assert not dead


def test_nothing_is_loaded_from_elsewhere(pages, site) -> None:
    """No page and no style names a file on another host: the site works from a disk, and nobody learns who reads it."""
    loaded = [(name, each) for name, page in pages.items() for each in page.resources]
    foreign = [f"{name}: {each}" for name, each in loaded if urlsplit(each).scheme or ELSEWHERE.match(each)]
    styles = {path.name: path.read_text("utf-8") for path in site.rglob("*.css")}
    for name, text in [*styles.items(), *((name, page.styles) for name, page in pages.items())]:
        named = re.findall(r"""(?:url\(|@import)\s*["']?([^"')\s;]+)""", text)
        foreign += [f"{name}: {each}" for each in named if ELSEWHERE.match(each)]
    assert "furo.css" in styles
    assert not foreign


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_have_their_reference(pages, name) -> None:
    """Every public class and function of a contract, of the verifier and of the errors can be looked up."""
    module = importlib.import_module(f"orchestrator.{name}")
    own = {key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    expected = {f"{module.__name__}.{key}" for key in own if key[0] != "_" and len(key) > 1}
    assert len(expected) >= 2
    assert expected <= {
        anchor for path, page in pages.items() if path.startswith("docs/api/") for anchor in page.anchors
    }


@pytest.fixture(scope="module")
def convert(root):
    """The function of docs/site/ that turns a docstring into reStructuredText."""
    place = root / "docs" / "site" / "markdown_docstrings.py"
    spec = importlib.util.spec_from_file_location("markdown_docstrings", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda text: "\n".join(module.convert_docstring(text.splitlines()))


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("Calls `run(a, b)` of `Sandbox` 2*n times.", r"Calls ``run(a, b)`` of :py:obj:`Sandbox` 2\*n times."),
        ("The `time`s, and a_ or |b|.", r"The ``time``\ s, and a\_ or \|b\|."),
        ("A tree:\n\n    a\n    `- *b*\n\nAfter.", "A tree:\n\n::\n\n    a\n    `- *b*\n\nAfter."),
        ("Args:\n    name: of `Job`.\n\n    more", "Args:\n    name: of :py:obj:`Job`.\n\n    more"),
        ("| a | b |\n| - | - |\n| `c` | d |", TABLE),
    ],
)
def test_docstrings_are_converted(convert, markdown, expected) -> None:
    """What docstrings use of Markdown means the same afterwards, and nothing else gets a meaning."""
    assert convert(markdown) == expected


def test_a_mistake_fails_the_build(root, tmp_path) -> None:
    """Links to a file and to a heading that are not there, and a page without a place in the navigation, are errors.

    A site of three pages is enough for that: its configuration is ours, with another navigation.
    """
    copy = tmp_path / "copy"
    shutil.copytree(root / "docs" / "site", copy / "docs" / "site", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "Makefile", copy)
    with (copy / "docs" / "site" / "conf.py").open("a", encoding="utf-8") as configuration:
        configuration.write('\nnavigation = {"README": [("listed", ["docs/glossary", "docs/commands"])]}\n')
    for page, text in {
        "README.md": "# Sparring\n",
        "docs/commands.md": "# Commands\n\n## A heading\n",
        "docs/glossary.md": "# Glossary\n\n[fine](commands.md#a-heading)\n",
    }.items():
        (copy / page).write_text(text, "utf-8")
    options = ("--builder", "dummy")
    done = build(copy, tmp_path / "fine", *options)
    assert (done.returncode, done.stderr) == (0, "")
    with (copy / "docs" / "glossary.md").open("a", encoding="utf-8") as glossary:
        glossary.write("\n[one](no-such-page.md), [two](commands.md#no-such-heading), [three](../no-such-file.py)\n")
    (copy / "docs" / "forgotten.md").write_text("# Forgotten\n", "utf-8")
    done = build(copy, tmp_path / "wrong", *options)
    assert done.returncode != 0
    for mistake in ("no-such-page.md", "no-such-heading", "no-such-file.py", "forgotten.md"):
        assert [line for line in done.stderr.splitlines() if mistake in line and "WARNING" in line], done.stderr
    assert done.stderr.count("WARNING") == 4


def test_the_examples_of_the_reference_run(document) -> None:
    """Each Python block of docs/api/README.md runs, and prints what the page says."""
    blocks = blocks_of(document("api/README.md"))
    printed = io.StringIO()
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(printed):
        for block in blocks:
            if block.kind == "python":
                exec(block.text, names)  # noqa: S102  our own page
    assert [block.text for block in blocks if block.kind == "text"] == [printed.getvalue()]
    samples = names["Grey"]().load_samples(names["GreyOptions"](first=3), Path())
    assert samples.pixels.shape == (3, 1, 8, 8)
