"""Classes that swap in mirrored images: left and right hands."""

from typing import Any

import numpy as np
import pytest
import torch
from visops import transforms as T

IMAGE = torch.zeros(3, 20, 30)
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
def test_forms(labels: Any, other: Any) -> None:
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


def test_batches_swap_what_is_mirrored() -> None:
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
def test_bad_input(options: Any, sample: Any, message: str) -> None:
    given = (IMAGE, 1) if sample is None else {"image": IMAGE, **sample}
    with pytest.raises((TypeError, ValueError)) as error:
        swapped(given, **options)
    assert message in str(error.value)


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
