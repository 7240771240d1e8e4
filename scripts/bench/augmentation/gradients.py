"""Forward and backward through images and matrix."""

import torch
import torch.nn.functional as F
import visops
from bench.affine import backward_pair, noise, rotation
from bench.augmentation.one_warp import COLOR
from bench.augmentation.pictures import MEAN, STD, Size
from bench.harness import Case, Contender, rows

SIZE: Size = (224, 224)


def gradient_contenders(batch: int, device: str) -> list[Contender]:
    """float32 [B, 3, 224, 224]; the matrix is destination -> source, one for each image."""
    image = noise(torch.float32, batch, SIZE, "NCHW", device).detach().requires_grad_()
    inverse = visops.invert_affine(rotation(SIZE))
    color = torch.from_numpy(COLOR).float().repeat(batch, 1, 1).to(device)
    mean, std = (torch.tensor(v, device=device).view(1, 3, 1) for v in (MEAN, STD))

    def ours(image: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
        return visops.augment(
            image, matrix, SIZE, color=color, mean=MEAN, std=STD, inverse_map=True
        )

    def theirs(image: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        warped = F.grid_sample(image, grid, "bilinear", "zeros", align_corners=True)
        # Colour and normalisation as one matrix product for each image.
        weights, offsets = color[:, :, :3] / std, (color[:, :, 3:] - mean) / std
        return torch.baddbmm(offsets, weights, warped.flatten(2)).view(warped.shape)

    return backward_pair(ours, theirs, image, inverse, SIZE, amplitude=1 / min(STD))


def cases(device: str = "cpu") -> list[Case]:
    """One image and a batch."""
    group = "forward + backward f32: images and matrix, colour and normalisation in between"
    found = []
    for batch in (1, 16):
        table = {f"{batch}×224²": (batch, device)}
        found += rows(group, gradient_contenders, table, "^1×", device=device, images=batch)
    return found
