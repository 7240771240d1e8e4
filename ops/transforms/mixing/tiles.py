"""Where the four images of each mosaic lie, and how they get there."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._native import Step
from ...warp.augment import augment
from ..chain.integers import WHITES, choose, from_float, to_float
from ..chain.plan import Canvas, Plan
from ..sample.entries import count_of, rebuilt
from ..sample.leaf import TARGETS, Leaf
from ..sample.per_box import WHAT_BELONGS, unclear_beside
from ..targets.masks import move_mask
from ..targets.options import Geometry
from ..targets.polygons import joined_outlines


@dataclass(slots=True)
class Movement:
    """How canvases move before they are seen, and are cut."""

    size: tuple[int, int]  # of what is left
    steps: Sequence[tuple[Step, np.ndarray]]  # with each mosaic's numbers [B, N]

    def add_to(self, plan: Plan, tiles: int) -> None:
        """Add it to a plan that has as many samples for each mosaic."""
        for step, numbers in self.steps:
            plan.add(step, numbers.repeat(tiles, 0))


@dataclass(slots=True)
class Shape:
    """A tile that lies askew: a rectangle x1, y1, x2, y2 of the canvas that was moved."""

    back: list[float]  # the first two rows of a matrix from mosaic to canvas
    rectangle: list[float]

    def covers(self, window: Sequence[int]) -> Tensor:
        """Return which pixels of a window x1, y1, x2, y2 have their centres within: ``[h, w]``.

        A pixel's place on the canvas doesn't depend on the window, so that tiles that touch never
        share a pixel and leave none between them.
        """
        x1, y1, x2, y2 = window
        x = torch.arange(x1, x2, dtype=torch.float64, device="cpu") + 0.5
        y = torch.arange(y1, y2, dtype=torch.float64, device="cpu").unsqueeze(1) + 0.5
        a, b, c, d, e, f = self.back
        u, v = (a * x + c) + b * y, (d * x + f) + e * y
        left, top, right, bottom = self.rectangle
        return (u >= left) & (u < right) & (v >= top) & (v < bottom)


@dataclass(slots=True)
class Tiles:
    """Four tiles of each mosaic in turn, T of them: top left, top right, bottom left and right."""

    sources: list[int]  # the sample that each shows
    geometry: Geometry  # from the samples' images to the mosaic
    regions: list[list[int]]  # x1, y1, x2, y2: each tile's part of the mosaic
    seen: list[list[int]]  # x1, y1, x2, y2: where its image lies there; may be empty
    shapes: list[Shape | None]  # which pixels of `seen` show it; None: all do
    moved: bool  # so that pictures may end within pixels

    @staticmethod
    def of(
        sizes: np.ndarray,
        size: tuple[int, int],
        centers: np.ndarray,
        sources: np.ndarray,
        mixed: np.ndarray,
        movement: Movement | None = None,
    ) -> "Tiles":
        """Lay out mosaics.

        Parameters
        ----------
        sizes : ndarray, int ``[B, 2]``
            Heights and widths of the images.
        size : pair of int
            Height and width into which each image is fitted; a mosaic has twice that.
        centers : ndarray, int ``[B, 2]``
            x, y of the point where the four images meet.
        sources : ndarray, int ``[B, 4]``
        mixed : ndarray, bool ``[B]``
            The first image of others lies alone, in the middle: in all of a mosaic, or in `size`
            where canvases move.
        movement : Movement, optional
            What happens to the canvases of twice `size`; by default they are the mosaics.
        """
        flat, count = sources.reshape(-1), 4 * len(sizes)
        height, width = sizes[flat].T.astype(np.float64)
        alone = ~mixed.repeat(4)
        full = (2.0 * size[0], 2.0 * size[1])
        most = size if movement is not None else full
        factor = np.where(
            alone,
            np.minimum(most[0] / height, most[1] / width),
            np.minimum(size[0] / height, size[1] / width),
        )
        rows = np.maximum(np.rint(height * factor), 1.0)
        columns = np.maximum(np.rint(width * factor), 1.0)
        x, y = centers.repeat(4, 0).T.astype(np.float64)
        right, lower = (np.arange(count) % 2 == 1), (np.arange(count) % 4 >= 2)
        left, top = np.where(right, x, x - columns), np.where(lower, y, y - rows)
        left = np.where(alone, np.floor((full[1] - columns) / 2), left)
        top = np.where(alone, np.floor((full[0] - rows) / 2), top)

        # What a canvas cuts off must not come back where it moves.
        plan = Plan.of_images(sizes[flat], exact=movement is not None)
        plan.scale(columns / width, rows / height, 0.0, 0.0, Canvas(rows, columns))
        plan.shift(left, top, Canvas(*full))

        zero = np.zeros(count)
        regions = np.stack(
            (
                *(np.where(right, x, zero), np.where(lower, y, zero)),
                *(np.where(right, full[1], x), np.where(lower, full[0], y)),
            ),
            1,
        )
        _lay_alone(regions, alone, full)
        seen = regions.copy()
        seen[:, :2] = np.maximum(regions[:, :2], np.stack((left, top), 1))
        seen[:, 2:] = np.minimum(regions[:, 2:], np.stack((left + columns, top + rows), 1))
        shapes: list[Shape | None] = [None] * count
        if movement is not None:
            canvases = Plan.of_images(np.full((len(sizes), 2), full, np.int64))
            movement.add_to(canvases, 1)
            movement.add_to(plan, 4)
            full = movement.size
            regions, seen, shapes = _moved(canvases.matrices.repeat(4, 0), regions, seen, full)
            _lay_alone(regions, alone, full)
        size_out = np.tile(np.array(full, np.int64), (count, 1))
        geometry = Geometry(plan.matrices, sizes[flat], size_out, plan.window, plan.ties)
        edges = [edges.astype(np.int64).tolist() for edges in (regions, seen)]
        return Tiles(flat.tolist(), geometry, edges[0], edges[1], shapes, movement is not None)

    def position(self, tile: int) -> Geometry | None:
        """Return the way into the tile's own picture, which is what is seen; None: nothing is."""
        x1, y1, x2, y2 = self.seen[tile]
        if x1 >= x2 or y1 >= y2:
            return None
        one, whole = slice(tile, tile + 1), self.geometry
        matrix = whole.matrix[one].copy()
        matrix[:, :2, 2] -= (x1, y1)
        ties = None if whole.ties is None else whole.ties[one]
        return Geometry(matrix, whole.size_in[one], np.array([[y2 - y1, x2 - x1]]), None, ties)

    def draw_images(
        self, images: Sequence[Tensor], out: Tensor, fill: Tensor, mode: str, antialias: bool
    ) -> None:
        """Write all pixels of mosaics ``[B T, C, H, W]``, from images ``[T, C, H, W]``."""
        matrix = self.geometry.sampled() if mode == "nearest" else self.geometry.matrix
        matrix = matrix[:, :2].copy()
        matrix[:, :, 2] -= np.array(self.seen).reshape(-1, 4)[:, :2]
        matrices = torch.from_numpy(matrix).to(out.device, non_blocking=True)
        frames = out.shape[0] * 4 // max(len(self.sources), 1)
        if any(self.shapes):
            out[...] = fill
        options: dict[str, Any] = {
            "mode": mode,
            "antialias": antialias,
            # Nothing from outside a picture may leak into its rim.
            "padding_mode": "constant" if antialias and not self.moved else "replicate",
            "convention": "half_pixel",
            "layout": "CHW",
        }
        for tile, source in enumerate(self.sources):
            first = tile // 4 * frames
            image, canvas = images[source], out[first : first + frames]
            x1, y1, x2, y2 = seen = self.seen[tile]
            for left, top, right, bottom in _around(seen, self.regions[tile]):
                canvas[..., top:bottom, left:right] = fill
            if x1 >= x2 or y1 >= y2:
                continue
            window, shape = canvas[..., y1:y2, x1:x2], self.shapes[tile]
            own, size = matrices[tile : tile + 1], (y2 - y1, x2 - x1)
            if image.dtype in WHITES:
                result = from_float(augment(to_float(image), own, size, **options), image.dtype)
            elif shape is not None or (image.requires_grad and torch.is_grad_enabled()):
                result = augment(image, own, size, out_dtype=image.dtype, **options)
            else:
                augment(image, own, size, out=window, **options)
                continue
            _put(result, window, None if shape is None else shape.covers(seen))

    def masks(self, tile: int, value: Any, fill: int = 0) -> Any:
        """Return a tile's masks ``[..., H, W]``, moved into the window that is seen of it."""
        position = self.position(tile)
        return value[..., :0, :0] if position is None else move_mask(value, False, position, fill)

    def put_masks(self, tile: int, picture: Any, out: Any) -> None:
        """Write what `masks` returns into the masks of a mosaic."""
        x1, y1, x2, y2 = self.seen[tile]
        if x1 < x2 and y1 < y2:
            shape = self.shapes[tile]
            covered = None if shape is None else shape.covers(self.seen[tile])
            _put(picture, out[..., y1:y2, x1:x2], covered)


def _lay_alone(regions: np.ndarray, alone: np.ndarray, size: tuple[float, float]) -> None:
    """Give all of a mosaic to the first of four tiles ``[T, 4]`` that are not mixed."""
    regions[alone] = 0.0
    regions[alone & (np.arange(len(alone)) % 4 == 0), 2:] = size[::-1]


def _moved(
    matrices: np.ndarray, regions: np.ndarray, seen: np.ndarray, size: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, list[Shape | None]]:
    """Return regions, what is seen of each tile, and its shape, after canvases have moved.

    Parameters
    ----------
    matrices : ndarray ``[T, 3, 3]``
        From each tile's canvas to its mosaic.
    regions, seen : ndarray ``[T, 4]``
        On the canvas.
    size : pair of int
        Height and width of mosaics.
    """
    regions, seen = regions.copy(), seen.copy()
    shapes: list[Shape | None] = []
    ends = np.array((size[1], size[0]), np.float64)
    for tile, matrix in enumerate(matrices):
        scale, shift = matrix[:2, :2], matrix[:2, 2]
        if scale[0, 1] == 0.0 == scale[1, 0] and scale[0, 0] > 0.0 and scale[1, 1] > 0.0:
            for edges in (regions[tile], seen[tile]):  # the first pixels with centres beyond
                first = np.ceil(edges.reshape(2, 2) * scale.diagonal() + shift - 0.5)
                edges[:] = np.clip(first, 0.0, ends).reshape(4)
            right, lower = tile % 2, tile % 4 // 2
            regions[tile, 2 * right] = right * ends[0]  # at the rim, to its end
            regions[tile, 1 + 2 * lower] = lower * ends[1]
            shapes.append(None)
            continue
        left, top, right, bottom = seen[tile]
        back = np.linalg.inv(matrix)[:2].reshape(6).tolist()
        shapes.append(Shape(back, [left, top, right, bottom]))
        corners = np.array([(x, y) for x in (left, right) for y in (top, bottom)])
        reached = corners @ scale.T + shift
        around = np.array((np.floor(reached.min(0)), np.ceil(reached.max(0))))
        empty = left >= right or top >= bottom
        seen[tile] = regions[tile] = 0.0 if empty else np.clip(around, 0.0, ends).reshape(4)
    return regions, seen, shapes


def _around(seen: Sequence[int], region: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """Return the parts x1, y1, x2, y2 of a region in which nothing is seen; none is empty."""
    (left, top, right, bottom), (x1, y1, x2, y2) = seen, region
    if left >= right or top >= bottom:
        left, top, right, bottom = x1, y1, x1, y1
    parts = [(x1, y1, x2, top), (x1, bottom, x2, y2), (x1, top, left, bottom)]
    parts.append((right, top, x2, bottom))
    return [part for part in parts if part[0] < part[2] and part[1] < part[3]]


def _put(values: Any, out: Any, where: Tensor | None) -> None:
    """Write values into an array or a tensor: all, or where a mask ``[H, W]`` says so."""
    if where is None:
        out[...] = values
    elif isinstance(out, np.ndarray):
        np.copyto(out, values, where=where.numpy())
    else:
        out.copy_(choose(where.to(out.device, non_blocking=True), values, out))


def filled(like: Any, shape: Sequence[int], value: int) -> Any:
    """Return a tensor or an array of one value, with the dtype and device of another."""
    if isinstance(like, Tensor):
        return like.new_full(tuple(shape), value)
    return np.full(tuple(shape), value, like.dtype)


# Targets of several samples, moved on their own and then joined in one sample.
#
# NOTE on pieces. Where an output shows k samples, its boxes, masks and key points are theirs in
# turn. Every target that is a list of things (boxes, their labels, masks of single things, key
# points) is first repeated as k pieces for each output, in one leaf of k B samples. Pieces are then
# moved, clipped and dropped like the targets of any batch, and joined at the end.

Join = Callable[[Leaf, Sequence[Any], int], Any]


def lists_of_things(owner: str, leaves: Sequence[Leaf]) -> list[Leaf]:
    """Return the leaves that list what is in an image; the rest belong to the image.

    Raises
    ------
    ValueError
        It isn't clear whether a leaf has an entry for each box, or some samples' have and others'
        have not.
    """
    for leaf in leaves:
        if leaf.kind == "keypoints":
            _shape_alike(leaf)
        _reject_mixed_forms(owner, leaf)
    for boxes in leaves:
        if boxes.kind != "boxes":
            continue
        for leaf in leaves:
            if leaf.group == boxes.group and leaf.kind in ("labels", "area"):
                leaf.per_box = _has_entries(owner, leaf, boxes)
        other = unclear_beside(boxes, leaves)
        if other is not None:
            raise ValueError(
                f"visops.transforms.{owner}: can't tell whether {other.name} belongs to "
                f"{boxes.name}; {WHAT_BELONGS}"
            )
    kinds = ("boxes", "keypoints", "polygons", "area", "visible")
    return [leaf for leaf in leaves if leaf.kind in kinds or leaf.per_box or _masks_of_things(leaf)]


def _shape_alike(leaf: Leaf) -> None:
    """Give key points of samples without objects, such as [], the shape that the others have."""
    full = next((i for i, value in enumerate(leaf.value) if 0 not in value.shape), None)
    if full is None:
        return
    for values in (leaf.value, leaf.visible):
        if isinstance(values, list):
            inner = values[full].shape[1:]
            values[:] = [own.reshape(0, *inner) if len(own) == 0 else own for own in values]


def _reject_mixed_forms(owner: str, leaf: Leaf) -> None:
    """Refuse key points with and without visibilities, and masks of images of several ranks."""
    if leaf.kind == "keypoints":
        part = slice(-1, None)
    elif leaf.kind == "mask" and not _masks_of_things(leaf):
        part = slice(None, -2)
    else:
        return
    shapes = [(index, value.shape) for index, value in enumerate(leaf.samples())]
    if leaf.kind == "keypoints":
        shapes = [(index, shape) for index, shape in shapes if 0 not in shape]
    for index, shape in shapes[1:]:
        first, expected = shapes[0]
        if shape[part] != expected[part]:
            raise ValueError(
                f"visops.transforms.{owner}: {leaf.name} has {list(shape)} in sample {index}, "
                f"{list(expected)} in sample {first}; must be alike"
            )


def _has_entries(owner: str, leaf: Leaf, boxes: Leaf) -> bool:
    """Return whether a leaf has an entry for each box: in all samples, but those without boxes."""
    if count_of(leaf.value) != boxes.batch:
        return leaf.per_box
    counts = [count_of(own) for own in leaf.value]
    if all(count is None for count in counts):
        return False
    for index, (count, own) in enumerate(zip(counts, boxes.value, strict=True)):
        if count != len(own) and (len(own) > 0 or leaf.value[index] is not None):
            got = "no length" if count is None else f"length {count}"
            raise ValueError(
                f"visops.transforms.{owner}: {leaf.name} of sample {index} has {got}, {boxes.name} "
                f"has {len(own)} boxes; must be the same"
            )
    return True


def _masks_of_things(leaf: Leaf) -> bool:
    if leaf.kind != "mask" or leaf.named != "masks":
        return False
    return all(value.ndim == 3 for value in leaf.samples())


def image_masks(leaves: Sequence[Leaf], things: Sequence[Leaf]) -> list[Leaf]:
    """Return the masks that say what each pixel of the image is."""
    listed = {id(leaf) for leaf in things}
    return [leaf for leaf in leaves if leaf.kind == "mask" and id(leaf) not in listed]


def pieces_of(leaves: Sequence[Leaf], sources: Sequence[int]) -> list[Leaf]:
    """Return leaves that hold, in turn, what the given samples have in these."""
    pieces = [_repeated(leaf, sources) for leaf in leaves]
    by_leaf = {id(leaf): piece for leaf, piece in zip(leaves, pieces, strict=True)}
    for piece in pieces:
        if piece.partner is not None:
            piece.partner = by_leaf[id(piece.partner)]
    return pieces


def _repeated(leaf: Leaf, sources: Sequence[int]) -> Leaf:
    like = leaf.like
    if isinstance(like, (list, tuple)):
        like = [like[s] for s in sources]
    return dataclasses.replace(
        leaf,
        value=[leaf.value[s] for s in sources],
        batch=len(sources),
        like=like,
        canvas=None if leaf.canvas is None else leaf.canvas[list(sources)],
        visible=None if leaf.visible is None else [leaf.visible[s] for s in sources],
    )


def join_pieces(
    leaves: Sequence[Leaf],
    pieces: Sequence[Leaf],
    count: int,
    mixed: np.ndarray,
    join_masks: Join | None = None,
) -> None:
    """Set leaves to their pieces, `count` for each sample; where it isn't `mixed`, to the first.

    `join_masks` is given a leaf, the masks of a sample's pieces, and the sample's number.
    """
    for leaf, piece in zip(leaves, pieces, strict=True):
        own = join_masks if piece.kind == "mask" and join_masks is not None else _join
        firsts = range(0, len(piece.value), count)
        ends = [
            slice(first, first + (count if is_mixed else 1))
            for first, is_mixed in zip(firsts, mixed.tolist(), strict=True)
        ]
        parts = [piece.value[end] for end in ends]
        leaf.value = [own(leaf, part, sample) for sample, part in enumerate(parts)]
        leaf.outlines = joined_outlines(piece, parts, leaf.value)
        if piece.visible is not None and leaf.kind in TARGETS:
            leaf.visible = [joined(leaf, piece.visible[end]) for end in ends]
        leaf.batch, leaf.kind, leaf.format = len(parts), piece.kind, piece.format
        leaf.canvas = None if piece.canvas is None else piece.canvas[::count]


def _join(leaf: Leaf, values: Sequence[Any], sample: int) -> Any:
    return joined(leaf, values)


def joined(leaf: Leaf, values: Sequence[Any]) -> Any:
    """Concatenate the entries of several samples: tensors, arrays or lists."""
    present = [value for value in values if value is not None]
    if not present:
        return None
    try:
        if any(isinstance(value, Tensor) for value in present):
            return torch.cat(
                [
                    value if isinstance(value, Tensor) else torch.as_tensor(value, device="cpu")
                    for value in present
                ]
            )
        if any(isinstance(value, np.ndarray) for value in present):
            return np.concatenate(present)
    except (RuntimeError, ValueError, TypeError) as error:
        raise ValueError(
            f"visops.transforms: {leaf.name} can't be joined with those of other samples: {error}"
        ) from None
    return rebuilt(present[0], [item for value in present for item in value])
