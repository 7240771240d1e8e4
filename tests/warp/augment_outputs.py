"""Everything that the augmentation's kernels compute, as bytes: run per backend and compared."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import visops
from references.affine import random_matrix
from torch import Tensor

from warp.affine_cases import LAYOUTS, PADDINGS, random_image
from warp.affine_outputs import LAID_OUT, bytes_of, tall_problem
from warp.augment_cases import (
    DTYPES,
    SAMPLERS,
    name_of,
    random_color,
    random_erase,
    random_perspective,
    random_window,
)

SIZE = (6, 150)
HEIGHT, WIDTH = 18, 41
STEPS = (1, 0, 3)
FILTERS = ("bilinear", "bicubic", "lanczos")


def aligned(
    rng: np.random.Generator, height: int, width: int, size: Any, *, scale: tuple[float, float]
) -> np.ndarray:
    """A resize and perhaps a flip, as random_matrix otherwise."""
    sx, sy = rng.uniform(*scale, 2) * rng.choice([-1, 1], 2)
    x, y = (size[1] - 1) / 2 - sx * (width - 1) / 2, (size[0] - 1) / 2 - sy * (height - 1) / 2
    return np.array([[sx, 0, x], [0, sy, y]])


def problem(rng: np.random.Generator, number: int, channels: int) -> dict[str, Any]:
    """Parameters of three samples; what a problem has goes by its number."""
    scales = (0.15, 0.8, 3.0)
    draw = (aligned, random_perspective, random_matrix)[number % 3]
    matrices = [draw(rng, HEIGHT, WIDTH, SIZE, scale=(s, 1.3 * s)) for s in scales]
    steps = STEPS[number % 3] if channels <= 4 else 0
    window = [random_window(rng, HEIGHT, WIDTH) for _ in scales] if number % 5 in (0, 3) else None
    return {
        "matrix": np.stack(matrices),
        "window": None if window is None else np.stack(window),
        "color": np.stack([random_color(rng, steps, channels) for _ in scales]) if steps else None,
        "clamp": number % 4 == 1,
        "mean": 0.4 if number % 2 else None,
        "std": 0.3 if number % 2 else None,
        "fill": 1.0,
        "erase": np.stack([random_erase(rng, 2, SIZE) for _ in scales])
        if number % 4 == 2
        else None,
        "inverse_map": False,
    }


def gradients(
    result: Tensor, leaves: dict[str, Tensor], rng: np.random.Generator
) -> Iterator[tuple[str, np.ndarray]]:
    incoming = torch.from_numpy(rng.standard_normal(tuple(result.shape)))
    needed = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}
    grads = torch.autograd.grad(
        result, list(needed.values()), incoming.to(device=result.device, dtype=result.dtype)
    )
    for name, grad in zip(needed, grads, strict=True):
        yield name, bytes_of(grad.cpu())


def integers(device: str) -> Iterator[tuple[str, np.ndarray]]:
    """antialias of uint8, upright."""
    rng = np.random.default_rng(1)
    out_dtypes = (torch.uint8, torch.uint8, torch.float32, torch.float16)
    for number, (channels, strides) in enumerate(LAID_OUT * 2):
        mode = FILTERS[number % 3]
        image = LAYOUTS[strides](random_image(rng, (3, channels, 70, 130), torch.uint8)).to(device)
        scales = (0.07, 0.4, 1.1)
        matrix = [aligned(rng, 70, 130, SIZE, scale=(s, 1.3 * s)) for s in scales]
        result = visops.augment(
            image,
            torch.from_numpy(np.stack(matrix)).to(device),
            SIZE,
            mode=mode,
            antialias=True,
            fill=50.0,
            out_dtype=out_dtypes[number % 4],
            memory_format=(torch.contiguous_format, torch.channels_last)[number // 2 % 2],
            layout="CHW",
        )
        yield f"integers-{number}-{channels}-{strides}-{mode}", bytes_of(result.cpu())


def upright_maps(rng: np.random.Generator, size: tuple[int, int]) -> list[np.ndarray]:
    """Upright maps of all kinds, between others: [3, 3], destination to source."""
    maps = []
    scales = ((3.2, 2.4), (-1.7, 34.0), (43.0, -0.9), (1.005, 0.4), (0.3, 0.45), (11.0, -12.0))
    for sx, sy in scales:
        x, y = rng.uniform(-0.2, 0.2, 2) * [WIDTH, HEIGHT]
        x, y = x + WIDTH * (sx < 0), y + HEIGHT * (sy < 0)
        maps.append(np.array([[sx, 0, x], [0, sy, y], [0, 0, 1]]))
    turned = np.array([[2.1, 0.7, 3], [-0.6, 2.3, 9], [0, 0, 1]])
    flat = np.array([[0.1, 0, 5], [0, 2, 0.5], [0, 0.4 / size[0], 1]])
    # A copy, a flip without a fraction, and numbers that divide to a shrinking.
    copies = [np.diag([1.0, 1, 1]), np.array([[-1.0, 0, WIDTH - 1], [0, 1, 2], [0, 0, 1]])]
    scaled = np.diag([0.5, -1.0, -0.25])
    return [maps[0], turned, *maps[1:], *copies, flat, scaled]


def upright(device: str) -> Iterator[tuple[str, np.ndarray]]:
    """antialias where a batch has upright maps and others: whole tiles, and parts of them."""
    rng = np.random.default_rng(2)
    sizes = ((17, 65), (1, 1), (1, 130), (33, 3), (6, 70))
    cases = [(d, m, p) for d in DTYPES for m in FILTERS for p in PADDINGS]
    for number, (dtype, mode, padding_mode) in enumerate(cases):
        channels, strides = LAID_OUT[number % len(LAID_OUT)]
        size = sizes[(number + number // len(PADDINGS)) % len(sizes)]  # each with every padding
        maps = np.stack(upright_maps(rng, size))
        image = random_image(rng, (len(maps), channels, HEIGHT * 8, WIDTH), dtype)
        maps[1::3, 1] *= 8  # these are as high
        color = (
            random_color(rng, 2, channels)[None].repeat(len(maps), 0) if number % 2 == 0 else None
        )
        erase = np.stack([random_erase(rng, 2, size) for _ in maps]) if number % 3 == 0 else None
        window = np.array([random_window(rng, 8 * HEIGHT, WIDTH) for _ in maps])
        options: dict[str, Any] = {
            "window": torch.from_numpy(window).to(device) if number % 4 == 0 else None,
            "color": None if color is None else torch.from_numpy(color).to(device),
            "erase": None if erase is None else torch.from_numpy(erase).to(device),
        }
        result = visops.augment(
            LAYOUTS[strides](image).to(device),
            torch.from_numpy(maps).to(device),
            size,
            mode=mode,
            antialias=True,
            padding_mode=padding_mode,
            fill=0.75,
            inverse_map=True,
            memory_format=(torch.contiguous_format, torch.channels_last)[number // 2 % 2],
            layout="CHW",
            **options,
        )
        name = f"upright-{name_of(dtype)}-{channels}-{strides}-{mode}-{padding_mode}"
        # A single pixel has strides of its own.
        yield name, bytes_of(result.cpu().clone(memory_format=torch.contiguous_format))


def empty_window(device: str) -> Iterator[tuple[str, np.ndarray]]:
    """A sample without a pixel, after others that fill their output."""
    rng = np.random.default_rng(3)
    image = random_image(rng, (3, 3, 8 * HEIGHT, WIDTH), torch.float32).to(device)
    matrix = torch.tensor([[0.6, 0.0, 1.0], [0.0, 4.0, 2.0]], dtype=torch.float64)
    whole = [0.0, 0.0, float(WIDTH), 8.0 * HEIGHT]
    window = torch.tensor([whole, whole, [5.0, 5.0, 5.0, 9.0]], dtype=torch.float64)
    for mode in FILTERS:
        result = visops.augment(
            image, matrix.to(device), (30, 65), mode=mode, antialias=True, fill=0.75,
            window=window.to(device), inverse_map=True, layout="CHW",
        )  # fmt: skip
        assert torch.equal(result[2], torch.full_like(result[2], 0.75))
        yield f"upright-empty-{mode}", bytes_of(result.cpu())


def tall(device: str) -> Iterator[tuple[str, np.ndarray]]:
    """Tall tiles, with a rectangle to erase."""
    image, matrix, size = tall_problem(np.random.default_rng(1), device)
    erase = torch.tensor([[[1, 50, 8, 70]]]).expand(8, 1, 4).to(device)
    yield "tall", bytes_of(visops.augment(image, matrix, size, erase=erase).cpu())


def lanczos_gradients(device: str) -> Iterator[tuple[str, np.ndarray]]:
    """Gradients of image, matrix and colour, for every floating dtype."""
    rng = np.random.default_rng(4)
    for number, dtype in enumerate(d for d in DTYPES if d.is_floating_point):
        draw = (random_matrix, random_perspective)[number % 2]
        matrix = np.stack([draw(rng, HEIGHT, WIDTH, SIZE, scale=(s, 1.3 * s)) for s in (0.3, 1.5)])
        leaves = {
            "image": random_image(rng, (2, 3, HEIGHT, WIDTH), dtype).to(device),
            "matrix": torch.from_numpy(matrix).to(device),
            "color": torch.from_numpy(np.stack([random_color(rng, 2, 3)] * 2)).to(device),
        }
        for leaf in leaves.values():
            leaf.requires_grad_()
        result = visops.augment(
            leaves["image"], leaves["matrix"], SIZE, mode="lanczos", antialias=True, layout="CHW",
            color=leaves["color"], out_dtype=dtype,
        )  # fmt: skip
        for name, grad in gradients(result, leaves, rng):
            yield f"lanczos-{name_of(dtype)}-{name}", grad


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Names and bytes of the forward, from batches and lists, and of the three gradients."""
    yield from integers(device)
    yield from upright(device)
    yield from empty_window(device)
    yield from tall(device)
    yield from lanczos_gradients(device)
    rng = np.random.default_rng(0)
    cases = [(d, s, p) for d in DTYPES for s in SAMPLERS for p in PADDINGS]
    for number, (dtype, (mode, antialias), padding_mode) in enumerate(cases):
        channels, strides = LAID_OUT[number % len(LAID_OUT)]
        image = random_image(rng, (3, channels, HEIGHT, WIDTH), dtype)
        given = problem(rng, number, channels)
        on_device: dict[str, Any] = {
            key: torch.from_numpy(value).to(device) if isinstance(value, np.ndarray) else value
            for key, value in given.items()
        }
        leaves = {"image": LAYOUTS[strides](image).to(device), "matrix": on_device.pop("matrix")}
        if on_device["color"] is not None:
            leaves["color"] = on_device.pop("color")
        for leaf in leaves.values():
            leaf.requires_grad_(leaf.is_floating_point())
        pixels, matrix = leaves["image"], leaves["matrix"]
        out_dtype = DTYPES[(number + number // 5) % 5]
        result = visops.augment(
            pixels,
            matrix,
            SIZE,
            mode=mode,
            antialias=antialias,
            padding_mode=padding_mode,
            out_dtype=out_dtype,
            memory_format=(torch.contiguous_format, torch.channels_last)[number % 2],
            layout="CHW",
            **{**on_device, "color": leaves.get("color")},
        )
        name = f"{name_of(dtype)}-{channels}-{strides}-{mode}-{antialias}-{padding_mode}"
        yield name, bytes_of(result.detach().cpu())
        if out_dtype.is_floating_point:
            for leaf_name, grad in gradients(result, leaves, rng):
                yield f"{name}-{leaf_name}", grad
        ragged = [pixels.detach()[i, :, i:, : WIDTH - 2 * i] for i in range(3)]
        listed = visops.augment(
            ragged, matrix.detach(), SIZE, mode=mode, antialias=antialias, layout="CHW", fill=1.0
        )
        yield f"{name}-list", bytes_of(listed.cpu())


def check(found: dict[str, np.ndarray]) -> None:
    """That many cases, none of them empty or blank. Nearest has no gradient to the matrix."""
    assert len(found) > 500
    assert all(
        len(np.unique(values)) > 1
        for name, values in found.items()
        if "nearest" not in name or not name.endswith("matrix")
    )
