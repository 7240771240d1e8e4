"""Pictures of what a chain does to a sample."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..base import Transform
from ..chain.plan import full_scale
from ..classes.policies import OPERATIONS
from ..classes.types import Normalize
from ..compose import Compose
from ..sample.images import restored_image
from ..sample.leaf import Leaf
from ..sample.split import split_sample
from ..targets.masks import as_tensor
from ..targets.options import CONVENTIONS, TargetOptions
from ..targets.polygons import ROTATED, numbers_on_cpu, rotated_corners
from ..targets.rows import numbers, to_corners

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_CELL = 2.3  # inches
_LINE = 0.125
_CHARACTERS = 44  # in a line of a caption
# Okabe and Ito's colours, which colour-blind people can tell apart; black and grey left out.
_COLORS = np.array(
    [(230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (213, 94, 0), (204, 121, 167)]
) / 255.0  # fmt: skip
_OPACITY = 0.45


def preview(transform: Any, sample: Any, n: int = 16) -> "Figure":
    """Draw a grid of a chain's results for one sample, with their targets and parameters.

    The first picture is the sample itself. Masks are tinted, one colour per class, and the fill
    class is hatched. Boxes, with their labels if they have any, and key points are drawn on top.
    The drawn parameters stand above each picture. :class:`Normalize` is undone for display.

    Parameters
    ----------
    transform : Compose, Transform or callable
    sample : as for `transform`
        One sample, not a batch. Shows the first frame of a video, and the first of several images.
    n : int
        Number of results.

    Returns
    -------
    matplotlib.figure.Figure
        Created without touching pyplot: show it as the value of a notebook cell, or save it with
        ``figure.savefig("preview.png")``.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    ValueError
        The sample is a batch, or `n` is less than 1.

    Notes
    -----
    A chain with a seed draws as for the indices 0 to n - 1; otherwise a generator seeded with 0
    draws. torch's global generator is not touched.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> chain = transforms.Compose([transforms.RandomRotation(30), transforms.ColorJitter(0.4)])
    >>> sample = {"image": torch.rand(3, 60, 80), "boxes": torch.tensor([[10.0, 10, 50, 40]])}
    >>> figure = transforms.preview(chain, sample, n=5)  # doctest: +SKIP
    >>> figure.savefig("preview.png")  # doctest: +SKIP
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "visops.transforms.preview: needs matplotlib, which can't be imported "
            f"({error}); pip install matplotlib"
        ) from None
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"visops.transforms.preview: n is {n!r}, must be a whole number >= 1")
    chain = transform if isinstance(transform, Compose) else Compose([transform])
    leaves, _ = split_sample(sample, chain.keys, chain.reading)
    if any(leaf.kind == "image" and leaf.batch is not None for leaf in leaves):
        raise ValueError("visops.transforms.preview: sample is a batch, must be a single sample")

    cells: list[tuple[list[Leaf], list[str]]] = [(leaves, ["the sample"])]
    generator = torch.Generator().manual_seed(0)
    for index in range(n):
        source: dict[str, Any] = {"index": index} if chain.seed is not None else {}
        if chain.seed is None:
            source["generator"] = generator
        result, params = chain(sample, return_params=True, **source)
        drawn = [
            line
            for step, own in zip(chain.transforms, params.steps, strict=True)
            for line in textwrap.wrap(describe(step, own), _CHARACTERS, subsequent_indent="   ")
        ]
        cells.append(
            (split_sample(result, chain.keys, chain.reading._replace(layout="CHW"))[0], drawn)
        )

    rows = max(1, round(math.sqrt(len(cells) / 1.8)))
    columns = math.ceil(len(cells) / rows)
    lines = max(len(caption) for _, caption in cells)
    height = _CELL + lines * _LINE + 0.1
    figure = Figure(figsize=(columns * _CELL, rows * height))
    for position, (own, caption) in enumerate(cells):
        row, column = divmod(position, columns)
        bottom = 1.0 - (row + 1) / rows
        axes = figure.add_axes(
            ((column + 0.02) / columns, bottom, 0.96 / columns, 0.98 * _CELL / (rows * height))
        )
        _draw(axes, own, chain, is_result=position > 0)
        figure.text(
            (column + 0.02) / columns,
            bottom + (_CELL + 0.02) / (rows * height),
            "\n".join(caption),
            fontsize=6.5,
            va="bottom",
            linespacing=1.15,
        )
    return figure


def describe(transform: Any, params: Mapping[str, np.ndarray]) -> str:
    """Return the parameters that one sample drew for a transform, as text; empty if none."""
    name = type(transform).__name__.removeprefix("Random")
    if not isinstance(transform, Transform):
        return name
    if transform.draws == 0 or ("apply" in params and not params["apply"][0]):
        return ""
    values = {key: value[0] for key, value in params.items() if key not in ("apply", "order")}
    brief = len(values) > 6  # a perspective's corners: with names they would take three lines
    parts: list[str] = []
    for key, value in values.items():
        stem = key[:-2]
        if key.endswith("_y") and f"{stem}_x" in values:
            continue
        if key.endswith("_x") and f"{stem}_y" in values:
            pair = f"({_number(value)}, {_number(values[f'{stem}_y'])})"
            parts.append(pair if brief else f"{stem} {pair}")
        elif key.startswith("operation"):
            parts.append(OPERATIONS[int(value)])
        elif key.startswith("magnitude"):
            if parts[-1] != "Identity":
                parts[-1] += f" {_number(value)}"
        else:
            parts.append(f"{key} {_number(value)}")
    return f"{name}: {', '.join(parts)}" if parts else name


def _number(value: Any) -> str:
    if np.ndim(value):
        return " ".join(_number(v) for v in value)
    text = f"{float(value):.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text.replace("-", "−")


def _draw(axes: "Axes", leaves: Sequence[Leaf], chain: Compose, *, is_result: bool) -> None:
    image = next(leaf for leaf in leaves if leaf.kind == "image")
    picture = _picture(image, chain if is_result else None)
    axes.imshow(picture, interpolation="nearest")
    height, width = picture.shape[:2]
    for leaf in leaves:
        if leaf.kind == "mask":
            _draw_mask(axes, leaf, chain.options)
    for leaf in leaves:
        if leaf.kind == "boxes":
            labels = [
                x for x in leaves if x.group == leaf.group and x.key == "labels" and x.per_box
            ]
            _draw_boxes(axes, leaf, labels[0].value if labels else None)
        if leaf.kind == "polygons":
            _draw_polygons(axes, leaf)
    for leaf in leaves:
        if leaf.kind == "keypoints":
            _draw_points(axes, leaf, chain.options)
    axes.set_xlim(-0.5, width - 0.5)
    axes.set_ylim(height - 0.5, -0.5)
    axes.set_axis_off()


def _picture(leaf: Leaf, chain: Compose | None) -> np.ndarray:
    """Return an image as matplotlib wants it, [H, W, 3] in [0, 1]."""
    image = restored_image(leaf).as_subclass(Tensor).detach().cpu()
    image = image[0] if leaf.frames else image
    values = image.to(torch.float64)
    if not image.is_floating_point():
        values = values / full_scale(image.dtype)
    elif chain is not None:
        for step in chain.transforms:
            if isinstance(step, Normalize):
                mean, std = (
                    torch.tensor(v, device="cpu").reshape(-1, 1, 1) for v in (step.mean, step.std)
                )
                values = values * std + mean
    if image.is_floating_point() and values.numel() and values.max() > 2.0:
        values = values / 255.0  # uint8 converted without scaling
    array: np.ndarray = torch.nan_to_num(values).clamp(0.0, 1.0).movedim(0, -1).numpy()
    return array[..., :3] if array.shape[-1] >= 3 else array[..., :1].repeat(3, -1)


def _color(number: int) -> np.ndarray:
    color: np.ndarray = _COLORS[number % len(_COLORS)]
    return color


def _draw_mask(axes: "Axes", leaf: Leaf, options: TargetOptions) -> None:
    mask = as_tensor(leaf.value).detach().cpu()
    planes = mask if mask.dim() == 3 else mask.unsqueeze(0)
    if mask.dim() == 3 and (leaf.per_box or mask.dtype == torch.bool or len(planes) > 1):
        for number, plane in enumerate(planes):
            _tint(axes, (plane != 0).numpy(), _color(number))
        return
    plane = planes[0] if len(planes) else torch.zeros(mask.shape[-2:], device="cpu")
    if plane.is_floating_point():
        shares = plane.double().clamp(0, 1).numpy()
        _tint(axes, shares, _color(0))
        return
    classes = plane.to(torch.int64).numpy()
    for value in np.unique(classes).tolist():
        if value == options.mask_fill and value != 0:
            # Hatched, with about as many stripes whatever the picture's size.
            rows, columns = np.indices(classes.shape)
            stripe = max(max(classes.shape) // 40, 1)
            hatch = (rows + columns) // stripe % 3 == 0
            _tint(axes, (classes == value) & hatch, np.ones(3))
        elif value != 0:
            _tint(axes, classes == value, _color(value - 1))


def _tint(axes: "Axes", shares: np.ndarray, color: np.ndarray) -> None:
    layer = np.empty((*shares.shape, 4))
    layer[..., :3] = color
    layer[..., 3] = _OPACITY * shares
    axes.imshow(layer, interpolation="nearest")


def _draw_boxes(axes: "Axes", leaf: Leaf, labels: Any) -> None:
    from matplotlib.patches import Polygon, Rectangle

    if leaf.format in ROTATED:
        corners = rotated_corners(numbers_on_cpu(leaf.value), leaf.format)
        for number, box in enumerate(corners - 0.5):
            axes.add_patch(Polygon(box, fill=False, edgecolor=_color(number), lw=1.4))
        return
    rows = np.asarray(torch.as_tensor(numbers(leaf.value), device="cpu").detach()).reshape(-1, 4)
    names = None if labels is None else list(labels)
    # Boxes count from a pixel's corner, matplotlib from its centre.
    for number, (x1, y1, x2, y2) in enumerate(to_corners(rows, leaf.format) - 0.5):
        color = _color(number)
        axes.add_patch(Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, edgecolor=color, lw=1.4))
        if names is not None:
            label = names[number].item() if isinstance(names[number], Tensor) else names[number]
            axes.text(
                x1,
                y1,
                f"{label}",
                fontsize=6,
                color="black",
                bbox={"facecolor": color, "edgecolor": "none", "pad": 0.8, "alpha": 0.85},
                va="top",
                clip_on=True,
            )


def _draw_polygons(axes: "Axes", leaf: Leaf) -> None:
    from matplotlib.patches import Polygon

    for number, polygons in enumerate(leaf.value):
        color = _color(number)
        for points in polygons:
            axes.add_patch(Polygon(points - 0.5, facecolor=(*color, _OPACITY), edgecolor=color))


def _draw_points(axes: "Axes", leaf: Leaf, options: TargetOptions) -> None:
    points = np.asarray(torch.as_tensor(numbers(leaf.value), device="cpu").detach())
    shift = CONVENTIONS[options.keypoint_convention] - 0.5
    seen = np.isfinite(points[..., :2]).all(-1)
    if points.shape[-1] == 3:
        seen &= points[..., 2] > 0
    if leaf.partner is not None:
        seen &= np.asarray(torch.as_tensor(leaf.partner.value, device="cpu")) > 0
    flat, flags = points[..., :2].reshape(-1, 2) + shift, seen.reshape(-1)
    # A colour for each box's points; a single one for points that belong to the image.
    count = max(len(flat) // max(len(points), 1), 1) if leaf.per_box else len(flat) or 1
    colors = np.array([_color(number // count) for number in range(len(flat))]).reshape(-1, 3)
    axes.scatter(
        flat[flags, 0], flat[flags, 1], c=colors[flags], s=14, edgecolors="black", linewidths=0.6
    )
