"""Crops that look at targets, crops at places, JPEG, frames and the recipes made of them."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision import tv_tensors as tv
from torchvision.ops import box_iou
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F
from visops import transforms as T
from visops.transforms import presets

from transforms.chains import photo


def detection(count: int = 3, seed: int = 0) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    x, y = generator.uniform(0, 300, count), generator.uniform(0, 250, count)
    w, h = generator.uniform(20, 130, count), generator.uniform(20, 120, count)
    boxes = torch.from_numpy(np.stack((x, y, x + w, y + h), 1)).float()
    mask = torch.arange(380 * 440).reshape(380, 440) % 251
    return {"image": photo(), "boxes": boxes, "labels": torch.arange(count), "mask": mask.byte()}


def crop_of(sample: dict[str, Any], out: dict[str, Any]) -> tuple[int, int, int, int]:
    """Find where a crop of the photo was."""
    height, width = out["image"].shape[-2:]
    first = out["image"][:, 0, 0]
    positions = (sample["image"] == first[:, None, None]).all(0).nonzero()
    for top, left in positions.tolist():
        part = sample["image"][:, top : top + height, left : left + width]
        if part.shape == out["image"].shape and torch.equal(part, out["image"]):
            return top, left, height, width
    raise AssertionError("no crop")


def test_iou_crops_keep_an_overlap() -> None:
    sample = detection()
    for least in (0.1, 0.3, 0.5):
        chain = T.Compose([T.RandomIoUCrop(sampler_options=[least])], seed=0)
        for index in range(15):
            out = chain(sample, index=index)
            top, left, height, width = crop_of(sample, out)
            crop = torch.tensor([[left, top, left + width, top + height]]).float()
            centre = (sample["boxes"][:, :2] + sample["boxes"][:, 2:]) / 2
            inside = (centre > crop[:, :2]).all(1) & (centre < crop[:, 2:]).all(1)
            assert inside.any()
            assert box_iou(sample["boxes"][inside], crop).max() >= least
            assert 0.5 <= width / height <= 2.0
            assert min(height / 380, width / 440) >= 0.3 - 1 / 380
            moved = sample["boxes"] - crop[0, :2].repeat(2)
            moved[~inside] = 0
            torch.testing.assert_close(out["boxes"], moved)
            part = sample["mask"][top : top + height, left : left + width]
            assert torch.equal(out["mask"], part)
            assert torch.equal(chain(sample, index=index)["image"], out["image"])


def test_iou_crops_are_drawn_as_torchvision_s() -> None:
    sample = detection(2, 3)
    typed = tv.BoundingBoxes(sample["boxes"], format="XYXY", canvas_size=(380, 440))
    ours, theirs = [], []
    chain, other = T.Compose([T.RandomIoUCrop()], seed=0), v2.RandomIoUCrop()
    torch.manual_seed(0)
    small = {"image": photo()[:1], "boxes": sample["boxes"]}
    for index in range(150):
        ours.append(tuple(chain(small, index=index)["image"].shape[-2:]))
        theirs.append(tuple(other(tv.Image(small["image"]), typed)[0].shape[-2:]))
    a, b = (np.array(s, np.float64) for s in (ours, theirs))
    whole = [(s == (380, 440)).all(1).mean() for s in (a, b)]
    assert abs(whole[0] - whole[1]) < 0.1
    assert (np.abs(a.mean(0) - b.mean(0)) < 25).all()
    assert (np.abs(a.std(0) - b.std(0)) < 20).all()


def test_iou_crops_of_batches() -> None:
    samples = [detection(3, seed) for seed in range(4)]
    steps = [T.RandomIoUCrop(), T.Resize((64, 64)), T.RandomHorizontalFlip()]
    chain = T.Compose(steps, seed=0, boxes="sanitize")
    batch = chain.collate([{**s, "index": i} for i, s in enumerate(samples)])
    assert batch["image"].shape == (4, 3, 64, 64)
    for i, sample in enumerate(samples):
        alone = chain(sample, index=i)
        assert torch.equal(alone["image"], batch["image"][i])
        assert torch.equal(alone["boxes"], batch["boxes"][i])
        assert len(alone["boxes"]) == len(alone["labels"])
    empty = {**samples[0], "boxes": torch.zeros(0, 4), "labels": torch.zeros(0)}
    whole = T.Compose([T.RandomIoUCrop()], seed=0)
    assert torch.equal(whole(empty, index=0)["image"], photo())
    with pytest.raises(TypeError, match="RandomIoUCrop: the sample has no boxes"):
        whole(photo())
    sometimes = T.Compose([T.RandomApply([T.RandomIoUCrop(sampler_options=[0.5])], 0.5)], seed=0)
    sizes = {tuple(sometimes(samples[0], index=i)["image"].shape) for i in range(30)}
    assert (3, 380, 440) in sizes
    assert len(sizes) > 8
    out, params = chain(samples[1], index=0, return_params=True)
    assert torch.equal(chain(samples[1], params=params)["image"], out["image"])
    with pytest.raises(TypeError, match="which chooses its crop by the targets"):
        chain.inverse(out, params)


def test_crops_by_category() -> None:
    mask = torch.zeros(100, 120, dtype=torch.uint8)
    mask[30:60, 20:90] = 1
    mask[:10] = 255
    sample = {"image": torch.arange(12000).reshape(1, 100, 120).float(), "mask": mask}
    chain = T.Compose([T.CropByCategory((40, 50), 0.75)], seed=0)
    good = 0
    for index in range(60):
        out = chain(sample, index=index)
        assert out["mask"].shape == (40, 50)
        counts = torch.bincount(out["mask"].flatten().long(), minlength=256)[:255].double()
        good += float(counts.max() / counts.sum()) < 0.75
        first = int(out["image"][0, 0, 0])
        assert torch.equal(out["mask"], mask[first // 120 :, first % 120 :][:40, :50])
    assert good > 55
    random = T.Compose([T.CropByCategory((40, 50), 1.0)], seed=0)
    assert random(sample, index=0)["mask"].shape == (40, 50)
    with pytest.raises(TypeError, match=r"has shape \[1, 100, 120\] and dtype"):
        chain({"image": sample["image"], "mask": mask[None]})


def test_random_size_crops_are_detr_s() -> None:
    image = torch.zeros(1, 90, 120)
    chain = T.Compose([T.RandomSizeCrop(40, 100)], seed=0)
    params = chain.make_params(image.expand(4000, 1, 90, 120), index=range(4000)).steps[0]
    for name, low, high in (("width", 40, 100), ("height", 40, 90)):
        assert (params[name].min(), params[name].max()) == (low, high)
        assert abs(params[name].mean() - (low + high) / 2) < 1
    assert (params["top"] + params["height"] <= 90).all()
    assert (params["left"] + params["width"] <= 120).all()
    whole = (params["top"] + params["height"] == 90) & (params["height"] < 60)
    assert whole.any()
    sample = detection()
    out = T.Compose([T.RandomSizeCrop(100, 300)], seed=1)(sample, index=0)
    top, left, *_ = crop_of(sample, out)
    torch.testing.assert_close(
        out["boxes"], sample["boxes"] - torch.tensor([left, top, left, top]).float()
    )
    fused = T.Compose([T.RandomSizeCrop(50, 90), T.Resize(32), T.RandomHorizontalFlip()])
    assert len(fused.passes) == 1
    with pytest.raises(ValueError, match=r"RandomSizeCrop: size is \(200, 200\), an image has"):
        T.RandomSizeCrop(200, 300)(image)


@pytest.mark.parametrize("size", [(30, 45), (31, 44), (60, 80)])
def test_five_and_ten_crops(size: tuple[int, int]) -> None:
    image = photo()[:, :60, :80].contiguous()
    for ours, theirs in (
        (T.FiveCrop(size), F.five_crop(image, list(size))),
        (T.TenCrop(size), F.ten_crop(image, list(size))),
        (T.TenCrop(size, vertical_flip=True), F.ten_crop(image, list(size), True)),
    ):
        for a, b in zip(ours(image), theirs, strict=True):
            assert torch.equal(a, b)
    boxes = T.FiveCrop(size)({"image": image, "boxes": torch.tensor([[50.0, 40, 70, 55]])})
    assert boxes[3]["boxes"].tolist() == [
        [50.0 - 80 + size[1], 40 - 60 + size[0], 70 - 80 + size[1], 55 - 60 + size[0]]
    ]
    steps = [T.ToDtype(torch.float32, scale=True), T.Normalize([0.5], [0.5])]
    normal = T.FiveCrop(size, then=steps)
    assert all(len(chain.passes) == 1 for chain in normal.chains)
    torch.testing.assert_close(normal(image)[4], T.FiveCrop(size)(image)[4] / 127.5 - 1)
    with pytest.raises(ValueError, match=r"FiveCrop: size is \(61, 20\), an image has height 60"):
        T.FiveCrop((61, 20))(image)


SEPIA = [[0.393, 0.769, 0.189], [0.349, 0.686, 0.168, 0.1], [0.272, 0.534, 0.131]]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_colour_matrices(dtype: torch.dtype) -> None:
    image, rows = photo(dtype)[:, ::8, ::8], np.array([(*row, 0.0)[:4] for row in SEPIA])
    variation = (rows - np.eye(3, 4)).tolist()
    chain = T.Compose([T.ColorMatrix(np.eye(3).tolist(), variation, (0.2, 0.7), 0.6)], seed=0)
    found, params = chain(torch.stack([image] * 20), index=range(20), return_params=True)
    applied, amounts = (params.steps[0][name] for name in ("apply", "amount"))
    assert 5 < applied.sum() < 18
    assert ((amounts >= 0.2) & (amounts < 0.7)).all()
    white = 255.0 if dtype == torch.uint8 else 1.0
    values = image.double().numpy() / white
    for out, share in zip(found, applied * amounts, strict=True):
        matrix = np.eye(3, 4) + share * (rows - np.eye(3, 4))
        wanted = np.einsum("ij,jyx->iyx", matrix[:, :3], values) + matrix[:, 3, None, None]
        distance = np.abs(out.double().numpy() / white - wanted.clip(0.0, 1.0)).max()
        assert distance <= (0.5001 / 255 if dtype == torch.uint8 else 1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1.0, 0.0]] * 3,), "matrix is .*, must be 1 to 4 rows of as many numbers as rows, or"),
        (([1.0, 2.0],), "matrix is .*, must be 1 to 4 rows"),
        (([[1.0]] * 5,), "matrix is .*, must be 1 to 4 rows"),
        ((np.eye(3).tolist(), [[1.0]]), "variation is .*, must be 3 rows, as matrix has"),
        (([[1.0]], None, (1.0, 0.0)), "amount is .*, must be two numbers"),
        (([["a"]],), "matrix is 'a', must be 1 to 4 rows"),
    ],
)
def test_bad_colour_matrices(arguments: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"ColorMatrix: {message}"):
        T.ColorMatrix(*arguments)


def test_colour_matrices_of_other_channels() -> None:
    with pytest.raises(ValueError, match="ColorMatrix: the image has 3 channels, must have 1"):
        T.ColorMatrix([[2.0]])(photo())


def test_frames_and_matrices() -> None:
    clip = torch.arange(2 * 7 * 3 * 4).reshape(2, 7, 3, 2, 2).float()
    expected = F.uniform_temporal_subsample(clip, 4)
    chain = T.Compose([T.UniformTemporalSubsample(4)], per_frame=False)
    assert torch.equal(chain(clip), expected)
    assert torch.equal(chain(clip[0]), expected[0])
    assert torch.equal(T.UniformTemporalSubsample(4)(tv.Video(clip[0])), expected[0])
    assert chain(tv.Video(clip[0][:2])).shape == (4, 3, 2, 2)
    with pytest.raises(TypeError, match="UniformTemporalSubsample: the sample is no video"):
        T.UniformTemporalSubsample(4)(clip[0, 0])
    matrix, mean = torch.rand(12, 12, dtype=torch.float64), torch.rand(12, dtype=torch.float64)
    theirs = v2.LinearTransformation(matrix, mean)
    images = torch.rand(5, 3, 2, 2, dtype=torch.float64)
    torch.testing.assert_close(T.LinearTransformation(matrix, mean)(images), theirs(images))
    with pytest.raises(ValueError, match="must have 12 values"):
        T.LinearTransformation(matrix, mean)(torch.rand(3, 2, 3))


def test_recipes() -> None:
    sample = detection()
    for kind in ("ssd", "ssdlite", "detr"):
        out = presets.detection_train(kind, seed=0)(sample, index=2)
        assert out["image"].dtype == torch.float32
        assert len(out["boxes"]) == len(out["labels"])
    segmented = {"image": photo(), "mask": sample["mask"].long()}
    out = presets.mmsegmentation_train(96, (400, 200), seed=0)(segmented, index=1)
    assert out["image"].shape == (3, 96, 96)
    assert out["mask"].shape == (96, 96)
    medical = {"image": photo()[:1] / 255, "mask": sample["mask"]}
    chain = presets.nnunet_2d((64, 80), seed=0)
    for index in range(30):
        out = chain(medical, index=index)
        assert out["image"].shape == (1, 64, 80)
        assert out["mask"].shape == (64, 80)
        assert out["image"].isfinite().all()
    yolo = presets.yolo_train(160, degrees=5, shear=2, seed=0)
    mosaics = presets.yolo_mosaic(160, degrees=5, shear=2, seed=0)
    batch = yolo(mosaics.collate([detection(2, s) for s in range(4)]))
    assert batch["image"].shape == (4, 3, 160, 160)
    assert [len(b) for b in batch["boxes"]] == [len(x) for x in batch["labels"]]
    assert len(yolo.passes) == 3


def test_types_come_back(tmp_path: Any) -> None:
    image = tv.Image(photo())
    boxes = tv.BoundingBoxes([[10.0, 20, 90, 80]], format="XYXY", canvas_size=(380, 440))
    out, moved = T.Compose([T.RandomIoUCrop(sampler_options=[0.0])], seed=0)(image, boxes)
    assert isinstance(out, tv.Image)
    assert isinstance(moved, tv.BoundingBoxes)
    assert moved.canvas_size == tuple(out.shape[-2:])
    assert isinstance(moved.as_subclass(Tensor), Tensor)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.float32], ids=str)
@pytest.mark.parametrize("exact", [False, True])
def test_what_needs_no_grey_takes_any_channels(dtype: torch.dtype, exact: bool) -> None:
    """Eight channels come out as they would one by one."""
    white = 1.0 if dtype.is_floating_point else float(torch.iinfo(dtype).max)
    bands = (torch.rand(8, 30, 40, generator=torch.Generator().manual_seed(0)) * white).to(dtype)
    means = [0.1 * i for i in range(8)]
    after = [T.ToDtype(torch.float32, scale=True), T.Normalize(means, [0.5 + m for m in means])]
    for change in (T.ColorJitter(0.4), T.RandomBrightnessContrast(p=1.0)):
        move: list[Any] = [T.RandomRotation(20, fill=[0.1 * white * (i % 3) for i in range(8)])]
        chain = T.Compose([*move, change, *after], seed=0, exact=exact)
        found = chain(bands, index=3)
        for image in (bands[None], [bands]):
            assert torch.equal(chain(image, index=[3])[0], found)
        for band in range(8):
            fill = [move[0].fill[band]]
            steps = [T.RandomRotation(20, fill=fill), change, after[0]]
            steps.append(T.Normalize([means[band]], [0.5 + means[band]]))
            alone = T.Compose(steps, seed=0, exact=exact)(bands[band : band + 1], index=3)
            assert torch.equal(found[band], alone[0])
    for refused in (T.ColorJitter(0.4, 0.4), T.RandomHSV(), T.RandomChannelPermutation()):
        with pytest.raises(ValueError, match="8 channels"):
            refused(bands)


def test_noise_of_wide_integers() -> None:
    grey = torch.full((1, 64, 64), 30000, dtype=torch.uint16)
    noisy = T.Compose([T.GaussianNoise(sigma=0.1)], seed=0)(grey, index=0).double() / 65535
    assert abs(noisy.std() - 0.1) < 0.005
    floats = T.Compose([T.GaussianNoise(sigma=0.1)], seed=0)(grey.double() / 65535, index=0)
    assert (noisy - floats).abs().max() < 1e-4
    with pytest.raises(TypeError, match=r"clip is False, the image has dtype torch\.uint16"):
        T.GaussianNoise(clip=False)(grey)
