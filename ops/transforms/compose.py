"""Chains of transforms that run in as few passes as possible."""

import copy
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from .._torch.options import Convention, Interpolation, KeptBoxes, Layout, SampleBoxFormat
from .._torch.outside_graphs import outside_graphs
from .arguments import mask_fills_of_chain, reject_lost_options, reject_names
from .chain.compile import pipeline_of, reason_for_python
from .chain.decode import decoding_of
from .chain.draws import Draws, check_params, recorded
from .chain.effects import Fusable
from .chain.execute import run_passes
from .chain.fuse import Pass, name_of, split_passes
from .chain.geometry import chain_geometry
from .chain.nesting import Chain, flatten, outer_options
from .chain.options import (
    DEFAULTS,
    OF_ALBUMENTATIONS,
    given_options,
    options_within,
    output_types_of,
    reject_named,
    target_options,
)
from .chain.plan import Params
from .chain.random import CallCounter
from .chain.source import Called, Parameters, Source, as_whole, index_of_samples
from .inverse import undo_geometry
from .sample.batches import as_batch
from .sample.files import with_files_read
from .sample.leaf import Leaf, Reading
from .sample.names import named_kinds
from .sample.split import Rebuild, split_sample

_edits_of = operator.attrgetter("_edits")


class Compose(Called, Chain):
    """Run transforms in turn, in as few passes over the pixels as they allow.

    Geometry composes into one matrix per sample and colour into another; one call of
    :func:`visops.augment` applies both, normalises, erases and converts. Print a `Compose` to see
    its passes and why each begins. A new pass is needed by a transform from another package (a
    blur, anything from ``torchvision.transforms.v2``), by colour after :class:`Normalize`, by
    geometry after :class:`RandomErasing`, and by a second interpolation or fill.

    Parameters
    ----------
    transforms : sequence of callable
        From this package or another. A `Compose` or ``nn.Sequential`` among them is flattened; its
        options, if any, must be the same. The attribute `transforms` is a list that may be changed.
    seed : int, optional
        Draws are a function of (seed, epoch, index), where a call is given an `index`
        (:class:`IndexedDataset` does); otherwise of (seed, epoch, worker, number of the call).
        Without a seed, torch's generator draws.
    exact : bool
        Do exactly what the transforms would do one by one: never show again what a crop has cut
        off, apply colour to the pixels present then, clamp after every step, take contrast's grey
        mean over all pixels. This may need more passes, each of which interpolates once.
    keys : mapping of str to sequence of str, optional
        Names of dict entries in addition to the usual ones: ``{"mask": ["seg"]}``. Kinds: image,
        mask, masks, boxes, keypoints, polygons, labels, other.
    mask_fill : int, default 0
        Value of integer masks outside the image; many losses ignore 255. Masks of floats and bool
        are 0 there unless a transform has a `fill` for masks: ``fill={Mask: 1}``.
    boxes : {"keep", "clamp", "sanitize"}
        Leave boxes as they come out; clip them to the image; or clip them and drop those with a
        side shorter than a pixel, along with what belongs to them. The default is "keep".
    boxes_from : {"boxes", "masks", "polygons"}, default "boxes"
        What boxes are computed from: their corners, whose bounds grow when an image turns, or the
        moved masks or polygons beside them, of which they become the bounds.
    box_format : {"xyxy", "xywh", "cxcywh", "yolo", "albumentations"}, default "xyxy"
        What plain boxes are, in pixels: corners, COCO's corner and size, centre and size. Shares of
        the image's width and height: "yolo" (centre and size), "albumentations" (corners). They
        come out in the same format. Boxes of tv_tensors and of COCO's annotations say their own.
    min_size, min_area, min_visibility : float, optional
        With ``boxes="sanitize"``: also drop boxes with a side shorter than `min_size` pixels
        (default 1), an area of fewer than `min_area` pixels, or less than the share
        `min_visibility` of their area left.
    keypoint_convention : {"integer", "half_pixel"}, default "integer"
        Where key points place the centre of pixel (0, 0): at (0, 0) or at (0.5, 0.5).
    flip_pairs, label_pairs, mask_pairs : sequence of pairs of int, optional
        What swaps where the image is mirrored: key points ``[..., K, 2]`` by number, classes of
        labels (or their names), and classes of masks of the image. Left and right eyes, hands.
    per_frame : bool, default True
        Whether the images of a plain ``[T, C, H, W]`` tensor or array have their own draws, as a
        batch. False: they are the frames of one video and share them, as in a ``tv_tensors.Video``.
    layout : {"CHW", "HWC"}, optional
        Where plain tensors and arrays have their channels. By default, the side of length 1, 3 or 4
        holds them; else they are first in tensors, and an array is refused.
    memory_format : torch.memory_format
        Memory format of the resulting images.

    Notes
    -----
    Without `exact`, a fused chain differs from its transforms called one by one: content that an
    intermediate crop would have cut off shows again if a later transform moves it back in; `fill`
    is applied before colour; values are clamped once, after the last colour step. In both modes,
    each pass interpolates pixels once and rounds them to integers once.

    Images may be integers, whose greatest is white, or floating: tensors or arrays of either
    layout, PIL images or tv_tensors. They come out as tensors ``[C, H, W]``, batches as
    ``[B, C, H, W]``. Every sample of a batch has its own parameters. Transforms from other packages
    run sample by sample, each under its own seed, and one thread at a time.

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
        exact: bool | None = None,
        keys: Mapping[str, Sequence[str]] | None = None,
        mask_fill: int | None = None,
        boxes: KeptBoxes | None = None,
        boxes_from: Literal["boxes", "masks", "polygons"] | None = None,
        box_format: SampleBoxFormat | None = None,
        min_size: float | None = None,
        min_area: float | None = None,
        min_visibility: float | None = None,
        keypoint_convention: Convention | None = None,
        flip_pairs: Sequence[Sequence[int]] | None = None,
        label_pairs: Sequence[Sequence[int | str]] | None = None,
        mask_pairs: Sequence[Sequence[int]] | None = None,
        per_frame: bool | None = None,
        layout: Layout | None = None,
        memory_format: torch.memory_format | None = None,
        **named: Any,
    ) -> None:
        super().__init__()
        reject_names("Compose", named, OF_ALBUMENTATIONS)
        if not isinstance(transforms, (Sequence, nn.ModuleList)) or isinstance(transforms, str):
            kind = f"transforms is a {type(transforms).__name__}"
            raise TypeError(f"visops.transforms.Compose: {kind}, must be a sequence of transforms")
        options = {
            "seed": seed,
            "exact": exact,
            "keys": keys,
            "mask_fill": mask_fill,
            "boxes": boxes,
            "boxes_from": boxes_from,
            "box_format": box_format,
            "min_size": min_size,
            "min_area": min_area,
            "min_visibility": min_visibility,
            "keypoint_convention": keypoint_convention,
            "flip_pairs": flip_pairs,
            "label_pairs": label_pairs,
            "mask_pairs": mask_pairs,
            "per_frame": per_frame,
            "layout": layout,
            "memory_format": memory_format,
        }
        self.given = given_options(options)
        self.named = {**DEFAULTS, **self.given}
        self.seed, self.keys = as_whole(seed), keys
        self._calls = None if seed is None else CallCounter()
        self.exact, self.memory_format = self.named["exact"], self.named["memory_format"]
        self.transforms = list(transforms)
        reject_lost_options(self.transforms, self.given)
        self._compiled_from: list[Any] = []
        self._watched: list[Any] = []
        self._edits: list[int] = []
        self._settings: Any = None
        self._compile()

    def _compile(self) -> None:
        """Form passes of the transforms, if their list or one of them has changed."""
        formed, listed = self._compiled_from, self.transforms
        same = formed and len(formed) == len(listed) and all(map(operator.is_, formed, listed))
        same = same and self._edits == list(map(_edits_of, self._watched))
        if same and self._settings == (self.keys, self.memory_format):
            return
        formed = list(flatten(listed, self.named))
        if not formed:
            raise ValueError(
                "visops.transforms.Compose: transforms is empty, must hold at least one"
            )
        files = decoding_of(formed)
        fill, other_fill = mask_fills_of_chain(formed, self.given.get("mask_fill"))
        self.named["mask_fill"] = fill
        self.options = replace(target_options(self.named), other_mask_fill=other_fill)
        self._passes = split_passes(formed, self.exact)
        self.slices: list[slice] = []  # where each transform's uniform numbers lie among a sample's
        self.draws = 0
        for transform in formed:
            draws = transform.draws if isinstance(transform, Fusable) else 1
            self.slices.append(slice(self.draws, self.draws + draws))
            self.draws += draws
        self.output_types, self.names = output_types_of(formed), list(map(name_of, formed))
        self.reading = Reading(
            not self.named["per_frame"],
            self.named["layout"],
            any(getattr(transform, "reads_numbers", False) for transform in formed),
            self.named["box_format"],
        )
        self._compiled_from, self._files, self.reads_files = formed, files, files is not None
        fusable = (transform for transform in formed if isinstance(transform, Fusable))
        self._watched = [own for transform in fusable for own in transform.watched()]
        self._edits = list(map(_edits_of, self._watched))
        self._settings = copy.deepcopy(self.keys), self.memory_format
        self._kinds = named_kinds(self.keys)
        if not isinstance(listed, list):
            self.transforms = listed = []
        listed[:] = formed
        self.pipeline = pipeline_of(self)  # asks for the passes, which are formed now

    def __getstate__(self) -> dict[str, Any]:
        return {
            **super().__getstate__(),
            "pipeline": None,
            "_settings": None,
            "_compiled_from": [],
        }

    @property
    def passes(self) -> list[Pass]:
        """The passes that the transforms form."""
        self._compile()
        return self._passes

    def __repr__(self) -> str:
        lines = [p.describe(number) for number, p in enumerate(self.passes, start=1)]
        arguments = [f"seed={self.seed}"] if self.seed is not None else []
        arguments += ["exact=True"] if self.exact else []
        reason = reason_for_python(self)
        lines += [f"  in Python: {reason}"] if reason else []
        return "\n".join(["Compose(" + ", ".join(arguments), *lines, ")"])

    @outside_graphs
    def forward(
        self,
        *sample: Any,
        generator: torch.Generator | None = None,
        index: int | Sequence[int] | Tensor | None = None,
        epoch: int | Tensor | None = None,
        params: Parameters | None = None,
        return_params: bool = False,
        **named: Any,
    ) -> Any:
        """Transform a sample or a batch.

        Parameters
        ----------
        *sample : Tensor, ndarray, PIL image, tv_tensor, or dict, tuple or list of such
            Several arguments count as one tuple.
        generator : torch.Generator, optional
            Draws the key of this call's random numbers, instead of the seed or torch's global
            generator. Must be on the CPU.
        index : int or sequence of int, optional
            Position in the data set, for each sample of a batch. Parameters are a function of
            `seed`, `epoch` and this.
        epoch : int, optional
            0 where an `index` is given. Else, it counts how often this worker of the data loader
            has been started before.
        params : Parameters, optional
            Use these instead of drawing: those of an earlier call with as many samples.
        return_params : bool
            Return the parameters as well.

        Returns
        -------
        A sample like the one given, or (sample, Parameters)
        """
        if named:
            reject_named(named)
        self._compile()
        given = sample[0] if len(sample) == 1 else sample
        if self.reads_files:
            given = with_files_read(given, self._kinds)
        key = None
        if params is None and self.pipeline is not None:
            arguments = generator, index, epoch, return_params
            done, result = self.pipeline.run(self, given, *arguments)
            if done:
                return result
            key = result
        source = self.source(generator, index, epoch, params)
        source.kept = key
        leaves, rebuild = self.split(given)
        drawn, sizes = self._transform(leaves, source, record=return_params)
        self.output_types.apply(leaves)
        result = rebuild(leaves)
        return (result, recorded(self.transforms, drawn, sizes)) if return_params else result

    def __len__(self) -> int:
        return len(self.transforms)

    def __getitem__(self, index: int | slice) -> Any:
        """Return a transform, or of a slice a chain with this one's options."""
        found = self.transforms[index]
        return Compose(found, **self.given) if isinstance(index, slice) else found

    def __add__(self, other: "Compose | Sequence[Callable[..., Any]]") -> "Compose":
        """Return a chain with further transforms, and this one's options."""
        if not isinstance(other, (Compose, list, tuple)):
            return NotImplemented
        more = [other] if isinstance(other, Compose) else list(other)
        return Compose([*self.transforms, *more], **self.given)

    @outside_graphs
    def make_params(
        self,
        *sample: Any,
        generator: torch.Generator | None = None,
        index: int | Sequence[int] | Tensor | None = None,
        epoch: int | Tensor | None = None,
    ) -> Parameters:
        """Draw parameters for a sample or a batch without transforming it.

        Other packages' transforms are taken to keep the image's size. Arguments are as in a call.
        """
        self._compile()
        leaves, _ = self.split(sample[0] if len(sample) == 1 else sample)
        source = self.source(generator, index, epoch, None)
        return recorded(self.transforms, *self._transform(leaves, source, dry=True))

    @outside_graphs
    def collate(
        self,
        samples: Sequence[Any],
        *,
        generator: torch.Generator | None = None,
        index: Sequence[int] | Tensor | None = None,
        epoch: int | Tensor | None = None,
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
            index = index_of_samples(samples)
        self._compile()
        leaves, rebuild = as_batch(samples, self.split)
        self._transform(leaves, self.source(generator, index, epoch, None))
        self.output_types.apply(leaves)
        return rebuild(leaves)

    @outside_graphs
    def inverse(
        self,
        sample: Any,
        params: Parameters,
        *,
        stride: int = 1,
        interpolation: Interpolation | None = None,
    ) -> Any:
        """Undo the geometry: bring image, masks, boxes and key points back to the original canvas.

        What has left the picture is lost and shows as fill. Colour and dtype stay as they are.
        Another package's transform must be known to move nothing (see :class:`ImageOnly`).

        Parameters
        ----------
        sample
            As a call returned it, or what a network made of that: maps, masks, boxes, key points,
            under the usual names or as tv_tensors. It needs no image.
        params : Parameters
            As the call returned them.
        stride : int
            Pixels of the chain's result per pixel of the images and masks in `sample`: those of a
            network may be smaller. They come back in full size. Boxes and key points are in pixels
            of the chain's result, whatever the stride.
        interpolation : {"bilinear", "nearest", "bicubic"}, optional
            How to read images; by default as the chain does, but bilinear for another stride.

        Examples
        --------
        >>> import torch
        >>> from visops import transforms
        >>> chain = transforms.Compose([transforms.RandomRotation((90, 90), expand=True)])
        >>> image = torch.arange(6.0).reshape(1, 2, 3)
        >>> turned, params = chain(image, return_params=True)
        >>> bool((chain.inverse(turned, params) == image).all())
        True
        >>> chain.inverse({"boxes": torch.tensor([[0.0, 0.0, 1.0, 1.0]])}, params)
        {'boxes': tensor([[2., 0., 3., 1.]])}
        """
        self._compile()
        check_params(self.transforms, params)
        return undo_geometry(self, sample, params, stride, interpolation)

    def split(self, sample: Any) -> tuple[list[Leaf], Rebuild]:
        """Split a sample for a chain whose passes are formed."""
        if self.reads_files:
            sample = with_files_read(sample, self._kinds)
        return split_sample(sample, self.keys, self.reading, files=self._files)

    def source(
        self,
        generator: torch.Generator | None,
        index: Any,
        epoch: Any,
        params: Parameters | None,
    ) -> Source:
        if params is not None:
            check_params(self.transforms, params)
        if self.seed is not None and self._calls is None:  # set after the chain was made
            self._calls = CallCounter()
        return Source(self.seed, self._calls, generator, index, epoch, params)

    def run_within(self, leaves: list[Leaf], seed: int, position: int) -> None:
        """Transform leaves as a part of the chain around it, which gives them their final form.

        Draws follow from `seed`, and from the place of this chain among the others there.
        """
        outer = outer_options() or DEFAULTS
        chain = self._inside(outer)
        options = replace(chain.options, min_visibility=outer["min_visibility"])
        source = Source.within(seed, position, leaves[0].batch or 1)
        run_passes(chain, leaves, source, part_of=options)

    def geometry_within(
        self, sizes: np.ndarray, seed: int, position: int
    ) -> tuple[np.ndarray, np.ndarray, str]:
        """Return how `run_within` moves the pixels of one sample: `Container.geometry`."""
        chain = self._inside(outer_options() or DEFAULTS)
        passes, source = chain.passes, Source.within(seed, position)
        draw = Draws(chain.slices, chain.draws, source, source.key(sizes), only_geometry=True)
        return chain_geometry(passes, draw, sizes)

    def _transform(
        self, leaves: list[Leaf], source: Source, dry: bool = False, record: bool = False
    ) -> tuple[list[Params], np.ndarray]:
        """Transform the leaves' values, or only draw if `dry`; return parameters and sizes.

        Unless `record`, parameters may be missing.
        """
        outer = outer_options()
        chain = self if outer is None else self._inside(outer)
        return run_passes(chain, leaves, source, dry=dry, record=record)

    def _inside(self, outer: Mapping[str, Any]) -> "Compose":
        """Return this chain with the options that it takes over from another around it."""
        options = options_within(outer, self.named, self.given)
        if all(self.named[name] == value for name, value in options.items()):
            return self
        twin, source = self.__dict__.get("_twin", (None, None))
        if twin is None or twin.given != options or source is not self._compiled_from:
            twin = Compose(self.transforms, **options)
            # nn.Module's own attributes would register it as a child of this module.
            self.__dict__["_twin"] = twin, self._compiled_from
        return twin  # type: ignore[no-any-return]
