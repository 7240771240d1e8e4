"""A pass in C++, a chain in C++ (csrc/python/chain/pipeline.h), and what they ask of Python."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..._native import Chain as NativeChain
from ..._native import FilePass, Passes, Pipeline, Step
from ...jpeg.file import TurboDecoder, decoder
from ..sample.images import image_leaf
from ..sample.leaf import AS_THEY_ARE, Leaf, as_output
from ..sample.names import named_kinds
from ..sample.outlines import Outline, outline
from ..targets.options import CONVENTIONS, check_sanitize
from .decode import Decoding, reach_of
from .effects import Effects, step_of
from .fuse import Pass, name_of
from .nesting import Chain, Container
from .pixel_kinds import BY_VALUES
from .plan import Params, Plan
from .source import Key, Parameters

DTYPE_NAMES = {
    dtype: str(dtype).removeprefix("torch.")
    for dtype in (torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.float64)
}

# Mean, standard deviation, erased value and dtype of a pass: the same for every draw.
PassConstants = tuple[list[float], list[float], "list[float] | None", torch.dtype]


class Sampling(NamedTuple):
    """How a pass samples images, as a chain in C++ takes it."""

    modes: list[str]  # a plan takes one for each sample
    padding_mode: str
    fill: list[float]  # in the images' units
    antialias: bool
    saturates: bool  # where integers are interpolated and floats follow: Pass.saturates


class Compiled:
    """One pass in C++.

    Attributes
    ----------
    transforms : list
    steps : list
        The step of each transform; None: its methods in Python are to run.
    is_whole : bool
        Whether all of them are in C++.
    draws_together : bool
        Whether C++ draws all of them, and calls those that are written in Python.
    by_values : bool
        Whether the pass is by values.
    channels : int, optional
        How many a result has, which are equal then; None: as many as the image.
    chain : Chain
        All steps, and the options of sampling; without steps unless `draws_together`.
    """

    def __init__(self, pass_: Pass, slices: Sequence[slice]) -> None:
        self.transforms = transforms = pass_.transforms
        self.steps: list[Step | None] = [step_of(transform) for transform in transforms]
        self.is_whole = None not in self.steps
        self.draws_together = all(
            step is not None or not _changes_constants(transform.effects())
            for transform, step in zip(transforms, self.steps, strict=True)
        )
        self.by_values, self.channels = pass_.kind == "values", pass_.channels
        members: list[tuple[Step | int, int]] = []
        if self.draws_together:
            own_slices = slices[pass_.first : pass_.first + len(transforms)]
            members = [
                (own.stop - own.start if step is None else step, own.start)
                for step, own in zip(self.steps, own_slices, strict=True)
            ]
        self.sampling = sampling_of(pass_)
        self.shows_window = pass_.resizes and pass_.fill is not None and not pass_.antialias
        self.chain: Any = NativeChain(members, *self.sampling, self.shows_window)
        self._constants: dict[tuple[torch.dtype, int], list[PassConstants]] = {}

    def constants_of(self, dtype: torch.dtype, channels: int) -> list[PassConstants]:
        """Return what no draw changes, for images like this: before each transform, and at last."""
        found = self._constants.get((dtype, channels))
        if found is None:
            plan = Plan.of_images(np.ones((1, 2), np.int64), channels, dtype)
            found = [plan.constants]
            for transform, step in zip(self.transforms, self.steps, strict=True):
                if step is not None:
                    transform.set_constants(plan)
                found.append(plan.constants)
            self._constants[dtype, channels] = found
        return found

    def set_constants(self, plan: Plan) -> None:
        """Add to the plan of a pass that C++ draws what no draw changes."""
        plan.constants = self.constants_of(plan.source_dtype, plan.channels)[-1]

    def in_python(self, dtype: torch.dtype, channels: int) -> Callable[..., Params] | None:
        """Return what draws the transforms that are written in Python, for images like this."""
        if self.is_whole:
            return None
        return partial(_draw_in_python, self.transforms, self.constants_of(dtype, channels))

    def __reduce__(self) -> tuple[Any, ...]:
        return _nothing, ()  # copies and other processes compile it anew


def _nothing() -> None:
    return None


def _changes_constants(effects: Effects) -> bool:
    return effects.normalizes or effects.dtype is not None or effects.erases is not None


def _draw_in_python(
    transforms: Sequence[Any],
    constants: Sequence[PassConstants],
    position: int,
    plan: Plan,
    uniforms: np.ndarray,
) -> Params:
    """Draw a transform that is written in Python, add it to a plan, and return its parameters."""
    transform, before = transforms[position], constants[position]
    plan.source_dtype, plan.constants = constants[0][-1], before
    params: Params = transform.checked_params(uniforms, plan.canvas)
    transform.extend(plan, params)
    if plan.constants != before:
        raise TypeError(
            f"visops.transforms.{name_of(transform)}: extend called plan.normalize, convert or "
            "erase, must say so in its effects"
        )
    return params


def compiled(pass_: Pass, slices: Sequence[slice]) -> Compiled:
    """Return what a pass needs in C++.

    It is kept as long as the pass: a chain forms new ones when an attribute of a transform is set.
    """
    if pass_.compiled is None:
        pass_.compiled = Compiled(pass_, slices)
    return pass_.compiled  # type: ignore[no-any-return]


def sampling_of(pass_: Pass) -> Sampling:
    """Return how a pass samples its images."""
    mode, antialias = pass_.interpolation or "nearest", bool(pass_.antialias)
    modes = list(mode) if isinstance(mode, tuple) else [mode]
    if pass_.fill is None:
        # Nothing outside can show, and none of it may leak into a resized image's rim.
        padding_mode = "replicate" if pass_.resizes and not antialias else "constant"
        return Sampling(modes, padding_mode, [0.0], antialias, pass_.saturates)
    return Sampling(modes, pass_.padding_mode, list(pass_.fill), antialias, pass_.saturates)


# The pass's steps, whether it is by values, mean, std, erased value; dtype and channels of results;
# what draws transforms that are written in Python.
Stage = tuple[NativeChain, bool, list[float], list[float], list[float], str, int, Any]


def pipeline_of(chain: Chain) -> Pipeline | None:
    """Return what runs a chain in one call of C++; None: `reason_for_python` says why it can't."""
    options, types, passes = chain.options, chain.output_types, chain.passes
    if reason_for_python(chain):
        return None
    policies = options.boxes_from, options.box_format
    return Pipeline(
        kinds=named_kinds(chain.keys),
        layout=chain.reading.layout,
        frames=chain.reading.frames,
        indices=chain.reading.indices,
        exact=chain.exact,
        moves_targets=policies == ("boxes", "xyxy") and options.min_visibility == 0.0,
        clips_boxes=options.boxes != "keep",
        drops_boxes=options.boxes == "sanitize",
        least_side=options.min_size,
        least_area=options.min_area,
        pads=any(part.shown_padding != "constant" for part in passes),
        pure_targets=bool(types.targets),
        mask_fill=options.mask_fill,
        other_mask_fill=options.other_mask_fill,
        keypoint_shift=CONVENTIONS[options.keypoint_convention],
        has_image_type=bool(types.image),
        reads_files=chain.reads_files,
        channels_last=chain.memory_format is torch.channels_last,
    )


def reason_for_python(chain: Chain) -> str:
    """Return why no call of a chain is one of C++; empty if calls may be.

    A call may still not be: samples hold what only Python looks into, something watches, ...
    """
    options = chain.options
    last = chain.passes[-1]
    if chain.memory_format is torch.channels_last and (last.kind == "values" or chain.reads_files):
        return f"memory_format is channels_last after {name_of(last.transforms[-1])}"
    if options.swaps:
        return "flip_pairs, label_pairs or mask_pairs swap names"
    for part in chain.passes:
        if part.steps:
            return f"{name_of(part.steps[0])} changes targets alone"
        if reason := reason_for_operators(chain, part):
            return f"{name_of(part.transforms[0])}: {reason}"
    return ""


def outline_of(chain: Chain, sample: Any) -> Outline | None:
    """Return what a sample holds, or None if only splitting it tells."""
    leaves = chain.split(sample)[0]
    if chain.options.boxes == "sanitize":
        check_sanitize(leaves)
    has_masks = any(leaf.kind == "mask" for leaf in leaves)
    if has_masks and any(part.kind == "values" and part.changes_masks for part in chain.passes):
        return None
    return outline(sample, leaves)


def passes_for(chain: Chain, dtype: torch.dtype, channels: int) -> Passes | None:
    """Return a chain's passes for images like this; None: C++ has no kernels for them."""
    if dtype not in DTYPE_NAMES:
        return None
    stages = stages_of(chain, chain.passes, dtype, channels)
    return None if stages is None else Passes(stages)


def key_of(chain: Chain, generator: Any, index: Any, epoch: Any, batch: int) -> Key:
    """Return seed, epoch and the index of each sample of a call."""
    return chain.source(generator, index, epoch, None).key_for(batch)


def pixels_of(image: Any, name: str, indices: bool) -> np.ndarray:
    """Return a PIL image's pixels ``[H, W, C]``."""
    pixels: np.ndarray = image_leaf(image, name, AS_THEY_ARE._replace(indices=indices)).value
    return pixels


def as_type(chain: Chain, image: Tensor, name: str) -> Any:
    """Return an image as its chain wants it."""
    return as_output(image, Leaf("image", image, name=name, form=chain.output_types.image))


def recorded_by(chain: Chain, steps: list[Any], sizes: np.ndarray) -> Parameters:
    """Return the parameters of a call."""
    return Parameters(list(chain.names), steps, sizes)


def reason_for_operators(chain: Chain, pass_: Pass) -> str:
    """Return why a pass runs by torch's operators; empty if C++ runs it."""
    if pass_.kind == "foreign":
        is_ours = isinstance(pass_.transforms[0], Container)
        return "it runs sample by sample" if is_ours else "it is not of visops"
    if not pass_.has_plan:
        return "it runs by torch's operators"
    return (
        "" if compiled(pass_, chain.slices).draws_together else "a transform is written in Python"
    )


def stage_of(
    native: Compiled,
    source: torch.dtype,
    channels: int,
    constants: PassConstants,
    in_python: Callable[..., Params] | None = None,
) -> Stage | None:
    """Return a pass as C++ takes it, for images like this; None: it can't."""
    mean, std, erase_value, dtype = constants
    if source not in (BY_VALUES if native.by_values else DTYPE_NAMES) or dtype not in DTYPE_NAMES:
        return None
    made = native.channels or channels
    values = mean, std, erase_value or [0.0]
    return native.chain, native.by_values, *values, DTYPE_NAMES[dtype], made, in_python


def stages_of(
    chain: Chain, passes: Sequence[Pass], dtype: torch.dtype, channels: int
) -> list[Stage] | None:
    """Return passes of a chain, which C++ draws, for images like this.

    None: a pass has another dtype than C++ takes.
    """
    stages: list[Stage] = []
    for part in passes:
        native = compiled(part, chain.slices)
        constants = native.constants_of(dtype, channels)[-1]
        in_python = native.in_python(dtype, channels)
        stage = stage_of(native, dtype, channels, constants, in_python)
        if stage is None:
            return None
        stages.append(stage)
        dtype, channels = constants[-1], native.channels or channels
    return stages


def slow_passes(chain: Chain) -> list[tuple[Pass, str]]:
    """Return the passes of a chain that hold the interpreter's lock, and why they do.

    One that does makes all of them.
    """
    reasons = [_reason(chain, part) for part in chain.passes]
    other = "another pass does" if any(reasons) else ""
    if not chain.reads_files:
        other = other or reason_for_python(chain)
    if not other:
        return []
    return [(part, own or other) for part, own in zip(chain.passes, reasons, strict=True)]


def _reason(chain: Chain, pass_: Pass) -> str:
    if not chain.reads_files:
        return reason_for_operators(chain, pass_)
    if pass_.kind == "values" and pass_ is chain.passes[-1]:
        return "the last pass must make floats or change geometry"
    own = reason_for_operators(chain, pass_)
    if not own and not isinstance(decoder(), TurboDecoder):
        return "visops was built without libjpeg-turbo"
    return own


def file_pass(chain: Chain) -> FilePass | None:
    """Return what runs a chain on a file; None: Python has to.

    The passes of the chain must be formed.
    """
    return _made(chain, chain.passes) if chain.reads_files and not slow_passes(chain) else None


def first_file_pass(chain: Chain) -> FilePass | None:
    """Return what decodes what the first pass of a chain reads of a file; None: Python has to."""
    first = chain.passes[0]
    if not chain.reads_files or first.kind != "fused" or _reason(chain, first):
        return None
    return _made(chain, [first])


def _made(chain: Chain, passes: Sequence[Pass]) -> FilePass | None:
    first = passes[0]
    transform = first.transforms[0]
    assert isinstance(transform, Decoding)
    options = transform.options
    stages = stages_of(chain, passes, torch.uint8, options.channels)
    if stages is None:
        return None
    around, beyond, anywhere = reach_of(first)
    turbo = decoder()
    assert isinstance(turbo, TurboDecoder)
    return FilePass(
        stages,
        *turbo.addresses(),
        options.channels,
        options.max_pixels,
        options.exif,
        first.reduces and not chain.exact and bool(first.antialias),
        chain.exact,
        around,
        beyond,
        anywhere,
    )
