"""Every public name of torchvision.transforms.v2, every transform here, and what is said."""

import importlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skimage.data
import torch
from PIL import Image
from torch import Tensor
from visops import transforms as T
from visops.transforms import presets

from docs.names import NONE, SAME, rows

v2 = pytest.importorskip("torchvision.transforms.v2")
tv = pytest.importorskip("torchvision.tv_tensors")
UNCHANGED = "unchanged"
ROWS = rows("torchvision.transforms.v2")
PHOTO = skimage.data.astronaut()[100:200, 150:270]
IMAGE = torch.from_numpy(PHOTO).permute(2, 0, 1).contiguous()
FLOAT = IMAGE.float() / 255
BATCH, LABELS = FLOAT[None], torch.tensor([1])
BILINEAR = v2.InterpolationMode.BILINEAR

BOXES = tv.BoundingBoxes(
    [[-5.0, 10, 30, 40], [50, 50, 200, 60], [3, 3, 3.5, 9]], format="XYXY", canvas_size=(100, 120)
)

TYPED = (tv.Image(IMAGE), BOXES, {"labels": torch.arange(3)})
CLIP = torch.arange(7 * 3 * 4).reshape(7, 3, 2, 2).float()
MIXING = torch.rand(60, 60, generator=torch.Generator().manual_seed(1))

# What the names that are the same do, where nothing is left to chance; m is either module.
Call = Callable[[Any], Any]

CALLS: dict[str, Call] = {
    "Compose": lambda m: m.Compose([m.RandomHorizontalFlip(1), m.Pad(2)])(IMAGE),
    "RandomApply": lambda m: m.RandomApply([m.RandomHorizontalFlip(1)], p=1)(IMAGE),
    "RandomChoice": lambda m: m.RandomChoice([m.RandomHorizontalFlip(1)], p=[1])(IMAGE),
    "RandomOrder": lambda m: m.RandomOrder([m.RandomHorizontalFlip(1), m.Pad(1)])(IMAGE),
    "RandomResizedCrop": lambda m: m.RandomResizedCrop((50, 60), (1, 1), (1.2, 1.2))(IMAGE),
    "Resize": lambda m: m.Resize((37, 45))(IMAGE),
    "CenterCrop": lambda m: m.CenterCrop((30, 140))(IMAGE),
    "RandomCrop": lambda m: m.RandomCrop((104, 124), padding=2, fill=9)(IMAGE),
    "Pad": lambda m: m.Pad((1, 2, 3, 4), 7, "reflect")(IMAGE),
    "RandomHorizontalFlip": lambda m: m.RandomHorizontalFlip(1)(IMAGE),
    "RandomVerticalFlip": lambda m: m.RandomVerticalFlip(1)(IMAGE),
    "RandomAffine": lambda m: m.RandomAffine((0, 0), None, (2, 2), interpolation=BILINEAR)(IMAGE),
    "RandomRotation": lambda m: m.RandomRotation((180, 180), interpolation=BILINEAR)(IMAGE),
    "RandomPerspective": lambda m: m.RandomPerspective(0.5, 0)(IMAGE),
    "RandomZoomOut": lambda m: m.RandomZoomOut(3, p=0)(IMAGE),
    "RandomResize": lambda m: m.RandomResize(50, 51)(IMAGE),
    "RandomShortestSize": lambda m: m.RandomShortestSize(64, 80)(IMAGE),
    "ScaleJitter": lambda m: m.ScaleJitter((64, 64), (1, 1))(IMAGE),
    "ColorJitter": lambda m: m.ColorJitter((1.2, 1.2))(IMAGE),
    "RandomPhotometricDistort": lambda m: m.RandomPhotometricDistort(p=0)(IMAGE),
    "Grayscale": lambda m: m.Grayscale(3)(IMAGE),
    "RandomGrayscale": lambda m: m.RandomGrayscale(1)(IMAGE),
    "RandAugment": lambda m: m.RandAugment(1, 0)(IMAGE * 0),
    "AugMix": lambda m: m.AugMix(1)(IMAGE * 0),
    "TrivialAugmentWide": lambda m: m.TrivialAugmentWide(2)(IMAGE * 0),
    "AutoAugment": lambda m: m.AutoAugment(m.AutoAugmentPolicy.SVHN)(IMAGE * 0).shape,
    "AutoAugmentPolicy": lambda m: [policy.value == "svhn" for policy in m.AutoAugmentPolicy],
    "RandomChannelPermutation": lambda m: m.RandomChannelPermutation()(FLOAT).sum(0),
    "RandomAdjustSharpness": lambda m: m.RandomAdjustSharpness(2, 1)(IMAGE),
    "RandomAutocontrast": lambda m: m.RandomAutocontrast(1)(IMAGE),
    "RandomEqualize": lambda m: m.RandomEqualize(1)(IMAGE),
    "RandomInvert": lambda m: m.RandomInvert(1)(IMAGE),
    "RandomPosterize": lambda m: m.RandomPosterize(3, 1)(IMAGE),
    "RandomSolarize": lambda m: m.RandomSolarize(99, 1)(IMAGE),
    "GaussianBlur": lambda m: m.GaussianBlur(5, (1.0, 1.0))(FLOAT),
    "RandomIoUCrop": lambda m: m.RandomIoUCrop(sampler_options=[2.0])(*TYPED[:2])[0],
    "ElasticTransform": lambda m: m.ElasticTransform(0.0)(IMAGE),
    "FiveCrop": lambda m: torch.stack(m.FiveCrop((31, 45))(IMAGE)),
    "TenCrop": lambda m: torch.stack(m.TenCrop((31, 45), True)(IMAGE)),
    "GaussianNoise": lambda m: m.GaussianNoise(0.1, 0.0)(IMAGE),
    "JPEG": lambda m: m.JPEG((50, 50))(IMAGE),
    "LinearTransformation": lambda m: m.LinearTransformation(MIXING, MIXING[0])(FLOAT[:, :4, :5]),
    "UniformTemporalSubsample": lambda m: m.UniformTemporalSubsample(3)(tv.Video(CLIP)),
    "RandomErasing": lambda m: m.RandomErasing(0)(IMAGE),
    "Normalize": lambda m: m.Normalize([0.5] * 3, [0.25] * 3)(FLOAT),
    "ToDtype": lambda m: m.ToDtype(torch.float32, scale=True)(IMAGE),
    "ConvertImageDtype": lambda m: m.ConvertImageDtype(torch.float32)(IMAGE),
    "ToTensor": lambda m: m.ToTensor()(PHOTO.copy()),
    "ToImage": lambda m: m.ToImage()(PHOTO),
    "PILToTensor": lambda m: m.PILToTensor()(Image.fromarray(PHOTO)),
    "ToPureTensor": lambda m: m.ToPureTensor()(tv.Image(IMAGE)),
    "ToPILImage": lambda m: np.asarray(m.ToPILImage()(IMAGE)),
    "Identity": lambda m: m.Identity()(IMAGE),
    "MixUp": lambda m: m.MixUp(num_classes=3)(BATCH, LABELS)[1],
    "CutMix": lambda m: m.CutMix(num_classes=3)(BATCH, LABELS)[0],
    "ConvertBoundingBoxFormat": lambda m: m.ConvertBoundingBoxFormat("CXCYWH")(*TYPED)[1],
    "ClampBoundingBoxes": lambda m: m.ClampBoundingBoxes()(*TYPED)[1],
    "SanitizeKeyPoints": lambda m: m.SanitizeKeyPoints()(
        tv.KeyPoints([[3.0, 4], [70, 5]], canvas_size=(40, 60))
    ),
    "SanitizeBoundingBoxes": lambda m: m.SanitizeBoundingBoxes()(
        {"image": TYPED[0], "boxes": v2.ClampBoundingBoxes()(BOXES), "labels": torch.arange(3)}
    )["labels"],
}

HALF = torch.rand(1, 3, 100, 120, generator=torch.Generator().manual_seed(0))

# What the last column says, where a call can show it: the result of each library.
DIFFERENCES: dict[str, Call] = {
    "RandomChoice": lambda m: _rows_differ(
        m.RandomChoice([m.RandomHorizontalFlip(1), m.RandomVerticalFlip(1)])
    ),
    "RandomApply": lambda m: _rows_differ(m.RandomApply([m.RandomHorizontalFlip(1)])),
    "Compose": lambda m: _rows_differ(m.Compose([m.RandomCrop(50)])),
    "RandomOrder": lambda m: _rows_differ(
        m.RandomOrder([m.CenterCrop((100, 60)), m.Resize((100, 120)), m.RandomRotation(40)])
    ),
    "Transform": lambda m: hasattr(m.Transform, "effects"),
    "Resize": lambda m: m.Resize((37, 45), v2.InterpolationMode.NEAREST)(IMAGE),
    "RandomAffine": lambda m: m.RandomAffine((20, 20))(IMAGE),
    "RandomRotation": lambda m: m.RandomRotation((20, 20))(IMAGE),
    "ColorJitter": lambda m: m.ColorJitter(hue=(0.2, 0.2))(IMAGE),
    "RandAugment": lambda m: _takes_boxes(m.RandAugment()),
    "AugMix": lambda m: _takes_boxes(m.AugMix()),
    "TrivialAugmentWide": lambda m: _takes_boxes(m.TrivialAugmentWide()),
    "AutoAugment": lambda m: _takes_boxes(m.AutoAugment()),
    "RandomChannelPermutation": lambda m: _takes(
        m.RandomChannelPermutation(), HALF.new_zeros(5, 9, 9)
    ),
    "ElasticTransform": lambda m: _bent_points(m),
    "FiveCrop": lambda m: hasattr(m.FiveCrop(5), "chains"),
    "TenCrop": lambda m: hasattr(m.TenCrop(5), "chains"),
    "GaussianNoise": lambda m: _takes(lambda i: m.GaussianNoise(sigma=(0.1, 0.2))(i), IMAGE),
    "UniformTemporalSubsample": lambda m: _takes(m.UniformTemporalSubsample(3), CLIP),
    "ToDtype": lambda m: m.ToDtype(torch.uint8, scale=True)(torch.tensor([[[0.5, 0.9]]])),
    "ConvertImageDtype": lambda m: m.ConvertImageDtype(torch.uint8)(torch.tensor([[[0.5, 0.9]]])),
    "ToTensor": lambda m: m.ToTensor()(IMAGE).dtype,
    "MixUp": lambda m: m.MixUp(labels_getter=None)(
        {
            "image": torch.zeros(2, 3, 9, 9),
            "boxes": [tv.BoundingBoxes([[1.0, 2, 3, 4]], format="XYXY", canvas_size=(9, 9))] * 2,
        }
    )["boxes"][0].shape[0],
    "CutMix": lambda m: m.CutMix(labels_getter=None)(
        {"image": torch.zeros(2, 3, 9, 9), "mask": tv.Mask(torch.zeros(2, 9, 9))}
    )["mask"].shape[0],
    "ConvertBoundingBoxFormat": lambda m: m.ConvertBoundingBoxFormat("CXCYWH")(
        tv.Image(torch.zeros(3, 9, 9)),
        tv.BoundingBoxes([[0, 0, 7, 2]], format="XYXY", canvas_size=(9, 9)),
    )[1],
    "ClampBoundingBoxes": lambda m: m.ClampBoundingBoxes()(
        {"image": torch.zeros(3, 9, 9), "boxes": torch.tensor([[-1.0, 0, 12, 2]])}
    )["boxes"],
    "SanitizeBoundingBoxes": lambda m: m.SanitizeBoundingBoxes(labels_getter=lambda s: s[1]),
    "Pad": lambda m: m.Pad(1, fill=300)(IMAGE),
    "SanitizeKeyPoints": lambda m: m.SanitizeKeyPoints(labels_getter=lambda s: s[1]),
}


def _bent_points(m: Any) -> bool:
    """Whether a point goes where the picture's mark goes, to a tenth of a pixel."""
    y, x = torch.meshgrid(torch.arange(100.0), torch.arange(120.0), indexing="ij")
    mark = torch.exp(-((x - 60) ** 2 + (y - 50) ** 2) / 8)
    point = tv.KeyPoints([[60.0, 50.0]], canvas_size=(100, 120))
    image, moved = m.ElasticTransform(400.0, 8.0)(tv.Image(mark[None].repeat(3, 1, 1)), point)
    weight = image[0] / image[0].sum()
    seen = torch.stack(((weight * x).sum(), (weight * y).sum()))
    return bool((moved.as_subclass(Tensor)[0] - seen).abs().max() < 0.7)


def _rows_differ(transform: Any) -> bool:
    """Whether the images of a batch are treated differently, in one of a few calls."""
    found = False
    for seed in range(8):
        torch.manual_seed(seed)
        result = transform(HALF.expand(8, -1, -1, -1))
        found = found or any(not torch.equal(result[0], other) for other in result)
    return found


def _takes(transform: Any, *sample: Any) -> bool:
    try:
        transform(*sample)
    except (TypeError, ValueError):
        return False
    return True


def _takes_boxes(transform: Any) -> bool:
    return _takes(transform, *TYPED)


# What is used unchanged, where nothing is left to chance.
THEIRS: dict[str, Callable[[], Any]] = {
    "RGB": lambda: v2.RGB(),
    "SetClampingMode": lambda: v2.SetClampingMode("hard"),
    "ClampKeyPoints": lambda: v2.ClampKeyPoints(),
}

# The rows with another name of ours.
OTHERS: dict[str, tuple[Any, Any]] = {
    "Lambda": (v2.Lambda(torch.neg), T.ImageOnly(torch.neg)),
}


def named(choice: str) -> list[str]:
    return [name for name, (ours, _) in ROWS.items() if ours == choice]


def test_every_name_has_a_row() -> None:
    public = {
        name
        for name, value in vars(v2).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert set(ROWS) == public


def test_every_row_is_run() -> None:
    assert set(named(SAME)) == set(CALLS) | {"Transform"}
    assert set(named(UNCHANGED)) == set(THEIRS)
    assert {n for n, (ours, _) in ROWS.items() if ours.startswith("`")} == set(OTHERS)
    assert {ours for ours, _ in ROWS.values() if not ours.startswith("`")} == {
        SAME,
        UNCHANGED,
        NONE,
    }


@pytest.mark.parametrize("name", named(NONE))
def test_not_there(name: str) -> None:
    assert getattr(T, name, None) in (None, getattr(v2, name))
    assert ROWS[name][1], "the table doesn't say what to do"


@pytest.mark.parametrize("name", CALLS)
def test_the_same(name: str) -> None:
    ours, theirs = (inspect.signature(getattr(m, name)).parameters for m in (T, v2))
    assert [p for p in ours if p in theirs] == [p for p in theirs if p != "transforms" or p in ours]
    expected, got = (torch.as_tensor(CALLS[name](m)).as_subclass(Tensor) for m in (v2, T))
    assert got.dtype == expected.dtype
    tolerance = 1.0 if got.dtype == torch.uint8 else 1e-5
    torch.testing.assert_close(got.double(), expected.double(), rtol=1e-5, atol=tolerance)


@pytest.mark.parametrize("name", DIFFERENCES)
def test_what_differs(name: str) -> None:
    assert ROWS[name][1], "the table says that nothing differs"
    results = []
    for m in (T, v2):
        try:
            torch.manual_seed(0)
            result = DIFFERENCES[name](m)
            results.append(result.as_subclass(Tensor) if isinstance(result, Tensor) else result)
        except (TypeError, ValueError, RuntimeError) as error:
            results.append(type(error))
    ours, theirs = results
    if isinstance(ours, Tensor) and isinstance(theirs, Tensor):
        assert not torch.equal(ours, theirs)
    elif inspect.isclass(ours) or inspect.isclass(theirs) or isinstance(ours, Tensor):
        assert ours is not theirs
    else:
        assert type(ours) is not type(theirs) or ours != theirs


def test_differences_are_tried() -> None:
    said = {name for name, (ours, differs) in ROWS.items() if ours == SAME and differs}
    # Arguments without an effect, and passes, show in no result. A crop's rim is in
    # tests/transforms/test_exact.py, edges are in test_moving.py. With no box, torchvision searches
    # for ever.
    untried = {"RandomErasing", "Normalize", "Grayscale", "RandomResizedCrop", "RandomPerspective"}
    assert said - set(DIFFERENCES) == untried | {"RandomPhotometricDistort", "RandomIoUCrop"}


@pytest.mark.parametrize("name", THEIRS)
def test_unchanged(name: str) -> None:
    transform = THEIRS[name]()
    image = tv.Image(IMAGE)
    sample = {
        "image": image,
        "boxes": BOXES,
        "keypoints": tv.KeyPoints([[300.0, 20.0]], canvas_size=(100, 120)),
    }
    chain = T.Compose([T.Pad(0), transform])
    assert len(chain.passes) == 2
    result, expected = chain(sample), transform(sample)
    assert result["image"].shape == expected["image"].shape
    assert torch.equal(result["image"], expected["image"])
    got, boxes = result["boxes"], expected["boxes"]
    assert torch.equal(got.as_subclass(Tensor), boxes.as_subclass(Tensor))
    assert got.clamping_mode == boxes.clamping_mode
    assert torch.equal(result["keypoints"], expected["keypoints"])


@pytest.mark.parametrize("name", OTHERS)
def test_another_name(name: str) -> None:
    theirs, ours = OTHERS[name]
    expected = theirs(IMAGE)
    torch.testing.assert_close(T.Compose([ours])(IMAGE), expected.as_subclass(Tensor))
    word = type(ours).__name__
    assert ROWS[name][0].startswith(f"`{word}(")


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
    "AtLeastOneBBoxRandomCrop": lambda: T.AtLeastOneBBoxRandomCrop(8, 8),
    "CropNonEmptyMaskIfExists": lambda: T.CropNonEmptyMaskIfExists(8, 8),
    "CropAndPad": lambda: T.CropAndPad(px=3),
    "RandomSizedCrop": lambda: T.RandomSizedCrop((4, 8), 8),
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
OTHER_NAMES = {
    *(
        "AutoAugmentPolicy",
        "Canvas",
        "Compose",
        "DecodeImage",
        "DecodeJpeg",
        "Effects",
        "ImageOnly",
    ),
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
    *("Views", "collate_yolo", "convert", "presets", "preview", "visible"),
}


def rows_of_transforms() -> dict[str, list[str]]:
    """The cells behind a name, for every name of the tables."""
    found = {}
    page = PAGE.read_text()
    for table in page.split(HEAD)[1:]:
        for line in table.split("\n\n")[0].splitlines()[2:]:
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            for name in re.findall(r"`(\w+)`", cells[0]):
                found[name] = cells
    return found


TRANSFORM_ROWS = rows_of_transforms()


def test_every_transform_has_a_row() -> None:
    public: Any = T.__all__
    assert set(public) - OTHER_NAMES <= set(TRANSFORM_ROWS)
    assert all(hasattr(T, name) for name in TRANSFORM_ROWS)


HOW = {"fused": "fused", "values": "values", "alone": "own pass", "foreign": "own pass"}


@pytest.mark.parametrize(
    "name", [n for n, cells in TRANSFORM_ROWS.items() if cells[1] in HOW.values()]
)
def test_it_runs_as_said(name: str) -> None:
    if name in ("FiveCrop", "TenCrop"):
        assert all(len(chain.passes) == 1 for chain in getattr(T, name)(8).chains)
        return
    make = MADE.get(name, getattr(T, name))
    kind = T.Compose([make()]).passes[0].kind
    assert HOW[kind] == TRANSFORM_ROWS[name][1]


def test_names_of_torchvision_and_albumentations() -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2")
    libraries = {2: v2}
    for column, module in ((3, "albumentations"), (4, "kornia.augmentation")):
        try:
            libraries[column] = importlib.import_module(module)
        except ImportError:
            continue
    for name, cells in TRANSFORM_ROWS.items():
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
