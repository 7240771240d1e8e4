"""A pass in C++, a chain in C++ (csrc/python/chain/pipeline.h), and what they ask of Python."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..._native import Chain as NativeChain
from ..._native import FilePass, Passes, Pipeline, Step
from ...jpeg.file import decoder
from ...jpeg.library import TurboDecoder
from ..sample.images import image_leaf
from ..sample.leaf import AS_THEY_ARE, Leaf
from ..sample.names import named_kinds
from ..sample.outlines import Outline, outline
from ..sample.outputs import as_output
from ..targets.options import CONVENTIONS
from .decode import Decoding, reach_of
from .effects import step_of
from .fuse import Pass, name_of
from .nesting import Chain, Container
from .pixel_kinds import BY_VALUES
from .plan import Plan
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
    steps : list
        The step of each transform; None: its methods in Python are to run.
    is_whole : bool
        Whether all of them are in C++.
    chain : Chain
        All steps, and the options of sampling; without steps unless `is_whole`.
    constants : dict
        By dtype and channels of the images, for a pass that is whole.
    least : pair of int, optional
        The least height and width of a result; None: those of the image.
    """

    def __init__(self, pass_: Pass, slices: Sequence[slice]) -> None:
        self.steps: list[Step | None] = [step_of(transform) for transform in pass_.transforms]
        self.is_whole = None not in self.steps
        firsts = [own.start for own in slices[pass_.first : pass_.first + len(self.steps)]]
        steps = list(zip(self.steps, firsts, strict=True)) if self.is_whole else []
        self.sampling = sampling_of(pass_)
        self.shows_window = pass_.resizes and pass_.fill is not None and not pass_.antialias
        self.chain: Any = NativeChain(steps, *self.sampling, self.shows_window)
        self.constants: dict[tuple[torch.dtype, int], PassConstants] = {}
        sizes = (transform.effects().size for transform in pass_.transforms)
        self.least = next((size for size in reversed([*sizes]) if size is not None), None)

    def set_constants(self, pass_: Pass, plan: Plan) -> None:
        """Add to the plan of a whole pass what no draw changes."""
        key = plan.source_dtype, plan.channels
        found = self.constants.get(key)
        if found is None:
            for transform in pass_.transforms:
                transform.set_constants(plan)
            self.constants[key] = plan.mean, plan.std, plan.erase_value, plan.dtype
        else:
            plan.mean, plan.std, plan.erase_value, plan.dtype = found

    def __reduce__(self) -> tuple[Any, ...]:
        return _nothing, ()  # copies and other processes compile it anew


def _nothing() -> None:
    return None


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


# The pass's steps, whether it is by values, mean, std, erased value; dtype and channels of results.
Stage = tuple[NativeChain, bool, list[float], list[float], list[float], str, int]


def pipeline_of(chain: Chain) -> Pipeline | None:
    """Return what runs a chain in one call of C++; None: `reason_for_python` says why it can't."""
    options, types, passes = chain.options, chain.output_types, chain.passes
    if reason_for_python(chain):
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
        pure_targets=bool(types.targets),
        mask_fill=options.mask_fill,
        other_mask_fill=options.other_mask_fill,
        keypoint_shift=CONVENTIONS[options.keypoint_convention],
        has_image_type=bool(types.image),
        reads_files=chain.reads_files,
    )


def reason_for_python(chain: Chain) -> str:
    """Return why no call of a chain is one of C++; empty if calls may be.

    A call may still not be: samples hold what only Python looks into, something watches, ...
    """
    options = chain.options
    if chain.memory_format is torch.channels_last:
        return "memory_format is channels_last"
    if options.swaps:
        return "flip_pairs, label_pairs or mask_pairs swap names"
    for part in chain.passes:
        if part.steps:
            return f"{name_of(part.steps[0])} changes targets alone"
        if _inner(chain, part) is None and (reason := reason_for_operators(chain, part)):
            return f"{name_of(part.transforms[0])}: {reason}"
    return ""


def outline_of(chain: Chain, sample: Any) -> Outline | None:
    """Return what a sample holds, or None if only splitting it tells."""
    return outline(sample, chain.split(sample)[0])


def passes_for(chain: Chain, dtype: torch.dtype, channels: int) -> Passes | None:
    """Return a chain's passes for images like this; None: C++ has no kernels for them."""
    if dtype not in DTYPE_NAMES:
        return None
    found = stages_of(chain, chain.passes, dtype, channels)
    is_recorded = all(_inner(chain, part) is None for part in chain.passes)
    return None if found is None else Passes(found[0], is_recorded)


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
        return "it is not of visops"
    if pass_.kind not in ("fused", "values"):
        return "it runs by torch's operators"
    if not compiled(pass_, chain.slices).is_whole:
        return "a transform is written in Python"
    return ""


def stage_of(native: Compiled, by_values: bool, plan: Plan, channels: int) -> Stage | None:
    """Return a pass as C++ takes it, with so many channels of its results; None: it can't."""
    taken = BY_VALUES if by_values else DTYPE_NAMES
    if plan.source_dtype not in taken or plan.dtype not in DTYPE_NAMES:
        return None
    values = plan.mean, plan.std, plan.erase_value or [0.0]
    return native.chain, by_values, *values, DTYPE_NAMES[plan.dtype], channels


def stages_of(
    chain: Chain, passes: Sequence[Pass], dtype: torch.dtype, channels: int
) -> tuple[list[Stage], torch.dtype] | None:
    """Return passes of a chain for images like this, and the dtype of results.

    None: a pass has another dtype or more channels than C++ takes. No pass may need Python.
    """
    stages: list[Stage] = []
    for part in passes:
        owner, part, made = _inner(chain, part) or (chain, part, channels)
        if made > channels:
            return None
        native = compiled(part, owner.slices)
        plan = Plan.of_images(np.ones((1, 2), np.int64), channels, dtype, chain.exact)
        native.set_constants(part, plan)
        stage = stage_of(native, part.kind == "values", plan, made)
        if stage is None:
            return None
        stages.append(stage)
        dtype, channels = plan.dtype, made
    return stages, dtype


def _inner(chain: Chain, pass_: Pass) -> tuple[Any, Pass, int] | None:
    """Return what `first_channels` says of a pass: a chain, its pass, and the channels kept."""
    transform = pass_.transforms[0]
    if chain.exact or not isinstance(transform, Container):
        return None
    found = transform.first_channels()
    return None if found is None else (found[0], found[0].passes[0], found[1])


def slow_passes(chain: Chain) -> list[tuple[Pass, str]]:
    """Return the passes of a chain that hold the interpreter's lock, and why they do.

    One that does makes all of them.
    """
    reasons = [_reason(chain, part) for part in chain.passes]
    if not any(reasons):
        return []
    other = "another pass does"
    return [(part, own or other) for part, own in zip(chain.passes, reasons, strict=True)]


def _reason(chain: Chain, pass_: Pass) -> str:
    if not chain.reads_files and pass_.kind in ("fused", "values"):
        return "the chain does not begin with DecodeJpeg"
    if pass_.kind == "values" and pass_ is chain.passes[-1]:
        return "the last pass must make floats or change geometry"
    own = reason_for_operators(chain, pass_)
    if not own and not isinstance(decoder(), TurboDecoder):
        return "visops was built without libjpeg-turbo"
    return own


def file_pass(chain: Chain) -> tuple[FilePass, torch.dtype] | None:
    """Return what runs a chain on a file, and the dtype of results; None: Python has to.

    The passes of the chain must be formed.
    """
    return None if slow_passes(chain) else _made(chain, chain.passes)


def first_file_pass(chain: Chain) -> FilePass | None:
    """Return what decodes what the first pass of a chain reads of a file; None: Python has to."""
    first = chain.passes[0]
    if not chain.reads_files or first.kind != "fused" or _reason(chain, first):
        return None
    found = _made(chain, [first])
    return None if found is None else found[0]


def _made(chain: Chain, passes: Sequence[Pass]) -> tuple[FilePass, torch.dtype] | None:
    first = passes[0]
    transform = first.transforms[0]
    assert isinstance(transform, Decoding)
    options = transform.options
    found = stages_of(chain, passes, torch.uint8, options.channels)
    if found is None:
        return None
    stages, dtype = found
    around, beyond, anywhere = reach_of(first)
    turbo = decoder()
    assert isinstance(turbo, TurboDecoder)
    made = FilePass(
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
    return made, dtype
