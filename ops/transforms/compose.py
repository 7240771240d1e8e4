"""Chains of transforms that run in as few passes as possible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .engine.effects import Fusable
from .engine.follow import combined, follow
from .engine.fuse import Pass, name_of, split_passes
from .engine.numbers import Params, as_arrays, as_numbers
from .engine.plan import Canvas, Plan
from .engine.run import Pixels, run_plan
from .engine.source import Draws, Parameters, Source
from .engine.unfused import erase_with_noise, run_foreign
from .sample.batches import batch_leaves
from .sample.images import image_sizes
from .sample.leaf import Leaf
from .sample.split import split_sample
from .targets.move import Geometry, TargetOptions, check_options, finish_targets, move_targets

__all__ = ["Compose", "Parameters"]

_TARGETS = ("mask", "boxes", "keypoints")


class Compose(nn.Module):
    """Run transforms in turn, in as few passes over the pixels as they allow.

    Geometry composes into one matrix per sample and colour into another; one call of
    :func:`visops.augment` applies both, normalises, erases and converts. Print a `Compose` to see
    its passes and why each begins. A new pass is needed by a transform from another package (a
    blur, anything from ``torchvision.transforms.v2``), by colour after :class:`Normalize`, by
    geometry after :class:`RandomErasing`, and by a second interpolation or fill.

    Parameters
    ----------
    transforms : sequence of callable
        From this package or another. A `Compose` among them is flattened.
    seed : int, optional
        Given a seed and an `index`, every draw is a function of (seed, epoch, index) alone.
    exact : bool
        Do exactly what the transforms would do one by one: never show again what a crop has cut
        off, apply colour to the pixels present at that point, clamp after every step, and take
        contrast's grey mean over all pixels. This may need more passes. Each pass still
        interpolates only once, which is sharper than one by one.
    keys : mapping of str to sequence of str, optional
        Names of dict entries in addition to the usual ones: ``{"mask": ["seg"]}``. Kinds: image,
        mask, masks, boxes, keypoints, labels, other.
    mask_fill : int
        Value of masks outside the image: the label that losses ignore.
    boxes : {"keep", "clamp", "sanitize"}
        Leave boxes as they come out; clip them to the image; or clip them and drop those with a
        side shorter than a pixel, along with their labels.
    keypoint_convention : {"integer", "half_pixel"}
        Where key points place the centre of pixel (0, 0): at (0, 0) or at (0.5, 0.5).
    memory_format : torch.memory_format
        Memory format of the resulting images.

    Notes
    -----
    Without `exact`, a fused chain differs from its transforms called one by one: content that an
    intermediate crop would have cut off shows again if a later transform moves it back in; `fill`
    is applied before colour; values are clamped once, after the last colour step. In both modes,
    each pass interpolates pixels once and rounds them to uint8 once.

    Images may be uint8 or floating: tensors or arrays of either layout, PIL images or tv_tensors.
    They come out as tensors ``[C, H, W]``, batches as ``[B, C, H, W]``. Every sample of a batch has
    its own parameters. Transforms from other packages run sample by sample, each under its own
    seed.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> chain = transforms.Compose(
    ...     [
    ...         transforms.RandomResizedCrop(64),
    ...         transforms.RandomHorizontalFlip(),
    ...         transforms.ColorJitter(0.4, 0.4, 0.4, 0.1),
    ...         transforms.ToDtype(torch.float32, scale=True),
    ...         transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ...     ],
    ...     seed=0,
    ... )
    >>> photo = torch.randint(0, 256, (3, 120, 160), dtype=torch.uint8)
    >>> image = chain(photo, index=17, epoch=3)
    >>> image.shape, image.dtype
    (torch.Size([3, 64, 64]), torch.float32)
    >>> bool((chain(photo, index=17, epoch=3) == image).all())
    True
    >>> batch, labels = chain((torch.stack([photo] * 4), [0, 1, 2, 3]))
    >>> batch.shape
    torch.Size([4, 3, 64, 64])
    """

    def __init__(
        self,
        transforms: Sequence[Callable[..., Any]],
        *,
        seed: int | None = None,
        exact: bool = False,
        keys: Mapping[str, Sequence[str]] | None = None,
        mask_fill: int = 255,
        boxes: str = "keep",
        keypoint_convention: str = "integer",
        memory_format: torch.memory_format = torch.contiguous_format,
    ) -> None:
        super().__init__()
        self.exact = bool(exact)
        if not isinstance(transforms, (Sequence, nn.ModuleList)) or isinstance(transforms, str):
            raise TypeError(
                f"visops.transforms.Compose: transforms is a {type(transforms).__name__}, must be "
                "a sequence of transforms"
            )
        self.transforms: list[Any] = list(_flatten(transforms, self.exact))
        if not self.transforms:
            raise ValueError(
                "visops.transforms.Compose: transforms is empty, must hold at least one"
            )
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise TypeError(
                f"visops.transforms.Compose: seed is {seed!r}, must be a whole number or None"
            )
        if memory_format not in (torch.contiguous_format, torch.channels_last):
            raise ValueError(
                f"visops.transforms.Compose: memory_format is {memory_format}, must be "
                "torch.contiguous_format or torch.channels_last"
            )
        self.seed = seed
        self.keys = keys
        self.memory_format = memory_format
        self.options = TargetOptions(mask_fill, boxes, keypoint_convention)
        check_options([], self.options)
        self.passes = split_passes(self.transforms, self.exact)
        # Where each transform's uniform numbers lie among a sample's.
        self._slices: list[slice] = []
        self._draws = 0
        for transform in self.transforms:
            draws = transform.draws if isinstance(transform, Fusable) else 1
            self._slices.append(slice(self._draws, self._draws + draws))
            self._draws += draws

    def __getstate__(self) -> dict[str, Any]:
        # torch.save pickles by an old protocol, for which torch's memory formats have no name.
        return {**self.__dict__, "memory_format": str(self.memory_format).removeprefix("torch.")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "memory_format": getattr(torch, state["memory_format"])})

    def __repr__(self) -> str:
        lines = [p.describe(number) for number, p in enumerate(self.passes, start=1)]
        arguments = [f"seed={self.seed}"] if self.seed is not None else []
        arguments += ["exact=True"] if self.exact else []
        return "\n".join(["Compose(" + ", ".join(arguments), *lines, ")"])

    def forward(
        self,
        *sample: Any,
        generator: torch.Generator | None = None,
        index: int | Sequence[int] | Tensor | None = None,
        epoch: int = 0,
        params: Parameters | None = None,
        return_params: bool = False,
    ) -> Any:
        """Transform a sample or a batch.

        Parameters
        ----------
        *sample : Tensor, ndarray, PIL image, tv_tensor, or dict, tuple or list of such
            Several arguments count as one tuple.
        generator : torch.Generator, optional
            Draws the key of this call's random numbers; by default, torch's global generator. Must
            be on the CPU.
        index : int or sequence of int, optional
            Position in the data set, for each sample of a batch. Parameters are a function of
            `seed`, `epoch` and this.
        epoch : int
        params : Parameters, optional
            Use these instead of drawing: those of an earlier call with as many samples.
        return_params : bool
            Return the parameters as well.

        Returns
        -------
        A sample like the one given, or (sample, Parameters)
        """
        leaves, rebuild = split_sample(sample[0] if len(sample) == 1 else sample, self.keys)
        drawn, sizes = self._transform(leaves, self._source(generator, index, epoch, params))
        result = rebuild(leaves)
        return (result, self._recorded(drawn, sizes)) if return_params else result

    def make_params(
        self,
        *sample: Any,
        generator: torch.Generator | None = None,
        index: int | Sequence[int] | Tensor | None = None,
        epoch: int = 0,
    ) -> Parameters:
        """Draw parameters for a sample or a batch without transforming it.

        Transforms from other packages are assumed to keep the image's size. The arguments are those
        of a call.

        Examples
        --------
        >>> import torch
        >>> from visops import transforms
        >>> chain = transforms.Compose([transforms.RandomRotation(30)], seed=1)
        >>> params = chain.make_params(torch.zeros(3, 8, 8), index=5)
        >>> params.names, sorted(params.steps[0])
        (['RandomRotation'], ['angle'])
        """
        leaves, _ = split_sample(sample[0] if len(sample) == 1 else sample, self.keys)
        source = self._source(generator, index, epoch, None)
        return self._recorded(*self._transform(leaves, source, dry=True))

    def collate(
        self,
        samples: Sequence[Any],
        *,
        generator: torch.Generator | None = None,
        index: Sequence[int] | Tensor | None = None,
        epoch: int = 0,
    ) -> Any:
        """Transform samples into a batch, as a ``collate_fn``; their images may differ in size.

        One call reads all images in place. Boxes, key points and their labels come out as lists,
        everything else as torch's ``default_collate`` returns it.

        Parameters
        ----------
        samples : sequence
            All of the same structure.
        generator, index, epoch
            As in a call. If the chain has a seed and every sample is a dict with an ``"index"``,
            `index` defaults to those.

        Examples
        --------
        >>> import torch
        >>> from visops import transforms
        >>> chain = transforms.Compose([transforms.Resize((32, 32))])
        >>> images, labels = chain.collate([(torch.rand(3, 40, 50), 0), (torch.rand(3, 30, 60), 1)])
        >>> images.shape, labels
        (torch.Size([2, 3, 32, 32]), tensor([0, 1]))
        """
        if index is None and self.seed is not None:
            found: list[Any] = [s.get("index") if isinstance(s, Mapping) else None for s in samples]
            if None not in found:
                index = found
        split = [split_sample(sample, self.keys) for sample in samples]
        leaves = batch_leaves([own for own, _ in split], stack=False)
        self._transform(leaves, self._source(generator, index, epoch, None))
        return split[0][1](leaves)

    def inverse(self, sample: Any, params: Parameters) -> Any:
        """Undo the geometry: bring image, masks, boxes and key points back to the original canvas.

        What has left the picture is lost and shows as fill. Colour and dtype stay as they are, and
        so do the effects of other packages' transforms, which must have kept the image's size.

        Parameters
        ----------
        sample
            As a call returned it.
        params : Parameters
            As the call returned them.

        Examples
        --------
        >>> import torch
        >>> from visops import transforms
        >>> chain = transforms.Compose([transforms.RandomRotation((90, 90), expand=True)])
        >>> image = torch.arange(6.0).reshape(1, 2, 3)
        >>> turned, params = chain(image, return_params=True)
        >>> bool((chain.inverse(turned, params) == image).all())
        True
        """
        self._check_params(params)
        leaves, rebuild = split_sample(sample, self.keys)
        sizes = image_sizes(leaves)
        batch = params.size.shape[0]
        canvas, matrix, mode = _canvas(params.size), None, "nearest"
        for part in self.passes:
            if part.kind != "fused":
                continue
            plan = Plan(canvas, batch, torch.float32)
            for transform, step in zip(part.transforms, params.steps[part.first :], strict=False):
                transform.extend(plan, as_numbers(step))
            canvas, matrix = plan.canvas, combined(matrix, plan.matrices)
            mode = part.interpolation or mode
        before = canvas.size(batch)
        if sizes.shape != before.shape or (sizes != before).any():
            raise ValueError(
                f"visops.transforms.Compose.inverse: the images have {sizes.tolist()} rows and "
                f"columns, must have {before.tolist()}, as these parameters produce"
            )
        check_options(leaves, self.options)
        back = np.linalg.inv(np.tile(np.eye(3), (batch, 1, 1)) if matrix is None else matrix)
        affine = bool((back[:, 2] == (0.0, 0.0, 1.0)).all())
        for leaf in leaves:
            if leaf.kind == "image":
                pixels = Pixels(leaf)
                plan = Plan(_canvas(sizes, pixels.channels), batch, pixels.dtype)
                elements = back.reshape(batch, 9).T
                plan.matrix = list(elements[: 6 if affine else 9])
                plan.canvas = _canvas(params.size, pixels.channels)
                run_plan(plan, Pass(interpolation=mode), leaf, pixels, self.memory_format)
        if any(leaf.kind in _TARGETS for leaf in leaves):
            options = replace(self.options, boxes="keep")
            move_targets(leaves, Geometry(back, sizes, params.size, None), options)
            finish_targets(leaves, params.size, options)
        return rebuild(leaves)

    def _check_params(self, params: Parameters) -> None:
        names = [name_of(transform) for transform in self.transforms]
        if not isinstance(params, Parameters):
            raise TypeError(
                f"visops.transforms.Compose: params is a {type(params).__name__}, must be the "
                "Parameters that a call has returned"
            )
        if params.names != names:
            raise ValueError(
                f"visops.transforms.Compose: params is for {params.names}, must be for {names}"
            )

    def _source(
        self,
        generator: torch.Generator | None,
        index: Any,
        epoch: int,
        params: Parameters | None,
    ) -> Source:
        if params is not None:
            self._check_params(params)
        return Source(self.seed, generator, index, epoch, params)

    def _transform(
        self, leaves: list[Leaf], source: Source, dry: bool = False
    ) -> tuple[list[Params], np.ndarray]:
        """Transform the leaves' values, or only draw if `dry`; return parameters and sizes."""
        sizes = image_sizes(leaves)
        batch = sizes.shape[0]
        images = [leaf for leaf in leaves if leaf.kind == "image"]
        has_targets = len(leaves) > len(images) and any(leaf.kind in _TARGETS for leaf in leaves)
        if has_targets:
            check_options(leaves, self.options)
        draw = Draws(self.transforms, self._slices, source, source.numbers(sizes, self._draws))
        pixels = Pixels(images[0])
        dtype, canvas = pixels.dtype, _canvas(sizes, pixels.channels)
        for part in self.passes:
            if part.kind != "fused":
                step = draw(canvas)
                if dry:
                    continue
                if part.kind == "noise":
                    for leaf in images:
                        erase_with_noise(leaf, step)
                else:
                    run_foreign(part.transforms[0], leaves, step)
                    pixels = Pixels(images[0])
                    dtype, canvas = pixels.dtype, _canvas(image_sizes(leaves), pixels.channels)
                continue
            plan = Plan(canvas, batch, dtype, self.exact)
            for transform in part.transforms:
                transform.extend(plan, draw(plan.canvas))
            dtype, canvas = plan.dtype, plan.canvas
            if dry:
                continue
            if part is self.passes[-1] and canvas.uniform() is None:
                _refuse_sizes(canvas.size(batch))
            for leaf in images:
                own = Pixels(leaf)
                plan = self._plan_again(plan, part, draw.steps, own)
                run_plan(plan, part, leaf, own, self.memory_format)
            if has_targets:
                # Pass by pass, as the image: a canvas between passes also cuts off targets.
                follow(plan, leaves, self.options)
        if not dry:
            if self.passes[-1].kind != "fused":
                _stack(images, canvas.size(batch))
            if has_targets:
                finish_targets(leaves, canvas.size(batch), self.options)
        return draw.steps, sizes

    def _recorded(self, steps: list[Params], sizes: np.ndarray) -> Parameters:
        names = [name_of(transform) for transform in self.transforms]
        return Parameters(names, [as_arrays(step, sizes.shape[0]) for step in steps], sizes)

    def _plan_again(self, plan: Plan, part: Pass, steps: list[Params], pixels: Pixels) -> Plan:
        """Return the plan for another image of the sample, whose dtype may differ."""
        if (pixels.dtype, pixels.channels) == (plan.source_dtype, plan.source.channels):
            return plan
        source = Canvas(plan.source.height, plan.source.width, pixels.channels)
        again = Plan(source, plan.batch, pixels.dtype, self.exact)
        for transform, step in zip(part.transforms, steps[part.first :], strict=True):
            transform.extend(again, step)
        return again


def _flatten(transforms: Iterable[Any], exact: bool) -> Iterable[Callable[..., Any]]:
    for transform in transforms:
        if isinstance(transform, Compose):
            yield from _flatten(transform.transforms, exact)
        elif isinstance(transform, Fusable):
            yield from transform.parts() if exact else [transform]
        elif callable(transform):
            yield transform
        else:
            raise TypeError(
                f"visops.transforms.Compose: transforms holds a {type(transform).__name__}, must "
                "hold transforms or other callables"
            )


def _canvas(sizes: np.ndarray, channels: int = 3) -> Canvas:
    if sizes.shape[0] == 1 or (sizes == sizes[0]).all():
        height, width = sizes[0].tolist()
        return Canvas(float(height), float(width), channels)
    height, width = sizes.T.astype(np.float64)
    return Canvas(height, width, channels)


def _stack(images: Sequence[Leaf], sizes: np.ndarray) -> None:
    """Stack the lists that unfused transforms leave into batches."""
    for leaf in images:
        if isinstance(leaf.value, list):
            if (sizes != sizes[0]).any():
                _refuse_sizes(sizes)
            leaf.value = torch.stack(leaf.value)


def _refuse_sizes(sizes: np.ndarray) -> None:
    index = int((sizes != sizes[0]).any(1).argmax())
    raise ValueError(
        f"visops.transforms.Compose: sample 0 comes out with {sizes[0, 0]} rows and {sizes[0, 1]} "
        f"columns, sample {index} with {sizes[index, 0]} and {sizes[index, 1]}; must be the same "
        "in a batch (end with Resize((height, width)) or CenterCrop)"
    )
