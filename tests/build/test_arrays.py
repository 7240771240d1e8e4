"""One rule for arrays: every public function takes any layout, and gives the same values."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops

RNG = np.random.default_rng(0)
IMAGE = RNG.random((12, 14, 3)).astype(np.float32)
MATRIX = np.array([[0.9, 0.2, 1.5], [-0.1, 1.1, 0.3]])
CORNERS = RNG.random((9, 2)) * 20
BOXES = np.concatenate([CORNERS, CORNERS + 1 + RNG.random((9, 2)) * 8], 1).astype(np.float32)
SCORES = RNG.random(9).astype(np.float32)
MASKS = RNG.random((9, 7, 7)).astype(np.float32)

# The functions, with the arrays that they take.
CALLS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "warp_affine": (visops.warp_affine, (IMAGE, MATRIX)),
    "warp_affine_integers": (visops.warp_affine, ((IMAGE * 9999).astype(np.uint16), MATRIX)),
    "warp_affine_tensor": (
        lambda matrix: visops.warp_affine(torch.from_numpy(IMAGE).permute(2, 0, 1), matrix),
        (MATRIX,),
    ),
    "augment_batch": (
        lambda images, matrix: visops.augment(images, matrix, (9, 20)),
        (IMAGE[None], MATRIX),
    ),
    "augment_list": (
        lambda image, matrix, color, window, erase: visops.augment(
            [image], matrix, (9, 20), color=color, window=window, erase=erase[None]
        ),
        (IMAGE, MATRIX, np.eye(3, 4) * 0.5, np.array([1.0, 2, 9, 9]), np.array([[1, 1, 4, 5]])),
    ),
    "invert_affine": (visops.invert_affine, (MATRIX,)),
    "compose_affine": (visops.compose_affine, (MATRIX, MATRIX[::-1])),
    "transform_points": (visops.transform_points, (CORNERS, MATRIX)),
    "transform_boxes": (visops.transform_boxes, (BOXES, MATRIX)),
    "affine_from_points": (visops.affine_from_points, (CORNERS, CORNERS[::-1] * 2)),
    "box_iou": (visops.box_iou, (BOXES, BOXES[3:])),
    "nms": (lambda boxes, scores: visops.nms(boxes, scores, 0.3), (BOXES, SCORES)),
    "batched_nms": (
        lambda boxes, scores, classes: visops.batched_nms(boxes, scores, classes, 0.3),
        (BOXES, SCORES, np.arange(9) % 2),
    ),
    "crop_rois": (
        lambda images, boxes: visops.crop_rois(images, [boxes], (5, 6)),
        (IMAGE.transpose(2, 0, 1)[None], BOXES),
    ),
    "connected_components": (
        lambda masks: visops.connected_components(masks, return_stats=True)[1],
        (MASKS > 0.5,),
    ),
    "remove_small_regions": (lambda masks: visops.remove_small_regions(masks, 4), (MASKS > 0.5,)),
    "mask_iou": (visops.mask_iou, (MASKS > 0.5, MASKS[3:] > 0.3)),
    "paste_masks": (
        lambda masks, boxes: visops.paste_masks(masks, boxes, (20, 30), out="float"),
        (MASKS, BOXES),
    ),
    "mask_nms": (lambda masks, scores: visops.mask_nms(masks, scores, 0.4), (MASKS > 0.5, SCORES)),
    "merge_masks": (visops.merge_masks, (MASKS > 0.5, SCORES)),
    "stability_score": (lambda masks: visops.stability_score(masks, 0.5, 0.1), (MASKS,)),
    "mask_area": (visops.mask_area, (MASKS > 0.5,)),
    "masks_to_boxes": (visops.masks_to_boxes, (MASKS > 0.5,)),
    "masks_to_rle": (
        lambda masks: np.concatenate(
            [rle["counts"] for rle in visops.masks_to_rle(masks, compressed=False)]
        ),
        (MASKS > 0.5,),
    ),
    "pack_masks": (lambda masks: visops.pack_masks(masks).bits, (MASKS > 0.5,)),
    "distance_transform": (visops.distance_transform, (MASKS > 0.5,)),
    "paste_rois": (
        lambda images, patches, boxes: visops.paste_rois(images, patches, [boxes]),
        (IMAGE.transpose(2, 0, 1)[None], np.repeat(MASKS[:, None], 3, axis=1), BOXES),
    ),
    "multi_scale_deformable_attention": (
        lambda value, locations, weights: visops.multi_scale_deformable_attention(
            value, [(3, 3)], locations, weights
        ),
        (
            SCORES.reshape(1, 9, 1, 1).astype(np.float32),
            np.full((1, 4, 1, 1, 2, 2), 0.4, np.float32),
            np.full((1, 4, 1, 1, 2), 0.5, np.float32),
        ),
    ),
    "deform_conv2d": (
        lambda input, offset, weight: visops.deform_conv2d(input, offset, weight),
        (
            IMAGE.transpose(2, 0, 1)[None].astype(np.float32),
            np.full((1, 2, *IMAGE.shape[:2]), 0.4, np.float32),
            np.full((2, 3, 1, 1), 0.5, np.float32),
        ),
    ),
    "point_sample": (visops.point_sample, (MASKS[:, None], np.full((9, 4, 2), 0.4, np.float32))),
    "convolve2d": (visops.convolve2d, (IMAGE[..., 0], MASKS[0])),
}


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def unaligned(array: np.ndarray) -> np.ndarray:
    data = np.zeros(array.nbytes + 1, np.uint8)
    shifted = data[1:].view(array.dtype).reshape(array.shape)
    shifted[...] = array
    return shifted


def between_others(array: np.ndarray) -> np.ndarray:
    """As the field of a record: strides that are not multiples of the element size."""
    record = np.zeros(array.shape, np.dtype([("value", array.dtype), ("tag", np.uint8)]))
    record["value"] = array
    return record["value"]  # type: ignore[no-any-return]


KINDS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "foreign byte order": lambda array: array.astype(array.dtype.newbyteorder(">")),
    "read-only": read_only,
    "unaligned": unaligned,
    "field of a record": between_others,
    "negative strides": lambda array: np.flip(np.flip(array).copy()),
    "column order": np.asfortranarray,
    "read-only, foreign and reversed": lambda array: read_only(
        np.flip(array).astype(array.dtype.newbyteorder(">"))
    )[tuple(slice(None, None, -1) for _ in array.shape)],
}


def as_arrays(result: Any) -> list[np.ndarray]:
    parts = result if isinstance(result, tuple) else (result,)
    return [np.asarray(part) for part in parts]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CALLS)
def test_any_layout(name: str, kind: str) -> None:
    function, arrays = CALLS[name]
    expected = as_arrays(function(*arrays))
    given = [KINDS[kind](array) for array in arrays]
    copies = [array.copy() for array in given]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = as_arrays(function(*given))
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        assert result.dtype == wanted.dtype
        np.testing.assert_array_equal(result, wanted)
    for array, copy in zip(given, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("foreign byte order", "out has byte order '>', must have this machine's"),
        ("unaligned", "out is not aligned to its element size"),
        ("field of a record", "out is not aligned to its element size"),
        ("read-only", "out is read-only"),
    ],
)
def test_out_must_be_writable_in_place(kind: str, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^visops.warp_affine: {message}"):
        visops.warp_affine(IMAGE, MATRIX, out=KINDS[kind](np.zeros_like(IMAGE)))
