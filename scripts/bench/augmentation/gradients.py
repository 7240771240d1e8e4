"""Forward and backward through images, matrix and colour."""

import torch
import torch.nn.functional as F
import visops
from bench.affine import GRADIENT, noise, normaliser, theta_of
from bench.augmentation.one_warp import COLOR, rotation
from bench.augmentation.pictures import MEAN, STD, Size
from bench.harness import Case, Contender, case

SOURCE: Size = (224, 224)


def gradient_contenders(
    batch: int, target: Size, with_color: bool, device: str = "cpu"
) -> list[Contender]:
    """float32 [B, 3, 224, 224]; the matrix is destination -> source, one for each image."""
    image = noise(torch.float32, batch, SOURCE, "NCHW", device).detach().requires_grad_()
    grad = noise(torch.float32, batch, target, "NCHW", device).detach() - 0.5
    inverse = visops.invert_affine(rotation(SOURCE, target))
    theta = theta_of(inverse, SOURCE, target).repeat(batch, 1, 1).to(device).requires_grad_()
    matrix = inverse.float().repeat(batch, 1, 1).to(device).requires_grad_()
    color = torch.from_numpy(COLOR).float().repeat(batch, 1, 1).to(device)
    color.requires_grad_(with_color)
    mean, std = (torch.tensor(v, device=device).view(1, 3, 1) for v in (MEAN, STD))
    shape = [batch, 3, *target]
    left = normaliser(SOURCE).T.float().to(device)
    right = torch.linalg.inv(normaliser(target)).T.float().to(device)
    # Entries of the matrix gradient sum terms as large as a coordinate over all pixels.
    walk = (3 * target[0] * target[1]) ** 0.5 / min(STD)
    weight = torch.tensor([target[1], target[0], 1.0], device=device) * walk

    def results(output: torch.Tensor, leaf: torch.Tensor) -> tuple[torch.Tensor, ...]:
        inputs = [image, leaf, color] if with_color else [image, leaf]
        return (output.detach(), *torch.autograd.grad(output, inputs, grad))

    def ours() -> tuple[torch.Tensor, ...]:
        output = visops.augment(
            image, matrix, target, color=color, mean=MEAN, std=STD, inverse_map=True
        )
        return results(output, matrix)

    def theirs() -> tuple[torch.Tensor, ...]:
        grid = F.affine_grid(theta, shape, align_corners=True)
        warped = F.grid_sample(image, grid, "bilinear", "zeros", align_corners=True)
        # Colour and normalisation as one matrix product for each image.
        weights, offsets = color[:, :, :3] / std, (color[:, :, 3:] - mean) / std
        return results(torch.baddbmm(offsets, weights, warped.flatten(2)).view(shape), theta)

    def scaled(result: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        image_grads, rest = result[:2], result[3:]
        return (*image_grads, result[2] / weight, *(g / walk for g in rest))

    def to_matrix(result: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return scaled((*result[:2], left[:2, :2] @ result[2] @ right, *result[3:]))

    return [
        Contender("visops", ours, comparable=scaled),
        Contender(
            "affine_grid + grid_sample",
            theirs,
            GRADIENT,
            floor=2.0 if device == "cpu" else None,
            comparable=to_matrix,
        ),
    ]


def cases(device: str = "cpu") -> list[Case]:
    """With and without the gradient of the colour matrix."""
    return [
        case(
            "forward + backward f32: images and matrix, colour and normalisation in between",
            f"{batch}×224²{' → 112²' if target != SOURCE else ''}"
            f"{', gradient of colour' if with_color else ''}",
            gradient_contenders,
            *(batch, target, with_color, device),
            quick=batch == 1 and target == SOURCE,
            device=device,
            images=batch,
        )
        for batch, target, with_color in (
            (1, SOURCE, False),
            (16, SOURCE, False),
            (16, SOURCE, True),
            (16, (112, 112), False),
        )
    ]
