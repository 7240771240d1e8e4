"""Points, labels and classes that swap where an image is mirrored."""

from typing import Any

import numpy as np
import pytest
import torch
from torchvision import tv_tensors as tv
from torchvision.transforms import v2
from visops import transforms as T

IMAGE = torch.zeros(3, 20, 30)
POINTS = torch.tensor([[5.0, 4.0], [10.0, 6.0], [20.0, 6.0], [8.0, 15.0], [24.0, 15.0]])
PAIRS = [(1, 2), (3, 4)]
ORDER = [0, 2, 1, 4, 3]


def run(step: Any, points: Any, **options: Any) -> Any:
    chain = T.Compose([step], flip_pairs=PAIRS, **options)
    return chain({"image": IMAGE, "keypoints": points})["keypoints"]


@pytest.mark.parametrize(
    ("step", "mirrors"),
    [
        (T.RandomHorizontalFlip(1.0), True),
        (T.RandomVerticalFlip(1.0), True),
        (T.Transpose(1.0), True),
        (T.RandomRotation((90, 90), expand=True), False),
        (T.RandomAffine((30, 30), scale=(0.5, 0.5)), False),
        (T.RandomPerspective(0.3, 1.0), False),
    ],
    ids=lambda v: type(v).__name__,
)
def test_mirrors_swap(step: Any, mirrors: bool) -> None:
    torch.manual_seed(0)
    plain = T.Compose([step], seed=0)({"image": IMAGE, "keypoints": POINTS}, index=0)["keypoints"]
    chain = T.Compose([step], seed=0, flip_pairs=PAIRS)
    found = chain({"image": IMAGE, "keypoints": POINTS}, index=0)["keypoints"]
    assert torch.equal(found, plain[ORDER] if mirrors else plain)


def test_forms() -> None:
    flip = T.RandomHorizontalFlip(1.0)
    moved = torch.stack((29 - POINTS[:, 0], POINTS[:, 1]), 1)[ORDER]
    assert torch.equal(run(flip, POINTS), moved)
    assert torch.equal(run(flip, torch.stack([POINTS, POINTS])), torch.stack([moved, moved]))
    assert np.array_equal(run(flip, POINTS.numpy()), moved.numpy())
    third = torch.tensor([2.0, 1, 2, 0, 2])[:, None]
    with_flags = run(flip, torch.cat((POINTS, third), 1))
    assert torch.equal(with_flags, torch.cat((moved, third[ORDER]), 1))
    twice = T.Compose([flip, T.RandomErasing(0.0), T.RandomInvert(0.0), flip], flip_pairs=PAIRS)
    assert torch.equal(twice({"image": IMAGE, "keypoints": POINTS})["keypoints"], POINTS)
    gone = run(T.RandomHorizontalFlip(1.0), POINTS)
    assert torch.equal(gone, moved)


def test_batches_swap_what_is_mirrored() -> None:
    chain = T.Compose([T.RandomHorizontalFlip(), T.ColorJitter(0.1)], seed=0, flip_pairs=PAIRS)
    images = torch.zeros(12, 3, 20, 30)
    sample = {"image": images, "keypoints": POINTS.expand(12, 5, 2).clone()}
    out, params = chain(sample, index=range(12), return_params=True)
    applies = params.steps[0]["apply"]
    assert 0 < applies.sum() < 12
    moved = torch.stack((29 - POINTS[:, 0], POINTS[:, 1]), 1)[ORDER]
    for own, turned in zip(out["keypoints"], applies, strict=True):
        assert torch.equal(own, moved if turned else POINTS)
    back = chain.inverse(out, params)["keypoints"]
    assert torch.equal(back, sample["keypoints"])
    one = chain({"image": images[0], "keypoints": POINTS}, index=int(applies.argmax()))
    assert torch.equal(one["keypoints"], moved)
    nested = T.Compose(
        [T.RandomApply([T.RandomHorizontalFlip(1.0), T.JPEG(50)], 1.0)], flip_pairs=PAIRS
    )
    own = nested({"image": images[0].byte(), "keypoints": POINTS})
    assert torch.equal(own["keypoints"], moved)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([(1, 9)], "flip_pairs names point 9, sample['keypoints'] has 5 for each object"),
        ([(1, 2), (2, 3)], "flip_pairs is [(1, 2), (2, 3)], must be pairs of whole numbers >= 0"),
        ([1, 2], "flip_pairs is [1, 2], must be pairs of whole numbers >= 0"),
        (3, "flip_pairs is 3, must be pairs of whole numbers >= 0"),
    ],
)
def test_bad_input(pairs: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as error:
        T.Compose([T.RandomHorizontalFlip(1.0)], flip_pairs=pairs)(
            {"image": IMAGE, "keypoints": POINTS}
        )
    assert message in str(error.value)


SIDES = [(1, 2)]
HALVES = torch.ones(20, 30, dtype=torch.uint8)
HALVES[:, 15:] = 2


def sided(index: int, step: Any) -> dict[str, Any]:
    chain = T.Compose([step], seed=0, flip_pairs=PAIRS, label_pairs=SIDES, mask_pairs=SIDES)
    own = {"keypoints": POINTS, "labels": torch.tensor([1, 2, 3])}
    found = chain({"image": IMAGE, "mask": HALVES, "target": own}, index=index)
    return {"mask": found["mask"], **found["target"]}


@pytest.mark.parametrize(
    "step",
    [
        v2.RandomHorizontalFlip(0.5),
        v2.RandomApply([v2.RandomHorizontalFlip(1.0)], 0.5),
        v2.RandomApply([T.RandomHorizontalFlip(1.0)], 0.5),
        v2.RandomApply([T.Compose([T.RandomHorizontalFlip(1.0)], flip_pairs=PAIRS)], 0.5),
        v2.RandomOrder([v2.RandomHorizontalFlip(0.5), v2.ColorJitter(0.1)]),
        T.RandomApply([v2.RandomHorizontalFlip(0.5)], 1.0),
        v2.Lambda(lambda own: v2.functional.horizontal_flip(own)),
    ],
    ids=lambda v: type(v).__name__,
)
def test_mirrors_of_torchvision_swap(step: Any) -> None:
    """Points, labels and masks swap together, whoever has mirrored the image."""
    mirrored = 0
    for index in range(8):
        found = sided(index, step)
        is_mirrored = found["keypoints"].tolist() != POINTS.tolist()
        mirrored += is_mirrored
        moved = torch.stack((29 - POINTS[:, 0], POINTS[:, 1]), 1)[ORDER]
        assert torch.equal(found["keypoints"], moved if is_mirrored else POINTS)
        assert found["labels"].tolist() == ([2, 1, 3] if is_mirrored else [1, 2, 3])
        assert torch.equal(found["mask"], HALVES)  # sides swap twice
    assert mirrored > 0
    assert mirrored < 8 or isinstance(step, v2.Lambda)


@pytest.mark.parametrize(
    "step",
    [
        v2.RandomRotation((180, 180)),
        v2.RandomCrop((15, 20)),
        v2.Resize((40, 31)),
        v2.RandomPerspective(0.5, 1.0),
        v2.ElasticTransform(50.0, 2.0),
        v2.ColorJitter(0.1),
    ],
    ids=lambda v: type(v).__name__,
)
def test_torchvision_that_mirrors_nothing_swaps_nothing(step: Any) -> None:
    for index in range(4):
        assert sided(index, step)["labels"].tolist() == [1, 2, 3]


def test_labels_alone_stay_behind_no_other_library_s_mirror() -> None:
    """What gets only the image may mirror it, and nothing would tell."""
    chain = T.Compose([lambda image: image.flip(-1)], label_pairs=[("left", "right")])
    with pytest.raises(TypeError, match="gets only the image, and sample\\['labels'\\] would stay"):
        chain({"image": IMAGE, "labels": "left"})
    still = T.Compose([T.ImageOnly(torch.neg)], label_pairs=[("left", "right")])
    assert still({"image": IMAGE, "labels": "left"})["labels"] == "left"


@pytest.mark.parametrize("kind", [torch.tensor, np.array, list])
@pytest.mark.parametrize(
    "step",
    [
        T.RandomChoice([T.RandomHorizontalFlip(1.0), T.GridDistortion(p=1.0)]),
        T.RandomOrder([T.RandomHorizontalFlip(), T.RandomInvert()]),
        v2.RandomHorizontalFlip(),
    ],
    ids=lambda v: type(v).__name__,
)
def test_labels_swap_in_batches_that_run_sample_by_sample(step: Any, kind: Any) -> None:
    chain = T.Compose([step], seed=0, label_pairs=SIDES)
    alone = [chain({"image": IMAGE, "labels": 1}, index=i)["labels"] for i in range(12)]
    assert set(alone) == {1, 2}
    batch = {"image": IMAGE.expand(12, -1, -1, -1), "labels": kind([1] * 12)}
    found = chain(batch, index=range(12))["labels"]
    assert type(found) is type(batch["labels"])
    assert [int(own) for own in found] == alone
    each = chain.collate([{"image": IMAGE, "labels": 1}] * 12, index=range(12))["labels"]
    assert each.tolist() == alone
    boxes = torch.tensor([[[1.0, 2.0, 9.0, 9.0]] * 3])
    own = {"boxes": boxes.expand(12, 3, 4), "labels": kind([[1, 2, 3]] * 12)}
    of_boxes = chain({"image": batch["image"], **own}, index=range(12))["labels"]
    assert [[int(v) for v in own] for own in of_boxes] == [[n, 3 - n, 3] for n in alone]
    with pytest.raises(ValueError, match="has 3 entries, must have one for each of 12 images"):
        chain({**batch, "labels": kind([1, 2, 3])}, index=range(12))


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64, torch.int8])
def test_masks_of_every_integer_swap(dtype: torch.dtype) -> None:
    chain = T.Compose([T.RandomHorizontalFlip(1.0)], mask_pairs=SIDES, mask_fill=100)
    found = chain({"image": IMAGE, "mask": HALVES.to(dtype)})["mask"]
    assert found.dtype == dtype
    assert torch.equal(found.to(torch.uint8), HALVES)


def test_a_photo_without_objects() -> None:
    """It has no points to swap, in whatever form it says so."""
    flip = T.RandomHorizontalFlip(1.0)
    forms: list[Any] = [torch.zeros(0, 2), torch.zeros(0, 5, 2), torch.zeros(0, 5, 3), []]
    for nothing in forms:
        empty = {"image": IMAGE, "keypoints": nothing, "boxes": torch.zeros(0, 4)}
        assert len(T.Compose([flip], flip_pairs=PAIRS)(empty)["keypoints"]) == 0
    batch = {"image": IMAGE.expand(2, -1, -1, -1), "keypoints": [torch.zeros(0, 2), POINTS]}
    found = T.Compose([flip], flip_pairs=PAIRS)(batch)["keypoints"]
    assert found[0].shape == (0, 2)
    assert torch.equal(found[1], run(flip, POINTS))


BOXES = torch.tensor([[1.0, 2, 8, 9], [10, 2, 18, 9], [3, 12, 9, 18]])
FLIP = T.RandomHorizontalFlip(1.0)


def swapped(sample: Any, step: Any = FLIP, **options: Any) -> Any:
    return T.Compose([step], seed=0, **options)(sample, index=0)


@pytest.mark.parametrize(
    ("step", "mirrors"),
    [
        (FLIP, True),
        (T.RandomVerticalFlip(1.0), True),
        (T.RandomRotation((90, 90), expand=True), False),
        (T.ColorJitter(0.1), False),
        (T.RandomApply([FLIP, T.JPEG(50)], 1.0), True),
    ],
    ids=lambda v: type(v).__name__,
)
def test_labels_swap_with_the_image(step: Any, mirrors: bool) -> None:
    sample = {"image": IMAGE.byte(), "boxes": BOXES, "labels": torch.tensor([1, 2, 3])}
    found = swapped(sample, step, label_pairs=[(1, 2)])["labels"]
    assert found.tolist() == ([2, 1, 3] if mirrors else [1, 2, 3])
    assert sample["labels"].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("labels", "other"),
    [
        ([1, 2, 3], [2, 1, 3]),
        ((1, 2, 3), (2, 1, 3)),
        (np.array([1, 2, 3], np.int16), np.array([2, 1, 3], np.int16)),
        (["left", "right", "nose"], ["right", "left", "nose"]),
        (np.array(["left", "right", "nose"]), np.array(["right", "left", "nose"])),
    ],
    ids=lambda v: type(v).__name__,
)
def test_forms_of_classes(labels: Any, other: Any) -> None:
    sample = {"image": IMAGE, "boxes": BOXES, "labels": labels, "iscrowd": [1, 2, 1]}
    out = swapped(sample, label_pairs=[(1, 2), ("left", "right")])
    assert type(out["labels"]) is type(labels)
    assert list(out["labels"]) == list(other)
    assert out["iscrowd"] == [1, 2, 1]


def test_labels_of_images() -> None:
    def run(label: Any) -> Any:
        return swapped({"image": IMAGE, "labels": label}, label_pairs=[(0, 1)])["labels"]

    assert run(0) == 1
    assert run(torch.tensor(1)).item() == 0
    assert run(np.int64(7)) == 7
    coco = [{"bbox": [1, 2, 5, 5], "category_id": own, "iscrowd": 0} for own in (4, 5)]
    out = swapped({"image": IMAGE, "annotations": coco}, label_pairs=[(4, 9)])["annotations"]
    assert [own["category_id"] for own in out] == [9, 5]


def test_batches_swap_classes_of_what_is_mirrored() -> None:
    chain = T.Compose([T.RandomHorizontalFlip()], seed=0, label_pairs=[(0, 1)], mask_pairs=[(2, 3)])
    labels, mask = torch.tensor([0, 1] * 6), torch.full((12, 20, 30), 2, dtype=torch.uint8)
    sample = {"image": torch.zeros(12, 3, 20, 30), "labels": labels, "mask": mask}
    out, params = chain(sample, index=range(12), return_params=True)
    flipped = torch.from_numpy(params.steps[0]["apply"])
    assert 0 < flipped.sum() < 12
    assert torch.equal(out["labels"], torch.where(flipped, 1 - labels, labels))
    assert torch.equal(out["mask"][:, 0, 0], torch.where(flipped, 3, 2).byte())
    back = chain.inverse(out, params)
    assert torch.equal(back["labels"], labels)
    assert torch.equal(back["mask"], mask)
    lists = {**sample, "labels": labels.tolist()}
    assert chain(lists, index=range(12))["labels"] == out["labels"].tolist()
    boxed = {"image": sample["image"], "boxes": [BOXES] * 12, "labels": [[0, 1, 5]] * 12}
    found = chain(boxed, index=range(12))["labels"]
    assert found == [[1, 0, 5] if own else [0, 1, 5] for own in flipped.tolist()]


def test_masks() -> None:
    mask = torch.tensor([[1, 2, 0], [255, 1, 2]], dtype=torch.uint8)
    sample = {"image": torch.zeros(3, 2, 3), "mask": mask}
    out = swapped(sample, mask_pairs=[(1, 2)])["mask"]
    assert out.tolist() == [[0, 1, 2], [1, 2, 255]]
    things = {"image": torch.zeros(3, 2, 3), "boxes": BOXES[:1], "masks": mask[None]}
    assert swapped(things, mask_pairs=[(1, 2)])["masks"][0].tolist() == mask.flip(1).tolist()


@pytest.mark.parametrize(
    ("options", "sample", "message"),
    [
        ({"label_pairs": [(1, "a")]}, {}, "label_pairs is [(1, 'a')], must be pairs of names or"),
        ({"label_pairs": ["ab"]}, {}, "label_pairs is ['ab'], must be pairs of names or"),
        ({"mask_pairs": [("a", "b")]}, {}, "mask_pairs is [('a', 'b')], must be pairs of whole"),
        ({"mask_pairs": [(1, 2), (2, 3)]}, {}, "each in one pair at most"),
        (
            {"label_pairs": [(1, 2)]},
            {"labels": torch.ones(2)},
            "sample['labels'] has dtype torch.float32, must hold whole numbers or names",
        ),
        (
            {"label_pairs": [(1, 2)]},
            {"boxes": BOXES, "scores": torch.zeros(3, 4)},
            "label_pairs is given, and sample['scores'] has shape [3, 4], whose columns may be cl",
        ),
        ({"label_pairs": [(1, 2)]}, None, "label_pairs is given, and sample[1] may be a label"),
        (
            {"label_pairs": [(1, 2)]},
            {"labels": [1], "gt_label": 2},
            "label_pairs is given, and sample['gt_label'] may be a label; must be in a dict",
        ),
        (
            {"mask_pairs": [(1, 300)]},
            {"mask": torch.zeros(20, 30, dtype=torch.uint8)},
            "sample['mask'] has dtype torch.uint8, must be one that holds class 300 of pair (1",
        ),
        (
            {"mask_pairs": [(1, 2)]},
            {"mask": torch.zeros(4, 20, 30, dtype=torch.bool)},
            "sample['mask'] has dtype torch.bool and shape [4, 20, 30]; must hold whole numbers",
        ),
        (
            {"mask_pairs": [(1, 2)]},
            {"masks": np.zeros((4, 20, 30), bool)},
            "sample['masks'] has dtype bool and shape [4, 20, 30]; must hold whole numbers, which",
        ),
    ],
)
def test_bad_input_of_class_pairs(options: Any, sample: Any, message: str) -> None:
    given = (IMAGE, 1) if sample is None else {"image": IMAGE, **sample}
    with pytest.raises((TypeError, ValueError)) as error:
        swapped(given, **options)
    assert message in str(error.value)


@pytest.mark.parametrize("options", [{"flip_pairs": PAIRS}, {"mask_pairs": [(1, 2)]}])
def test_inverse_refuses_maps_whose_channels_would_swap(options: Any) -> None:
    chain = T.Compose([FLIP], **options)
    moved, params = chain(IMAGE.expand(2, -1, -1, -1), return_params=True)
    maps = torch.rand(2, 5, 5, 8)
    for given in (maps, maps.numpy(), list(maps)):
        with pytest.raises(TypeError, match="inverse: the sample may hold scores of classes or ke"):
            chain.inverse(given, params, stride=4)
    back = chain.inverse({"image": maps}, params, stride=4, interpolation="nearest")["image"]
    assert torch.equal(back[:, :, ::4, [29, 25, 21, 17, 13, 9, 5, 1]], maps)
    assert torch.equal(chain.inverse(tv.Image(moved), params), IMAGE.expand(2, -1, -1, -1))


def test_keys_say_what_a_likely_name_is() -> None:
    sample = {"image": IMAGE, "label": 1, "target": 2}
    keys = {"labels": ["label"], "other": ["target"]}
    found = swapped(sample, label_pairs=[(1, 2)], keys=keys)
    assert (found["label"], found["target"]) == (2, 2)
    assert swapped(sample)["label"] == 1  # nothing swaps
    valid = {"image": IMAGE, "mask": torch.ones(20, 30, dtype=torch.bool)}
    assert swapped(valid, mask_pairs=[(1, 2)])["mask"].all()
    both = {**valid, "mask": torch.ones(20, 30).byte(), "masks": torch.ones(4, 20, 30).bool()}
    found = swapped(both, mask_pairs=[(1, 2)])
    assert (found["mask"] == 2).all()
    assert found["masks"].all()
    things = {"image": IMAGE, "boxes": BOXES, "masks": torch.ones(len(BOXES), 20, 30).bool()}
    assert swapped(things, mask_pairs=[(1, 2)])["masks"].all()


@pytest.mark.parametrize(
    ("labels", "got"),
    [
        (torch.eye(3, dtype=torch.int64)[:2], r"shape \[2, 3\]"),
        (np.eye(3, dtype=np.int64)[:2], r"shape \[2, 3\]"),
        ([[0, 1, 0], [1, 0, 0]], r"shape \[2, 3\]"),
        (torch.tensor([True, False]), "dtype bool"),
        (np.array([True, False]), "dtype bool"),
    ],
)
def test_one_hot_labels_are_refused(labels: Any, got: str) -> None:
    chain = T.Compose([T.RandomHorizontalFlip(1.0)], label_pairs=[(0, 1)])
    boxes = torch.tensor([[0.0, 0, 2, 2], [1.0, 1, 3, 3]])
    with pytest.raises(TypeError, match=rf"sample\['labels'\] has {got}, must be a vector"):
        chain({"image": torch.zeros(3, 8, 8), "boxes": boxes, "labels": labels})


def test_mirrored_crops_swap_points_labels_and_classes() -> None:
    points = torch.tensor([[[1.0, 2.0], [6.0, 2.0]]])
    sample = {
        "image": torch.zeros(3, 8, 8),
        "keypoints": points,
        "labels": ["left"],
        "boxes": torch.tensor([[0.0, 0, 4, 4]]),
        "mask": torch.ones(8, 8, dtype=torch.uint8),
    }
    crop = T.TenCrop(8, flip_pairs=[(0, 1)], label_pairs=[("left", "right")], mask_pairs=[(1, 2)])
    views = crop(sample)
    for view in views[:5]:
        assert torch.equal(view["keypoints"], points)
        assert (view["labels"], int(view["mask"][0, 0])) == (["left"], 1)
    for view in views[5:]:
        assert torch.equal(view["keypoints"], torch.tensor([[[1.0, 2.0], [6.0, 2.0]]]))
        assert (view["labels"], int(view["mask"][0, 0])) == (["right"], 2)


def test_a_vertical_mirror_swaps_too() -> None:
    views = T.TenCrop(8, vertical_flip=True, label_pairs=[(1, 2)])(
        {"image": torch.zeros(3, 8, 8), "labels": torch.tensor(1)}
    )
    assert [int(view["labels"]) for view in views] == [1] * 5 + [2] * 5


@pytest.mark.parametrize("crop", [T.FiveCrop, T.TenCrop])
def test_options_reach_the_chains(crop: type) -> None:
    sample = {
        "image": torch.zeros(3, 8, 8),
        "boxes": torch.tensor([[0.0, 0, 2, 2], [6.0, 6, 8, 8]]),
        "labels": [1, 2],
    }
    kept = [view["labels"] for view in crop(4, boxes="sanitize")(sample)[:5]]
    assert kept == [[1], [], [], [2], []]
    with pytest.raises(ValueError, match="boxes is 'drop'"):
        crop(4, boxes="drop")
