"""COCO's annotations, as its files have them, move with their image."""

import copy
import re
from typing import Any

import numpy as np
import pytest
import torch
import visops
from bad_input import check
from visops import transforms as T

PHOTO = np.zeros((20, 40, 3), np.uint8)


def coco() -> list[dict[str, Any]]:
    return [
        {
            "id": 17,
            "image_id": 4,
            "category_id": 3,
            "bbox": [2.0, 4.0, 10.0, 6.0],
            "area": 60.0,
            "iscrowd": 0,
            "segmentation": [[2.0, 4.0, 12.0, 4.0, 12.0, 10.0, 2.0, 10.0]],
            "keypoints": [3, 5, 2, 0, 0, 0, 11, 9, 1],
            "num_keypoints": 2,
        },
        {
            "id": 18,
            "image_id": 4,
            "category_id": 9,
            "bbox": [30, 2, 8, 16],
            "area": 100,
            "iscrowd": 0,
            "segmentation": [[30, 2, 38, 2, 38, 18], [30, 18, 34, 10, 38, 18]],
            "keypoints": [31, 3, 2, 37, 17, 2, 33, 9, 2],
            "num_keypoints": 3,
        },
    ]


def test_annotations_move() -> None:
    given = coco()
    flip = T.Compose([T.RandomHorizontalFlip(1.0)])
    for sample in ((PHOTO, given), {"image": PHOTO, "annotations": given}):
        for _ in range(2):
            result = flip(sample)
            found = result[1] if isinstance(result, tuple) else result["annotations"]
            assert given == coco()  # its own dicts stay as they were
            assert [own["bbox"] for own in found] == [[28, 4, 10, 6], [2, 2, 8, 16]]
            assert found[0]["segmentation"] == [[38.0, 4, 28, 4, 28, 10, 38, 10]]
            assert found[1]["segmentation"][1] == [10.0, 18, 6, 10, 2, 18]
            assert found[0]["keypoints"][:3] == [36, 5, 2]
            assert [own["category_id"] for own in found] == [3, 9]
            assert [own["area"] for own in found] == [60, 100]
            assert type(found) is list
            assert type(found[0]["bbox"]) is list
    assert flip((PHOTO, []))[1] == []


def test_dropped_objects_take_their_dicts_along() -> None:
    crop = T.Compose([T.CenterCrop((20, 20))], boxes="sanitize")
    found = crop((PHOTO, coco()))[1]
    assert [own["id"] for own in found] == [17]
    (own,) = found
    assert own["bbox"] == [0, 4, 2, 6]
    assert own["area"] == pytest.approx(60 * 12 / 60)
    assert own["keypoints"][8] == 1
    assert own["keypoints"][2] == 0
    assert own["num_keypoints"] == 1
    assert own["keypoints"][:2] == [0, 0]  # as COCO has points that can't be seen
    resize = T.Compose([T.Resize((40, 80))])
    assert resize((PHOTO, coco()))[1][1]["bbox"] == [60, 4, 16, 32]


def test_points_without_a_label_stay_at_the_origin() -> None:
    given = [{"bbox": [5.0, 5, 30, 10], "keypoints": [25, 15, 2, 0, 0, 0, 7, 3, 1]}]
    given[0] |= {"category_id": 1, "iscrowd": 0}
    flip = T.Compose([T.RandomHorizontalFlip(1.0)], flip_pairs=[(0, 1)])
    (found,) = flip((PHOTO, given))[1]
    right = 40 - 1  # the middle of the photo's last pixel
    assert found["keypoints"] == [0, 0, 0, right - 25, 15, 2, right - 7, 3, 1]


def test_what_an_annotation_may_lack() -> None:
    flip = T.RandomHorizontalFlip(1.0)
    plain = [{"bbox": [2, 4, 10, 6], "category_id": 1, "iscrowd": 0}]
    assert flip((PHOTO, plain))[1] == [{"bbox": [28, 4, 10, 6], "category_id": 1, "iscrowd": 0}]
    some = coco()
    del some[1]["area"]
    message = "transforms: sample[1][1] has no 'area', sample[1][0] has one; must be all or none"
    check(ValueError, message, lambda: flip((PHOTO, some)))
    crowd = coco()
    crowd[1]["segmentation"] = {"counts": "abc", "size": [20, 40]}
    message = "transforms: sample[1][1]['segmentation'] is no RLE: "
    check(ValueError, message, lambda: flip((PHOTO, crowd)))
    crowd[1]["segmentation"] = {"counts": [600], "size": [30, 20]}
    message = "transforms: sample[1][1]['segmentation'] is an RLE of 30 x 20 pixels, the image has"
    check(ValueError, message, lambda: flip((PHOTO, crowd)))
    short = coco()
    short[0]["bbox"] = [1, 2, 3]
    check(
        ValueError,
        "transforms: sample[1][:]['bbox'] can't be read as",
        lambda: flip((PHOTO, short)),
    )
    # Other dicts with a "bbox" have boxes of another form.
    other = [{"bbox": [2, 4, 10, 6], "bbox_mode": 0, "category_id": 1, "iscrowd": 0}]
    check(
        TypeError, "transforms: sample[1][0]['bbox'] can't be moved", lambda: flip((PHOTO, other))
    )


def crowd(form: str) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Return annotations of which the first is a crowd, and its mask."""
    mask = np.zeros((20, 40), bool)
    mask[3:9, 25:39] = mask[5, :7] = True
    rle = visops.masks_to_rle(mask, compressed=form != "list")
    if form == "str":
        rle["counts"] = rle["counts"].decode()
    found = coco()
    found[0].update(segmentation=rle, iscrowd=1)
    return found, mask


@pytest.mark.parametrize("form", ["bytes", "str", "list"])
def test_crowds_move_as_masks(form: str) -> None:
    given, mask = crowd(form)
    before = copy.deepcopy(given)
    for chain, wanted in (
        (T.Compose([T.RandomHorizontalFlip(1.0)]), mask[:, ::-1]),
        (T.Compose([T.CenterCrop((10, 30))], boxes="clamp"), mask[5:15, 5:35]),
        (T.Compose([T.RandomHorizontalFlip(1.0), T.ToPureTensor()]), mask[:, ::-1]),
    ):
        for _ in range(2):
            found = chain((PHOTO, given))[1]
            rle = found[0]["segmentation"]
            assert type(rle["counts"]) is type(before[0]["segmentation"]["counts"])
            assert np.array_equal(visops.rle_to_masks(rle).numpy(), wanted)
            assert rle["size"] == [*wanted.shape]
            assert isinstance(found[1]["segmentation"], list)
            assert found[0]["iscrowd"] == 1
            assert given == before
    crop = T.Compose([T.CenterCrop((20, 20))], boxes="sanitize")
    (kept,) = crop((PHOTO, given[::-1]))[1]  # the other object is lost
    assert kept["id"] == 17
    assert np.array_equal(visops.rle_to_masks(kept["segmentation"]).numpy(), mask[:, 10:30])


def test_collated_with_crowds_and_without_coco() -> None:
    """Samples used to differ in structure."""
    chain = T.Compose([T.RandomHorizontalFlip(1.0)], seed=1)
    samples = [(PHOTO, []), (PHOTO, crowd("str")[0]), (PHOTO, coco()), (PHOTO, [])]
    for order in ([0, 1, 2, 3], [2, 0], [1, 0, 2], [2, 1], [0, 3]):
        own = [copy.deepcopy(samples[i]) for i in order]
        for chosen in (own, [{"image": image, "target": list_} for image, list_ in own]):
            batch = chain.collate(chosen, index=order)
            found = batch[1] if isinstance(batch, (list, tuple)) else batch["target"]
            alone = [
                chain((image, list_), index=i)[1]
                for i, (image, list_) in zip(order, own, strict=True)
            ]
            assert found == alone


def test_no_key_points() -> None:
    sample = {"image": PHOTO, "boxes": torch.zeros(0, 4), "keypoints": torch.zeros(0, 51)}
    found = T.Compose([T.RandomHorizontalFlip(1.0)])(sample)
    assert found["keypoints"].shape == (0, 51)


def test_collated_coco() -> None:
    chain = T.Compose([T.RandomHorizontalFlip(1.0)])
    samples = [(PHOTO, coco()), (PHOTO, copy.deepcopy(coco()))]
    images, found = chain.collate(samples)
    assert images.shape[0] == 2
    assert found[0][0]["bbox"] == [28, 4, 10, 6]
    assert torch.is_tensor(images)


def test_flat_key_points_in_lists() -> None:
    """As json reads them from COCO's files."""
    flip = T.Compose([T.RandomHorizontalFlip(1.0)])
    rows = [[10, 5, 2, 0, 0, 0], [1, 2, 1, 3, 4, 2]]
    moved = flip({"image": torch.zeros(3, 9, 20), "keypoints": rows})["keypoints"]
    assert moved == [[9, 5, 2, 19, 0, 0], [18, 2, 1, 16, 4, 2]]
    expected = flip({"image": torch.zeros(3, 9, 20), "keypoints": np.array(rows)})["keypoints"]
    assert np.array_equal(moved, expected)


@pytest.mark.parametrize("none", [[], torch.zeros(0), torch.zeros(0, 2), torch.zeros(0, 5, 3)])
def test_a_sample_without_key_points_beside_others(none: Any) -> None:
    flip = T.Compose([T.RandomHorizontalFlip(1.0)])
    points = torch.tensor([[[3.0, 4.0, 2.0]]])
    for order in ((points, none), (none, points), (none, none)):
        samples = [{"image": torch.zeros(3, 9, 20), "keypoints": own} for own in order]
        found = flip.collate(samples)["keypoints"]
        for own, given in zip(found, order, strict=True):
            assert own.tolist() == ([[[16.0, 4.0, 2.0]]] if given is points else [])


@pytest.mark.parametrize("order", [1, -1])
def test_key_points_of_boxes_that_go_go_with_them(order: int) -> None:
    """Whatever comes first in the batch: of no boxes, an empty list of key points."""
    crop = T.Compose([T.CenterCrop((20, 10))], boxes="sanitize")
    image, boxes = torch.zeros(3, 20, 40), [[0.0, 0, 5, 5], [16, 5, 24, 20]]
    none: dict[str, Any] = {"image": image, "boxes": [], "keypoints": []}
    some = {"image": image, "boxes": boxes, "keypoints": torch.zeros(2, 7, 3)}
    samples = [none, some][::order]
    whole = {name: [sample[name] for sample in samples] for name in none}
    for found in (crop.collate(samples), crop(whole)):
        assert [len(own) for own in found["boxes"]] == [0, 1][::order]
        assert [len(own) for own in found["keypoints"]] == [0, 1][::order]
    other = {"image": image, "boxes": boxes, "keypoints": []}
    message = r"sample\['keypoints'\] of sample 1 has an entry for each box, that of sample 0 has"
    with pytest.raises(ValueError, match=message):
        crop.collate([other, some])


@pytest.mark.parametrize("crowd", [False, True])
def test_batches_of_annotations(crowd: bool) -> None:
    """What `collate` of a data set of them returns can go on into a chain."""
    first, second = coco(), coco()[:1]
    if crowd:
        mask = torch.zeros(20, 40, dtype=torch.bool)
        mask[3:9, 20:33] = True
        first[1]["segmentation"] = visops.masks_to_rle(mask)
    chain = T.Compose([T.RandomHorizontalFlip(1.0)], boxes="sanitize")
    expected = [chain((PHOTO, own))[1] for own in (first, second)]
    photos = np.stack([PHOTO] * 3)
    for sample in (
        (photos, [first, second, []]),
        {"image": photos, "objects": [first, second, []]},
    ):
        found = chain(sample)
        found = found[1] if isinstance(found, tuple) else found["objects"]
        assert found == [*expected, []]


def test_mosaics_of_annotations_go_on() -> None:
    mosaic, finish = T.Mosaic((32, 48), seed=0), T.Compose([T.RandomHorizontalFlip(1.0)])
    tiles = mosaic.collate([(PHOTO, coco()), (PHOTO, coco()[:1]), (PHOTO, []), (PHOTO, coco())])
    images, objects = finish(tiles)
    for image, own, before in zip(images, objects, tiles[1], strict=True):
        assert len(own) == len(before)
        for new, old in zip(own, before, strict=True):
            x, y, width, height = old["bbox"]
            assert new["bbox"] == pytest.approx([image.shape[2] - x - width, y, width, height])


def test_objects_without_outlines_move_along() -> None:
    own = coco()
    own[1] = {key: value for key, value in own[1].items() if key != "segmentation"}
    own.append({**own[1], "segmentation": None})
    own[0]["segmentation"].append([1.0, 2.0, 3.0, 4.0])  # a line, as some files have
    flip = T.Compose([T.RandomHorizontalFlip(1.0)])
    image = torch.zeros(3, 20, 40)
    for moved in (flip((image, own))[1], flip.collate([(image, own[1:]), (image, own)])[1][1]):
        assert moved[0]["segmentation"] == [[38.0, 4, 28, 4, 28, 10, 38, 10]]
        assert "segmentation" not in moved[1]
        assert moved[2]["segmentation"] is None
        assert moved[1]["bbox"] == moved[2]["bbox"] != own[1]["bbox"]
    alone, _ = flip.collate([(image, own[1:]), (image, own)])[1]
    assert "segmentation" not in alone[0]


def test_annotations_that_cannot_be_read_are_skipped_with_their_sample() -> None:
    good, odd, partly = coco(), coco(), coco()
    odd[1]["segmentation"][1] = [1.0, 2, 3, 4, 5, 6, 7]
    del partly[1]["area"]
    samples = [(torch.zeros(3, 20, 40), own) for own in (good, odd, partly)]
    chain = T.Compose([T.RandomHorizontalFlip(1.0)], seed=0)
    message = "sample[1][1]['segmentation'][1] has 7 numbers, must be x1, y1, x2, y2, ..."
    with pytest.raises(ValueError, match=re.escape(message)):
        chain(samples[1])
    with pytest.raises(ValueError, match=r"Loader: sample 1: .*has 7 numbers"):
        list(T.Loader(samples, chain, 1, threads=1))
    loader = T.Loader(samples, chain, 1, threads=2, on_error="skip")
    assert len(list(loader)) == 1
    assert [skipped.index for skipped in loader.stats().skipped] == [1, 2]
