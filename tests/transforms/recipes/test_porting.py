"""What ports from torchvision by changing the import: names, values, containers of targets."""

import copy
import functools
import pickle
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
import torch
from bad_input import check
from torch import Tensor, nn
from torch.utils.data import TensorDataset
from visops import transforms as T

tv = pytest.importorskip("torchvision.tv_tensors")
v2 = pytest.importorskip("torchvision.transforms.v2")
pil = pytest.importorskip("PIL.Image")

RNG = np.random.default_rng(0)
PHOTO = RNG.integers(0, 256, (60, 80, 3), np.uint8)
PICTURE = pil.fromarray(PHOTO)
CLASSES = RNG.integers(0, 5, (60, 80), np.uint8)
TARGET = {
    "boxes": tv.BoundingBoxes([[10.0, 5, 50, 40]], format="XYXY", canvas_size=(60, 80)),
    "labels": torch.tensor([3]),
    "masks": tv.Mask(CLASSES[None] > 2),
}


THEIRS = [
    name
    for name, value in vars(v2).items()
    if isinstance(value, type) and not name.startswith("_") and name != "Transform"
]


@pytest.mark.parametrize("name", THEIRS)
def test_every_name_of_torchvision_is_answered(name: str) -> None:
    assert isinstance(getattr(T, name), type)


def test_functional() -> None:
    with pytest.raises(AttributeError, match="; use "):
        T.functional  # noqa: B018


def test_unknown_names() -> None:
    names = {"Foo": "$", "OneOf": "; use RandomChoice", "Rotate": "; use RandomRot"}
    names |= {"LetterBox": "; use Letterbox$", "Equalize": "; use RandomEqualize$"}
    for name, hint in names.items():
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'{hint}"):
            getattr(T, name)


def test_types_of_results() -> None:
    steps: list[Any] = [T.ToImage(), T.RandomHorizontalFlip(1.0)]
    flipped = torch.from_numpy(PHOTO[:, ::-1].copy()).movedim(-1, 0)
    for given in (PICTURE, PHOTO, torch.from_numpy(PHOTO).movedim(-1, 0)):
        chain, plain = T.Compose(steps), T.Compose([*steps, T.ToPureTensor()])
        back = T.Compose([T.PILToTensor(), steps[1], T.ToPILImage()])
        for _ in range(3):  # the first call goes another way than the others
            found = chain(given)
            assert type(found) is tv.Image
            assert torch.equal(found.as_subclass(Tensor), flipped)
            assert type(plain(given)) is Tensor
            assert np.array_equal(np.asarray(back(given)), PHOTO[:, ::-1])
    image, target = T.Compose([*steps, T.ToPureTensor()])(PICTURE, copy.copy(TARGET))
    assert type(image) is type(target["boxes"]) is type(target["masks"]) is Tensor
    assert target["boxes"].tolist() == [[30, 5, 70, 40]]
    image, target = T.Compose(steps)(PICTURE, copy.copy(TARGET))
    assert type(image) is tv.Image
    assert type(target["boxes"]) is tv.BoundingBoxes
    clip = T.Compose(steps)(tv.Video(torch.zeros(2, 3, 4, 6)))
    assert type(clip) is tv.Video
    floats = T.ToPILImage()(torch.tensor([[[0.0, 0.5, 1.0]]]))
    assert floats.getpixel((1, 0)) == v2.ToPILImage()(torch.tensor([[[0.0, 0.5, 1.0]]])).getpixel(
        (1, 0)
    )
    assert T.ToPILImage("L")(PICTURE).mode == "L"
    batch = T.Compose(steps)(torch.zeros(2, 3, 4, 6))
    assert type(batch) is tv.Image


def test_types_of_results_that_cannot_be() -> None:
    message = "transforms.ToPILImage: it is followed by Pad, must be the last transform of a chain"
    check(ValueError, message, lambda: T.Compose([T.ToPILImage(), T.Pad(1)]))
    message = "transforms.ToPILImage: the sample comes out with shape [2, 3, 4, 6], must be one"
    check(ValueError, message, lambda: T.ToPILImage()(torch.zeros(2, 3, 4, 6)))
    message = "transforms.ToPILImage: the sample has 5 channels of torch.uint8, must be 1 to 4 of"
    five = torch.zeros(5, 4, 6, dtype=torch.uint8)
    check(ValueError, message, lambda: T.ToPILImage()(five))
    with pytest.raises(ValueError, match="without a transform of types alone"):
        T.RandomApply([T.ToImage()])


@pytest.mark.parametrize("version", [v2, pytest.importorskip("torchvision.transforms")])
def test_torchvision_s_own_conversions_in_a_chain(version: Any) -> None:
    """They do nothing to tensors, silently, and a chain has made a tensor before they run."""
    bright = np.full((4, 6, 3), 200, np.uint8)
    chain = T.Compose([T.RandomHorizontalFlip(), version.ToTensor()])
    for given in (bright, pil.fromarray(bright), torch.from_numpy(bright).movedim(-1, 0)):
        found = chain(given)
        assert found.dtype == torch.float32
        assert float(found.mean()) == pytest.approx(200 / 255)
    chain = T.Compose([version.PILToTensor()])
    assert chain(bright).dtype == torch.uint8
    assert isinstance(T.Compose([version.ToPILImage()])(bright), pil.Image)
    converted = T.Compose([version.ConvertImageDtype(torch.float32)])(bright)
    assert float(converted.max()) == pytest.approx(200 / 255)


def test_dtypes_by_type() -> None:
    by_type = {tv.Image: torch.float32, tv.Mask: torch.int64, "others": None}
    steps = [T.RandomHorizontalFlip(1.0), T.ToDtype(by_type, scale=True), T.Normalize([0.5], [0.5])]
    chain = T.Compose([T.ToImage(), *steps])
    for _ in range(2):
        image, mask, boxes = chain(PICTURE, tv.Mask(CLASSES), copy.copy(TARGET["boxes"]))
        assert image.dtype == torch.float32
        assert (mask.dtype, type(mask)) == (torch.int64, tv.Mask)
        assert mask.tolist() == CLASSES[:, ::-1].tolist()
        assert boxes.dtype == torch.float32
    assert len(chain.passes) == 1
    assert "ToDtype(" in repr(chain)
    half = T.ToDtype({tv.Image: torch.float16, tv.BoundingBoxes: torch.float64, "others": None})
    image, boxes = half(tv.Image(torch.zeros(3, 60, 80)), copy.copy(TARGET["boxes"]))
    assert (image.dtype, boxes.dtype, type(boxes)) == (
        torch.float16,
        torch.float64,
        tv.BoundingBoxes,
    )
    only = T.ToDtype({tv.Mask: torch.int64, "others": None})
    assert only({"image": PHOTO, "mask": CLASSES})["image"].dtype == torch.uint8
    assert only({"image": PHOTO, "mask": CLASSES})["mask"].dtype == np.int64
    again = pickle.loads(pickle.dumps(chain))
    assert torch.equal(again(PICTURE), chain(PICTURE))
    message = "transforms.ToDtype: dtype says nothing of sample['mask'], a mask; must have its type"
    image_only = T.ToDtype({tv.Image: torch.float32})
    check(ValueError, message, lambda: image_only({"image": PHOTO, "mask": CLASSES}))
    for wrong in ({3: torch.uint8}, {tv.Image: "float"}):
        with pytest.raises(TypeError, match=r"ToDtype: dtype is .*, must be a dtype or a dict"):
            T.ToDtype(wrong)
    with pytest.raises(ValueError, match="must be the same for all types of images"):
        T.ToDtype({tv.Image: torch.float32, tv.Video: torch.float16})


def test_samples_by_keyword_are_answered() -> None:
    message = (
        "transforms.Compose: got image=..., mask=..., takes the sample as one dict: "
        "chain({'image': ..., 'mask': ...})"
    )
    flip = T.RandomHorizontalFlip(1.0)
    for call in (flip, T.Compose([flip])):
        check(TypeError, message, functools.partial(call, image=PHOTO, mask=CLASSES))


def test_statistics_of_tensors_and_defaults_of_fills() -> None:
    mean, std = torch.tensor([0.4, 0.5, 0.6]), np.array([0.1, 0.2, 0.3])
    steps: list[Any] = [T.ToTensor(), T.Normalize(list(mean), list(std))]
    expected = T.Compose([T.ToTensor(), T.Normalize(mean.tolist(), std.tolist())])(PHOTO)
    assert torch.equal(T.Compose(steps)(PHOTO), expected)
    five: Any = torch.tensor(5)
    assert T.RandomRotation(five).degrees == T.RandomRotation(5).degrees
    fill = defaultdict(lambda: [9.0, 8.0, 7.0], {tv.Mask: 3})
    image, mask = T.Pad(1, fill=fill)(PICTURE, tv.Mask(CLASSES))
    assert image[:, 0, 0].tolist() == [9, 8, 7]
    assert mask[0, 0] == 3


def test_masks_with_their_channels_last() -> None:
    flip = T.Compose([T.RandomHorizontalFlip(1.0), T.Pad(1)], mask_fill=7)
    for count in (1, 5):
        mask = RNG.integers(0, 5, (60, 80, count), np.uint8)
        expected = np.pad(mask[:, ::-1], ((1, 1), (1, 1), (0, 0)), constant_values=7)
        for given in (mask, torch.from_numpy(mask)):
            found = flip({"image": PHOTO, "mask": given})["mask"]
            assert type(found) is type(given)
            assert np.array_equal(np.asarray(found), expected)
            batch = flip({"image": PHOTO[None], "mask": given[None]})["mask"]
            assert np.array_equal(np.asarray(batch[0]), expected)
            listed = flip({"image": [PHOTO], "mask": [given]})["mask"]
            assert np.array_equal(np.asarray(listed[0]), expected)
    collated = flip.collate([{"image": PHOTO, "mask": mask}] * 2)["mask"]
    assert np.array_equal(np.asarray(collated[1]), expected)


@pytest.mark.parametrize("kind", ["boxes", "bboxes", "keypoints", "masks"])
def test_no_targets_in_a_tensor_of_no_shape(kind: str) -> None:
    flip = T.Compose([T.RandomHorizontalFlip(1.0)], boxes="clamp")
    for given in (torch.tensor([]), np.array([])):
        for _ in range(2):
            found = flip({"image": PHOTO, kind: given})[kind]
            assert type(found) is type(given)
            assert found.shape[0] == 0
    batch = flip({"image": [PHOTO, PHOTO], kind: [torch.tensor([]), torch.tensor([])]})[kind]
    assert [len(found) for found in batch] == [0, 0]


def test_flat_key_points_of_coco() -> None:
    points = RNG.uniform(1, 50, (2, 17, 3))
    points[..., 2] = RNG.integers(0, 3, (2, 17))
    chain = T.Compose([T.RandomHorizontalFlip(1.0), T.CenterCrop(50)])
    for flat in (points.reshape(2, 51), torch.tensor(points).reshape(2, 51)):
        expected = chain({"image": PHOTO, "keypoints": points})["keypoints"]
        found = chain({"image": PHOTO, "keypoints": flat})["keypoints"]
        assert type(found) is type(flat)
        np.testing.assert_array_equal(np.asarray(found), expected.reshape(2, 51))
    pairs = RNG.uniform(3, 50, (2, 6))
    message = "transforms: sample['keypoints'] has shape [2, 6], and its third columns are not COCO"
    check(ValueError, message, lambda: chain({"image": PHOTO, "keypoints": pairs}))


def test_indexed_data_sets_have_their_data_set_s_attributes() -> None:
    class Photos(TensorDataset):
        classes = ("cat", "dog")

    photos = Photos(torch.rand(6, 3, 8, 8), torch.arange(6))
    dataset = T.IndexedDataset(photos, T.Compose([T.RandomHorizontalFlip()], seed=0))
    assert dataset.classes == ("cat", "dog")
    assert dataset.tensors is photos.tensors
    assert not hasattr(dataset, "targets")
    samples = dataset[1:6:2]
    assert [int(label) for _, label in samples] == [1, 3, 5]
    assert all(map(torch.equal, [x[0] for x in samples], [dataset[i][0] for i in (1, 3, 5)]))
    assert pickle.loads(pickle.dumps(T.IndexedDataset(list(range(3)), len))).dataset == [0, 1, 2]


def test_a_choice_of_mixing() -> None:
    images, labels = torch.rand(4, 3, 16, 16), torch.arange(4)
    choice: Any = T.RandomChoice([T.CutMix(num_classes=4), T.MixUp(num_classes=4)])
    seen = set()
    for seed in range(12):
        torch.manual_seed(seed)
        mixed, soft = choice(images, labels)
        assert mixed.shape == images.shape
        torch.testing.assert_close(soft.sum(1), torch.ones(4))
        seen.add(bool(torch.isin(mixed, images).all()))
    assert seen == {True, False}
    seeded: Any = T.RandomChoice([T.CutMix(num_classes=4, seed=0), T.MixUp(num_classes=4, seed=1)])
    first = [seeded((images, labels), index=range(i, i + 4))[0] for i in range(10)]
    again = [seeded((images, labels), index=range(i, i + 4))[0] for i in range(10)]
    assert all(map(torch.equal, first, again))
    assert {bool(torch.isin(image, images).all()) for image in first} == {True, False}
    always: Any = T.RandomChoice([T.CutMix(num_classes=4), T.MixUp(num_classes=4)], p=[1, 0])
    pasted = always.collate(list(zip(images, labels, strict=True)))[0]
    assert torch.isin(pasted, images).all()
    assert "RandomChoice" in repr(choice)
    with pytest.raises(TypeError, match="all of them transforms of single samples, or all of b"):
        T.RandomChoice([T.MixUp(), T.Pad(1)])
    with pytest.raises(TypeError, match="transforms holds a RandomChoice, which combines the"):
        T.Compose([choice])


class Turned(nn.Module):
    """What torchvision's recipe for videos ends with: channels before frames."""

    def forward(self, clip: Tensor) -> Tensor:
        return clip.transpose(-4, -3)


def test_options_of_albumentations_are_named() -> None:
    with pytest.raises(TypeError, match="no argument 'bbox_params'; use box_format=, boxes="):
        T.Compose([T.Pad(1)], bbox_params=None)
    with pytest.raises(TypeError, match=r"no argument 'widht'$"):
        T.Compose([T.Pad(1)], widht=3)
    with pytest.raises(TypeError, match=r"keys is \['seg'\], must be a dict of lists of names"):
        T.Compose([T.Pad(1)], keys=["seg"])  # type: ignore[arg-type]
