"""The affine warp against OpenCV, torch's affine_grid + grid_sample, kornia and torchvision.

Every row rotates the same white noise by 17.3 degrees and scales it by 1.13, about the centre:
three channels, zeros outside, integer pixel centres. Peers get what they like best:
OpenCV its float64 matrix; affine_grid + grid_sample a normalised theta computed beforehand; kornia
a float32 matrix; torchvision, which has one matrix a call, one for the whole batch where all
others get one for each image, as angle and scale. What computes in float only (affine_grid +
grid_sample) is timed on uint8 with the conversion there and back.
"""

import functools
import importlib
from collections.abc import Callable
from typing import Any

import cv2
import torch
import torch.nn.functional as F
import torchvision.transforms.v2.functional as TF
import visops
from bench.harness import Case, Contender, Tolerance, case, pair, rows
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
U8 = Tolerance(max_abs=1, fraction=0.05, why="peers' coordinates are float32 in [-1, 1]")
GRADIENT = Tolerance(
    max_abs=2e-2, mean_abs=1e-4, why="a matrix gradient sums up to 786,432 float32 terms"
)


ANGLE, SCALE = 17.3, 1.13  # degrees


def rotation(source: Size, target: Size | None = None) -> torch.Tensor:
    """Rotate about the centre, and scale to 1.13 targets: source -> destination, float64 [2, 3]."""
    target = target or source
    centre = ((source[1] - 1) / 2, (source[0] - 1) / 2)
    move = ((target[1] - source[1]) / 2, (target[0] - source[0]) / 2)
    matrix: torch.Tensor = visops.get_affine_matrix(
        centre, ANGLE, move, SCALE * target[0] / source[0]
    )
    return matrix


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


def numpy_contenders(mode: Any, size: Size) -> list[Contender]:
    """An HWC uint8 array against OpenCV."""
    image = noise(torch.uint8, 1, size, "channels_last", "cpu")[0].permute(1, 2, 0).numpy()
    matrix = rotation(size).numpy()

    def ours() -> Any:
        return visops.warp_affine(image, matrix, size, mode=mode)

    def opencv() -> Any:
        return cv2.warpAffine(image, matrix, size[::-1], flags=CV_FLAGS[mode])

    return pair("OpenCV", ours, opencv, (), CV_TOLERANCE[mode])


def tensor_contenders(
    dtype: torch.dtype, layout: str, batch: int, size: Size, device: str
) -> list[Contender]:
    """A batch of tensors with a matrix per image, against the three peers that take tensors."""
    image = noise(dtype, batch, size, layout, device)
    single = rotation(size)
    matrix = single.repeat(batch, 1, 1).to(device)
    theta = theta_of(visops.invert_affine(single), size, size).repeat(batch, 1, 1).to(device)
    matrix32 = matrix.float()
    is_u8 = dtype == torch.uint8
    tolerance = U8 if is_u8 else F32

    def ours() -> torch.Tensor:
        return visops.warp_affine(image, matrix, size)

    def grid_sample() -> torch.Tensor:
        grid = F.affine_grid(theta, list(image.shape), align_corners=True)
        source = image.float() if is_u8 else image
        warped: torch.Tensor = F.grid_sample(source, grid, align_corners=True)
        return warped.round_().to(torch.uint8) if is_u8 else warped

    def by_kornia() -> torch.Tensor:
        warped: torch.Tensor = kornia.geometry.warp_affine(image, matrix32, size)
        return warped

    def torchvision_affine() -> torch.Tensor:
        moves = (ANGLE, [0, 0], SCALE, [0.0, 0.0])
        return TF.affine(image, *moves, interpolation=InterpolationMode.BILINEAR)

    contenders = pair("affine_grid + grid_sample", ours, grid_sample, (), tolerance)
    if not is_u8:
        kornia = importlib.import_module("kornia")  # here: GPU rows use other parts of this file
        contenders.append(Contender("kornia", by_kornia, tolerance))
    return [*contenders, Contender("torchvision", torchvision_affine, tolerance)]


def backward_pair(
    ours: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    theirs: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    image: torch.Tensor,
    inverse: torch.Tensor,
    target: Size,
    *,
    layout: str = "NCHW",
    with_matrix: bool = True,
    amplitude: float = 1.0,
) -> list[Contender]:
    """Forward and backward: the gradients of images, and optionally of the matrix.

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
        inputs = [leaf for leaf in (image, leaf) if leaf.requires_grad]

        def run() -> tuple[torch.Tensor, ...]:
            output = function(image, leaf)
            return (output.detach(), *torch.autograd.grad(output, inputs, grad))

        return run

    def scaled(result: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return (*result[:2], *(g / weight for g in result[2:]))

    def to_matrix(result: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return scaled((*result[:2], *(left[:2, :2] @ g @ right for g in result[2:])))

    return [
        Contender("visops", call(ours, matrix), comparable=scaled),
        Contender("affine_grid + grid_sample", call(by_grid, theta), GRADIENT, to_matrix),
    ]


def backward_contenders(
    layout: str, batch: int, size: Size, with_matrix: bool, device: str
) -> list[Contender]:
    """The image's gradient, and optionally the matrix's."""
    image = noise(torch.float32, batch, size, layout, device).detach().requires_grad_()
    inverse = visops.invert_affine(rotation(size))

    def ours(image: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
        return visops.warp_affine(image, matrix, inverse_map=True)

    def theirs(image: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(image, grid, "bilinear", "zeros", align_corners=True)

    options: dict[str, Any] = {"layout": layout, "with_matrix": with_matrix}
    return backward_pair(ours, theirs, image, inverse, size, **options)


def tensor_cases(device: str) -> list[Case]:
    """Tensors: two dtypes and two layouts; gradients."""
    found = []
    for name, dtype in (("u8", torch.uint8), ("f32", torch.float32)):
        for layout in ("NCHW", "channels_last"):
            table = {
                f"{batch}×{label} rotate": (dtype, layout, batch, size, device)
                for label, size in SIZES.items()
                for batch in (1, 16)
            }
            group = f"tensor {name} {layout}, bilinear"
            found += rows(group, tensor_contenders, table, "^1×512²", device=device)
    trained = [(1, "NCHW"), (16, "NCHW"), (16, "channels_last")]
    for with_matrix in (False, True):
        learning = {
            f"{batch}×224² rotate {layout}": (layout, batch, SIZES["224²"], with_matrix, device)
            for batch, layout in trained
        }
        group = f"forward + backward f32, {'image and matrix' if with_matrix else 'image'} gradient"
        found += rows(group, backward_contenders, learning, "^1×", device=device)
    return found


def all_cases() -> list[Case]:
    """The cases that this machine can run."""
    arrays = [
        made
        for mode in CV_FLAGS
        for made in rows(
            f"ndarray u8 HWC, {mode}",
            numpy_contenders,
            {f"{name} rotate": (mode, size) for name, size in SIZES.items()},
            "512²",
        )
    ]
    # One 16x16 image: what a call costs before it computes anything.
    group, small = "overhead, one 16×16 ", (16, 16)
    calls: dict[str, tuple[Any, ...]] = {
        "ndarray u8": (numpy_contenders, "bilinear", small),
        "tensor f32": (tensor_contenders, torch.float32, "NCHW", 1, small, "cpu"),
        "tensor u8": (tensor_contenders, torch.uint8, "NCHW", 1, small, "cpu"),
    }
    overhead = [case(group + kind, "16×16 rotate", *of, quick=True) for kind, of in calls.items()]
    return [*arrays, *tensor_cases("cpu"), *overhead, *tensor_cases("cuda")]
