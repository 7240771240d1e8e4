"""Splits batches into samples, and collates samples into batches."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate

from .coco import with_same_entries
from .entries import regrouped, ungrouped
from .images import sizes_of
from .leaf import Leaf, shared_tensor, tv_kind

Split = tuple[list[Leaf], Callable[[list[Leaf]], Any]]

# What single samples of a batch have of their own, beside images.
MOVABLE = ("mask", "boxes", "keypoints", "polygons", "visible", "area")


def split_samples(samples: Sequence[Any], split: Callable[[Any], Split]) -> list[Split]:
    """Split samples that are to be a batch: annotations have the same leaves, if only some are."""
    found = [split(sample) for sample in samples]
    if any(len(leaves) != len(found[0][0]) for leaves, _ in found):
        found = [split(sample) for sample in with_same_entries(samples)]
    return found


def as_batch(samples: Sequence[Any], split: Callable[[Any], Split]) -> Split:
    """Split samples, and put their leaves together as those of a batch."""
    found = split_samples(samples, split)
    return batch_leaves([leaves for leaves, _ in found], stack=False), found[0][1]


def unbatch_leaves(
    leaves: Sequence[Leaf], *, moves: Callable[[Leaf], bool] = lambda leaf: False
) -> list[list[Leaf]]:
    """Split a batch's leaves into leaves of single samples, which are views.

    Labels and everything else that doesn't move stay whole, but what `moves` says may change from
    sample to sample; :func:`batch_leaves` restores them.
    """
    count = next(leaf.batch for leaf in leaves if leaf.kind == "image")
    assert count is not None
    labels = {
        id(leaf): ungrouped(leaf.value, count, leaf.name)
        for leaf in leaves
        if leaf.kind != "image" and leaf.kind not in MOVABLE and moves(leaf)
    }
    samples = []
    for index in range(count):
        sample = [_sample_of(leaf, index) for leaf in leaves]
        for leaf, own in zip(leaves, sample, strict=True):
            if id(leaf) in labels:
                own.value = labels[id(leaf)][index]
        by_source = {id(leaf): own for leaf, own in zip(leaves, sample, strict=True)}
        for own in sample:
            if own.partner is not None:
                own.partner = by_source[id(own.partner)]
        samples.append(sample)
    return samples


def _sample_of(leaf: Leaf, index: int) -> Leaf:
    if leaf.kind != "image" and leaf.kind not in MOVABLE:
        return dataclasses.replace(leaf, batch=None, source=leaf)
    like = leaf.like
    if isinstance(like, (list, tuple)):
        like = like[index]
    return dataclasses.replace(
        leaf,
        value=leaf.value[index],
        batch=None,
        like=like,
        canvas=None if leaf.canvas is None else leaf.canvas[index : index + 1],
        visible=None if leaf.visible is None else leaf.visible[index],
        source=leaf,
    )


def batch_leaves(samples: Sequence[Sequence[Leaf]], *, stack: bool = True) -> list[Leaf]:
    """Collate the leaves of samples into leaves of a batch.

    Images of equal size become a tensor, others a list; so do masks that belong to the image.
    Boxes, key points and whatever belongs to single boxes become lists, even if their counts happen
    to agree. Everything else goes through torch's ``default_collate``, or becomes a list. Without
    `stack`, images are not copied and always become a list.

    Raises
    ------
    TypeError, ValueError
        There is no sample, or samples differ in structure, or their images in dtype or channels.
        The message names the sample.
    """
    if not samples:
        raise ValueError("visops.transforms: samples is empty, must hold at least one")
    first = samples[0]
    for index, sample in enumerate(samples):
        if len(sample) != len(first):
            names = [", ".join(leaf.name for leaf in own) for own in (sample, first)]
            raise TypeError(
                f"visops.transforms: sample {index} has {len(sample)} values ({names[0]}), sample "
                f"0 has {len(first)} ({names[1]}); must be the same"
            )
        for leaf, other in zip(sample, first, strict=True):
            if (leaf.kind, leaf.name) != (other.kind, other.name):
                raise TypeError(
                    f"visops.transforms: sample {index} has {leaf.kind} at {leaf.name}, sample 0 "
                    f"has {other.kind} at {other.name}; must be the same"
                )
    batched = [_collated([sample[i] for sample in samples], stack) for i in range(len(first))]
    for position, own in enumerate(batched):
        canvases = [sample[position].canvas for sample in samples]
        if own.canvas is None and any(canvas is not None for canvas in canvases):
            images = [next(leaf for leaf in sample if leaf.kind == "image") for sample in samples]
            # Only some are typed.
            own.canvas = np.concatenate([sizes_of(image) for image in images])
    by_first = {id(leaf): own for leaf, own in zip(first, batched, strict=True)}
    for own in batched:
        if own.partner is not None:
            own.partner = by_first[id(own.partner)]
    return batched


def _collated(leaves: Sequence[Leaf], stack: bool) -> Leaf:
    first = leaves[0]
    source = first.source
    values: list[Any] = [leaf.value for leaf in leaves]
    if first.kind == "image":
        _reject_mixed_images(leaves)
        if stack and all(isinstance(value, Tensor) for value in values) and _alike(values):
            value: Any = torch.stack(values)
        else:
            value = values
        like = [leaf.like for leaf in leaves] if source is None else source.like
        return dataclasses.replace(first, value=value, batch=len(leaves), like=like, source=None)
    if first.kind not in MOVABLE:
        if source is not None:
            if first.value is not source.value:  # it was split
                source.value = regrouped(source.value, values)
            return source
        # Samples without boxes may have no labels, such as None: others tell whose they are.
        own = next((leaf for leaf in leaves if leaf.per_box), first)
        return dataclasses.replace(own, value=_collated_labels(values, own), batch=None, like=None)
    if first.kind == "boxes" and len({leaf.format for leaf in leaves}) > 1:
        formats = sorted({leaf.format for leaf in leaves})
        raise ValueError(f"visops.transforms: {first.name} mixes the formats {formats}")
    flags: Any = [leaf.visible for leaf in leaves]
    if any(flag is None for flag in flags):
        flags = None
    if first.kind == "polygons":
        like = [leaf.like for leaf in leaves] if source is None else source.like
        return dataclasses.replace(
            first, value=values, batch=len(leaves), like=like, visible=flags, source=None
        )
    for index, leaf in enumerate(leaves):
        if leaf.kind == "keypoints" and leaf.per_box != first.per_box:
            one, other = (index, 0) if leaf.per_box else (0, index)
            raise ValueError(
                f"visops.transforms: {first.name} of sample {one} has an entry for each box, that "
                f"of sample {other} has not; must be the same"
            )
    # Samples without objects come in no form: others tell.
    layouts = {leaf.layout for leaf in leaves if 0 not in leaf.value.shape} or {first.layout}
    if len(layouts) > 1:
        forms = {"CHW": "[N, K, 2 or 3]", "flat": "[N, 3 K]"}
        if first.kind == "mask":
            forms = {"CHW": "[N, H, W]", "HWN": "[H, W, N]"}
        wrong = " and ".join(forms.get(layout, layout) for layout in sorted(layouts))
        raise ValueError(f"visops.transforms: {first.name} mixes the forms {wrong}; must be one")
    canvases = [leaf.canvas for leaf in leaves]
    outlines = tuple(own for leaf in leaves for own in leaf.outlines)
    value = values
    if source is not None:
        like = source.like
        # Outlines belong to the samples' own values.
        if not isinstance(source.value, list) and not outlines and _alike(values):
            value, flags = _stacked(values), None if flags is None else _stacked(flags)
    else:
        value = [_collated_target(leaf) for leaf in leaves]
        like = [
            leaf.like if tv_kind(leaf.like) is not None else own
            for leaf, own in zip(leaves, value, strict=True)
        ]
        if flags is not None:
            flags = [flag if isinstance(flag, Tensor) else torch.from_numpy(flag) for flag in flags]
        if first.kind == "mask" and not first.per_box and _alike(value):
            value = torch.stack(value)
    return dataclasses.replace(
        first,
        value=value,
        batch=len(leaves),
        like=like,
        layout=layouts.pop(),
        canvas=None if any(c is None for c in canvases) else np.concatenate(canvases),  # type: ignore[arg-type]
        visible=flags,
        outlines=outlines,
        source=None,
    )


def stack_masks(leaves: Sequence[Leaf]) -> None:
    """Make a tensor of a batch's masks that were of several sizes, and no longer are."""
    for leaf in leaves:
        plain = leaf.kind == "mask" and not leaf.per_box and isinstance(leaf.value, list)
        if plain and all(isinstance(value, Tensor) for value in leaf.value) and _alike(leaf.value):
            leaf.value = torch.stack(leaf.value)


def _reject_mixed_images(leaves: Sequence[Leaf]) -> None:
    first = _image_traits(leaves[0])
    for index, leaf in enumerate(leaves):
        traits = _image_traits(leaf)
        # NumPy's uint8 and torch's are different objects: compare their names as well.
        if traits != first and _traits_text(traits) != _traits_text(first):
            raise ValueError(
                f"visops.transforms: {leaf.name} of sample {index} has {_traits_text(traits)}, "
                f"that of sample 0 has {_traits_text(first)}; must be the same"
            )


def _image_traits(leaf: Leaf) -> tuple[int | None, int, str, Any]:
    value = leaf.value
    frames = value.shape[0] if leaf.frames else None
    return frames, value.shape[-1 if leaf.layout == "HWC" else -3], leaf.layout, value.dtype


def _traits_text(traits: tuple[int | None, int, str, Any]) -> str:
    frames, channels, layout, dtype = traits
    each = "" if frames is None else f"{frames} frames of "
    return f"{each}{channels} channels ({layout}) of {str(dtype).removeprefix('torch.')}"


def _alike(values: Sequence[Any]) -> bool:
    first = values[0]
    return all(v.shape == first.shape and v.dtype == first.dtype for v in values)


def _stacked(values: Sequence[Any]) -> Any:
    return torch.stack(list(values)) if isinstance(values[0], Tensor) else np.stack(values)


def _collated_target(leaf: Leaf) -> Tensor:
    """Return a sample's target as a tensor; Python numbers take torch's default dtype."""
    value = leaf.value
    if isinstance(value, Tensor):
        return value
    if not isinstance(leaf.like, (Tensor, np.ndarray)) and value.dtype == np.float64:
        return torch.from_numpy(value).to(torch.get_default_dtype())
    return shared_tensor(value)


def _as_tensor_of_numbers(value: Any) -> Any:
    """Return an array of numbers as a tensor, as default_collate() does; anything else as it is."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
        return value
    return shared_tensor(value)


def _collated_labels(values: list[Any], first: Leaf) -> Any:
    if first.per_box:
        return [_as_tensor_of_numbers(value) for value in values]
    if isinstance(first.value, (list, tuple)):
        return values
    try:
        return default_collate(values)
    except (TypeError, RuntimeError):
        return values
