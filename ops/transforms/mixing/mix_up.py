"""MixUp: each image of a batch blended with another one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._torch.options import SampleBoxFormat
from ..arguments import fail, number, whole
from ..chain.integers import computed_in, rounded
from ..chain.operator_calls import per_image
from ..chain.operators import reject_dtype
from ..chain.random import DRAWS, beta
from ..sample.leaf import Leaf
from .base import Mixing, Params, mixed_samples, pictures
from .tiles import image_masks, join_pieces, lists_of_things, pieces_of

Getter = Callable[[Any], Any]


def check_getter(owner: str, getter: Any) -> Getter | None:
    """Check the argument `labels_getter`; return a function, or None for no labels."""
    if isinstance(getter, str) and getter == "default":
        return _default
    if getter is not None and not callable(getter):
        fail(owner, "labels_getter", getter, "'default', a callable or None", TypeError)
    return getter  # type: ignore[no-any-return]


def _default(sample: Any) -> Any:
    """Return the second entry of a tuple, or what a dict has under a name with "label"."""
    if isinstance(sample, (tuple, list)):
        sample = sample[1] if len(sample) > 1 else None
    if not isinstance(sample, Mapping):
        return sample
    names = [key for key in sample if isinstance(key, str)]
    exact = [key for key in names if key.lower() == "labels"]
    similar = [key for key in names if "label" in key.lower()]
    return sample[(exact or similar)[0]] if similar else None


def labels_leaf(owner: str, getter: Getter, sample: Any, leaves: Sequence[Leaf]) -> Leaf:
    """Return the leaf that holds a batch's labels."""
    found = getter(sample)
    for leaf in leaves:
        if found is not None and leaf.kind in ("labels", "other") and leaf.value is found:
            return leaf
    raise ValueError(
        f"visops.transforms.{owner}: found no labels in the sample, a {type(sample).__name__}; "
        "must be (images, labels) or a dict with 'labels', or labels_getter= must return what "
        "holds them (None: there are none)"
    )


def mixed_labels(
    owner: str, leaf: Leaf, weights: Sequence[float], num_classes: int | None
) -> Tensor:
    """Mix each sample's labels with those of the sample before it.

    Parameters
    ----------
    owner : str
    leaf : Leaf
        Classes ``[B]``, or probabilities ``[B, num_classes]``.
    weights : sequence of B floats
        The share of each sample's own labels.
    num_classes : int, optional
        Must be given for classes.

    Returns
    -------
    Tensor, floating ``[B, num_classes]``
    """
    labels = _as_probabilities(owner, leaf, len(weights), num_classes)
    own = torch.tensor(weights, dtype=torch.float64, device="cpu").unsqueeze(1)
    own, other = (w.to(labels.device, labels.dtype) for w in (own, 1.0 - own))
    return labels * own + labels.roll(1, 0) * other


def _as_probabilities(owner: str, leaf: Leaf, batch: int, num_classes: int | None) -> Tensor:
    value = leaf.value
    if not isinstance(value, (Tensor, np.ndarray, list, tuple)):
        _reject(owner, leaf, f"is a {type(value).__name__}", batch, num_classes)
    try:
        labels = (
            value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value), device="cpu")
        )
    except (TypeError, ValueError):
        _reject(owner, leaf, f"is a {type(value).__name__}", batch, num_classes)
    labels = labels.as_subclass(Tensor)
    if labels.dim() not in (1, 2) or labels.shape[0] != batch:
        _reject(owner, leaf, f"has shape {list(labels.shape)}", batch, num_classes)
    if labels.dim() == 2:
        if num_classes is not None and labels.shape[1] != num_classes:
            _reject(owner, leaf, f"has shape {list(labels.shape)}", batch, num_classes)
        return labels if labels.is_floating_point() else labels.float()
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        _reject(owner, leaf, f"has dtype {labels.dtype}", batch, num_classes)
    if num_classes is None:
        raise ValueError(
            f"visops.transforms.{owner}: num_classes is None, must be given where labels are "
            f"classes, as {leaf.name} is"
        )
    if labels.device.type == "cpu":
        wrong = (labels < 0) | (labels >= num_classes)
        if wrong.any():
            index = int(wrong.nonzero()[0])
            raise ValueError(
                f"visops.transforms.{owner}: {leaf.name}[{index}] is {int(labels[index])}, must be "
                f"from 0 to {num_classes - 1}"
            )
    classes = torch.arange(num_classes, device=labels.device)
    return (labels.unsqueeze(1) == classes).float()


def _reject(owner: str, leaf: Leaf, problem: str, batch: int, num_classes: int | None) -> None:
    classes = "num_classes" if num_classes is None else num_classes
    raise ValueError(
        f"visops.transforms.{owner}: {leaf.name} {problem}, must be classes [{batch}] or "
        f"probabilities [{batch}, {classes}] of {batch} images (videos must be tv_tensors.Video)"
    )


CLASSES = "a whole number >= 1, or None where labels are probabilities"


class Pairing(Mixing):
    """What MixUp and CutMix have in common: pairs of samples, and labels for both."""

    def __init__(
        self,
        alpha: float,
        num_classes: int | None,
        labels_getter: Any,
        seed: int | None,
        keys: Mapping[str, Sequence[str]] | None,
        box_format: SampleBoxFormat,
        p: float,
    ) -> None:
        super().__init__(seed, keys, box_format, p, stacks=True)
        owner = type(self).__name__
        self.alpha = number(owner, "alpha", alpha, 1e-3, 1e6, "a number in [0.001, 1e6]")
        self.num_classes = None
        if num_classes is not None:
            self.num_classes = whole(owner, "num_classes", num_classes, 1, CLASSES)
        self.labels_getter = labels_getter
        self._getter = check_getter(owner, labels_getter)

    def shares(self, uniforms: np.ndarray) -> np.ndarray:
        """Draw each sample's share of itself, from ``[B, DRAWS]``."""
        return np.array([beta(row, self.alpha) for row in uniforms.tolist()], np.float64)

    def mix_labels(
        self, leaves: Sequence[Leaf], weights: np.ndarray, sample: Callable[[], Any]
    ) -> None:
        """Mix the labels of the images; labels of boxes stay what they are."""
        of_boxes = any(leaf.kind == "boxes" for leaf in leaves)
        if self._getter is None or (of_boxes and self._getter is _default):
            return
        owner = type(self).__name__
        leaf = labels_leaf(owner, self._getter, sample(), leaves)
        mixed = mixed_labels(owner, leaf, weights.tolist(), self.num_classes)
        leaf.value = mixed.numpy() if isinstance(leaf.value, np.ndarray) else mixed

    def extra_repr(self) -> str:
        rest = "" if self.p == 1.0 else f", p={self.p:g}"
        return f"alpha={self.alpha:g}, num_classes={self.num_classes}{rest}"


def pairs(batch: int) -> list[int]:
    """Return, for each sample in turn, itself and the one before it."""
    return [position for sample in range(batch) for position in (sample, (sample - 1) % batch)]


class MixUp(Pairing):
    r"""Blend each image of a batch with the previous one, and mix their labels.

    Names and arguments match torchvision's. Every sample draws its own share :math:`\lambda`, where
    torchvision draws one for the batch: sample b becomes
    :math:`\lambda_b x_b + (1 - \lambda_b) x_{b-1}`. Sample 0 is blended with the last one, so
    shuffle the data set.

    Parameters
    ----------
    alpha : float
        Both parameters of the Beta distribution from which the shares are drawn.
    num_classes : int, optional
        Number of classes. May be left out where labels are probabilities already.
    labels_getter : {"default"} or callable or None
        Finds the labels in the batch: classes ``[B]`` or probabilities ``[B, num_classes]``. By
        default, the second entry of a tuple, or what a dict has under "labels", or else under a
        name with "label"; a batch with boxes has none. A callable is given the batch. None: the
        batch has no labels.
    seed : int, optional
        As for :class:`Compose`.
    keys : mapping of str to sequence of str, optional
        As for :class:`Compose`.
    box_format : str, default "xyxy"
        As for :class:`Compose`.
    p : float
        Probability that a sample is blended; others stay as they are.

    Raises
    ------
    TypeError, ValueError
        An argument is wrong; the sample is not a batch, its images differ in size, or it has no
        labels; a label is not a class (checked on the CPU only); there is a mask of the image.

    Notes
    -----
    If the sample has boxes or key points, each image gets its own and then those of the previous
    image, along with the labels of boxes, instance masks, key points and polygons.
    Nothing is weighted, and all of them come out as lists. A mask with a class for each pixel can't
    be blended, and raises an error.

    Images are integers or floating. They are blended in float32, in float64 for float64, int32 and
    int64. Integers are rounded half to even and saturate; those of int64 beyond 2**53 are rounded
    to float64's numbers first.

    Parameters of a call: ``lam``, and ``mixed`` where `p` is less than 1. Source: H. Zhang et al.,
    "mixup: Beyond Empirical Risk Minimization", ICLR 2018.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> images, labels = torch.rand(8, 3, 32, 32), torch.arange(8)
    >>> mixed, probabilities = transforms.MixUp(num_classes=10)(images, labels)
    >>> mixed.shape, probabilities.shape
    (torch.Size([8, 3, 32, 32]), torch.Size([8, 10]))
    >>> bool((probabilities.sum(1) - 1).abs().max() < 1e-6)
    True
    """

    draws = DRAWS

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        num_classes: int | None = None,
        labels_getter: Any = "default",
        seed: int | None = None,
        keys: Mapping[str, Sequence[str]] | None = None,
        box_format: SampleBoxFormat = "xyxy",
        p: float = 1.0,
    ) -> None:
        super().__init__(alpha, num_classes, labels_getter, seed, keys, box_format, p)

    def draw(self, uniforms: np.ndarray, sizes: np.ndarray) -> dict[str, np.ndarray]:
        return {"lam": self.shares(uniforms)}

    def mix(
        self, leaves: Sequence[Leaf], params: Params, sizes: np.ndarray, sample: Callable[[], Any]
    ) -> None:
        mixed = mixed_samples(params, len(sizes))
        weights = np.where(mixed, np.asarray(params["lam"], np.float64), 1.0)
        things = lists_of_things("MixUp", leaves)
        for leaf in image_masks(leaves, things):
            raise ValueError(
                f"visops.transforms.MixUp: {leaf.name} is a mask of the image, and classes can't "
                "be blended; must be left out (CutMix and Mosaic take masks)"
            )
        self.mix_labels(leaves, weights, sample)
        for leaf in leaves:
            if leaf.kind == "image":
                _blend(leaf, weights.tolist(), mixed)
        if things and len(sizes) > 0:
            join_pieces(things, pieces_of(things, pairs(len(sizes))), 2, mixed)


def _blend(leaf: Leaf, weights: Sequence[float], mixed: np.ndarray) -> None:
    images, pixels = pictures(leaf)
    dtype = reject_dtype(leaf, pixels.dtype)
    if pixels.on_cpu or pixels.listed or not weights:
        # Image by image: what is added stays in the cache.
        results = [
            _mixed(images[index], images[index - 1], share, 1.0 - share, dtype)
            if mixed[index]
            else images[index]
            for index, share in enumerate(weights)
        ]
        pixels.store(leaf, torch.cat(results) if results else pixels.tensors(leaf))
        return
    tensors, shares = pixels.tensors(leaf), np.repeat(weights, pixels.frames)
    own, other = per_image(np.stack((shares, 1.0 - shares)), computed_in(dtype), pixels.device)
    blended = _mixed(tensors, tensors.roll(pixels.frames, 0), own, other, dtype)
    if not mixed.all():  # 0 times infinity is no number
        flags = torch.from_numpy(mixed.repeat(pixels.frames)).to(pixels.device)
        blended = torch.where(flags.view(-1, 1, 1, 1), blended, tensors)
    pixels.store(leaf, blended)


def _mixed(own: Tensor, other: Tensor, share: Any, rest: Any, dtype: torch.dtype) -> Tensor:
    computed = computed_in(dtype)
    mixed = own.to(computed).mul(share).add_(other.to(computed).mul(rest))
    if dtype.is_floating_point:
        return mixed.to(dtype)
    if computed is torch.float64:  # int64's limits are not among its numbers
        return rounded(mixed, dtype)
    return mixed.round_().to(dtype)  # a mean lies between its numbers
