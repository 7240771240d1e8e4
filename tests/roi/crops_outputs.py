"""What the kernels of crops and of pasting compute: run once per backend and compared."""

import itertools
from collections.abc import Iterator

import numpy as np
import torch
import visops
from torch import Tensor
from warp.affine_cases import COPIED, FLOATING, INTERPOLATED, LAYOUTS, PADDINGS, modes_of

from roi.crops_cases import BLENDS, all_boxes, images_of, paste_options, random_boxes

SHAPES = ((2, 3, 23, 31), (2, 1, 20, 140), (1, 4, 9, 33), (2, 6, 12, 18))
SIZES = ((6, 7), (3, 150), (25, 33))


def bytes_of(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().contiguous().view(torch.uint8).numpy()


def boxes_for(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> Tensor:
    some = all_boxes(torch.float64, shape[0])
    more = torch.from_numpy(random_boxes(np.random.default_rng(seed), 9, shape))
    whole = torch.tensor([[0, 1, 1, 8, 7], [0, -0.5, -0.5, 17.5, 11.5]], dtype=torch.float64)
    return torch.cat([some, more, whole]).to(dtype)


def crops(device: str) -> Iterator[tuple[str, np.ndarray]]:
    """Values, and gradients of images and boxes."""
    taking_turns = zip(
        itertools.cycle(LAYOUTS.items()),
        itertools.cycle(SHAPES),
        itertools.cycle(SIZES),
        itertools.cycle((torch.float32, torch.float64, torch.float16)),
        strict=False,
    )
    combinations = [(d, m, p) for d in INTERPOLATED + COPIED for m in modes_of(d) for p in PADDINGS]
    for seed, ((dtype, mode, padding_mode), turn) in enumerate(
        zip(combinations, taking_turns, strict=False)
    ):
        (layout, laid_out), shape, size, boxes_dtype = turn
        images = laid_out(images_of(dtype, seed, shape)).to(device)
        boxes = boxes_for(shape, boxes_dtype, seed).to(device)
        if dtype in FLOATING:
            images.requires_grad_()
            boxes.requires_grad_()
        found = visops.crop_rois(
            images, boxes, size, interpolation=mode, padding_mode=padding_mode, fill=1
        )
        name = f"crop-{dtype}-{mode}-{padding_mode}-{layout}-{shape}-{size}"
        yield name, bytes_of(found)
        if dtype not in FLOATING:
            continue
        grad = (images_of(torch.float64, seed + 1, tuple(found.shape)) - 0.5).to(dtype)
        grads = torch.autograd.grad(found, (images, boxes), laid_out(grad).to(device))
        yield f"{name}-images", bytes_of(grads[0])
        if mode != "nearest":
            yield f"{name}-boxes", bytes_of(grads[1])


def pastes(device: str) -> Iterator[tuple[str, np.ndarray]]:
    """Values, and gradients of images, patches and alpha."""
    layouts = itertools.cycle(itertools.permutations(LAYOUTS.items(), 2))
    shapes, sizes = itertools.cycle(SHAPES), itertools.cycle(SIZES)
    for seed, (dtype, mode, blend) in enumerate(
        itertools.product(INTERPOLATED, ("nearest", "bilinear", "bicubic"), BLENDS)
    ):
        (layout, of_images), (_, of_patches) = next(layouts)
        shape, size = next(shapes), next(sizes)
        boxes = boxes_for(shape, torch.float32, seed).to(device)
        if blend != "alpha":  # leave some of the image in sight
            larger = (boxes[:, 3] - boxes[:, 1] > 25) | (boxes[:, 4] - boxes[:, 2] > 15)
            boxes = boxes[~larger]
        images = of_images(images_of(dtype, seed, shape)).to(device)
        patches = images_of(dtype, seed + 1, (len(boxes), shape[1], *size))
        double = torch.float64 if dtype == torch.float64 else torch.float32
        options = paste_options(blend, patches, seed, double)
        alpha = options.pop("alpha", None)
        leaves = [images, of_patches(patches).to(device)]
        if alpha is not None:
            leaves.append(alpha.to(device))
        if dtype in FLOATING:
            leaves = [t.requires_grad_() for t in leaves]
        weights = leaves[2] if alpha is not None else None
        found = visops.paste_rois(
            leaves[0], leaves[1], boxes, alpha=weights, interpolation=mode, **options
        )
        name = f"paste-{dtype}-{mode}-{blend}-{layout}-{shape}-{size}"
        yield name, bytes_of(found)
        if dtype in FLOATING:
            grad = (images_of(torch.float64, seed + 2, shape) - 0.5).to(dtype)
            grads = torch.autograd.grad(found, leaves, of_images(grad).to(device))
            for part, gradient in zip(("images", "patches", "alpha"), grads, strict=False):
                yield f"{name}-{part}", bytes_of(gradient)


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Yield names and bytes for every dtype, interpolation, padding and blend; the rest rotates."""
    yield from crops(device)
    yield from pastes(device)


def check(found: dict[str, np.ndarray]) -> None:
    """Check that there are many cases, none of them blank."""
    assert len(found) > 350
    assert all(len(np.unique(v)) > 1 for name, v in found.items() if "bool" not in name)
