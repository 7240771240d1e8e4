"""Tables of the pages; those of docs/moving say of every public name what ours is."""

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[2] / "docs"
MOVING = DOCS / "moving"  # a page for each library
SAME, NONE = "the same", "–"


def lines_of(page: Path, heading: str) -> list[str]:
    """Return the rows of a table, which begin after its heading; of a page, or of a folder's."""
    pages = sorted(page.glob("*.md")) if page.is_dir() else [page]
    text = "\n\n".join(each.read_text(encoding="utf-8") for each in pages)
    return text.partition(heading)[2].split("\n\n")[0].splitlines()


def names_elsewhere() -> dict[str, list[Any]]:
    """Each row of docs/conventions.md's table: visops, OpenCV, torchvision, kornia and DALI."""
    heading = (
        "|  | visops | OpenCV `warpAffine` | torchvision `v2.functional.affine` | kornia "
        "`warp_affine` | DALI `fn.warp_affine` |\n|-|-|-|-|-|-|\n"
    )
    found = {}
    for line in lines_of(DOCS / "conventions.md", heading):
        inner = line.replace("\\|", "¦").replace("`", "").strip("| ")
        first, *cells = (cell.strip() for cell in inner.split("|"))
        found[first] = cells
    assert all(len(cells) == 5 for cells in found.values())
    return found


def rows(module: str) -> dict[str, tuple[str, str]]:
    """What the table of a module says of each name: the second and third column."""
    table = lines_of(MOVING, f"| {module} | visops | what differs |\n|-|-|-|\n")
    pattern = r"^\| (`\w+`(?:, `\w+`)*) \| ([^|]+) \| ?([^|]*) ?\|$"
    found = re.findall(pattern, "\n".join(table), re.MULTILINE)
    assert len(found) == len(table), "a row has another form"
    said = [
        (name, (ours.strip(), differs.strip()))
        for names, ours, differs in found
        for name in re.findall(r"\w+", names)
    ]
    assert len(dict(said)) == len(said)
    return dict(said)
