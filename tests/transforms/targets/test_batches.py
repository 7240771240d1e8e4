"""Splitting batches, collating samples, and calling other libraries' transforms."""

from typing import Any

import numpy as np
import pytest
import torch
from bad_input import check
from torch import Tensor
from visops import transforms
from visops.transforms.chain.foreign import call_foreign
from visops.transforms.sample.batches import batch_leaves, unbatch_leaves
from visops.transforms.sample.images import image_sizes
from visops.transforms.sample.split import split_sample
from visops.transforms.targets.finish import finish_targets
from visops.transforms.targets.move import move_targets
from visops.transforms.targets.options import Geometry, TargetOptions

tv = pytest.importorskip("torchvision.tv_tensors")
v2 = pytest.importorskip("torchvision.transforms.v2")

SIZE = (6, 8)
SHIFT = np.array([[[1.0, 0, 2], [0, 1, 0], [0, 0, 1]]])


def boxes(count: int, form: str = "XYXY") -> Any:
    return tv.BoundingBoxes(torch.rand(count, 2).repeat(1, 2), format=form, canvas_size=SIZE)


def moved(leaves: list[Any]) -> None:
    sizes = image_sizes(leaves)
    geometry = Geometry(np.repeat(SHIFT, len(sizes), 0), sizes, sizes)
    move_targets(leaves, geometry, TargetOptions())


def finished(leaves: list[Any]) -> None:
    finish_targets(leaves, image_sizes(leaves), TargetOptions())


BATCH: dict[str, Any] = {
    "image": torch.rand(2, 3, *SIZE),
    "mask": torch.randint(0, 5, (2, *SIZE)),
    "boxes": torch.rand(2, 3, 2).repeat(1, 1, 2),
    "labels": torch.zeros(2, 3),
    "area": torch.rand(2, 3),
    "keypoints": torch.rand(2, 3, 4, 2),
    "keypoints_visible": torch.ones(2, 3, 4),
    "class": torch.tensor([3, 4]),
    "names": ["a", "b"],
    "epoch": 5,
    "nothing": None,
}


@pytest.mark.parametrize("ragged", [False, True])
def test_split_and_collated_again(ragged: bool) -> None:
    """Every kind of leaf moves as if the batch had never been split."""
    sample = dict(BATCH)
    if ragged:
        for key in ("image", "mask", "boxes", "labels", "area", "keypoints", "keypoints_visible"):
            sample[key] = list(sample[key])
    whole, rebuild = split_sample(sample)
    moved(whole)
    moved(whole)
    finished(whole)
    expected = rebuild(whole)
    leaves, rebuild = split_sample(sample)
    moved(leaves)
    parts = unbatch_leaves(leaves)
    assert len(parts) == 2
    assert all(leaf.batch is None for part in parts for leaf in part)
    for part in parts:
        moved(part)
    together = batch_leaves(parts)
    finished(together)
    result = rebuild(together)
    assert list(result) == list(expected)
    for key, value in expected.items():
        if isinstance(value, Tensor):
            assert torch.equal(result[key], value), key
        elif isinstance(value, list) and isinstance(value[0], Tensor):
            assert all(torch.equal(a, b) for a, b in zip(result[key], value, strict=True)), key
        else:
            assert result[key] is sample[key], key


def collated(samples: list[Any], **options: Any) -> Any:
    split = [split_sample(sample) for sample in samples]
    leaves = batch_leaves([leaves for leaves, _ in split], **options)
    finished(leaves)
    return split[0][1](leaves)


def detection(count: int, size: tuple[int, int] = SIZE) -> dict[str, Any]:
    return {
        "image": torch.rand(3, *size),
        "target": {
            "boxes": torch.rand(count, 2).repeat(1, 2),
            "labels": torch.arange(count),
            "masks": np.zeros((count, *size), np.uint8),
            "keypoints": [[1.0, 2.0]],
            "image_id": count,
        },
        "mask": np.zeros(size, np.int64),
        "name": f"{count}",
        "missing": None,
    }


def test_collated_detection() -> None:
    # Types don't depend on whether the counts of boxes agree.
    for counts in ((2, 3), (2, 2)):
        result = collated([detection(count) for count in counts])
        assert result["image"].shape == (2, 3, *SIZE)
        assert result["mask"].shape == (2, *SIZE)
        assert result["mask"].dtype == torch.int64
        target = result["target"]
        for key in ("boxes", "labels", "masks", "keypoints", "keypoints_visible"):
            assert isinstance(target[key], list)
            assert all(isinstance(value, Tensor) for value in target[key])
        assert [len(value) for value in target["boxes"]] == list(counts)
        assert [len(value) for value in target["labels"]] == list(counts)
        assert [len(value) for value in target["masks"]] == list(counts)
        assert target["keypoints"][0].dtype == torch.float32
        assert target["image_id"].tolist() == list(counts)
        assert result["name"] == [str(count) for count in counts]
        assert result["missing"] == [None, None]
    different = collated([detection(1), detection(2, (4, 5))])
    assert [tuple(image.shape) for image in different["image"]] == [(3, *SIZE), (3, 4, 5)]
    assert [tuple(mask.shape) for mask in different["mask"]] == [SIZE, (4, 5)]


def test_labels_of_boxes_are_tensors_where_they_were_arrays() -> None:
    """As everything else of a batch; what torch has no tensor of stays."""
    image, boxes = np.zeros((*SIZE, 3), np.uint8), np.array([[1.0, 2, 5, 6]])
    sample = {"image": image, "boxes": boxes, "labels": np.array([4]), "area": np.array([20.0])}
    batch = transforms.Compose([transforms.RandomHorizontalFlip(1.0)]).collate([sample, sample])
    for key in ("boxes", "labels", "area"):
        assert all(isinstance(value, Tensor) for value in batch[key]), key
    named = {**sample, "labels": np.array(["cat"])}
    batch = transforms.Compose([transforms.RandomHorizontalFlip(1.0)]).collate([named, named])
    assert [value.tolist() for value in batch["labels"]] == [["cat"]] * 2


def test_collated_images_and_labels() -> None:
    images, labels = collated([(torch.rand(3, *SIZE), 4), (torch.rand(3, *SIZE), 5)])
    assert images.shape == (2, 3, *SIZE)
    assert labels.tolist() == [4, 5]
    arrays = [np.zeros((*SIZE, 3), np.uint8)] * 2
    leaves = batch_leaves([split_sample(a)[0] for a in arrays])
    assert leaves[0].value[1] is arrays[1]
    image = torch.rand(3, *SIZE)
    leaves = batch_leaves([split_sample(image)[0]] * 2, stack=False)
    assert leaves[0].value[0] is image
    assert leaves[0].batch == 2


def test_collated_types() -> None:
    samples = [
        (tv.Image(torch.rand(3, *SIZE)), boxes(count, "XYWH"), tv.Mask(torch.zeros(SIZE)))
        for count in (1, 3)
    ]
    image, found, mask = collated(samples)
    assert type(image) is tv.Image
    assert type(mask) is tv.Mask
    assert mask.shape == (2, *SIZE)
    for own, count in zip(found, (1, 3), strict=True):
        assert type(own) is tv.BoundingBoxes
        assert own.format.value == "XYWH"
        assert own.shape == (count, 4)


def test_samples_that_do_not_fit_together() -> None:
    image, other = torch.rand(3, *SIZE), torch.rand(1, *SIZE)

    def collate(*samples: Any) -> Any:
        return lambda: collated(list(samples))

    check(
        ValueError,
        "transforms: samples is empty, must hold at least one",
        lambda: batch_leaves([]),
    )
    check(
        TypeError,
        "transforms: sample 1 has 1 values (sample[0]), sample 0 has 2 (sample[0], sample[1]); "
        "must be the same",
        collate((image, 3), (image,)),
    )
    check(
        TypeError,
        "transforms: sample 2 has labels at sample['labels'], sample 0 has other at sample['name']",
        collate(
            {"image": image, "name": 3}, {"image": image, "name": 3}, {"image": image, "labels": 3}
        ),
    )
    check(
        ValueError,
        "transforms: the sample of sample 1 has 1 channels (CHW) of float32, that of sample 0 has "
        "3 channels (CHW) of float32; must be the same",
        collate(image, other),
    )
    check(
        ValueError,
        "transforms: the sample of sample 1 has 3 channels (CHW) of float16, that of",
        collate(image, image.half()),
    )
    check(
        ValueError,
        "transforms: sample[1] mixes the formats ['XYWH', 'XYXY']",
        collate((image, boxes(1)), (image, boxes(1, "XYWH"))),
    )


def foreign(transform: Any, sample: Any) -> Any:
    leaves, rebuild = split_sample(sample)
    image_sizes(leaves)
    call_foreign(transform, leaves, TargetOptions())
    finished(leaves)
    return rebuild(leaves)


def test_torchvision_moves_all_targets() -> None:
    image = torch.rand(3, *SIZE)
    mask = torch.randint(0, 9, SIZE)
    sample = {
        "image": image,
        "mask": mask,
        "boxes": torch.tensor([[1.0, 2, 4, 5]]),
        "labels": [7],
        "keypoints": torch.tensor([[0.0, 1, 2], [20, 1, 2]]),
    }
    result = foreign(v2.RandomHorizontalFlip(1.0), sample)
    assert torch.equal(result["image"], image.flip(-1))
    assert type(result["image"]) is Tensor
    assert torch.equal(result["mask"], mask.flip(-1))
    assert type(result["mask"]) is Tensor
    assert result["boxes"].tolist() == [[4, 2, 7, 5]]
    assert result["keypoints"].tolist() == [[7, 1, 2], [-13, 1, 0]]
    assert result["labels"] == [7]
    resized = foreign(v2.Resize((12, 8)), sample)
    assert resized["image"].shape == (3, 12, 8)
    assert resized["boxes"].tolist() == [[1, 4, 4, 10]]
    as_array = foreign(v2.RandomHorizontalFlip(1.0), {**sample, "boxes": np.array([[1, 2, 4, 5]])})
    assert as_array["boxes"].tolist() == [[4, 2, 7, 5]]
    typed = {"image": tv.Image(image), "boxes": boxes(2)}
    converted = foreign(v2.ConvertBoundingBoxFormat("CXCYWH"), typed)["boxes"]
    assert converted.format.value == "CXCYWH"
    expected = v2.functional.convert_bounding_box_format(
        typed["boxes"], new_format=converted.format
    )
    torch.testing.assert_close(converted, expected)
    video = tv.Video(torch.rand(2, 3, *SIZE))
    assert torch.equal(
        foreign(v2.RandomVerticalFlip(1.0), video), v2.functional.vertical_flip(video)
    )


@pytest.mark.parametrize(
    "resizing", [v2.Resize((12, 8)), v2.RandomZoomOut(p=1.0), v2.Pad(3), v2.ScaleJitter((16, 16))]
)
def test_canvases_follow_foreign_sizes(resizing: Any) -> None:
    torch.manual_seed(0)
    sample = {
        "image": tv.Image(torch.rand(3, *SIZE)),
        "boxes": boxes(2),
        "points": tv.KeyPoints(torch.rand(3, 2), canvas_size=SIZE),
    }
    for chain in (
        [resizing],
        [transforms.Pad(2), resizing],
        [resizing, transforms.Pad(2)],
        [transforms.Resize((20, 30)), torch.nn.Identity(), resizing, torch.nn.Identity()],
    ):
        result = transforms.Compose(chain)(sample)
        size = tuple(result["image"].shape[-2:])
        assert size != SIZE
        assert tuple(result["boxes"].canvas_size) == tuple(result["points"].canvas_size) == size
    batch = {"image": torch.rand(2, 3, *SIZE), "boxes": [boxes(2), boxes(1)]}
    steps = [resizing, transforms.Resize((20, 30)), torch.nn.Identity()]
    result = transforms.Compose(steps)(batch)
    assert [tuple(found.canvas_size) for found in result["boxes"]] == [(20, 30)] * 2


def test_other_callables_get_the_image() -> None:
    image = torch.rand(3, *SIZE)
    sample = {"image": image, "boxes": torch.tensor([[1.0, 2, 4, 5]])}
    result = foreign(transforms.ImageOnly(torch.nn.Threshold(0.5, 0.0)), sample)
    assert torch.equal(result["image"], torch.where(image > 0.5, image, 0.0))
    halved = foreign(lambda x: x[..., ::2, ::2], (image, 3))
    assert halved[0].shape == (3, 3, 4)


def halve(image: Tensor) -> Tensor:
    return image[..., ::2, ::2]


def test_what_other_transforms_must_not_do() -> None:
    image = torch.rand(3, *SIZE)
    sample = {"image": image, "boxes": torch.tensor([[1.0, 2, 4, 5], [1, 1, 1, 1]])}
    check(
        ValueError,
        "transforms: ImageOnly resized sample['image'] from [6, 8] to [3, 4], and sample['boxes'] "
        "can't follow; must be a transform of visops or of torchvision.transforms.v2",
        lambda: foreign(transforms.ImageOnly(halve), sample),
    )
    check(
        TypeError,
        "transforms: <lambda> returned ndarray for the sample, a tensor of shape [3, 6, 8]; must",
        lambda: foreign(lambda x: x.numpy(), image),
    )
    for dropping in (v2.SanitizeBoundingBoxes(), v2.SanitizeKeyPoints()):
        check(
            ValueError,
            f"transforms: {type(dropping).__name__} drops boxes or key points, and what belongs "
            "to them can't follow; must be left out",
            lambda dropping=dropping: foreign(dropping, sample),  # type: ignore[misc]
        )

    class Half(v2.Transform):  # type: ignore[misc, name-defined]
        def transform(self, value: Any, _: Any) -> Any:
            return value[:1] if isinstance(value, tv.BoundingBoxes) else value

    check(
        ValueError,
        "transforms: Half left 1 of 2 boxes of sample['boxes'], and what belongs to them can't",
        lambda: foreign(Half(), sample),
    )
    check(
        TypeError,
        "transforms: ToPILImage returned a Image for sample['image'], must return a tensor",
        lambda: foreign(v2.ToPILImage(), sample),
    )
