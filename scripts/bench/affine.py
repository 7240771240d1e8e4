"""The affine warp against OpenCV, torch's affine_grid + grid_sample, kornia and torchvision.

Every row warps the same white-noise images by the same matrix in all contenders: three channels,
zeros outside, integer pixel centres. Geometries: `rotate` (17.3 degrees and scale 1.13 about the
centre), `shift` (by 7.317 and -4.631 pixels: rounder numbers make ties of 1 % of
the uint8 results), `shift int` (by whole pixels) and `shrink` (to a third
of the size). Peers get what they like best: OpenCV its float64 matrix; affine_grid + grid_sample
a normalised theta computed beforehand; kornia a float32 matrix; torchvision, which has one matrix a
call, one matrix for the whole batch where all others get one for each image, and the same geometry
as angle, translation and scale; it cannot change the size, so it has no `shrink`. What computes in
float only (affine_grid + grid_sample) is timed on uint8 with the conversion there and back.
1080p at batch 16 is run for `rotate` alone, to bound the time that the whole takes.
"""

import functools
import importlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import cv2
import torch
import torch.nn.functional as F
import torchvision.transforms.v2.functional as TF
import visops
from bench.harness import Case, Contender, Tolerance, case, rows
from torchvision.transforms import InterpolationMode

Size = tuple[int, int]

SIZES: dict[str, Size] = {"224²": (224, 224), "512²": (512, 512), "1080p": (1080, 1920)}
CV_FLAGS = {"nearest": cv2.INTER_NEAREST, "bilinear": cv2.INTER_LINEAR, "bicubic": cv2.INTER_CUBIC}

# Neighbouring pixels of white noise differ by the whole range of values, so a coordinate that is
# off by half a pixel shows as a mean difference of tens of levels, far above these bounds.
if int(cv2.__version__.split(".")[0]) >= 5:
    _CV_LINEAR = _CV_CUBIC = Tolerance(
        max_abs=1, fraction=0.01, why="OpenCV's coordinates are plain float32"
    )
else:
    _why = "OpenCV 4's table of weights has steps of 1/32 pixel"
    _CV_LINEAR = Tolerance(max_abs=9, mean_abs=2.0, why=_why)
    _CV_CUBIC = Tolerance(max_abs=32, mean_abs=4.0, why=_why)
CV_TOLERANCE = {
    "nearest": Tolerance(fraction=0.01, why="ties; in OpenCV 4 coordinates in fixed point"),
    "bilinear": _CV_LINEAR,
    "bicubic": _CV_CUBIC,
}
F32 = Tolerance(max_abs=2e-3, mean_abs=1e-4, why="peers' coordinates are float32 in [-1, 1]")
F32_NEAREST = Tolerance(fraction=0.01, why="ties, and float32 coordinates")
U8 = Tolerance(max_abs=1, fraction=0.05, why="peers' coordinates are float32 in [-1, 1]")
GRADIENT = Tolerance(
    max_abs=2e-2, mean_abs=1e-4, why="a matrix gradient sums up to 786,432 float32 terms"
)


@dataclass(frozen=True)
class Geometry:
    """A warp in torchvision's terms, and how much smaller the output is than the input."""

    angle: float = 0.0  # degrees
    translate: tuple[float, float] = (0.0, 0.0)  # pixels
    scale: float = 1.0
    shrink: int = 1

    def output_size(self, size: Size) -> Size:
        return size[0] // self.shrink, size[1] // self.shrink

    def matrix(self, size: Size) -> torch.Tensor:
        """Source -> destination, integer pixel centres, float64 [2, 3]."""
        (height, width), (out_height, out_width) = size, self.output_size(size)
        recentre = ((out_width - width) / 2, (out_height - height) / 2)
        translate = (self.translate[0] + recentre[0], self.translate[1] + recentre[1])
        centre = ((width - 1) / 2, (height - 1) / 2)
        matrix: torch.Tensor = visops.get_affine_matrix(
            centre, self.angle, translate, self.scale / self.shrink
        )
        return matrix


GEOMETRIES = {
    "rotate": Geometry(angle=17.3, scale=1.13),
    "shift": Geometry(translate=(7.317, -4.631)),
    "shift int": Geometry(translate=(7.0, -5.0)),
    "shrink": Geometry(shrink=3),
}


def normaliser(size: Size) -> torch.Tensor:
    """Pixels -> the [-1, 1] of grid_sample with align_corners=True, float64 [3, 3]."""
    height, width = size
    scale = torch.tensor([2.0 / (width - 1), 2.0 / (height - 1), 1.0], dtype=torch.float64)
    matrix = torch.diag(scale)
    matrix[:2, 2] = -1.0
    return matrix


def theta_of(inverse: torch.Tensor, size: Size, out_size: Size) -> torch.Tensor:
    """A float32 destination -> source matrix [2, 3] in affine_grid's form."""
    square = torch.cat([inverse.double(), torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64)])
    theta = normaliser(size) @ square @ torch.linalg.inv(normaliser(out_size))
    as_float: torch.Tensor = theta[:2].float()
    return as_float


@functools.lru_cache(maxsize=2)
def noise(dtype: torch.dtype, batch: int, size: Size, layout: str, device: str) -> torch.Tensor:
    """White noise [B, 3, H, W]: all uint8 values, or floats in [0, 1)."""
    generator = torch.Generator().manual_seed(0)
    shape = (batch, 3, *size)
    if dtype == torch.uint8:
        image = torch.randint(0, 256, shape, dtype=dtype, generator=generator)
    else:
        image = torch.rand(shape, dtype=dtype, generator=generator)
    channels_last = layout == "channels_last"
    format_ = torch.channels_last if channels_last else torch.contiguous_format
    return image.to(device).contiguous(memory_format=format_)


def numpy_contenders(mode: Any, size: Size, geometry: Geometry) -> list[Contender]:
    """An HWC uint8 array against OpenCV."""
    image = noise(torch.uint8, 1, size, "channels_last", "cpu")[0].permute(1, 2, 0).numpy()
    matrix = geometry.matrix(size).numpy()
    out_size = height, width = geometry.output_size(size)
    return [
        Contender("visops", lambda: visops.warp_affine(image, matrix, out_size, mode=mode)),
        Contender(
            "OpenCV",
            lambda: cv2.warpAffine(image, matrix, (width, height), flags=CV_FLAGS[mode]),
            CV_TOLERANCE[mode],
            floor=1.5 if mode == "bilinear" else 1.0,
        ),
    ]


def tensor_contenders(
    dtype: torch.dtype,
    layout: str,
    mode: Any,
    batch: int,
    size: Size,
    geometry: Geometry,
    device: str,
) -> list[Contender]:
    """A batch of tensors with a matrix per image, against the three peers that take tensors."""
    image = noise(dtype, batch, size, layout, device)
    out_size = geometry.output_size(size)
    single = geometry.matrix(size)
    matrix = single.repeat(batch, 1, 1).to(device)
    theta = theta_of(visops.invert_affine(single), size, out_size).repeat(batch, 1, 1).to(device)
    matrix32 = matrix.float()
    shape = [batch, 3, *out_size]
    is_u8 = dtype == torch.uint8
    tolerance = F32_NEAREST if mode == "nearest" else U8 if is_u8 else F32
    asked = mode == "bilinear" and device == "cpu"

    def grid_sample() -> torch.Tensor:
        grid = F.affine_grid(theta, shape, align_corners=True)
        source = image.float() if is_u8 else image
        warped: torch.Tensor = F.grid_sample(source, grid, mode, "zeros", align_corners=True)
        if is_u8:
            warped = warped.round_().to(torch.uint8)
        return warped

    def by_kornia() -> torch.Tensor:
        warped: torch.Tensor = kornia.geometry.warp_affine(image, matrix32, out_size, mode=mode)
        return warped

    def torchvision_affine() -> torch.Tensor:
        moves = (geometry.angle, list(geometry.translate), geometry.scale, [0.0, 0.0])
        return TF.affine(image, *moves, interpolation=InterpolationMode(mode))

    floor = 3.0 if asked and not is_u8 and layout == "NCHW" else None
    contenders = [
        Contender("visops", lambda: visops.warp_affine(image, matrix, out_size, mode=mode)),
        Contender("affine_grid + grid_sample", grid_sample, tolerance, floor),
    ]
    if not is_u8 and mode != "bicubic":
        kornia = importlib.import_module("kornia")  # here: GPU rows use other parts of this file
        floor = 6.0 if asked and layout == "NCHW" else None
        contenders.append(Contender("kornia", by_kornia, tolerance, floor))
    if geometry.shrink == 1 and mode != "bicubic":
        floor = 4.0 if asked and is_u8 else None
        contenders.append(Contender("torchvision", torchvision_affine, tolerance, floor))
    return contenders


def backward_pair(
    ours: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    theirs: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    image: torch.Tensor,
    inverse: torch.Tensor,
    target: Size,
    *,
    layout: str = "NCHW",
    with_matrix: bool = True,
    colors: Sequence[torch.Tensor] = (),
    amplitude: float = 1.0,
) -> list[Contender]:
    """Forward and backward: the gradients of images, and optionally of matrix and colours.

    Ours is a function of images and matrices, destination to source, and theirs of images and the
    grids of affine_grid. A gradient's terms are as large as `amplitude`.
    """
    batch, size, device = len(image), (image.shape[2], image.shape[3]), image.device
    theta = theta_of(inverse, size, target).repeat(batch, 1, 1).to(device)
    matrix = inverse.float().repeat(batch, 1, 1).to(device)
    grad = noise(torch.float32, batch, target, layout, str(device)).flip(0) - 0.5
    left = normaliser(size).T.float().to(device)
    right = torch.linalg.inv(normaliser(target)).T.float().to(device)
    # An entry of the matrix gradient sums terms as large as a coordinate over all pixels. Divided
    # by the size of such a random walk it is of order one.
    walk = (3 * target[0] * target[1]) ** 0.5 * amplitude
    weight = torch.tensor([target[1], target[0], 1.0], device=device) * walk

    def by_grid(image: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
        return theirs(image, F.affine_grid(theta, [batch, 3, *target], align_corners=True))

    def call(function: Callable[..., torch.Tensor], leaf: torch.Tensor) -> Callable[[], Any]:
        leaf.requires_grad_(with_matrix)
        inputs = [leaf for leaf in (image, leaf, *colors) if leaf.requires_grad]

        def run() -> tuple[torch.Tensor, ...]:
            output = function(image, leaf)
            return (output.detach(), *torch.autograd.grad(output, inputs, grad))

        return run

    def scaled(result: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return (*result[:2], *(g / weight for g in result[2:3]), *(g / walk for g in result[3:]))

    def to_matrix(result: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        of_matrix = [left[:2, :2] @ g @ right for g in result[2:3]]
        return scaled((*result[:2], *of_matrix, *result[3:]))

    name, floor = "affine_grid + grid_sample", 2.0 if device.type == "cpu" else None
    return [
        Contender("visops", call(ours, matrix), comparable=scaled),
        Contender(name, call(by_grid, theta), GRADIENT, floor, to_matrix),
    ]


def backward_contenders(
    layout: str, batch: int, size: Size, geometry: Geometry, with_matrix: bool, device: str
) -> list[Contender]:
    """The image's gradient, and optionally the matrix's."""
    image = noise(torch.float32, batch, size, layout, device).detach().requires_grad_()
    inverse = visops.invert_affine(geometry.matrix(size))

    def ours(image: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
        return visops.warp_affine(image, matrix, inverse_map=True)

    def theirs(image: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(image, grid, "bilinear", "zeros", align_corners=True)

    options: dict[str, Any] = {"layout": layout, "with_matrix": with_matrix}
    return backward_pair(ours, theirs, image, inverse, size, **options)


def overhead_contenders(kind: str) -> list[Contender]:
    """One 16x16 image: what a call costs before it computes anything."""
    size, geometry = (16, 16), GEOMETRIES["rotate"]
    if kind == "ndarray u8":
        found = numpy_contenders("bilinear", size, geometry)
    else:
        dtype = torch.uint8 if kind == "tensor u8" else torch.float32
        found = tensor_contenders(dtype, "NCHW", "bilinear", 1, size, geometry, "cpu")
    with_floor = ("OpenCV", "affine_grid + grid_sample")
    return [replace(c, floor=1.0 if c.name in with_floor else None) for c in found]


def numpy_cases() -> list[Case]:
    """NumPy arrays in three modes."""
    found = []
    for mode in ("bilinear", "bicubic", "nearest"):
        table = {
            f"{name} {geometry}": (mode, size, GEOMETRIES[geometry])
            for name, size in SIZES.items()
            for geometry in GEOMETRIES
        }
        quick = "512²" if mode == "bilinear" else "512² rotate"
        found += rows(f"ndarray u8 HWC, {mode}", numpy_contenders, table, quick)
    return found


def tensor_cases(device: str) -> list[Case]:
    """Tensors: two dtypes, two layouts, bilinear; and the other modes once each."""
    sizes = [
        (name, batch, geometry)
        for name, batch, geometry in itertools.product(SIZES, (1, 16), GEOMETRIES)
        if (name, batch) != ("1080p", 16) or geometry == "rotate"
    ]
    kinds = [
        (dtype, layout, "bilinear", sizes)
        for dtype in (torch.uint8, torch.float32)
        for layout in ("NCHW", "channels_last")
    ]
    others = [
        (torch.float32, "NCHW", mode, [("224²", 16, "rotate")]) for mode in ("nearest", "bicubic")
    ]
    found = []
    for dtype, layout, mode, chosen in kinds + others:
        table = {
            f"{batch}×{name} {geometry}": (
                *(dtype, layout, mode, batch),
                *(SIZES[name], GEOMETRIES[geometry], device),
            )
            for name, batch, geometry in chosen
        }
        group = f"tensor {'u8' if dtype == torch.uint8 else 'f32'} {layout}, {mode}"
        quick = "^1×512² (rotate|shift int|shrink)"
        found += rows(group, tensor_contenders, table, quick, device=device)
    return found


def backward_cases(device: str) -> list[Case]:
    """Forward and backward in float32."""
    sizes = [(name, batch, "NCHW") for name in ("224²", "512²") for batch in (1, 16)]
    found = []
    for with_matrix in (False, True):
        table = {
            f"{batch}×{name} rotate {layout}": (
                *(layout, batch, SIZES[name], GEOMETRIES["rotate"]),
                *(with_matrix, device),
            )
            for name, batch, layout in (*sizes, ("224²", 16, "channels_last"))
        }
        group = f"forward + backward f32, {'image and matrix' if with_matrix else 'image'} gradient"
        found += rows(group, backward_contenders, table, "^1×224²", device=device)
    return found


def all_cases() -> list[Case]:
    """The cases that this machine can run."""
    overhead = [
        case(f"overhead, one 16×16 {kind}", "16×16 rotate", overhead_contenders, kind, quick=True)
        for kind in ("ndarray u8", "tensor f32", "tensor u8")
    ]
    cases = [*numpy_cases(), *tensor_cases("cpu"), *backward_cases("cpu"), *overhead]
    return [*cases, *tensor_cases("cuda"), *backward_cases("cuda")]
