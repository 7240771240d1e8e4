"""Labels of a batch: found in a sample as torchvision finds them, and mixed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..arguments import fail
from ..sample.leaf import Leaf

Getter = Callable[[Any], Any]


def check_getter(owner: str, getter: Any) -> Getter | None:
    """Check the argument `labels_getter`; return a function, or None for no labels."""
    if getter == "default":
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
        f"probabilities [{batch}, {classes}]"
    )
