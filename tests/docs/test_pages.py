"""What holds for every page: links, cited files, tables of fusion, results of benchmarks."""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from bench import render
from bench.harness import report, results
from visops import transforms

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"

# Nothing that was built: docs/_build holds copies.
PAGES = sorted(
    page
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if "_build" not in page.parts
)

FENCED = re.compile(r"^(`{3,}).*?^\1$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")  # of images within links too
WORKFLOW = re.compile(r"\.\./\.\./actions/workflows/([\w.]+)")

# Files that pages name in code: `csrc/core/warp/affine.h`, but not `tests/references/<op>.py`.
CITED = re.compile(r"`((?:csrc|ops|tests|scripts|docs|examples)/[\w./]+\.\w+)`")
CITING = {".py", ".h", ".cpp", ".cu"}


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Ids of the headings, as GitHub and MyST make them, and explicit targets."""
    text = prose(page)
    found = set(re.findall(r"^\((\S+)\)=$", text, re.MULTILINE))
    for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        found.add(re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-"))
    return found


def test_readme_begins_with_targets_that_exist() -> None:
    """What a stranger types first: a wheel's two lines, then those from a clone."""
    typed = re.findall(r"^```sh\n(.*?)^```", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert (
        len(re.findall("^pip install .*(?:torch|visops)$|^pip install torch", typed[0], re.M)) == 2
    )
    targets = re.findall(r"^make (\S+)", typed[1], re.MULTILINE)
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)


def test_readme_examples_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)
    assert blocks
    for block in blocks:
        found: dict[str, object] = {}
        exec(block, found)
        image = found["image"]
        assert tuple(getattr(image, "shape")) == (3, 224, 224)  # noqa: B009
        assert len(getattr(found["train"], "passes")) == 1  # noqa: B009


def test_titles_differ() -> None:
    """The sidebar shows titles alone."""
    titles: dict[str, Path] = {}
    for page in PAGES:
        if "docs" not in page.relative_to(ROOT).parts:
            continue
        title = re.search(r"^# (.+)$", prose(page), re.MULTILINE)
        assert title, f"{name(page)} has no title"
        other = titles.setdefault(title[1], page)
        assert other is page, f"{name(page)} and {name(other)} are both called {title[1]!r}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        if workflow := WORKFLOW.match(link):  # of the repository that the page is read in
            assert (ROOT / ".github" / "workflows" / workflow[1]).exists(), link
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if target.parent.name == "benchmarks":  # a page that is made of results
            assert list(target.parent.glob(f"{target.stem}_*.json")), link
            continue
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_cited_files_exist(page: Path) -> None:
    if page.name == "CHANGELOG.md":
        return
    for path in CITED.findall(prose(page)):
        assert (ROOT / path).exists(), path


def test_every_page_is_in_a_toctree() -> None:
    listed = {"docs/index.md"}
    for page in PAGES:
        for tree in re.findall(r"^```{toctree}\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
            entries = [line for line in tree.split() if not line.startswith(":")]
            for entry in entries:
                listed.update(name(found) for found in page.parent.glob(f"{entry}.md"))
    assert {name(page) for page in PAGES if page.is_relative_to(ROOT / "docs")} <= listed


def test_code_cites_pages_that_exist() -> None:
    folders = [ROOT / folder for folder in ("csrc", "ops", "scripts", "tests", "examples")]
    for file in (file for folder in folders for file in folder.rglob("*")):
        if file.suffix in CITING and file != Path(__file__):
            for path in re.findall(r"docs/[\w/]+\.md", file.read_text(encoding="utf-8")):
                assert (ROOT / path).exists(), f"{name(file)}: {path}"


PAGE = ROOT / "docs/adding_an_operator.md"

# Family and operator, then what its reference is called.
OPERATORS = [
    ("warp", "remap", "remap"),
    ("boxes", "iou", "box_iou"),
    ("suppression", "nms", "nms"),
    ("roi", "align", "roi_align"),
    ("masks", "components", "masks"),
    ("deformable", "attention", "deformable_attention"),
    ("losses", "focal", "focal"),
    ("convolution", "im2col", "conv"),
]


def files_of_steps() -> dict[int, list[str]]:
    """Return the files that the table names, by step; endings after the first are beside it."""
    rows = re.findall(r"^\| (\d) \| (.*?) \|", PAGE.read_text(), re.MULTILINE)
    return {int(step): re.findall(r"`(.+?)`", cell) for step, cell in rows}


@pytest.mark.parametrize(("family", "op", "reference"), OPERATORS)
def test_every_step_has_its_files(family: str, op: str, reference: str) -> None:
    steps = files_of_steps()
    assert list(steps) == list(range(1, 10))
    for step, names in steps.items():
        called = reference if step == 7 else op
        path = ROOT / names[0].replace("<family>", family).replace("<op>", called)
        assert path.exists(), f"step {step}"
        for other in names[1:]:
            if other.startswith("."):
                assert path.with_suffix(other).exists(), f"step {step}"
            elif "_autograd" not in other:  # short rules stand in the operator's own file
                assert (ROOT / other.replace("<family>", family)).is_dir(), f"step {step}"
    schemas = (ROOT / "csrc/library.cpp").read_text()
    front = (ROOT / f"csrc/torch/{family}/{op}.cpp").read_text()
    registered = re.findall(r'm\.impl\("(\w+)"', front)
    assert registered
    for name in registered:
        assert re.search(rf'"{name}\(', schemas), name


API = Path(__file__).resolve().parents[2] / "docs" / "api"

DIRECTIVE = re.compile(
    r"^\.\. (currentmodule|automodule|autoclass|autofunction|autodata|autoattribute):: (\S+)"
    r"|^ +:members: *(.*)$",
    re.MULTILINE,
)


def found(name: str) -> object:
    """What a dotted name stands for: a module, or something in one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            value: object = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            value = getattr(value, part)
        return value
    raise AttributeError(name)


@pytest.mark.parametrize("page", sorted(API.rglob("*.md")), ids=lambda p: str(p.relative_to(API)))
def test_names_exist(page: Path) -> None:
    module, owner = "", ""
    for directive, name, members in DIRECTIVE.findall(page.read_text(encoding="utf-8")):
        if directive in ("currentmodule", "automodule"):
            module = owner = name
        elif directive:
            owner = name if name.startswith("visops.") else f"{module}.{name}"
        value = found(owner)
        for member in filter(None, re.split(r",\s*", members)):
            assert hasattr(value, member), f"{owner} has no {member}"


# Public names that are on other pages, or a second name of what is there.
ELSEWHERE = {
    "visops": {"__version__", "cmake_prefix_path", "compat", "transforms"},
    "visops.transforms": {"DecodeImage", "RandomAugment", "TrivialAugmentWide", "presets"},
}


@pytest.mark.parametrize("package", ELSEWHERE)
def test_public_names_are_those_of_the_pages(package: str) -> None:
    described = set()
    for page in API.rglob("*.md"):
        module = ""
        for directive, name, _ in DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            if directive in ("currentmodule", "automodule"):
                module = name
            elif module == package and "." not in name:
                described.add(name)
    public = importlib.import_module(package).__all__
    assert (described - {""}) | ELSEWHERE[package] == set(public)


v2 = pytest.importorskip("torchvision.transforms.v2")
ONE_PASS = Path(__file__).resolve().parents[2] / "docs" / "one_pass.md"

NAMES = {
    **vars(transforms),
    "torch": torch,
    "v2": v2,
    "to_float": transforms.ToDtype(torch.float32, scale=True),
    "normalize": transforms.Normalize(0.5, 0.5),
}


def rows(heading: str) -> list[tuple[str, str]]:
    """The two columns of the table with this heading."""
    _, _, rest = ONE_PASS.read_text(encoding="utf-8").partition(heading + "\n|-|-|\n")
    table = rest.split("\n\n")[0]
    found = re.findall(r"^\| `([^`]+)` \| (.+) \|$", table, re.MULTILINE)
    assert len(found) == len(table.splitlines()), f"a row under {heading!r} has another form"
    return found


FUSED = [
    *rows("| chain | because |"),
    ("RandomPerspective(), RandomRotation(9), RandomCrop(56, padding=4)", "one fill"),
    ("to_float, RandomRotation(9)", "a fill of 0 is the same in all units"),
    ("RandomErasing(), to_float, normalize", "the erased value is converted, too"),
    ("RandAugment(operations='linear'), TrivialAugment(operations='linear')", "all are linear"),
]
SPLIT = [
    *rows("| chain | why a pass begins |"),
    ("Pad(4, fill=3), RandomRotation(9)", "RandomRotation has fill 0 after 3"),
    (
        "Pad(4, padding_mode='reflect'), RandomRotation(9)",
        "RandomRotation pads with 'constant' after 'reflect'",
    ),
    ("normalize, RandomRotation(9)", "RandomRotation can show its fill after Normalize"),
    (
        "RandomErasing(), ColorJitter(0.4)",
        "ColorJitter changes colours after the erased rectangle",
    ),
    ("RandomErasing(), RandomErasing(value=1)", "RandomErasing erases with another value"),
    (
        "RandomErasing(), normalize, RandomErasing()",
        "RandomErasing erases again, in other units",
    ),
    (
        "to_float, RandomErasing(value='random'), normalize",
        "RandomErasing: it erases with random values; RandomErasing ends its pass",
    ),
    (
        "RandAugment(8, operations='linear'), ColorJitter(0.4)",
        "ColorJitter makes more than 8 colour steps",
    ),
    ("normalize, ToDtype(torch.uint8)", "ToDtype rounds to uint8 after Normalize"),
]


def reasons(chain: str) -> list[str]:
    compose = transforms.Compose(eval(f"[{chain}]", dict(NAMES)))  # of our own page
    found = [part.reason for part in compose.passes]
    for reason in found[1:]:
        assert f": {reason}\n" in repr(compose)
    return found


def test_the_tables_are_there() -> None:
    assert min(len(FUSED), len(SPLIT)) >= 8


@pytest.mark.parametrize("chain", [chain for chain, _ in FUSED])
def test_fuses(chain: str) -> None:
    assert reasons(chain) == [""]


@pytest.mark.parametrize(("chain", "why"), SPLIT)
def test_splits(chain: str, why: str) -> None:
    assert reasons(chain) == ["", *why.split("; ")]


DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize(
    ("brand", "family", "model", "name"),
    [
        ("AMD EPYC", "25", "1", "AMD EPYC Zen 3"),
        ("AMD EPYC", "25", "17", "AMD EPYC Zen 4"),
        ("AMD EPYC 9R45 Processor", "26", "2", "AMD EPYC 9R45 Zen 5"),
        ("AMD EPYC", "99", "0", "AMD EPYC"),
        ("AMD EPYC", None, None, "AMD EPYC"),
        ("Intel(R) Xeon(R) Processor @ 2.10GHz", "25", "1", "Intel Xeon"),
    ],
)
def test_chips_have_names_of_their_own(
    brand: str, family: str | None, model: str | None, name: str
) -> None:
    assert report.chip_name(brand, family, model) == name


def test_pages_have_the_results() -> None:
    paths = sorted((DOCS / "benchmarks").glob("*.json"))
    operators = render.by_operator(paths)
    assert {path.name for path in paths} == {
        path.name for path in paths if any(path.name.startswith(f"{op}_") for op in operators)
    }
    for op, chips in operators.items():
        page = render.page(op, chips)
        labels = [row["label"] for chip in chips for row in chip.get("rows", [])]
        assert all(str(label) in page for label in labels), op
    for path in paths:
        assert path.read_text(encoding="utf-8") == results.dumps(results.read(path)), path


def test_a_row_of_some_chips() -> None:
    """What a chip did not run is a dash; a row that others win is bold on that chip alone."""

    def chip(name: str, *rows: dict[str, Any]) -> dict[str, Any]:
        machine = {"cpu": name, "isa": "avx2", "cores": 2, "date": "2026-01-01", "versions": {}}
        return {"op": "op", "machine": machine, "rows": list(rows)}

    def row(label: str, ratio: float) -> dict[str, Any]:
        cell = {**results.CELL, "median_s": 1.0}
        ours = {**cell, "name": "visops", "min_s": 1.0, "extra_bytes": 0}
        peer = {**cell, "name": "peer", "min_s": ratio, "ratio": ratio, "extra_bytes": 1 << 21}
        row = {"group": "g", "label": label, "device": "cpu", "threads": 1, "facts": {}}
        return {**row, "cells": [ours, peer]}

    page = render.page("op", [chip("A", row("a", 3.0), row("b", 0.5)), chip("B", row("b", 1.5))])
    assert "In each cell: A / B." in page
    assert "| a | 1 | 1.00 s / – | 3.0× / – +2M |" in page
    assert "| b | 1 | 1.00 s / 1.00 s | **0.50× (lost)** / 1.50× +2M |" in page


def test_main_rows_are_those_of_the_results() -> None:
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    for op, (_, *lines) in render.specified().items():
        if op == "headlines":
            continue
        chips = render.on_chips(op)
        assert len({chip["machine"]["cpu"] for chip in chips}) == len(chips) >= 2
        for _, *where in lines:
            lacking = [chip for chip in chips if render.select(chip["rows"], *where) is None]
            # CPU time can't be told of rows with workers.
            assert all("clock" in chip["machine"] for chip in lacking), where
            assert len(lacking) < len(chips), where
        assert f"{render.BEGIN.format(op)}\n{render.main_rows(op, chips)}\n" in page


def test_headlines_have_their_rows() -> None:
    ratios = [render.worst(headline)[0] for headline in render.specified()["headlines"]]
    assert min(ratios) < 1  # a row that we lose is among them


def test_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    render.all_ratios(render.on_chips("nms"), tmp_path / "bench.png")
    render.headlines(tmp_path / "headlines.png")
    assert min(path.stat().st_size for path in tmp_path.iterdir()) > 10_000


def test_written_and_read(tmp_path: Path) -> None:
    cells = [
        report.Cell("visops", min_s=1.0, median_s=1.5, ratio=1.0, extra_bytes=0),
        report.Cell("peer", 2.0, 2.5, 2.0, max_abs=0.25),
        report.Cell("part", 0.5, 0.75, 0.5, bound=True),
        report.Cell("wrong", max_abs=7.0, mean_abs=3.0),
    ]
    rows = [report.Row("a group", "a × b", "cpu", 2, cells, {"job": "x", "sizes": [1, 2]})]
    machine: dict[str, Any] = {"cpu": "A chip", "versions": {"torch": "2"}}
    path = tmp_path / "results" / "op.json"
    report.write_json(path, "op", "\n What it compares. \n", machine, rows)
    found = results.read(path)
    assert found["description"] == "What it compares."
    assert found["machine"] == machine
    (row,) = found["rows"]
    assert row["facts"] == {"job": "x", "sizes": [1, 2]}
    ours, peer, part, wrong = row["cells"]
    assert (ours["min_s"], ours["extra_bytes"]) == (1.0, 0)
    assert (peer["median_s"], peer["ratio"], peer["max_abs"]) == (2.5, 2.0, None)
    assert (part["bound"], peer["bound"]) == (True, False)
    assert (wrong["min_s"], wrong["max_abs"]) == (None, 7.0)
