"""How Sphinx builds these pages: see `make docs`.

Code in fenced blocks is run by the doctest builder: ``python`` must run as it stands, ``pycon``
must print what it shows, ``py`` is only shown (what needs a package or a file that is not here).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import visops
from docutils import nodes
from sphinx.application import Sphinx

DOCS = Path(__file__).parent

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
]
# Results of benchmarks are parts of the page `benchmarks`: see add_benchmark_results().
exclude_patterns = ["_build", "benchmarks/*"]

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
html_static_path: list[str] = []


def run_fenced_code(app: Sphinx, doctree: nodes.document) -> None:
    """Let the doctest builder see fenced code blocks."""
    kinds = {"python": "testcode", "pycon": "doctest"}
    for node in doctree.findall(nodes.literal_block):
        kind = kinds.get(node.get("language", ""))
        if kind and "testnodetype" not in node and "source" not in node:
            node["testnodetype"] = kind
            node["groups"] = ["default"]
            node["options"] = {}


def add_benchmark_results(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the tables of docs/benchmarks where pages have a marker for them."""
    if docname == "infer":
        found = sorted((DOCS / "benchmarks").glob("infer_*.md"))
        for path in found:
            app.env.note_dependency(str(path))
        tables = [path.read_text(encoding="utf-8") for path in found]
        if tables and (DOCS / "images" / "bench_infer.png").is_file():
            tables.insert(0, "![Time of each variant](images/bench_infer.png)")
        source[0] = source[0].replace("<!-- measured table -->", "\n\n".join(tables))
    if docname != "benchmarks":
        return
    parts = []
    for path in sorted((DOCS / "benchmarks").glob("*.json")):
        app.env.note_dependency(str(path))
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        # That of whole runs (`infer`) has no rows of calls, and one device.
        on_gpu = any(row["device"] != "cpu" for row in result.get("rows", [result]))
        chip = result["machine"]["gpu" if on_gpu else "cpu"]
        table = path.with_suffix(".md").read_text(encoding="utf-8")
        parts.append(f"### `{result['op']}` on {chip}\n\n{table}")
    source[0] = source[0].replace("<!-- results -->", "\n\n".join(parts))


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the two functions above."""
    app.connect("doctree-read", run_fenced_code)
    app.connect("source-read", add_benchmark_results)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
