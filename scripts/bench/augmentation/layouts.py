"""The operator by itself: dtypes and layouts, masks, filters against aliasing."""

import itertools
from typing import Any

import cv2
import numpy as np
import torch
import torch.nn.functional as F
import torchvision.transforms.v2.functional as TF
import visops
from bench.affine import noise, theta_of
from bench.augmentation.one_warp import COLOR, FLOAT, by_grid_sample, rotation
from bench.augmentation.pictures import MEAN, STD, Size, smooth
from bench.harness import Case, Contender, Tolerance, pair, rows
from PIL import Image
from torchvision.transforms import InterpolationMode

SOURCE: Size = (512, 512)
TARGET: Size = (224, 224)
DTYPES = {"u8": torch.uint8, "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
FORMATS = {"NCHW": torch.contiguous_format, "channels_last": torch.channels_last}
# Results reach 2.6; both sides round half and bfloat16 when storing.
STORED = {
    "f16": Tolerance(max_abs=5e-2, mean_abs=5e-4, why="float16 has steps of 0.001 there"),
    "bf16": Tolerance(max_abs=6e-2, mean_abs=2e-3, why="bfloat16 has steps of 0.01 there"),
    "f32": FLOAT,
}
LEVEL = Tolerance(max_abs=1, fraction=0.05, why="float32 coordinates, roundings")
TIES = Tolerance(fraction=0.01, why="nearest at ties, and float32 coordinates")


def layout_contenders(dtype: str, layout: str, out: str, out_layout: str) -> list[Contender]:
    """One picture [1, 3, 512, 512] of any kind to a normalised [1, 3, 224, 224]."""
    image = noise(torch.float32, 1, SOURCE, layout, "cpu")
    image = image.mul(255).to(torch.uint8) if dtype == "u8" else image.to(DTYPES[dtype])
    matrix = rotation()
    theta = theta_of(visops.invert_affine(matrix), SOURCE, TARGET)[None]
    stored: dict[str, Any] = {"dtype": DTYPES[out], "memory_format": FORMATS[out_layout]}
    options: dict[str, Any] = {"color": COLOR, "clamp": True, "mean": MEAN, "std": STD}
    options |= {"out_dtype": DTYPES[out], "memory_format": FORMATS[out_layout]}

    def ours() -> torch.Tensor:
        return visops.augment(image, matrix, TARGET, **options)

    def theirs() -> torch.Tensor:
        pixels = image.to(torch.float32)
        if dtype == "u8":
            pixels = pixels.div_(255.0)
        return by_grid_sample(pixels, theta).to(**stored)

    return pair("affine_grid + grid_sample", ours, theirs, (), STORED[out])


def mask_contenders(target: Size) -> list[Contender]:
    """A mask [512, 512] of uint8 classes; 255, which losses ignore, outside."""
    mask = noise(torch.uint8, 1, SOURCE, "NCHW", "cpu")[:, :1] % 21
    matrix = rotation(SOURCE, target)
    array, plane = matrix.numpy(), mask[0, 0].numpy()
    border: dict[str, Any] = {"flags": cv2.INTER_NEAREST, "borderValue": 255}
    nearest = InterpolationMode.NEAREST

    def opencv() -> torch.Tensor:
        return torch.from_numpy(cv2.warpAffine(plane, array, target[::-1], **border))[None, None]

    options: dict[str, Any] = {"fill": 255, "mode": "nearest", "out_dtype": torch.uint8}

    def ours() -> torch.Tensor:
        return visops.augment(mask, matrix, target, **options)

    def torchvision() -> torch.Tensor:
        return TF.affine(mask, 17.3, [0, 0], 1.13, [0.0, 0.0], nearest, fill=[255.0])

    contenders = pair("OpenCV", ours, opencv, (), TIES)
    if target == SOURCE:
        contenders.append(Contender("torchvision", torchvision, TIES))
    return contenders


def resize_contenders(dtype: str, layout: str, batch: int) -> list[Contender]:
    """[B, 3, 480, 640] to [B, 3, 224, 224] of the same dtype and layout, filtered."""
    source, height, width = (480, 640), *TARGET
    image = noise(DTYPES[dtype], batch, source, layout, "cpu")
    matrix = torch.tensor([[width / 640, 0.0, 0.0], [0.0, height / 480, 0.0]], dtype=torch.float64)
    is_u8 = dtype == "u8"
    options: dict[str, Any] = {
        "antialias": True,
        "convention": "half_pixel",
        "out_dtype": DTYPES[dtype],
        "memory_format": FORMATS[layout],
    }
    rounded = Tolerance(max_abs=1, why="torch's weights are of 16 bits") if is_u8 else FLOAT

    def ours() -> torch.Tensor:
        return visops.augment(image, matrix, TARGET, **options)

    def interpolated() -> torch.Tensor:
        return F.interpolate(image, TARGET, mode="bilinear", antialias=True)

    contenders = pair("interpolate", ours, interpolated, (), rounded)
    if is_u8 and layout == "channels_last":
        arrays = list(image.permute(0, 2, 3, 1).numpy())
        images = [Image.fromarray(array) for array in arrays]
        size, area, triangle = TARGET[::-1], cv2.INTER_AREA, Image.Resampling.BILINEAR

        def by_opencv() -> torch.Tensor:
            return _batch([cv2.resize(array, size, interpolation=area) for array in arrays])

        def by_pil() -> torch.Tensor:
            return _batch([np.asarray(each.resize(size, triangle)) for each in images])

        box = Tolerance(mean_abs=12.0, why="a box")
        contenders += [Contender("OpenCV", by_opencv, box), Contender("PIL", by_pil, rounded)]
    return contenders


def _batch(arrays: list[np.ndarray]) -> torch.Tensor:
    return torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2)


def rotated_contenders() -> list[Contender]:
    """A smooth picture, since peers have no such filter, only substitutes for it."""
    picture = smooth(SOURCE)
    matrix = rotation()
    array, (height, width) = matrix.numpy(), TARGET
    view = torch.from_numpy(picture)[None].permute(0, 3, 1, 2)
    sigma = 0.5 * SOURCE[0] / (1.13 * height)
    fourfold = torch.tensor(
        [[4.0, 0.0, 1.5], [0.0, 4.0, 1.5], [0.0, 0.0, 1.0]], dtype=torch.float64
    )
    square = torch.cat([matrix, fourfold.new_tensor([[0.0, 0.0, 1.0]])])
    large = (fourfold @ square)[:2].numpy()

    def blurred() -> torch.Tensor:
        soft = cv2.GaussianBlur(picture, (0, 0), sigma)
        return _batch([cv2.warpAffine(soft, array, (width, height))])

    def supersampled() -> torch.Tensor:
        fine = cv2.warpAffine(picture, large, (4 * width, 4 * height))
        return _batch([cv2.resize(fine, (width, height), interpolation=cv2.INTER_AREA)])

    def ours(antialias: bool) -> torch.Tensor:
        return visops.augment(view, matrix, TARGET, antialias=antialias, out_dtype=torch.uint8)

    similar = Tolerance(mean_abs=1.5, why="other filters, other edges")
    return [
        Contender("visops", lambda: ours(True)),
        Contender("visops without antialias", lambda: ours(False), similar, bound=True),
        Contender("OpenCV, 4×4 samples", supersampled, similar),
        Contender("OpenCV, blurred before", blurred, similar),
    ]


def cases() -> list[Case]:
    """Dtypes and layouts, masks, and resizing without rotation and with it."""
    # Every input dtype and layout to float32 NCHW, and uint8 channels_last to all other outputs.
    sources = [(*source, "f32", "NCHW") for source in itertools.product(DTYPES, FORMATS)]
    targets = itertools.product(STORED, FORMATS)
    kinds = sources + [("u8", "channels_last", *t) for t in targets if t != ("f32", "NCHW")]
    table = {f"{kind[0]} {kind[1]} → {kind[2]} {kind[3]}": kind for kind in kinds}
    group = "dtypes and layouts: rotation, colour, clamp, normalise, 512² → 224²"
    found = rows(group, layout_contenders, table, "^f32 NCHW")
    group = "mask, nearest with a fill of its own, uint8"
    masks = {f"512² → {size[0]}²": (size,) for size in (SOURCE, TARGET)}
    found += rows(group, mask_contenders, masks, "→ 512²")
    # What peers are made for.
    layouts = [(dtype, of, 1) for dtype in ("u8", "f32") for of in ("channels_last", "NCHW")]
    for dtype, of, batch in (*layouts, ("u8", "channels_last", 16), ("f32", "NCHW", 16)):
        resized = {f"{batch}× {dtype} {of}": (dtype, of, batch)}
        group = "antialias, without rotation: 640×480 → 224²"
        found += rows(group, resize_contenders, resized, "^1×", images=batch)
    group = "antialias, rotated: 512² uint8 HWC → 224² uint8 CHW"
    return [*found, *rows(group, rotated_contenders, {"1 image": ()}, "")]
