"""Pasted masks and their gradients, to compare between kernels."""

from collections.abc import Iterator

import numpy as np
import torch
import visops

from masks.paste_cases import CONVENTIONS, MASK_SIZES, boxes, probabilities

DTYPES = (torch.float32, torch.float16, torch.float64, torch.bfloat16)
SIZES = ((23, 31), (6, 129), (40, 300), (9, 64))


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Names and results of all conventions, forms and dtypes."""
    for i, size in enumerate(SIZES):
        scale = torch.tensor([size[1] / 31, size[0] / 23] * 2, dtype=torch.float64)
        for j, options in enumerate(CONVENTIONS):
            for k, mask_size in enumerate(MASK_SIZES):
                dtype = DTYPES[(i + j + k) % len(DTYPES)]
                masks = probabilities(size=mask_size, seed=i).to(device, dtype)
                masks.requires_grad_()
                where = (boxes(torch.float64) * scale).to(device)
                name = f"{size}-{mask_size}-{dtype}-{options}"
                found = visops.paste_masks(masks, where, size, out="float", **options)
                yield f"numbers-{name}", found.detach().cpu().double().numpy()
                # Sines of the CPU: a GPU's differ in the last bit.
                grad = torch.sin(torch.arange(found.numel())).to(device, dtype)
                (gradient,) = torch.autograd.grad(found, masks, grad.reshape(found.shape))
                yield f"gradient-{name}", gradient.cpu().double().numpy()
                inside = visops.paste_masks(masks.detach(), where, size, **options)
                yield f"bool-{name}", inside.cpu().numpy()
                packed = visops.paste_masks(masks.detach(), where, size, out="packed", **options)
                yield f"packed-{name}", packed.bits.cpu().numpy()


def check(found: dict[str, np.ndarray]) -> None:
    """There are that many cases, and most have pixels and gradients."""
    assert len(found) > 300
    assert np.mean([array.any() for array in found.values()]) > 0.95
