"""Forward and backward through images, matrix and colour."""

from typing import Any

import torch
import torch.nn.functional as F
import visops
from bench.affine import backward_pair, noise, rotation
from bench.augmentation.one_warp import COLOR
from bench.augmentation.pictures import MEAN, STD, Size
from bench.harness import Case, Contender, case

SOURCE: Size = (224, 224)


def gradient_contenders(
    batch: int, target: Size, with_color: bool, device: str = "cpu"
) -> list[Contender]:
    """float32 [B, 3, 224, 224]; the matrix is destination -> source, one for each image."""
    image = noise(torch.float32, batch, SOURCE, "NCHW", device).detach().requires_grad_()
    inverse = visops.invert_affine(rotation(SOURCE, target))
    color = torch.from_numpy(COLOR).float().repeat(batch, 1, 1).to(device)
    color.requires_grad_(with_color)
    mean, std = (torch.tensor(v, device=device).view(1, 3, 1) for v in (MEAN, STD))

    def ours(image: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
        return visops.augment(
            image, matrix, target, color=color, mean=MEAN, std=STD, inverse_map=True
        )

    def theirs(image: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        warped = F.grid_sample(image, grid, "bilinear", "zeros", align_corners=True)
        # Colour and normalisation as one matrix product for each image.
        weights, offsets = color[:, :, :3] / std, (color[:, :, 3:] - mean) / std
        return torch.baddbmm(offsets, weights, warped.flatten(2)).view(warped.shape)

    options: dict[str, Any] = {"colors": [color], "amplitude": 1 / min(STD)}
    return backward_pair(ours, theirs, image, inverse, target, **options)


def cases(device: str = "cpu") -> list[Case]:
    """With and without the gradient of the colour matrix."""
    group = "forward + backward f32: images and matrix, colour and normalisation in between"
    sizes = ((1, SOURCE, False), (16, SOURCE, False), (16, SOURCE, True), (16, (112, 112), False))
    return [
        case(
            group,
            f"{batch}×224²{' → 112²' if target != SOURCE else ''}"
            f"{', gradient of colour' if with_color else ''}",
            gradient_contenders,
            *(batch, target, with_color, device),
            quick=batch == 1,
            device=device,
            images=batch,
        )
        for batch, target, with_color in sizes
    ]
