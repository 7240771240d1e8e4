"""Takes what a chain made, or a network made of it, back to the canvas before the chain."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import torch

from .arguments import interpolation_mode, whole
from .chain.compile import Compiled
from .chain.draws import Draws
from .chain.foreign import may_move
from .chain.fuse import Pass, name_of
from .chain.geometry import chain_geometry
from .chain.nesting import Chain, Container, within
from .chain.operators import Pixels, run_plan
from .chain.plan import Plan
from .chain.source import Parameters
from .sample.images import sizes_of
from .sample.leaf import Leaf, tv_kind
from .sample.split import split_sample
from .targets.finish import finish_targets
from .targets.mirrored import followers
from .targets.move import move_targets
from .targets.options import Geometry, check_options


def undo_geometry(
    chain: Chain, sample: Any, params: Parameters, stride: int, interpolation: str | None
) -> Any:
    """Return a sample on the canvas before the chain: `Compose.inverse`."""
    owner = "Compose.inverse"
    stride = whole(owner, "stride", stride, 1, "a whole number >= 1")
    mode = None if interpolation is None else interpolation_mode(owner, interpolation)
    matrix, before, own_mode = _geometry(chain, params)
    leaves, rebuild = split_sample(
        sample,
        chain.keys,
        chain.reading._replace(layout="CHW"),
        canvas=_stand_in(before),
    )
    has_targets = bool(followers(leaves, chain.options))
    if not has_targets and (chain.options.flip_pairs or chain.options.mask_pairs):
        _reject_unnamed(leaves)
    maps = [_checked(leaf, before, stride) for leaf in leaves if leaf.kind in ("image", "mask")]
    for leaf in leaves:
        if leaf.canvas is not None and (leaf.canvas != before).any():
            _reject(leaf, leaf.canvas, before, "")
    if has_targets:
        check_options(leaves, chain.options)

    back = np.linalg.inv(matrix)
    back_of_maps = back * np.array([stride, stride, 1.0]) if stride > 1 else back
    mode = mode or ("bilinear" if stride > 1 else own_mode)
    part = Pass(interpolation=mode, resizes=stride > 1, fill=(0.0,) if stride > 1 else None)
    native = Compiled(part, ())
    for leaf in leaves:
        if leaf.kind == "image":
            plan = _plan_of_map(leaf, back_of_maps, maps[0], params.size)
            run_plan(plan, native, leaf, Pixels(leaf), chain.memory_format)
    if has_targets:
        options = replace(chain.options, boxes="keep", boxes_from="boxes")
        masks = [leaf for leaf in leaves if leaf.kind == "mask"]
        if masks:
            move_targets(masks, Geometry(back_of_maps, maps[0], params.size), options)
        others = [leaf for leaf in leaves if leaf.kind != "mask"]
        move_targets(others, Geometry(back, before, params.size), options)
        finish_targets(leaves, params.size, options)
    return rebuild(leaves)


def _geometry(chain: Chain, params: Parameters) -> tuple[np.ndarray, np.ndarray, str]:
    """Return the chain's matrices [B, 3, 3], its results' sizes [B, 2], and how it interpolates."""
    _reject_unrecorded(chain.passes)
    source = chain.source(None, None, None, params)
    draw = Draws(chain.slices, chain.draws, source, None, only_geometry=True)
    with within(chain.named):
        return chain_geometry(chain.passes, draw, params.size)


def _reject_unrecorded(passes: Iterable[Pass]) -> None:
    """Refuse a chain with another library's transform that may move pixels, at any depth."""
    for part in passes:
        transform = part.transforms[0]
        if why := getattr(transform, "no_inverse", ""):
            raise TypeError(
                f"visops.transforms.Compose.inverse: the chain holds {name_of(transform)}, which "
                f"{why}; must be left out"
            )
        if part.kind != "foreign":
            continue
        if isinstance(transform, Container):
            _reject_unrecorded(transform.passes())
        elif may_move(transform):
            raise TypeError(
                f"visops.transforms.Compose.inverse: the chain holds {name_of(transform)}, which "
                "may have moved pixels in a way that is not recorded; must be a transform of "
                "visops, or be wrapped in ImageOnly if it moves nothing"
            )


def _reject_unnamed(leaves: Iterable[Leaf]) -> None:
    """Refuse what may be maps of classes or of key points: their channels don't swap."""
    for leaf in leaves:
        if leaf.kind == "image" and leaf.named is None and tv_kind(leaf.like) is None:
            raise TypeError(
                f"visops.transforms.Compose.inverse: {leaf.name} may hold scores of classes or key "
                "points, whose channels would not swap as flip_pairs and mask_pairs do; must be in "
                "a dict under 'image', channels of mirrored samples swapped before (or be their "
                "argmax under 'mask', or key points)"
            )


def _stand_in(sizes: np.ndarray) -> Leaf:
    """Return what takes an image's place in a sample without one; it has no memory of its own."""
    pictures = [torch.zeros((), device="cpu").expand(1, *size) for size in sizes.tolist()]
    if len(pictures) == 1:
        return Leaf("image", pictures[0], name="the chain's result")
    return Leaf("image", pictures, batch=len(pictures), name="the chain's result")


def _checked(leaf: Leaf, before: np.ndarray, stride: int) -> np.ndarray:
    """Return a map's sizes [B, 2], which must be those of the chain's result at this stride."""
    up, down = -(-before // stride), before // stride
    # Maps may have as few columns as an image has channels, so the size tells the layout.
    for layout in ("CHW", "HWC") if leaf.kind == "image" else (leaf.layout,):
        leaf.layout = layout
        sizes = sizes_of(leaf)
        if sizes.shape == before.shape and ((sizes == up) | (sizes == down)).all():
            return sizes
    value = leaf.value[0] if isinstance(leaf.value, list) else leaf.value
    if leaf.kind == "image":
        leaf.layout = "HWC" if value.shape[-1] in (1, 3, 4) else "CHW"  # as it looks
    _reject(leaf, sizes_of(leaf), up, f" with stride {stride}" if stride > 1 else "")


def _reject(leaf: Leaf, sizes: np.ndarray, wanted: np.ndarray, why: str) -> NoReturn:
    what = "the images have" if leaf.kind == "image" else f"{leaf.name} is for"
    raise ValueError(
        f"visops.transforms.Compose.inverse: {what} {sizes.tolist()} rows and columns, must have "
        f"{wanted.tolist()}, as these parameters produce{why}"
    )


def _plan_of_map(leaf: Leaf, back: np.ndarray, sizes: np.ndarray, size: np.ndarray) -> Plan:
    pixels = Pixels(leaf)
    plan = Plan.of_images(sizes, pixels.channels, pixels.dtype)
    affine = bool((back[:, 2] == (0.0, 0.0, 1.0)).all())
    plan.set_geometry(back[:, : 2 if affine else 3], size)
    return plan
