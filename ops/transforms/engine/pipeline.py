"""A chain in C++, and what that asks of Python: csrc/python/pipeline.h."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..._native import Chain, Passes, Pipeline
from ..sample.forms import formed
from ..sample.images import image_leaf
from ..sample.leaf import AS_THEY_ARE, Leaf
from ..sample.names import named_kinds
from ..sample.outlines import Outline, outline
from ..targets.options import CONVENTIONS
from .compiled import DTYPE_NAMES, compiled
from .fuse import Pass
from .nesting import Container
from .pixel_kinds import BY_VALUES
from .plan import Plan
from .source import Key, Parameters

if TYPE_CHECKING:
    from ..compose import Compose

# The pass's steps, whether it is by values, mean, std, erased value; dtype and channels of results.
Stage = tuple[Chain, bool, list[float], list[float], list[float], str, int]


def pipeline_of(chain: "Compose") -> Pipeline | None:
    """Return what runs a chain whose passes are formed; None: torch's operators have to."""
    options, forms, passes = chain.options, chain.forms, chain._passes
    others = options.swaps or any(part.steps for part in passes)  # that do more than move targets
    if others or chain.memory_format is torch.channels_last:
        return None
    policies = (options.boxes, options.boxes_from, options.box_format)
    return Pipeline(
        kinds=named_kinds(chain.keys),
        layout=chain.reading.layout,
        frames=chain.reading.frames,
        indices=chain.reading.indices,
        exact=chain.exact,
        moves_targets=policies == ("keep", "boxes", "xyxy"),
        pads=any(part.shown_padding != "constant" for part in passes),
        pure_targets=bool(forms.targets),
        mask_fill=options.mask_fill,
        other_mask_fill=options.other_mask_fill,
        keypoint_shift=CONVENTIONS[options.keypoint_convention],
        has_image_type=bool(forms.image),
        reads_files=chain.reads_files,
    )


def outline_of(chain: "Compose", sample: Any) -> Outline | None:
    """Return what a sample holds, or None if only splitting it tells."""
    return outline(sample, chain._split(sample)[0])


def passes_for(chain: "Compose", dtype: torch.dtype, channels: int) -> Passes | None:
    """Return a chain's passes for images like this; None: one needs torch's operators."""
    passes = chain.passes
    whole = [part for part in passes if _inner(chain, part) is None]
    if dtype not in DTYPE_NAMES or any(reason_for_operators(chain, part) for part in whole):
        return None
    found = stages_of(chain, passes, dtype, channels)
    return None if found is None else Passes(found[0], len(whole) == len(passes))


def key_of(chain: "Compose", generator: Any, index: Any, epoch: Any, batch: int) -> Key:
    """Return seed, epoch and the index of each sample of a call."""
    return chain._source(generator, index, epoch, None).key_for(batch)


def pixels_of(image: Any, name: str, indices: bool) -> np.ndarray:
    """Return a PIL image's pixels ``[H, W, C]``."""
    pixels: np.ndarray = image_leaf(image, name, AS_THEY_ARE._replace(indices=indices)).value
    return pixels


def as_type(chain: "Compose", image: Tensor, name: str) -> Any:
    """Return an image as its chain wants it."""
    return formed(image, Leaf("image", image, name=name, form=chain.forms.image))


def recorded_by(chain: "Compose", steps: list[Any], sizes: np.ndarray) -> Parameters:
    """Return the parameters of a call."""
    return Parameters(list(chain.names), steps, sizes)


def reason_for_operators(chain: "Compose", pass_: Pass) -> str:
    """Return why a pass runs by torch's operators; empty if C++ runs it."""
    if pass_.kind == "foreign":
        return "it is not of visops"
    if pass_.kind not in ("fused", "values"):
        return "it runs by torch's operators"
    if not compiled(pass_, chain.slices).is_whole:
        return "a transform is written in Python"
    return ""


def stages_of(
    chain: "Compose", passes: Sequence[Pass], dtype: torch.dtype, channels: int
) -> tuple[list[Stage], torch.dtype] | None:
    """Return passes of a chain for images like this, and the dtype of results.

    None: a pass has another dtype or more channels than C++ takes. No pass may need Python.
    """
    stages: list[Stage] = []
    for part in passes:
        owner, part, made = _inner(chain, part) or (chain, part, channels)
        if made > channels:
            return None
        if dtype not in (BY_VALUES if part.kind == "values" else DTYPE_NAMES):
            return None
        native = compiled(part, owner.slices)
        plan = Plan.of_images(np.ones((1, 2), np.int64), channels, dtype, chain.exact)
        native.settle(part, plan)
        dtype = plan.dtype
        if dtype not in DTYPE_NAMES:
            return None
        values = plan.mean, plan.std, plan.erase_value or [0.0]
        channels = made
        stages.append((native.chain, part.kind == "values", *values, DTYPE_NAMES[dtype], channels))
    return stages, dtype


def _inner(chain: "Compose", pass_: Pass) -> tuple[Any, Pass, int] | None:
    """Return what `first_channels` says of a pass: a chain, its pass, and the channels kept."""
    transform = pass_.transforms[0]
    if chain.exact or not isinstance(transform, Container):
        return None
    found = transform.first_channels()
    return None if found is None else (found[0], found[0].passes[0], found[1])
