"""How `make docs` builds the documentation site (Sphinx, decision 46).

The source folder is the repository's root, so the site renders the Markdown files where they lie, and a relative link
means the same there as on a code host. What the pages are is listed here; everything else is ignored.
"""

import functools
import gc
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# The extensions of ours lie beside this file, and the package is read from this checkout, installed or not.
sys.path[:0] = [str(HERE), str(ROOT)]

# Every page stays in memory until the build ends. Python would look through all pages again and again for objects to
# free, which takes a third of the time of a build; `setup` keeps it from doing so once more at its end.
gc.disable()

from sphinx.application import Sphinx  # noqa: E402  after the collector is disabled
from sphinx.search.en import SearchEnglish  # noqa: E402  after the collector is disabled

import orchestrator  # noqa: E402  found through the line above

# The search index has the stem of every word of every page; each is worked out once.
SearchEnglish.stem = functools.cache(SearchEnglish.stem)

project = "Sparring"
author = "the Sparring contributors"
version = release = orchestrator.__version__
copyright = "the Sparring contributors"  # noqa: A001  Sphinx's own name

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
extensions += ["markdown_docstrings", "reference_pages", "repository_pages"]

root_doc = "README"
# A page that is found here and has no place in the navigation below ends the build.
include_patterns = [
    "*.md",
    "docs/**.md",
    "schemas/*.md",
    "bench/results/*.md",
    "images/README.md",
    "images/attack_*/README.md",
    "images/defence_*/README.md",
    "examples/*/README.md",
    "examples/demo/submissions/*/README.md",
    "examples/*/players/*/README.md",
]
exclude_patterns = ["build", "dist", ".*", "orchestrator", "tests"]  # looked through for nothing otherwise

# The navigation: what is below each page, in groups of a heading and pages. The "listed" ones stand at the end of the
# page itself too; other pages name in their own words what is below them.
navigation = {
    "README": [
        (
            "Tutorials",
            [
                "docs/submit-an-attack",
                "docs/submit-a-defence",
                "docs/your-own-model",
                "A season to play </examples/tournament/README>",
                "An attack-set contest to play </examples/attack-set/README>",
                "An unrestricted contest to play </examples/unrestricted/README>",
                "docs/gallery",
            ],
        ),
        (
            "For participants",
            [
                "docs/debugging",
                "docs/the-image-protocol",
                "Specification of the protocol </schemas/protocol>",
                "docs/packing",
                "images/README",
                "docs/migrating-from-nips-2017",
                "examples/nips2017/README",
            ],
        ),
        (
            "For organizers",
            [
                "docs/seasons",
                "docs/web",
                "docs/contest-file",
                "docs/warmup",
                "docs/prizes",
                "docs/grading",
                "docs/complaints",
                "docs/attack-set",
                "docs/unrestricted",
                "docs/unrestricted-attackers",
                "docs/unrestricted-defenders",
                "docs/unrestricted-raters",
                "docs/unrestricted-board",
                "docs/access",
                "docs/results",
                "docs/formats",
                "docs/statistics",
                "docs/bundle",
                "docs/run-on-kubernetes",
                "docs/web-on-kubernetes",
            ],
        ),
        (
            "For security reviewers",
            [
                "docs/threat-model",
                "docs/asvs",
                "docs/sandbox",
                "docs/runtimes",
                "docs/seccomp",
                "docs/kernel-files",
                "docs/cheats",
                "docs/replay",
                "SECURITY",
            ],
        ),
        ("Reference", ["docs/commands", "docs/limits-and-errors", "docs/glossary", "docs/api/README"]),
        (
            "For developers",
            [
                "CONTRIBUTING",
                "docs/architecture",
                "docs/decisions/README",
                "docs/dependencies",
                "bench/results/README",
                "CHANGELOG",
            ],
        ),
    ],
    "docs/api/README": [
        (
            "",
            [
                "docs/api/sparring",
                "docs/api/datasets",
                "docs/api/formats",
                "docs/api/sandboxes",
                "docs/api/executors",
                "docs/api/stores",
                "docs/api/domain",
                "docs/api/events",
                "docs/api/protocol",
                "docs/api/scoring",
                "docs/api/bundles",
                "docs/api/errors",
            ],
        )
    ],
    "docs/decisions/README": [("listed", ["docs/decisions/0*"])],
    "bench/results/README": [("listed", ["bench/results/2*"])],
    "images/README": [
        (
            "",
            [
                "images/attack_*/README",
                "images/defence_*/README",
                "examples/demo/submissions/*/README",
                "examples/*/players/*/README",
            ],
        )
    ],
}

myst_heading_anchors = 6  # links name headings as code hosts do
nitpicky = True
nitpick_ignore: set[tuple[str, str]] = {
    # reference_pages adds aliases.
    ("py:class", "orchestrator.execution.round_context.RoundContext"),  # of a class that nobody else makes
}
nitpick_ignore_regex = [
    # There is no index of Python's and NumPy's names without a network; our own have to lead somewhere.
    ("py:.*", r"(?!orchestrator\.).*"),
    # Parameters of types, and names of modules that are mentioned and not public.
    ("py:.*", r"orchestrator\..+\.[A-Z]"),
    ("py:obj", r"orchestrator\.[a-z_.]+"),
    # Functions that check a value of an annotated type, which autodoc takes for classes.
    ("py:class", r"orchestrator\.[a-z_.]+"),
]
smartquotes_action = "D"  # dashes only: what stands in quotes may be something to type

# The public modules are those that the pages of the API reference name.
DOCUMENTED = re.compile(r"^\.\. auto(?:module:: (\S+)|(?:class|function):: (\S+)\.\w+)$", re.MULTILINE)
pages = [page.read_text("utf-8") for page in (ROOT / "docs" / "api").glob("*.md")]
public_modules = sorted({module or parent for page in pages for module, parent in DOCUMENTED.findall(page)})
autodoc_default_options = {
    "members": True,
    "undoc-members": True,  # fields of classes; everything else has a docstring, ruff says
    "special-members": "__call__",
    "exclude-members": "model_config",
    "member-order": "bysource",
}
add_module_names = False
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_use_type_comments = False  # there are none
viewcode_follow_imported_members = False  # a name that is only an alias has no source of its own
python_use_unqualified_type_names = True
maximum_signature_line_length = 100
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"Sparring {version}"
html_baseurl = ""  # where the site will lie is not known here: all links are relative
html_show_sourcelink = False
html_copy_source = False
html_permalinks_icon = "#"
html_static_path = ["static"]
html_css_files = ["site.css"]
templates_path = ["templates"]
pygments_style = "default"
pygments_dark_style = "github-dark"


def setup(app: Sphinx) -> None:
    """Keeps Python from looking through all pages when the build has ended: the process ends anyway."""
    app.connect("build-finished", lambda *_: gc.freeze())
