"""The tables of docs/one_pass.md on what fuses, against what chains say of themselves."""

import re
from pathlib import Path

import pytest
import torch
from visops import transforms

v2 = pytest.importorskip("torchvision.transforms.v2")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "one_pass.md"
NAMES = {
    **vars(transforms),
    "torch": torch,
    "v2": v2,
    "to_float": transforms.ToDtype(torch.float32, scale=True),
    "normalize": transforms.Normalize(0.5, 0.5),
}


def rows(heading: str) -> list[tuple[str, str]]:
    """The two columns of the table with this heading."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(heading + "\n|-|-|\n")
    table = rest.split("\n\n")[0]
    found = re.findall(r"^\| `([^`]+)` \| (.+) \|$", table, re.MULTILINE)
    assert len(found) == len(table.splitlines()), f"a row under {heading!r} has another form"
    return found


FUSED = rows("| chain | because |")
SPLIT = rows("| chain | why a pass begins |")


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
