"""Turns a sample's targets into checked arrays, and back into the types they came in.

Everything that can be wrong with a target is found here, before a pixel moves. Values on an
accelerator go unchecked: reading them would synchronize.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ... import _native
from ..._torch.unsupported_inputs import require_plain
from .coco import ObjectMasks
from .images import pil_mask, sizes_of
from .leaf import BOX_FORMATS, Leaf, is_pil, pure, shared_tensor, tv_kind, tv_wrap
from .per_box import match_to_boxes, plain_array
from .polygons import prepare_polygons, restored_polygons

_LEAST_SIDE = 8  # of images in which a box below one pixel is more likely one of shares


def read_plain_boxes(leaf: Leaf, image: Leaf, box_format: str) -> None:
    """Note the format of a leaf's boxes; turn shares of the image's sides into pixels.

    Raises
    ------
    TypeError
        Shares are whole numbers.
    ValueError
        All boxes of a sample lie within [0, 1], and should be in pixels; or a box lies far beyond
        [0, 1], and should be in shares.
    """
    leaf.format, leaf.normalized = BOX_FORMATS[box_format]
    sizes = sizes_of(image)
    if leaf.normalized:
        for name, value in _samples(leaf):
            if not _is_floating(value):
                raise TypeError(
                    f"visops.transforms: {name} has dtype {value.dtype}, must be floating: "
                    f"box_format={box_format!r} is in shares of the image's sides"
                )
            if _are_pixels(value):
                raise ValueError(
                    f"visops.transforms: {name} has boxes far beyond [0, 1]; must be in shares of "
                    f"the image's sides for box_format={box_format!r}, or another box_format for "
                    "pixels"
                )
        leaf.canvas = sizes
        leaf.value = _scaled(leaf, 1)
        return
    dense = leaf.batch is not None and not isinstance(leaf.value, list)
    # A dense batch has one size; of no images, nobody asks for it.
    for (name, value), (height, width) in zip(_samples(leaf), sizes.tolist(), strict=False):
        parts = value if dense else [value]
        if min(height, width) >= _LEAST_SIDE and any(map(_are_shares, parts)):
            raise ValueError(
                f"visops.transforms: {name} lies within [0, 1] of an image of {height} rows and "
                f"{width} columns; must be in pixels (box_format='yolo' and 'albumentations' read "
                "shares of the image's sides)"
            )


def as_shares(leaf: Leaf) -> Any:
    """Return a leaf's boxes, in pixels, as shares of their images' sides."""
    return _scaled(leaf, -1)


def _samples(leaf: Leaf) -> list[tuple[str, Any]]:
    """Return the name and the value of each sample's boxes; those of a dense batch together."""
    if not isinstance(leaf.value, list):
        return [(leaf.name, leaf.value)]
    return [(f"{leaf.name}[{index}]", value) for index, value in enumerate(leaf.value)]


def _is_floating(value: Any) -> bool:
    return value.is_floating_point() if isinstance(value, Tensor) else value.dtype.kind == "f"


def _on_host(boxes: Any) -> Any:
    """Return boxes whose numbers can be read here; None on a device, and where there are none."""
    if 0 in boxes.shape:
        return None
    if isinstance(boxes, Tensor):
        return boxes.detach() if boxes.is_cpu else None
    return boxes


# Boxes that reach beyond the image have shares below 0 and above 1, but not by more than its sides.
_FARTHEST_SHARES = (-1.0, 2.0)


def _are_pixels(boxes: Any) -> bool:
    """Return whether some box can't be one of shares. What is on a device isn't read."""
    boxes = _on_host(boxes)
    if boxes is None:
        return False
    least, most = _FARTHEST_SHARES
    return bool(((boxes < least) | (boxes > most)).any())


def _are_shares(boxes: Any) -> bool:
    """Return whether boxes can only be shares: fractions with an area, and none above 1.

    Whole numbers may be a pixel in a corner. What is on a device isn't read.
    """
    if not _is_floating(boxes) or (boxes := _on_host(boxes)) is None:
        return False
    if not (boxes.min() >= 0 and boxes.max() <= 1 and ((boxes > 0) & (boxes < 1)).any()):
        return False
    return bool((boxes[..., 2:] > boxes[..., :2]).all(-1).any())


def _scaled(leaf: Leaf, power: int) -> Any:
    assert leaf.canvas is not None
    sides = np.tile(leaf.canvas[:, ::-1].astype(np.float64), 2) ** power

    def scaled(value: Any, factor: np.ndarray) -> Any:
        if isinstance(value, Tensor):
            return value * torch.from_numpy(factor).to(value.device, value.dtype)
        return value * factor.astype(value.dtype)

    if isinstance(leaf.value, list):
        return [scaled(value, own) for value, own in zip(leaf.value, sides, strict=True)]
    return scaled(leaf.value, sides[0] if leaf.batch is None else sides[:, None])


# Columns of each format of boxes.
_FORMATS = {"XYXY": 4, "XYWH": 4, "CXCYWH": 4, "XYWHR": 5, "CXCYWHR": 5, "XYXYXYXY": 8}
_RANKS = {"mask": (2, 3), "boxes": (2, 2), "keypoints": (2, 99)}
_OF_FRAMES = "; flatten those of a video's frames: boxes.reshape(-1, boxes.shape[-1])"
_EXPECTED = {
    "mask": "[H, W], [N, H, W] or [H, W, N]",
    "boxes": "[N, 4]",
    "keypoints": "[..., 2], or [..., 3] with visibilities",
}


def prepare_targets(leaves: list[Leaf], image: Leaf, box_format: str = "xyxy") -> None:
    """Turn masks, boxes and key points into arrays or lists of arrays, and check them.

    Parameters
    ----------
    leaves : list of Leaf
        All leaves of a sample; changed in place.
    image : Leaf
        The first image, which tells whether the sample is a batch.
    box_format : str
        That of plain boxes: one of `BOX_FORMATS`.
    """
    targets = [leaf for leaf in leaves if leaf.kind in _RANKS]
    for leaf in targets:
        _prepare(leaf, image)
        _check_shapes(leaf)
    for leaf in leaves:
        if leaf.kind == "polygons":
            prepare_polygons(leaf, image)
    for leaf in targets:
        if leaf.kind == "keypoints":
            _find_visibility(leaf, leaves)
    groups: dict[int, list[Leaf]] = {}
    for leaf in targets:
        if leaf.kind == "boxes":
            if leaf.format == "XYXY" and leaf.canvas is None:
                read_plain_boxes(leaf, image, box_format)
            _check_boxes(leaf)
            groups.setdefault(leaf.group, []).append(leaf)
    for leaf in leaves:
        boxes = groups.get(leaf.group)
        if boxes is not None and len(boxes) == 1:
            match_to_boxes(leaf, boxes[0])


def _prepare(leaf: Leaf, image: Leaf) -> None:
    """Turn a target's value into an array or, for a batch, into a list with one per sample."""
    value, batch = leaf.value, image.batch
    typed: Sequence[Any] = (value,)
    if batch is None:
        leaf.value = _as_array(leaf, value, image, 0, leaf.name)
    elif isinstance(value, (list, tuple)):
        if len(value) != batch:
            raise ValueError(
                f"visops.transforms: {leaf.name} has {len(value)} entries, {image.name} holds "
                f"{batch} images; must be one for each"
            )
        names = [f"{leaf.name}[{index}]" for index in range(batch)]
        leaf.value = [_as_array(leaf, value[i], image, i, names[i]) for i in range(batch)]
        leaf.batch, typed = batch, value
    else:
        leaf.value = _as_array(leaf, value, image, 0, leaf.name)
        leaf.batch = batch
        shape = list(leaf.value.shape)
        if len(shape) <= _RANKS[leaf.kind][0] or shape[0] != batch:
            raise ValueError(
                f"visops.transforms: {leaf.name} has shape {shape}, {image.name} holds {batch} "
                f"images; must have a first dimension of {batch} or be a list of {batch}"
            )
    if len(typed) > 0 and all(tv_kind(item) is not None for item in typed):
        if leaf.kind == "boxes":
            leaf.format = _common_format(leaf, typed)
        if leaf.kind != "mask":
            sizes = [item.canvas_size for item in typed]
            count = 1 if batch is None else batch
            sizes = sizes if len(sizes) == count else sizes * count
            leaf.canvas = np.array(sizes, np.int64).reshape(-1, 2)
    if len(typed) > 0 and all(isinstance(item, ObjectMasks) for item in typed):
        present = [np.array([rle is not None for rle in item.rles], bool) for item in typed]
        leaf.visible = present[0] if batch is None else present


def _common_format(leaf: Leaf, typed: Sequence[Any]) -> str:
    formats = {item.format.value for item in typed}
    if len(formats) > 1:
        raise ValueError(
            f"visops.transforms: {leaf.name} mixes the formats {sorted(formats)}, must have one"
        )
    found: str = formats.pop()
    if found not in _FORMATS:
        raise ValueError(
            f"visops.transforms: {leaf.name} has format {found}, must be {', '.join(_FORMATS)}"
        )
    return found


def _as_array(leaf: Leaf, value: Any, image: Leaf, index: int, name: str) -> Any:
    """Return the target of one sample or of a whole batch as a tensor or an array."""
    if isinstance(value, ObjectMasks):
        height, width = sizes_of(image)[index].tolist()
        return value.decode((height, width))
    if isinstance(value, (Tensor, np.ndarray)):
        if isinstance(value, Tensor):
            require_plain("transforms", **{name: value})
            value = value.as_subclass(Tensor).resolve_neg()  # as an array, it has no such flag
        elif value.dtype.kind not in "fiub":
            _reject_dtype(leaf, name, value.dtype)
        if value.ndim == 1 and value.shape[0] == 0:  # torch.tensor([]): a sample without any
            return value.reshape(_no_targets(leaf, image, index))
        return _regular(leaf, value, image, index, name)
    if is_pil(value):
        return pil_mask(value, name)
    if not isinstance(value, (list, tuple)):
        raise TypeError(
            f"visops.transforms: {name} is a {type(value).__name__}, must be {_EXPECTED[leaf.kind]}"
        )
    if not value:
        shape = _no_targets(leaf, image, index)
        return np.zeros(shape, np.uint8 if leaf.kind == "mask" else np.float64)
    try:
        if all(isinstance(item, Tensor) for item in value):
            return torch.stack([item.as_subclass(Tensor) for item in value])
        array = np.stack([pil_mask(x, name) if is_pil(x) else np.asarray(x) for x in value])
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"visops.transforms: {name} can't be read as {_EXPECTED[leaf.kind]}: {error}"
        ) from None
    if array.dtype.kind not in "fiub":
        _reject_dtype(leaf, name, array.dtype)
    # Python integers may well mean coordinates with fractions; in masks they are classes.
    is_numbers = not any(isinstance(item, np.ndarray) or is_pil(item) for item in value)
    if is_numbers and leaf.kind != "mask":
        array = array.astype(np.float64)
    return _regular(leaf, array, image, index, name) if leaf.kind == "keypoints" else array


def _no_targets(leaf: Leaf, image: Leaf, index: int) -> tuple[int, ...]:
    """Return the shape of no masks, boxes or key points."""
    height, width = sizes_of(image)[index].tolist()
    return {"mask": (0, height, width), "boxes": (0, 4), "keypoints": (0, 2)}[leaf.kind]


def _regular(leaf: Leaf, value: Any, image: Leaf, index: int, name: str) -> Any:
    """Return a target in the form in which it moves, and note the form it came in.

    Masks ``[H, W, N]``, as OpenCV has them, become ``[N, H, W]``; COCO's flat key points
    ``[N, 3 K]`` become ``[N, K, 3]``. A batch in one array has a dimension more.
    """
    dense = image.batch is not None and not isinstance(leaf.like, (list, tuple))
    shape = tuple(value.shape)[int(dense) :]
    if leaf.kind == "mask" and len(shape) == 3:
        size = tuple(sizes_of(image)[index].tolist())
        if shape[1:] != size and shape[:2] == size:
            leaf.layout = "HWN"
            return (
                value.movedim(-1, -3) if isinstance(value, Tensor) else np.moveaxis(value, -1, -3)
            )
    if leaf.kind == "keypoints" and len(shape) == 2 and shape[1] > 3 and shape[1] % 3 == 0:
        triples = value.reshape(*value.shape[:-1], shape[1] // 3, 3)
        flags = triples[..., 2]
        if isinstance(flags, Tensor) and not flags.is_cpu:
            flags = flags[:0]  # reading them would synchronize
        if bool(((flags == 0) | (flags == 1) | (flags == 2)).all()):
            leaf.layout = "flat"
            return triples
        raise ValueError(
            f"visops.transforms: {name} has shape {list(value.shape)}, and its third columns are "
            "not COCO's visibilities 0, 1 and 2; must be [..., 2], or [..., 3] with visibilities"
        )
    return value


def _reject_dtype(leaf: Leaf, name: str, dtype: Any) -> None:
    allowed = "numbers" if leaf.kind == "mask" else "floating or signed integers"
    raise TypeError(f"visops.transforms: {name} has dtype {dtype}, must be {allowed}")


def _check_shapes(leaf: Leaf) -> None:
    dense = leaf.batch is not None and not isinstance(leaf.value, list)
    low, high = _RANKS[leaf.kind]
    for index, value in enumerate(leaf.value if isinstance(leaf.value, list) else [leaf.value]):
        name = f"{leaf.name}[{index}]" if isinstance(leaf.value, list) else leaf.name
        shape = value.shape
        rank = len(shape) - dense
        lasts = {"boxes": (_FORMATS[leaf.format],), "keypoints": (2, 3)}.get(leaf.kind)
        if not low <= rank <= high or (lasts is not None and shape[-1] not in lasts):
            expected = _EXPECTED[leaf.kind]
            # A video's, whose frames move as one, as Compose(per_frame=False) takes it.
            of_frames = leaf.kind == "boxes" and rank == 3 and shape[-1] in (4, 5) and not dense
            raise ValueError(
                f"visops.transforms: {name} has shape {list(shape)}, must be {expected}"
                + (f" after a first dimension of {leaf.batch}" if dense else "")
                + (_OF_FRAMES if of_frames else "")
            )
        if isinstance(value, Tensor):
            signed = value.is_floating_point() or value.dtype in _SIGNED
            number = not value.is_complex()
        else:
            signed, number = value.dtype.kind in "fi", True
        if not (number if leaf.kind == "mask" else signed):
            _reject_dtype(leaf, name, value.dtype)


_SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)


def _check_boxes(leaf: Leaf) -> None:
    """Refuse boxes that are not finite or have negative sides, where the CPU can read them."""
    for index, value in enumerate(leaf.value if isinstance(leaf.value, list) else [leaf.value]):
        if isinstance(value, Tensor):
            if not value.is_cpu:
                continue
            value = value.detach()
            value = (value.float() if value.dtype == torch.bfloat16 else value).numpy()
        known = leaf.format == "XYXY"
        if known and _native.are_boxes(value):
            continue
        first, second = value[..., :2], value[..., 2:4]
        if leaf.format == "XYXYXYXY":
            second = np.zeros_like(first)  # any four corners will do
        good = second >= (first if leaf.format == "XYXY" else 0)
        if good.all() and np.isfinite(value).all():
            continue
        label = f"{leaf.name}[{index}]" if isinstance(leaf.value, list) else leaf.name
        finite = np.isfinite(value).all(-1)
        where = tuple(np.argwhere(~(good.all(-1) & finite))[0].tolist())
        box = ", ".join(f"{v:g}" for v in value[where].tolist())
        name = label + "".join(f"[{i}]" for i in where)
        if not finite[where]:
            problem = "must be finite"
        elif leaf.format == "XYXY":
            problem = "must have x1 <= x2 and y1 <= y2 (for other formats see box_format=)"
        else:
            problem = "must have a width and a height of at least 0"
        raise ValueError(f"visops.transforms: {name} is [{box}] ({leaf.format}), {problem}")


def _find_visibility(leaf: Leaf, leaves: list[Leaf]) -> None:
    """Find the `keypoints_visible` that a dict may hold beside its `keypoints`."""
    if not isinstance(leaf.key, str):
        return
    key, group = f"{leaf.key}_visible", leaf.group
    found = (x for x in leaves if x.kind == "visible" and x.group == group and x.key == key)
    partner = next(found, None)
    if partner is None:
        return
    partner.batch = leaf.batch
    if isinstance(leaf.value, list):
        if not isinstance(partner.value, (list, tuple)) or len(partner.value) != leaf.batch:
            raise TypeError(
                f"visops.transforms: {partner.name} is a {type(partner.value).__name__}, must be a "
                f"list of {leaf.batch}, like {leaf.name}"
            )
        partner.value = [plain_array(item) for item in partner.value]
    else:
        partner.value = plain_array(partner.value)
    values = leaf.value if isinstance(leaf.value, list) else [leaf.value]
    owns = partner.value if isinstance(partner.value, list) else [partner.value]
    for value, own in zip(values, owns, strict=True):
        if tuple(own.shape) != tuple(value.shape[:-1]):
            raise ValueError(
                f"visops.transforms: {partner.name} has shape {list(own.shape)}, must be that of "
                f"{leaf.name} without its last dimension: {list(value.shape[:-1])}"
            )
    leaf.partner = partner


def restored_target(leaf: Leaf) -> Any:
    """Return a leaf's value in the type it came in, or as plain tensors if it is to."""
    if leaf.layout != "CHW" and leaf.value is not leaf.like:
        values = leaf.value if isinstance(leaf.value, list) else [leaf.value]
        values = [_as_laid_out(value, leaf.layout) for value in values]
        leaf.value = values if isinstance(leaf.value, list) else values[0]
    if leaf.normalized:
        leaf.value = as_shares(leaf)
    value = _as_it_came(leaf)
    return pure(value) if leaf.form == "pure" else value


def _as_laid_out(value: Any, layout: str) -> Any:
    """Undo `_regular`."""
    if layout == "flat":
        return value.reshape(*value.shape[:-2], value.shape[-2] * 3)
    return _moved_axis(value, -3, -1)


def _moved_axis(value: Any, source: int, target: int) -> Any:
    move: Any = torch.movedim if isinstance(value, Tensor) else np.moveaxis
    return move(value, source, target)


def _as_it_came(leaf: Leaf) -> Any:
    value, like = leaf.value, leaf.like
    if leaf.kind in ("labels", "other") or value is like:
        return value
    if leaf.kind == "polygons":
        return restored_polygons(leaf)
    if isinstance(value, list) and leaf.batch is not None:
        likes = like if isinstance(like, (list, tuple)) else [like] * len(value)
        return [_typed(leaf, v, likes[i], i) for i, v in enumerate(value)]
    return _typed(leaf, value, like, 0)


def _typed(leaf: Leaf, value: Any, like: Any, index: int) -> Any:
    if isinstance(like, (list, tuple)) and leaf.batch is not None and isinstance(value, Tensor):
        like = like[0] if like else None  # stacked when a list was collated
    if isinstance(value, np.ndarray):
        if isinstance(like, (list, tuple)):
            arrays = any(isinstance(i, np.ndarray) or is_pil(i) for i in like)
            return list(value) if arrays else value.tolist()
        if not isinstance(like, np.ndarray):
            value = shared_tensor(value)
    elif isinstance(like, (list, tuple)):
        return list(value)
    if tv_kind(like) is None:
        return value
    if leaf.kind == "mask":
        return tv_wrap(value, like)
    assert leaf.canvas is not None
    height, width = leaf.canvas[index].tolist()
    fields: dict[str, Any] = {}
    if leaf.kind == "boxes":
        fields["format"] = leaf.format
        if leaf.clamping != "":
            fields["clamping_mode"] = leaf.clamping
    return tv_wrap(value, like, canvas_size=(height, width), **fields)


def visibility_of(leaf: Leaf) -> Any:
    """Return the flags to put beside key points in a dict; None if they have a place already."""
    if leaf.visible is None or leaf.partner is not None or not isinstance(leaf.key, str):
        return None
    if any(value.shape[-1] != 2 for value in leaf.samples()):
        return None  # the third column says it
    if isinstance(leaf.visible, list):
        likes = (
            leaf.like if isinstance(leaf.like, (list, tuple)) else [leaf.like] * len(leaf.visible)
        )
        return [_typed_flags(v, lk) for v, lk in zip(leaf.visible, likes, strict=True)]
    return _typed_flags(leaf.visible, leaf.like)


def _typed_flags(visible: Any, like: Any) -> Any:
    if isinstance(like, Tensor):
        return visible if isinstance(visible, Tensor) else torch.from_numpy(visible)
    if isinstance(like, (list, tuple)) and isinstance(visible, np.ndarray):
        return visible.tolist()
    return visible
