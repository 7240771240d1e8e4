"""Valid calls for the fuzzer alone: of texts and files, and of functions that no law is about."""

import io
import itertools
from typing import Any

import numpy as np
import torch
import visops
from PIL import Image
from torch import Tensor

from .boxes import corners
from .case import Arguments, Draw, Make, OneOf, with_options
from .deformable import attention
from .masks import bools, mask_count, mask_size
from .roi import aligned, maps
from .suppression import detections, grouped
from .warp import MODES, PADDINGS, augmented, images, matrices, warped

OPS = torch.ops.visops


def texts(draw: Draw) -> list[Any]:
    """Return run lengths of masks, as COCO's text or as lists; some are odd."""
    if draw.choose(True, True, False):
        found: list[Any] = visops.masks_to_rle(
            bools(draw, mask_count(draw)), compressed=draw.choose(True, False)
        )
        return found
    height, width = mask_size(draw)
    ends = np.sort(draw.rng.integers(0, height * width + 1, (draw.sizes.batch, 4)))
    ends[:, -1] = height * width
    counts = np.diff(ends, prepend=0).tolist()
    odd = draw.choose(*counts, b"0", b"52203", b"P8MN0Oo", b"\xff") if counts else []
    return [{"size": [height, width], "counts": given} for given in [*counts[1:], odd]]


def one_or_all(draw: Draw) -> Arguments:
    rles = texts(draw)
    return {"rles": draw.choose(rles, rles, *rles[:1])}


def decoded(draw: Draw) -> Arguments:
    arguments = one_or_all(draw)
    out = draw.choose("bool", "uint8", "packed")
    return {**arguments, "size": mask_size(draw), "out": out}


def pairs_of_texts(draw: Draw) -> Arguments:
    rles = texts(draw)
    return {"rles1": rles, "rles2": rles[::-1], "iscrowd": [i % 2 for i in range(len(rles))]}


def polygons(draw: Draw) -> Arguments:
    """Return objects of some polygons, partly beyond the image, and far from it."""
    height, width = mask_size(draw)
    reach = width * draw.choose(1.0, 1.0, 3.0, 1e5)
    objects = [
        [
            draw.rng.uniform(-0.5 * reach, 1.5 * reach, 2 * draw.choose(3, 4, 9)).tolist()
            for _ in range(draw.choose(1, 0, 2, 3))
        ]
        for _ in range(draw.sizes.batch)
    ]
    out = draw.choose("bool", "uint8", "packed", "rle")
    return {"polygons": objects, "size": (height, width), "out": out}


def runs_at_odd_places(draw: Draw) -> Arguments:
    height, width = mask_size(draw)
    ends = draw.rng.integers(0, height * width + 1, draw.sizes.batch * 3)
    offsets = torch.arange(draw.sizes.batch + 1) * 3
    size = [height, width]
    return {"ends": draw.tensor(ends, torch.int32), "offsets": offsets, "size": size}


def file(draw: Draw) -> Arguments:
    """Return a JPEG file, some of which lack their end, and a window in its image."""
    height, width = max(draw.sizes.height, 1), max(draw.sizes.width, 1)
    pixels = draw.rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    options = {"progressive": draw.choose(False, True), "subsampling": draw.choose(0, 1, 2)}
    written = io.BytesIO()
    Image.fromarray(pixels).save(written, "JPEG", **options)
    data = np.frombuffer(written.getvalue(), np.uint8)
    data = data[: draw.choose(len(data), len(data), int(draw.rng.integers(len(data))))]
    top, left = (int(draw.rng.integers(side)) for side in (height, width))
    window = (top, left, draw.choose(height - top, 1), draw.choose(width - left, 1))
    return {
        "data": torch.tensor(data, dtype=torch.uint8),
        "window": draw.choose(window, None),
        "size": draw.choose(None, 5, 20),
        "mode": draw.choose("rgb", "gray"),
        "max_pixels": draw.choose(1 << 28, 1 << 20, 400),
    }


def letterboxed(draw: Draw) -> Arguments:
    like = draw.choose(None, matrices(draw), matrices(draw).numpy())
    size = {"image_size": (draw.sizes.height, draw.sizes.width), "size": draw.choose(64, (48, 64))}
    return {**size, "like": like, "center": draw.choose(True, False)}


def found_in_letterboxes(draw: Draw) -> Arguments:
    size = {"image_size": (draw.sizes.height, draw.sizes.width), "size": 64}
    return {**size, "boxes": corners(draw, draw.sizes.count), "clip": draw.choose(True, False)}


def remapped(draw: Draw) -> Arguments:
    places = (draw.sizes.batch, draw.sizes.height, draw.sizes.width + 2)
    return {
        "image": images(draw),
        "map_x": draw.uniform(*places, low=-5, high=40),
        "map_y": draw.uniform(*places, low=-5, high=40),
        "mode": draw.choose(*MODES),
        "padding_mode": draw.choose(*PADDINGS),
        "relative": draw.choose(False, True),
    }


def dense_maps(draw: Draw) -> Arguments:
    """Return maps for each pixel, of each image or for all."""
    arguments = remapped(draw)
    batch = slice(None, draw.choose(None, 1))
    wanted = {"size": list(arguments["map_x"].shape[1:]), "interpolation": arguments["mode"]}
    floats = torch.float64 if draw.dtype == torch.float64 else torch.float32
    return {
        "images": arguments["image"],
        "map_x": arguments["map_x"][batch].to(floats),
        "map_y": arguments["map_y"][batch].to(floats),
        "padding_mode": arguments["padding_mode"],
        "relative": arguments["relative"],
        "to_float": draw.choose(False, True),
        **wanted,
    }


def field(draw: Draw) -> Arguments:
    grid = draw.normal(draw.sizes.batch, 3, 4, 2)
    size = [max(draw.sizes.height, 1), max(draw.sizes.width, 1)]
    return {"grid": grid, "size": size, "spline": draw.choose(False, True)}


def displaced(draw: Draw) -> Arguments:
    grid = draw.normal(draw.sizes.batch, 3, 4, 2)
    kind = draw.choose("bilinear", "spline")
    return {**augmented(draw), "displacement": grid, "displacement_grid": kind}


def partly_erased(draw: Draw) -> Arguments:
    """Return an augmentation with all further arguments, such as two colour matrices an image."""
    arguments = augmented(draw)
    batch, (height, width) = draw.sizes.batch, arguments["size"]
    low = draw.rng.integers(-2, max(height, width) + 1, (batch, 3, 2))
    erased = np.concatenate([low, low + draw.rng.integers(0, 9, (batch, 3, 2))], -1)
    whole = [0.0, 0.5, draw.sizes.width, draw.sizes.height]
    return {
        **arguments,
        "color": arguments["color"][:, None].repeat(1, 2, 1, 1),
        "erase": torch.from_numpy(erased),
        "erase_value": draw.choose(0.0, 0.5),
        "window": torch.tensor([whole] * batch).double().view(batch, 4),
        "mode": draw.choose(*MODES),
        "padding_mode": draw.choose(*PADDINGS),
        "clamp": draw.choose(False, True),
        "antialias": draw.choose(False, True),
        "inverse_map": draw.choose(False, True),
        "dtype": draw.choose(None, torch.float32, torch.uint8, torch.bfloat16),
        "memory_format": draw.choose(torch.contiguous_format, torch.channels_last),
    }


def into(make: Make, name: str = "image") -> Make:
    """Return arguments with an `out`, which takes the place of a size."""

    def made(draw: Draw) -> Arguments:
        arguments = make(draw)
        given, size = arguments[name], arguments.pop("size")
        channels = given[0].shape[0] if len(given) else 3
        out = torch.zeros(len(given), channels, *size, dtype=draw.dtype)
        return {**arguments, "size": size, "out": out}

    return made


def listed(draw: Draw) -> Arguments:
    arguments = augmented(draw)
    return {**arguments, "images": list(arguments["images"])}


def convolved_into(draw: Draw) -> Arguments:
    lead, sides = (draw.sizes.batch, 2), (draw.sizes.height, draw.sizes.width)
    image, kernel = draw.normal(*lead, *sides), draw.normal(*draw.choose((2, 3), (1, 1), (5, 4)))
    size = [side + k - 1 for side, k in zip(sides, kernel.shape, strict=True)]
    return {
        **{"input": image, "kernel": kernel, "start": [1 - k for k in kernel.shape], "size": size},
        **{"boundary": draw.choose("fill", "wrap", "symm"), "fill": None},
        **{"flip": draw.choose(True, False), "out": draw.normal(*lead, *size)},
    }


def uncertain(draw: Draw) -> Arguments:
    logits = maps(draw, 1).to(torch.float32)
    return {"logits": logits, "num_points": draw.sizes.count, "oversample_ratio": 3.0}


def with_scores(draw: Draw) -> Tensor:
    arguments = detections(draw)
    return torch.cat([arguments["boxes"], arguments["scores"][:, None]], 1)


def classes(draw: Draw) -> Arguments:
    arguments = grouped(draw)
    config = {"type": draw.choose("nms", "soft_nms"), "iou_thr": 0.5}
    given = {"bboxes": arguments["boxes"], "scores": arguments["scores"]}
    return {**given, "inds": arguments["idxs"], "nms_cfg": config}


def points_to_points(draw: Draw) -> Arguments:
    pixels = draw.rng.integers(0, 256, (draw.sizes.height, draw.sizes.width, 3), dtype=np.uint8)
    ends = {f"{end}_point": draw.uniform(3, 2, high=20.0).float() for end in ("from", "to")}
    return {"image_uint8": pixels, **ends, "size": (20, 30)}


def warped_by_tensors(draw: Draw) -> Arguments:
    floats = torch.float64 if draw.dtype == torch.float64 else torch.float32
    sides = {"out_h": draw.sizes.height, "out_w": draw.sizes.width}
    return {"input": images(draw).to(floats), "affine_matrix": matrices(draw).to(floats), **sides}


def pooled(draw: Draw) -> Arguments:
    given = aligned(draw)
    renamed = {"features": given["input"], "rois": given["boxes"], "out_size": given["output_size"]}
    return {**renamed, "spatial_scale": 0.5, "sample_num": 2}


def attended(locations: str, weights: str, shapes: str = "spatial_shapes") -> Make:
    """Return samples under the names that the extension's functions have for them."""

    def made(draw: Draw) -> Arguments:
        given = attention(draw)
        levels = torch.tensor(given["spatial_shapes"])
        found = {"value": given["value"], shapes: levels}
        found |= {locations: given["sampling_locations"], weights: given["attention_weights"]}
        if shapes == "spatial_shapes":
            starts = levels.prod(1).cumsum(0) - levels.prod(1)
            batch, _, heads, channels = given["value"].shape
            grad = draw.normal(batch, draw.sizes.count, heads * channels)
            found |= {"level_start_index": starts, "grad_output": grad}
        return found

    return made


# Operations of pixels that have limits of their own, by the numbers of csrc/core/chain.
AFFINE, CONTRAST, SATURATION = 1, 3, 4
CHANNELS, HOLES, GRID = 17, 18, 19
BOX, GAUSSIAN, MEDIAN, MOTION, UNSHARP, CLAHE, JPEG = 20, 21, 22, 23, 24, 27, 30
TONES, ADVANCED, LIGHT, SHADOWS, MORPHOLOGY = 31, 33, 34, 35, 36
SIDES = (1, 3, 3, 5, 5, 7, 9, 15)
# Numbers behind an amount that are whole, by their places.
WHOLE: dict[int, dict[int, tuple[int, ...]]] = {
    CLAHE: {0: (1, 2, 3, 8, 20), 1: (1, 2, 3, 8, 20)},
    UNSHARP: {0: SIDES},
    CHANNELS: {0: (0, 1, 1), 1: (0, 1, 2, 3)},
    HOLES: {1: (0, 1, 2), 2: (0, 1, 4, 9), 7: (0, 1, 2)},
    GRID: {
        **{3: (0, 1, 2), 4: (1, 2, 5), 5: (1, 3, 40)},
        **{6: (-3, 0, 50), 7: (-1, 0, 9), 8: (0, 1, 2)},
    },
    TONES: {0: (0, 1)},
    ADVANCED: {5: (1, 8), 7: (1, 2)},
    LIGHT: {0: (0, 1, 2), 1: (0, 1, 2, 3), 4: (0, 1)},
    SHADOWS: {5: (3, 4, 7), 7: (1,)},
    MORPHOLOGY: {0: (1, 2, 3, 9), 1: (1, 2, 5, 8)},
}
AMOUNTS: dict[int, tuple[float, ...]] = {
    **{MEDIAN: SIDES, BOX: SIDES, MOTION: (3, 5, 7, 33), ADVANCED: SIDES},
    **{SHADOWS: (0, 1, 3), MORPHOLOGY: (0, 1)},
    **{JPEG: (1, 20, 50, 90, 100), CLAHE: (0.0, 0.5, 6.0)},
}


def numbers_behind(draw: Draw, kind: int) -> list[float]:
    numbers: list[float] = draw.rng.uniform(0, 0.9, 9).tolist()
    for place, choices in WHOLE.get(kind, {}).items():
        numbers[place] = float(draw.choose(*choices))
    if kind == HOLES:
        for least in (3, 5):  # shares, or pixels
            numbers[least : least + 2] = sorted(numbers[least : least + 2])
            numbers[least + 1] = float(draw.choose(numbers[least + 1], 1, 6, 300))
    return numbers


def adjusted(draw: Draw) -> Arguments:
    """Return an operation for each image, with its numbers."""
    channels, batch = draw.sizes.channels, draw.sizes.batch
    refused = {AFFINE, GAUSSIAN, *([] if channels in (1, 3) else [CONTRAST, JPEG])}
    refused |= {SATURATION} if channels == 2 or not channels else set()
    possible = [kind for kind in range(37) if kind not in refused]
    kinds = [draw.choose(*possible) for _ in range(batch)]
    pixels = draw.rng.random((batch, channels, draw.sizes.height, draw.sizes.width))
    as_bytes = draw.choose(True, False)
    images = (pixels * 255, torch.uint8) if as_bytes else (pixels, torch.float32)
    usual = (0.5, 0.1, 1.0, draw.rng.uniform(0.1, 1))
    amounts = [draw.choose(*AMOUNTS.get(kind, usual)) for kind in kinds]
    return {
        "images": draw.tensor(*images),
        "kinds": kinds,
        "amounts": [float(amount) for amount in amounts],
        "more": list(itertools.chain(*(numbers_behind(draw, kind) for kind in kinds))),
    }


def grey_means(draw: Draw) -> Arguments:
    channels, batch = draw.choose(3, 1, 4), draw.sizes.batch
    sides = max(draw.sizes.height, 1), max(draw.sizes.width, 1)
    pictures = draw.rng.integers(0, 256, (batch, channels, *sides))
    colors = draw.rng.random((batch, draw.choose(1, 2), channels, channels + 1))
    return {
        "pictures": draw.tensor(pictures, torch.uint8),
        "colors": torch.from_numpy(colors),
        "weights": torch.from_numpy(colors[..., 0].copy()),
    }


def filtered_by_weights(draw: Draw) -> Arguments:
    shared = draw.choose(True, False)
    sets = 1 if shared or not draw.sizes.batch else draw.sizes.batch
    height, width = draw.choose((3, 5), (1, 1), (2, 4), (9, 3))
    return {
        "images": images(draw),
        "rows": draw.rng.uniform(-0.5, 1, sets * width).tolist(),
        "columns": draw.rng.uniform(-0.5, 1, sets * height).tolist(),
        "shared": shared,
        "pairs": height % 2 * width % 2 == 1 and draw.choose(False, True),
    }


def outlined(draw: Draw) -> Arguments:
    return {
        "masks": bools(draw, mask_count(draw)),
        "holes": draw.choose(False, True),
        "approximation": draw.choose("simple", "none"),
    }


def costs(draw: Draw) -> Arguments:
    """Return a matrix for each image, with equal costs and forbidden pairs among them."""
    count, other = draw.sizes.count, draw.sizes.other
    matrices = draw.rng.integers(-3, 9, (draw.sizes.batch, count, other)).astype(np.float32)
    if draw.choose(False, True):
        matrices[draw.rng.random(matrices.shape) < 0.05] = np.inf
    return {"costs": list(torch.from_numpy(matrices)), "maximize": False}


_COMPAT = "visops.compat."
# By the names of functions as scripts/fuzz has them.
DRAWN: dict[str, tuple[Make, ...]] = {
    "visops.masks_to_rle": (lambda draw: {"masks": bools(draw, mask_count(draw))},),
    "visops.rle_to_masks": (decoded,),
    "visops.rle_area": (one_or_all,),
    "visops.rle_to_boxes": (one_or_all,),
    "visops.masks_to_polygons": (outlined,),
    "visops.linear_sum_assignment": (costs,),
    "visops.rle_iou": (pairs_of_texts,),
    "visops.polygons_to_masks": (polygons,),
    "torch.ops.visops.runs_to_bits": (runs_at_odd_places,),
    "visops.decode_jpeg": (file,),
    "visops.letterbox": (letterboxed,),
    "visops.unletterbox_boxes": (found_in_letterboxes,),
    "visops.remap": (remapped,),
    "torch.ops.visops.remap": (dense_maps,),
    "visops.displacement_field": (field,),
    "visops.augment": (
        displaced,
        partly_erased,
        listed,
        into(augmented, "images"),
        into(listed, "images"),
    ),
    "visops.warp_affine": (into(warped),),
    "torch.ops.visops.convolve2d_out": (convolved_into,),
    "visops.sample_points_by_uncertainty": (uncertain,),
    "visops.nms_match": (with_options(detections, iou_threshold=OneOf(0.3, 0.0, 1.0)),),
    "torch.ops.visops.adjust_pixels": (adjusted,),
    "torch.ops.visops.add_grey_means": (grey_means,),
    "torch.ops.visops.filter_separable": (filtered_by_weights,),
    f"{_COMPAT}affine_torch": (warped_by_tensors,),
    f"{_COMPAT}affine_opencv": (points_to_points,),
    f"{_COMPAT}nms": (lambda draw: {"dets": with_scores(draw), "iou_thr": 0.5},),
    f"{_COMPAT}soft_nms": (lambda draw: {"dets": with_scores(draw), "iou_thr": 0.5},),
    f"{_COMPAT}batched_nms": (classes,),
    f"{_COMPAT}roi_align": (pooled,),
    f"{_COMPAT}ms_deform_attn_forward": (attended("sampling_loc", "attn_weight"),),
    f"{_COMPAT}ms_deform_attn_backward": (attended("sampling_loc", "attn_weight"),),
    f"{_COMPAT}multi_scale_deformable_attn_pytorch": (
        attended("sampling_locations", "attention_weights", "value_spatial_shapes"),
    ),
}
