"""Untrained detectors, and photos for them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

data = pytest.importorskip("skimage.data")

SMALL: dict[str, Any] = {"num_classes": 11, "min_size": 96, "max_size": 128}

# Standard deviations of the last layers' outputs.
SPREAD = {"cls_logits": 2.0, "cls_score": 2.0, "bbox_pred": 0.5, "bbox_reg": 0.5}


def untrained(make: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    """A detector with random weights whose last layers give varied scores and boxes."""
    torch.manual_seed(0)
    model = make().eval().requires_grad_(False)

    def spread(width: float) -> Callable[[Any, Any, Tensor], Tensor]:
        return lambda _, __, values: (values - values.mean()) * (width / values.std())

    for name, module in model.named_modules():
        width = SPREAD.get(name.rpartition(".")[2])
        if width is not None:
            module.register_forward_hook(spread(width))
    return model


def photos() -> list[Tensor]:
    """Two photos of different sizes."""
    photo = torch.from_numpy(data.astronaut()).permute(2, 0, 1) / 255
    return [photo[:, ::2, ::2], photo[:, 100:300, 50:400]]
