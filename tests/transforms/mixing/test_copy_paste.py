"""CopyPaste against its definition, written as loops."""

import re
from typing import Any

import numpy as np
import pytest
import torch
from torchvision import ops
from torchvision.transforms import functional as F
from visops import transforms as T
from visops.transforms.mixing.copy_paste import _chosen

SIZE = (24, 32)


def sample_of(seed: int, count: int, size: tuple[int, int] = SIZE) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    masks = np.zeros((count, *size), np.uint8)
    for own in masks:
        y, x = rng.integers(0, size[0] - 8), rng.integers(0, size[1] - 8)
        own[y : y + rng.integers(3, 9), x : x + rng.integers(3, 9)] = 1
    tensor = torch.from_numpy(masks)
    boxes = ops.masks_to_boxes(tensor) + torch.tensor([0.0, 0, 1, 1])
    return {
        "image": torch.from_numpy(rng.integers(0, 256, (3, *size), np.uint8)),
        "boxes": boxes,
        "masks": tensor,
        "labels": torch.arange(count) + 10 * seed,
        "area": tensor.sum((1, 2)).float(),
        "iscrowd": torch.zeros(count, dtype=torch.int64),
        "image_id": seed,
    }


def expected(own: dict[str, Any], other: dict[str, Any], chosen: Any, blending: bool) -> Any:
    """torchvision's _copy_paste, with boxes from pixel corner to pixel corner."""
    found = np.flatnonzero(chosen)
    if len(found) == 0:
        return own
    pasted = other["masks"][found]
    alpha = pasted.sum(0) > 0
    if blending:
        alpha = F.gaussian_blur(alpha[None], [5, 5], [2.0])[0]
    image = own["image"] * ~alpha + other["image"] * alpha
    masks = own["masks"] * ~alpha
    left = masks.sum((1, 2)) > 0
    masks = masks[left]
    boxes = ops.masks_to_boxes(masks) + torch.tensor([0.0, 0, 1, 1])
    both = torch.cat([masks, pasted])
    return {
        "image": image,
        "boxes": torch.cat([boxes, other["boxes"][found]]),
        "masks": both,
        "labels": torch.cat([own["labels"][left], other["labels"][found]]),
        "area": both.sum((1, 2)).float(),
        "iscrowd": torch.cat([own["iscrowd"][left], other["iscrowd"][found]]),
        "image_id": own["image_id"],
    }


def batched(samples: list[dict[str, Any]]) -> dict[str, Any]:
    listed: dict[str, Any] = {key: [own[key] for own in samples] for key in samples[0]}
    if len({own["image"].shape for own in samples}) == 1:
        listed["image"] = torch.stack(listed["image"])
    return listed


@pytest.mark.parametrize("blending", [True, False])
def test_values(blending: bool) -> None:
    samples = [sample_of(seed, count) for seed, count in enumerate((3, 5, 0, 1, 8))]
    paste = T.CopyPaste(blending, seed=0)
    out, params = paste(batched(samples), index=range(5), return_params=True)
    keys = params.steps[0]["key"]
    for index, own in enumerate(samples):
        other = samples[index - 1]
        chosen = _chosen(keys[index], np.ones(len(other["labels"]), bool))
        want = expected(own, other, chosen, blending)
        for name, value in want.items():
            got = out[name][index]
            if isinstance(value, torch.Tensor):
                assert got.dtype == value.dtype, name
                assert torch.equal(got, value), (index, name)
            else:
                assert got == value
    again = paste(batched(samples), params=params)
    assert torch.equal(again["image"], out["image"])
    assert samples[0]["masks"].sum() == sample_of(0, 3)["masks"].sum()


def test_what_is_covered_is_dropped() -> None:
    masks = torch.zeros(2, 1, *SIZE, dtype=torch.bool)
    masks[:, 0, 4:9, 5:9] = True
    batch: dict[str, Any] = {
        "image": torch.zeros(2, 1, *SIZE),
        "boxes": [torch.tensor([[5.0, 4, 9, 9]])] * 2,
        "masks": list(masks),
        "labels": [["a"], ["b"]],
        "keypoints": [torch.tensor([[[6.0, 6.0]]]), torch.tensor([[[7.0, 7.0]]])],
    }
    out = T.CopyPaste()(batch)
    assert out["labels"] == [["b"], ["a"]]
    assert torch.equal(out["boxes"][0], batch["boxes"][0])
    assert out["keypoints"][0].tolist() == [[[7.0, 7.0]]]


def test_other_sizes_are_resized() -> None:
    small, large = sample_of(1, 1, (12, 16)), sample_of(2, 0, (24, 32))
    small["image"] = torch.full_like(small["image"], 200)
    out = T.CopyPaste(blending=False).collate([small, large])
    twice = small["masks"][0].repeat_interleave(2, 0).repeat_interleave(2, 1)
    assert torch.equal(out["masks"][1][0], twice)
    assert torch.equal(out["boxes"][1], 2 * small["boxes"])
    want = torch.where(twice > 0, 200, large["image"]).byte()
    assert torch.equal(out["image"][1], want)
    assert torch.equal(out["image"][0], small["image"])  # the other has no object


def test_masks_of_the_image() -> None:
    samples = [sample_of(1, 2), sample_of(2, 2)]
    maps = [torch.full(SIZE, own, dtype=torch.uint8) for own in (3, 4)]
    out = T.CopyPaste(seed=0)({**batched(samples), "mask": torch.stack(maps)}, index=[0, 1])
    for index in range(2):
        other = (out["image"][index] != samples[index]["image"]).any(0)
        classes = out["mask"][index]
        assert set(classes.unique().tolist()) == {3, 4}
        assert (classes[other] == 4 - index).all()


def test_distribution() -> None:
    rng = np.random.default_rng(0)
    hits = np.stack([_chosen(key, np.ones(5, bool)) for key in rng.random(4000)])
    assert hits.any(1).all()
    assert (abs(hits.mean(0) - (1 - 0.8**5)) < 0.03).all()
    chosen = T.CopyPaste(seed=4)
    keys = chosen(batched([sample_of(1, 1)] * 500), index=range(500), return_params=True)[1]
    assert abs(keys.steps[0]["key"].mean() - 0.5) < 0.05


@pytest.mark.parametrize("name", ["iscrowd", "ignore"])
def test_crowds_are_never_pasted(name: str) -> None:
    """They stay in their own image, and of the others as many are drawn as there are."""
    samples = [sample_of(1, 1), sample_of(2, 5)]
    flags = [torch.zeros(1, dtype=torch.int64), torch.tensor([0, 1, 0, 1, 0])]
    for own, crowd in zip(samples, flags, strict=True):
        own[name] = crowd
    paste = T.CopyPaste(blending=False, seed=0, keys={"labels": ["ignore"]})
    seen: set[int] = set()
    for index in range(40):
        found = paste(batched(samples), index=[index, index])
        labels, crowds = found["labels"], found[name]
        assert all(len(own) == len(other) for own, other in zip(labels, crowds, strict=True))
        assert not crowds[0].any()
        seen |= set(labels[0].tolist())
    assert seen == {10, 20, 22, 24}
    everything = {**batched(samples), name: [flags[0] + 1, flags[1] * 0 + 1]}
    assert [len(own) for own in paste(everything, index=[0, 1])["labels"]] == [1, 5]


def test_choice_of_batches() -> None:
    both = T.RandomChoice([T.CopyPaste(seed=1), T.MixUp(labels_getter=None, seed=1)])
    out = both(batched([sample_of(1, 2), sample_of(2, 3)]), index=[0, 1])
    assert len(out["labels"]) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"masks": None}, "the sample has 1 sets of boxes and 0 sets of masks for them, must have"),
        (
            {"polygons": [[[[0, 0, 1, 0, 1, 1]]] * 2] * 2},
            "sample['polygons'] are polygons, which can't be cut by masks; must be left out",
        ),
    ],
)
def test_bad_input(change: Any, message: str) -> None:
    sample = {**batched([sample_of(1, 2), sample_of(2, 2)]), **change}
    if sample["masks"] is None:
        del sample["masks"]
    with pytest.raises(ValueError, match=re.escape(f"visops.transforms.CopyPaste: {message}")):
        T.CopyPaste()(sample)
    with pytest.raises(ValueError, match="CopyPaste: resize_interpolation is 'box', must be"):
        T.CopyPaste(resize_interpolation="box")  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["tensor", "array", "visible"])
def test_covered_key_points_are_hidden(form: str) -> None:
    samples = [sample_of(0, 3), sample_of(1, 4)]
    points = [torch.rand(n, 5, 2) * torch.tensor([32.0, 24.0]) - 0.5 for n in (3, 4)]
    for sample, own in zip(samples, points, strict=True):
        value: Any = own if form != "array" else own.numpy()
        sample["keypoints"] = value
        if form == "visible":
            sample["keypoints"] = torch.cat((own, torch.full((len(own), 5, 1), 2.0)), -1)
    batch = {key: [sample[key] for sample in samples] for key in samples[0]}
    found = T.CopyPaste(blending=False, seed=0)(batch)
    hidden = 0
    for index in range(2):
        pasted = (found["image"][index] != samples[index]["image"]).any(0)
        for label, seen in zip(
            found["labels"][index].tolist(), visible_of(found, index, form), strict=True
        ):
            is_own = int(label) // 10 == index
            x, y = np.floor(points[int(label) // 10][int(label) % 10].numpy() + 0.5).astype(int).T
            inside = (x >= 0) & (y >= 0) & (x < 32) & (y < 24)
            covered = pasted[y.clip(0, 23), x.clip(0, 31)].numpy()
            if is_own:
                assert not (seen & covered).any()
                assert (seen >= (inside & ~covered)).mean() > 0.95  # a pasted pixel may be equal
                hidden += int((inside & covered).sum())
            else:
                assert (seen == inside).all()
    assert hidden > 0


def visible_of(found: dict[str, Any], index: int, form: str) -> Any:
    if form == "visible":
        return (found["keypoints"][index][..., 2] > 0).numpy()
    return np.asarray(found["keypoints_visible"][index])
