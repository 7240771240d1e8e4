"""docs/adding_an_operator.md: an operator of each family has all files of its table."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/adding_an_operator.md"
# Family and operator, then what its reference and its benchmark are called.
OPERATORS = [
    ("warp", "remap", "remap", "remap"),
    ("boxes", "iou", "box_iou", "box_iou"),
    ("suppression", "nms", "nms", "nms"),
    ("roi", "align", "roi_align", "roi_align"),
    ("masks", "components", "components", "masks"),
    ("deformable", "attention", "deformable_attention", "deformable"),
    ("convolution", "im2col", "conv", "conv"),
]


def files_of_steps() -> dict[int, list[str]]:
    """Return the files that the table names, by step; endings after the first are beside it."""
    rows = re.findall(r"^\| (\d) \| (.*?) \|", PAGE.read_text(), re.MULTILINE)
    return {int(step): re.findall(r"`(.+?)`", cell) for step, cell in rows}


@pytest.mark.parametrize(("family", "op", "reference", "bench"), OPERATORS)
def test_every_step_has_its_files(family: str, op: str, reference: str, bench: str) -> None:
    steps = files_of_steps()
    assert list(steps) == list(range(1, 10))
    for step, names in steps.items():
        called = {7: reference, 8: bench}.get(step, op)
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
