"""The README, and what holds for every page: links lead somewhere, cited files exist."""

import re
from pathlib import Path

import pytest

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
    """What a stranger types first, from a clone."""
    first = re.search(r"^```sh\n(.*?)^```", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert first
    targets = re.findall(r"^make (\S+)", first[1], re.MULTILINE)
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
