"""Transforms of whole images by a matrix, and of videos by their frames."""

from collections.abc import Mapping
from typing import Any

import torch

from ..._torch.autocast import full_product
from ..arguments import fail, whole
from ..base import Transform
from ..chain.effects import Effects
from ..chain.operators import Pixels
from ..chain.plan import Plan, evenly
from ..sample.leaf import Leaf
from ..targets.options import TargetOptions

__all__ = ["LinearTransformation", "UniformTemporalSubsample"]


class _Alone(Transform):
    """Joins no pass and draws nothing."""

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        """Add nothing: it joins no pass."""


class LinearTransformation(_Alone):
    """Multiply the flattened image, less its mean, by a matrix: whitening.

    torchvision's transform of this name.

    Parameters
    ----------
    transformation_matrix : Tensor ``[D, D]``
        D is C x H x W of the images.
    mean_vector : Tensor ``[D]``

    Raises
    ------
    TypeError, ValueError
        The image is not floating, or of another size.

    Notes
    -----
    A matrix product of torch's: results may depend on the size of the batch in the last bits.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> double = transforms.LinearTransformation(2.0 * torch.eye(4), torch.ones(4))
    >>> double(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
    tensor([[[0., 2.],
             [4., 6.]]])
    """

    def __init__(self, transformation_matrix: torch.Tensor, mean_vector: torch.Tensor) -> None:
        super().__init__()
        owner = "LinearTransformation"
        shape = tuple(transformation_matrix.shape)
        if len(shape) != 2 or shape[0] != shape[1]:
            fail(owner, "transformation_matrix", list(shape), "of shape [D, D]")
        if tuple(mean_vector.shape) != shape[:1]:
            fail(owner, "mean_vector", list(mean_vector.shape), f"of shape [{shape[0]}]")
        self.transformation_matrix = transformation_matrix
        self.mean_vector = mean_vector

    def extra_repr(self) -> str:
        return f"transformation_matrix={list(self.transformation_matrix.shape)}"

    def effects(self) -> Effects:
        return Effects(alone="it mixes all values of an image")

    def run_images(self, leaf: Leaf, params: Mapping[str, Any]) -> None:
        pixels = Pixels(leaf)
        if not pixels.dtype.is_floating_point:
            raise TypeError(
                f"visops.transforms.LinearTransformation: {leaf.name} has dtype {pixels.dtype}, "
                "must be floating"
            )
        images = pixels.tensors(leaf)
        moved = []
        for image in images:
            if image.numel() != len(self.mean_vector):
                raise ValueError(
                    f"visops.transforms.LinearTransformation: {leaf.name} has shape "
                    f"{list(image.shape)}, must have {len(self.mean_vector)} values"
                )
            own = {"device": image.device, "dtype": image.dtype}
            flat = image.reshape(1, -1) - self.mean_vector.to(**own)
            found = full_product(flat, self.transformation_matrix.to(**own))
            moved.append(found.view(image.shape))
        pixels.store(leaf, moved if pixels.listed else torch.stack(moved))


class UniformTemporalSubsample(_Alone):
    """Keep so many frames of a video, evenly spaced from the first to the last.

    torchvision's transform of this name.

    Parameters
    ----------
    num_samples : int
        May be more than there are; frames repeat then.

    Raises
    ------
    TypeError
        The sample's image is no video, or there are targets beside it.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> thin = transforms.Compose([transforms.UniformTemporalSubsample(3)], per_frame=False)
    >>> thin(torch.arange(5.0).reshape(5, 1, 1, 1)).flatten()
    tensor([0., 2., 4.])
    """

    def __init__(self, num_samples: int) -> None:
        super().__init__()
        owner, allowed = "UniformTemporalSubsample", "a whole number >= 1"
        self.num_samples = whole(owner, "num_samples", num_samples, 1, allowed)

    def effects(self) -> Effects:
        return Effects(alone="it drops frames")

    def run_leaves(self, leaves: Any, params: Mapping[str, Any], options: TargetOptions) -> None:
        for leaf in leaves:
            if leaf.kind in ("mask", "boxes", "keypoints", "polygons"):
                raise TypeError(
                    f"visops.transforms.UniformTemporalSubsample: {leaf.name} would keep all "
                    "of its frames; must be left out"
                )
            if leaf.kind == "image":
                self.run_images(leaf, params)

    def run_images(self, leaf: Leaf, params: Mapping[str, Any]) -> None:
        if not leaf.frames:
            raise TypeError(
                f"visops.transforms.UniformTemporalSubsample: {leaf.name} is no video, must be a "
                "tv_tensors.Video or come with Compose(per_frame=False)"
            )
        pixels = Pixels(leaf)
        images = pixels.tensors(leaf)
        last = pixels.frames - 1
        positions = evenly(0, last, self.num_samples).clamp(0, last).long().tolist()
        count = len(images) // pixels.frames
        kept = [
            sample * pixels.frames + position for sample in range(count) for position in positions
        ]
        pixels.frames = self.num_samples
        pixels.store(leaf, [images[i] for i in kept] if pixels.listed else images[kept])
