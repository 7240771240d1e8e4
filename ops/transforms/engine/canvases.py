"""One size for all results of a batch."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..sample.leaf import Leaf


def stack_images(images: Sequence[Leaf], sizes: np.ndarray, form: torch.memory_format) -> None:
    """Stack the lists that unfused transforms leave into batches, in the form that is wanted."""
    for leaf in images:
        if isinstance(leaf.value, list):
            if (sizes != sizes[0]).any():
                reject_sizes(sizes)
            leaf.value = torch.stack(leaf.value)
        if form is torch.channels_last and leaf.layout == "CHW" and isinstance(leaf.value, Tensor):
            leaf.value = leaf.value.movedim(-3, -1).contiguous().movedim(-1, -3)


def reject_sizes(sizes: np.ndarray) -> None:
    """Raise the error of samples that come out with different sizes."""
    index = int((sizes != sizes[0]).any(1).argmax())
    raise ValueError(
        f"visops.transforms.Compose: sample 0 comes out with {sizes[0, 0]} rows and {sizes[0, 1]} "
        f"columns, sample {index} with {sizes[index, 0]} and {sizes[index, 1]}; must be the same "
        "in a batch (end with Resize((height, width)) or CenterCrop)"
    )
