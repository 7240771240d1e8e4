"""docs/transform_tables.md: every transform has a row, and it runs as the row says."""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from visops import transforms as T
from visops.transforms import presets

PAGE = Path(__file__).parents[2] / "docs" / "transform_tables.md"
HEAD = "| visops | how |"
# What needs arguments.
MADE: dict[str, Any] = {
    "RandomResizedCrop": lambda: T.RandomResizedCrop(8),
    "Resize": lambda: T.Resize(8),
    "Letterbox": lambda: T.Letterbox((8, 8)),
    "RandomResize": lambda: T.RandomResize(8, 9),
    "RandomShortestSize": lambda: T.RandomShortestSize(8),
    "ScaleJitter": lambda: T.ScaleJitter((8, 8)),
    "CenterCrop": lambda: T.CenterCrop(8),
    "RandomCrop": lambda: T.RandomCrop(8),
    "Pad": lambda: T.Pad(1),
    "RandomSizeCrop": lambda: T.RandomSizeCrop(4, 8),
    "CropByCategory": lambda: T.CropByCategory(8),
    "RandomAffine": lambda: T.RandomAffine(3),
    "RandomRotation": lambda: T.RandomRotation(3),
    "RandomPosterize": lambda: T.RandomPosterize(3),
    "RandomSolarize": lambda: T.RandomSolarize(3),
    "RandomAdjustSharpness": lambda: T.RandomAdjustSharpness(3),
    "from_timm": lambda: T.from_timm("rand-m9"),
    "GaussianBlur": lambda: T.GaussianBlur(3),
    "ColorMatrix": lambda: T.ColorMatrix([[0, 0, 1], [0, 1, 0], [1, 0, 0]]),
    "JPEG": lambda: T.JPEG(30),
    "ToDtype": lambda: T.ToDtype(torch.float32),
    "Normalize": lambda: T.Normalize([0.5], [0.5]),
    "LinearTransformation": lambda: T.LinearTransformation(torch.eye(2), torch.zeros(2)),
    "UniformTemporalSubsample": lambda: T.UniformTemporalSubsample(2),
}
# Classes that are no transforms, or other names of some.
OTHERS = {
    *("AutoAugmentPolicy", "Canvas", "Compose", "DecodeJpeg", "Effects", "ImageOnly"),
    *(
        "IndexedDataset",
        "IndexedSampler",
        "Loader",
        "LoaderStats",
        "Parameters",
        "Plan",
        "RandomAugment",
        "Transform",
        "TrivialAugment",
    ),
    *("Views", "convert", "presets", "preview", "visible"),
}


def rows() -> dict[str, list[str]]:
    """The cells behind a name, for every name of the tables."""
    found = {}
    page = PAGE.read_text()
    for table in page.split(HEAD)[1:]:
        for line in table.split("\n\n")[0].splitlines()[2:]:
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            for name in re.findall(r"`(\w+)`", cells[0]):
                found[name] = cells
    return found


ROWS = rows()


def test_every_transform_has_a_row() -> None:
    assert set(T.__all__) - OTHERS <= set(ROWS)
    assert all(hasattr(T, name) for name in ROWS)


HOW = {"fused": "fused", "values": "values", "alone": "own pass", "foreign": "own pass"}


@pytest.mark.parametrize("name", [n for n, cells in ROWS.items() if cells[1] in HOW.values()])
def test_it_runs_as_said(name: str) -> None:
    if name in ("FiveCrop", "TenCrop"):
        assert all(len(chain.passes) == 1 for chain in getattr(T, name)(8).chains)
        return
    make = MADE.get(name, getattr(T, name))
    kind = T.Compose([make()]).passes[0].kind
    assert HOW[kind] == ROWS[name][1]


def test_names_of_torchvision_and_albumentations() -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2")
    libraries = {2: v2}
    for column, module in ((3, "albumentations"), (4, "kornia.augmentation")):
        try:
            libraries[column] = importlib.import_module(module)
        except ImportError:
            continue
    for name, cells in ROWS.items():
        for column, library in libraries.items():
            cell = cells[column]
            if cell.startswith("same") and "but" not in cell:
                others = {"PadTo", "CenterCrop", "RandomCrop", "Pad"}  # kornia pads by another name
                assert hasattr(library, name) or name in others, (name, library.__name__)
            named = [] if "but" in cell else re.findall(r"`([A-Z]\w+)`", cell)
            for other in named:
                assert hasattr(library, other), (name, other)


def test_recipes_take_as_many_passes() -> None:
    lines = PAGE.read_text().split("| recipe | passes |")[1].splitlines()[2:]
    count = 0
    for line in lines:
        found = re.match(r"\| `presets\.(.+)` \| (\d) \|", line)
        if found is None:
            continue
        chain = eval(f"presets.{found[1]}", {"presets": presets})
        assert len(chain.passes) == int(found[2]), found[1]
        count += 1
    assert count == 9
