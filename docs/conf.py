"""Sphinx configuration: see `make docs`.

The doctest builder runs fenced code blocks: ``python`` must run as it stands, ``pycon`` must print
what it shows. ``py`` is only shown, for code that needs a package or file that is not here.
"""

import sys
from pathlib import Path

import visops
from docutils import nodes
from sphinx.application import Sphinx

project = "visops"
author = "visops contributors"
project_copyright = "visops contributors"
version = release = visops.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "sphinx-mathjax-offline",  # formulas without a network
]
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings say more: shapes, units, what an array may be
napoleon_google_docstring = False
napoleon_use_rtype = False

# As in the modules whose docstrings are run.
doctest_global_setup = "import numpy as np\nimport torch\nimport visops"

html_theme = "furo"
html_title = f"visops {version}"
html_static_path = ["static"]
html_css_files = ["wide.css"]


def run_fenced_code(app: Sphinx, doctree: nodes.document) -> None:
    """Let the doctest builder see fenced code blocks."""
    kinds = {"python": "testcode", "pycon": "doctest"}
    for node in doctree.findall(nodes.literal_block):
        kind = kinds.get(node.get("language", ""))
        if kind and "testnodetype" not in node and "source" not in node:
            node["testnodetype"] = kind
            node["groups"] = ["default"]
            node["options"] = {}


def write_benchmarks(app: Sphinx) -> None:
    """Write a page for each benchmark, of its results on all chips."""
    sys.path.insert(0, str(Path(app.srcdir).parent / "scripts"))
    from bench import render

    folder = Path(app.srcdir, "benchmarks")
    for op, chips in render.by_operator().items():
        (folder / f"{op}.md").write_text(render.page(op, chips), "utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the functions above."""
    app.connect("builder-inited", write_benchmarks)
    app.connect("doctree-read", run_fenced_code)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
