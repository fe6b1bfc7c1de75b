"""The site's pages are the repository's files: their navigation, and links to files that are no page.

- The pages below a page stand in `navigation` in conf.py, not in the Markdown files, so that these look right on a code
  host too.
- A link to a folder leads to its README.md, if that is a page, and is plain text otherwise.
- A link to any other file leads to a page that shows the file.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform

SHOWN = "files"
"""The folder of the site in which the pages of files lie."""


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


def shorten_navigation(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Has a page's navigation made of titles alone where nothing else is shown of it.

    Sphinx copies all headings and all names of the API reference for each page, and then removes them: that was half of
    the time of a build.
    """
    del pagename, templatename, doctree
    contents, whole_tree = app.env.tocs, context["toctree"]

    def toctree(**options: Any) -> str:
        if not options.get("titles_only"):
            return whole_tree(**options)
        if not hasattr(app, "titles"):
            app.titles = {name: without_headings(entries) for name, entries in contents.items()}
        app.env.tocs = app.titles
        try:
            return whole_tree(**options)
        finally:
            app.env.tocs = contents

    context["toctree"] = toctree


def without_headings(entries: nodes.bullet_list) -> nodes.bullet_list:
    """Returns a page's table of contents with its title and what is below the page."""
    titles = entries.deepcopy()
    for entry in titles:
        if len(entry) > 1:
            if below := list(entry.findall(addnodes.toctree)):
                entry[1][:] = below
            else:
                entry.pop(1)
    return titles


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
    app.connect("html-page-context", shorten_navigation, priority=100)  # the theme asks for the navigation at 500
    app.connect("build-finished", copy_start_page)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
