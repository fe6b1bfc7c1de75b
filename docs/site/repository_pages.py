"""The site's pages are the repository's files: their navigation, and links to files that are no page.

- The pages below a page stand in `navigation` in conf.py, not in the Markdown files, so that these look right on a code
  host too.
- A link to a folder leads to its README.md, if that is a page, and is plain text otherwise.
- A link to any other file leads to a page that shows the file.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from furo.navigation import get_navigation_tree
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.environment.adapters.toctree import global_toctree_for_doc
from sphinx.transforms import SphinxTransform

SHOWN = "files"
"""The folder of the site in which the pages of files lie."""
LINK = '<a class="reference internal" href="'
"""How a link of the navigation begins."""


def add_navigation(app: Sphinx, name: str, source: list[str]) -> None:
    """Appends to a page the list of the pages below it."""
    for heading, pages in app.config.navigation.get(name, []):
        options = [":titlesonly:"] if heading == "listed" else [":hidden:"]
        options += [f":caption: {heading}"] if heading not in {"", "listed"} else []
        options += [":glob:"] if any("*" in page for page in pages) else []
        # A name that begins with a slash is counted from the root and not from the page's folder; `Title </name>` gives
        # a page another title in the navigation than it has itself.
        names = [page if page.endswith(">") else f"/{page}" for page in pages]
        lines = ["```{toctree}", *options, "", *names, "```"]
        source[0] += "\n" + "\n".join(lines) + "\n"


def leave_out_navigation(*event: Any) -> None:
    """Stops the theme from making the navigation anew for each page, which was a third of the time of a build."""
    context: dict[str, Any] = event[3]
    del context["toctree"]


def show_navigation(*event: Any) -> None:
    """Gives a page the navigation, which is made once as for the start page, and marks the page in it."""
    app, page, _, context, _ = event
    if not hasattr(app, "navigation_html"):
        chosen = {"collapse": False, "titles_only": True, "maxdepth": -1, "includehidden": True}
        entries = global_toctree_for_doc(app.env, app.config.root_doc, app.builder, tags=app.tags, **chosen)
        app.navigation_html = get_navigation_tree(app.builder.render_partial(entries)["fragment"])
    marked = mark_page(app.navigation_html, page, app.env.toctree_includes)
    context["furo_navigation_tree"] = re.sub(f"{LINK}(?!#)", LINK + "../" * page.count("/"), marked)


def mark_page(navigation: str, page: str, below: dict[str, list[str]]) -> str:
    """Returns the navigation with what the theme's style needs to show a page, and to open the lists that it is in.

    `below` names the pages that are directly below each page.
    """
    above = {each: name for name, pages in below.items() for each in pages}
    name, marks, target = page, "current current-page", "#"
    while name in above:
        before, _, after = navigation.partition(f'{LINK}{name}.html">')
        # A box that follows the link says whether the list below is open.
        after = re.sub("^([^<]*</a><input) ", r'\1 checked="" ', after)
        navigation = before.removesuffix('">') + f' {marks}">{LINK}{target}">{after}'
        name = above[name]
        marks, target = "current", f"{name}.html"
    return navigation


class FileLinks(SphinxTransform):
    """Turns links to what is no page into links to the site's own pages, or into text."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        """Changes the links of one page. What is not in the repository is left to be reported as a broken link."""
        shown = self.env.repository_files[self.env.docname] = set()
        for link in list(self.document.findall(addnodes.download_reference)):
            path = self._path(link["reftarget"])
            shown.add(path)
            address = self.app.builder.get_relative_uri(self.env.docname, f"{SHOWN}/{path}")
            link.replace_self(nodes.reference("", "", *link.children, refuri=address, internal=True))
        for link in list(self.document.findall(addnodes.pending_xref)):
            if link["reftype"] == "myst" and link["refdomain"] is None:
                self._resolve_folder(link)

    def _path(self, target: str) -> str:
        """Returns a link's target counted from the repository's root."""
        relative, _ = self.env.relfn2path(target, self.env.docname)
        return relative

    def _resolve_folder(self, link: addnodes.pending_xref) -> None:
        folder = self._path(link["reftarget"])
        page = str(Path(folder) / "README")
        if page in self.env.found_docs:
            link["refdomain"], link["reftarget"], link["reftargetid"] = "doc", page, None
        elif (Path(self.env.srcdir) / folder).is_dir():
            link.replace_self(link.children)


def forget_page(_app: Sphinx, env: BuildEnvironment, name: str) -> None:
    """Forgets the files that a page linked to."""
    env.repository_files.pop(name, None)


def begin(app: Sphinx) -> None:
    """Makes the record of the files that pages link to."""
    if not hasattr(app.env, "repository_files"):
        app.env.repository_files = {}


def show_files(app: Sphinx) -> Iterator[tuple[str, dict[str, str], str]]:
    """Yields a page for each file that a page links to."""
    for path in sorted(set().union(*app.env.repository_files.values())):
        text = (Path(app.srcdir) / path).read_text("utf-8")
        yield f"{SHOWN}/{path}", {"title": path, "body": render_file(path, text)}, "file.html"


def render_file(path: str, text: str) -> str:
    """Returns a file as HTML, with its syntax in colour where that is known."""
    try:
        lexer = get_lexer_for_filename(path)
    except ClassNotFound:
        lexer = TextLexer()
    return highlight(text, lexer, HtmlFormatter(cssclass="highlight"))


def copy_start_page(app: Sphinx, failure: Exception | None) -> None:
    """Copies the start page to index.html, which browsers and servers open first; both lie in the same folder."""
    start = Path(app.outdir) / f"{app.config.root_doc}.html"
    if failure is None and start.exists():
        shutil.copyfile(start, start.with_name("index.html"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers everything with Sphinx."""
    app.add_config_value("navigation", {}, "env")
    for marker in ("layers", "hexdump"):  # blocks that tests find by this word; no language is called so, or another
        app.add_lexer(marker, TextLexer)
    app.add_transform(FileLinks)
    app.connect("builder-inited", begin)
    app.connect("source-read", add_navigation)
    app.connect("env-purge-doc", forget_page)
    app.connect("html-collect-pages", show_files)
    app.connect("html-page-context", leave_out_navigation, priority=100)  # the theme makes the navigation at 500
    app.connect("html-page-context", show_navigation, priority=900)
    app.connect("build-finished", copy_start_page)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
