"""Runs passes on the images of a leaf, by their plans: in C++, or by torch's operators.

C++ takes an image through all passes before the next one: pass by pass, a batch of photos would
leave the processor's cache between any two. torch's operators run where something has to see them
(gradients, modes, the profiler), on other devices, and for dtypes that C++ has no kernels for. Both
give the same bits.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._native import Passes, observers_active
from ..._torch.call import data_ptr_and_strides
from ..sample.images import image_sizes, sizes_of
from ..sample.leaf import Leaf
from ..targets.finish import finish_targets
from ..targets.mirrored import followers
from ..targets.options import TargetOptions, check_options
from .compile import DTYPE_NAMES, Compiled, compiled, stage_of
from .decode import decode_for
from .draws import Draws
from .foreign import run_foreign
from .fuse import Pass
from .geometry import container_geometry, follow_all, plans_for
from .nesting import Chain, Container, within
from .operator_calls import reject_sizes, stack_images
from .operators import Pixels, run_plan
from .options import SWAPPED_OUTSIDE
from .pixel_operators import run_pixels
from .plan import Params, Plan
from .source import Source

Run = Callable[[list[Leaf], Source], tuple[list[Params], np.ndarray]]


def run_empty(run: Run, leaves: list[Leaf], source: Source) -> list[Params]:
    """Run a chain on a batch of no samples: results have the shapes that a sample's would have.

    One sample of zeros stands in while the chain runs. Nothing is drawn from the caller's numbers.

    Parameters
    ----------
    run : callable
        From leaves and a source of numbers to parameters and sizes; changes the leaves.
    leaves : list of Leaf
        Changed in place. Lists without entries stay as they are.
    source : Source

    Returns
    -------
    list of dict of ndarray
        Parameters with a first dimension of 0.
    """
    dense = [leaf for leaf in leaves if leaf.batch == 0 and not isinstance(leaf.value, list)]
    for leaf in dense:
        leaf.value, leaf.batch = _one_of(leaf.value), 1
    for leaf in dense:
        if leaf.canvas is not None:
            leaf.canvas = sizes_of(next(x for x in dense if x.kind == "image"))
    taking_part = [leaf for leaf in leaves if leaf.batch != 0]
    numbers = replace(source, seed=None, generator=torch.Generator(), index=None, params=None)
    steps, _ = run(taking_part, numbers)
    for leaf in dense:
        leaf.value, leaf.batch = _none_of(leaf.value), 0
        leaf.visible = None if leaf.visible is None else _none_of(leaf.visible)
    return [{name: array[:0] for name, array in step.items()} for step in steps]


def _one_of(value: Any) -> Any:
    shape = (1, *value.shape[1:])
    return value.new_zeros(shape) if isinstance(value, Tensor) else np.zeros(shape, value.dtype)


def _none_of(value: Any) -> Any:
    if isinstance(value, list):  # a transform has taken the batch apart
        value = value[0][None]
    return value[:0]


def execute(chain: Chain, passes: Sequence[Pass], plans: Sequence[Plan], leaf: Leaf) -> None:
    """Run consecutive passes of a chain on an image leaf."""
    if passes[0].kind == "fused":
        plans = [decode_for(plans[0], passes[0], leaf), *plans[1:]]
    natives = [compiled(part, chain.slices) for part in passes]
    if run_native(natives, plans, leaf, chain.memory_format):
        return
    for native, plan in zip(natives, plans, strict=True):
        run = run_pixels if native.by_values else run_plan
        run(plan, native, leaf, Pixels(leaf), chain.memory_format)


def run_native(
    passes: Sequence[Compiled],
    plans: Sequence[Plan],
    leaf: Leaf,
    memory_format: torch.memory_format,
) -> bool:
    """Run consecutive passes on an image leaf in C++.

    Returns
    -------
    bool
        False: nothing has happened, and torch's operators have to run.
    """
    pixels = Pixels(leaf)
    if observers_active():
        return False
    stages, by_values = [], passes[-1].by_values
    for native, plan in zip(passes, plans, strict=True):
        stage = stage_of(native, plan.source_dtype, plan.channels, plan.constants)
        if stage is None:
            return False
        stages.append(stage)
    images, channels = pixels.tensors(leaf), passes[-1].channels or plans[-1].channels
    each = images if isinstance(images, list) else [images]
    if any(image.requires_grad for image in each):
        return False
    outs = _empty(plans[-1], pixels, len(images), channels, memory_format, by_values)
    run = _run_on_cpu if pixels.on_cpu else _run_on_device
    if not run(Passes(stages), plans, images, outs, pixels):
        return False
    if by_values and isinstance(outs, Tensor):
        outs = outs.contiguous(memory_format=memory_format)
    pixels.store(leaf, outs)
    return True


def _run_on_cpu(
    passes: Passes, plans: Sequence[Plan], images: Any, outs: Any, pixels: Pixels
) -> bool:
    sources, targets = _pointers_of(images), _pointers_of(outs)
    if sources is None or targets is None:  # where there are no pixels, there is no address
        return False
    passes.run_each(plans, sources, DTYPE_NAMES[pixels.dtype], targets, pixels.frames)
    return True


def _run_on_device(
    passes: Passes, plans: Sequence[Plan], images: Any, outs: Any, pixels: Pixels
) -> bool:
    return isinstance(outs, Tensor) and passes.run_batch(plans, images, outs)


def _empty(
    plan: Plan,
    pixels: Pixels,
    count: int,
    channels: int,
    form: torch.memory_format,
    by_values: bool,
) -> Any:
    """Return memory for a plan's images, [count, C, H, W], or a list of [C, H, W]."""
    if by_values:  # which change images in place, and need contiguous ones
        form = torch.contiguous_format

    def empty(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=plan.dtype, device=pixels.device, memory_format=form)

    if plan.size is not None:
        return empty(count, channels, *plan.size)
    return [empty(1, channels, *size)[0] for size in plan.sizes.repeat(pixels.frames, 0).tolist()]


def _pointers_of(images: Any) -> list[Any] | None:
    """Return the address and strides of each image; None: one has none."""
    if isinstance(images, list):
        pointers = list(map(data_ptr_and_strides, images))
        return None if None in pointers else pointers
    whole = data_ptr_and_strides(images)
    if whole is None:
        return None
    address, (step, *strides) = whole
    step *= images.element_size()
    return [(address + index * step, tuple(strides)) for index in range(len(images))]


def run_passes(
    chain: Chain,
    leaves: list[Leaf],
    source: Source,
    *,
    dry: bool = False,
    record: bool = False,
    part_of: TargetOptions | None = None,
) -> tuple[list[Params], np.ndarray]:
    """Transform the leaves' values.

    Parameters
    ----------
    chain : Chain
    leaves : list of Leaf
        Changed in place.
    source : Source
        Where this call's numbers come from.
    dry : bool
        Only draw.
    record : bool
        Whether the parameters are wanted. Otherwise those of passes in C++ are missing.
    part_of : TargetOptions, optional
        Those of the chain around this one, which gives targets their final form.

    Returns
    -------
    list of dict
        The parameters of each transform.
    ndarray, int64 ``[B, 2]``
        Heights and widths of the images before the first one.
    """
    passes = chain.passes  # formed of the transforms as they are now
    options = part_of or chain.options
    sizes = image_sizes(leaves)
    batch = sizes.shape[0]
    if batch == 0:
        return run_empty(
            lambda own, numbers: run_passes(chain, own, numbers, dry=dry, record=record),
            leaves,
            source,
        ), sizes
    walk = _Walk(chain, leaves, options, sizes)
    record = record or dry or len(walk.images) > 1
    draw = Draws(chain.slices, chain.draws, source, source.key(sizes), record=record)
    for planned, group in itertools.groupby(passes, attrgetter("has_plan")):
        if not planned:
            for part in group:
                walk.call(part, draw, dry)
            continue
        together = list(group)  # no image is needed between them
        plans = walk.plan(together, draw)
        if not dry:
            if together[-1] is passes[-1] and plans[-1].size is None:
                reject_sizes(walk.sizes)
            walk.run(together, plans, draw)
    if not dry:
        if passes[-1].kind != "fused":
            stack_images(walk.images, walk.sizes, chain.memory_format)
        if walk.has_targets and part_of is None:
            finish_targets(leaves, walk.sizes, chain.options)
    return draw.steps, sizes


class _Walk:
    """A sample or a batch on its way through a chain.

    Attributes
    ----------
    images : list of Leaf
    has_targets : bool
        Whether any leaf moves with the images.
    sizes, dtype, channels
        What the images are like before the next pass. Of several, dtype and channels are the
        first's.
    """

    def __init__(
        self, chain: Chain, leaves: list[Leaf], options: TargetOptions, sizes: np.ndarray
    ) -> None:
        self.chain, self.leaves, self.options = chain, leaves, options
        self.images = [leaf for leaf in leaves if leaf.kind == "image"]
        more = len(leaves) > len(self.images)
        self.has_targets = more and bool(followers(leaves, options))
        if self.has_targets:
            check_options(leaves, options)
        self._look(sizes)

    def _look(self, sizes: np.ndarray) -> None:
        pixels = Pixels(self.images[0])
        self.sizes, self.dtype, self.channels = sizes, pixels.dtype, pixels.channels

    def call(self, part: Pass, draw: Draws, dry: bool) -> None:
        """Let the only transform of a pass change the leaves itself; or only draw if `dry`."""
        (transform,) = part.transforms
        step = draw.alone(Plan.of_images(self.sizes, self.channels), transform)
        if dry:
            if isinstance(transform, Container):
                with within(self.chain.named):
                    _, self.sizes, _ = container_geometry(transform, step, self.sizes)
            return
        if part.kind == "alone":
            transform.run_leaves(self.leaves, step, self.options)
        else:
            with within(_options_within(self.chain, self.leaves, transform)):
                run_foreign(transform, self.leaves, step, self.options)
        self._look(image_sizes(self.leaves))

    def plan(self, group: Sequence[Pass], draw: Draws) -> list[Plan]:
        """Draw the plans of consecutive passes, the next from what the one before makes."""
        plans = []
        for part in group:
            plan = Plan.of_images(self.sizes, self.channels, self.dtype, self.chain.exact)
            draw.fill(plan, part)
            self.sizes, self.dtype = plan.sizes, plan.dtype
            self.channels = part.channels or self.channels
            plans.append(plan)
        return plans

    def run(self, group: Sequence[Pass], plans: Sequence[Plan], draw: Draws) -> None:
        """Run passes by their plans on all images, and move the targets along."""
        chain, own = self.chain, plans
        for number, leaf in enumerate(self.images):
            if len(self.images) > 1:
                own = plans_for(Pixels(leaf), plans, group, chain.slices, draw.steps)
                for plan in own:
                    plan.image = number
            execute(chain, group, own, leaf)
        if self.has_targets:
            follow_all(group, plans, self.leaves, self.options)


def follow_image(chain: Chain, leaves: list[Leaf], plans: Sequence[Plan]) -> None:
    """Transform the targets of a sample whose image C++ has made by these plans."""
    if not followers(leaves, chain.options):
        return
    check_options(leaves, chain.options)
    follow_all(chain.passes, plans, leaves, chain.options)
    finish_targets(leaves, plans[-1].sizes, chain.options)


def _options_within(chain: Chain, leaves: Sequence[Leaf], transform: Any) -> Mapping[str, Any]:
    """Return the options of chains within a transform, another package's or a container.

    Within another package's, they get no dicts, so nothing tells them that masks belong to boxes,
    and are 0 outside. Nor do they get labels, so what swaps where the image is mirrored does so
    after the whole transform.
    """
    masks = [leaf for leaf in leaves if leaf.kind == "mask"]
    of_boxes = len(masks) > 0 and all(leaf.per_box for leaf in masks)
    own = {**chain.named, "mask_fill": 0} if of_boxes else chain.named
    swaps = chain.options.swaps and not isinstance(transform, Container)
    return {**own, SWAPPED_OUTSIDE: True} if swaps else own
