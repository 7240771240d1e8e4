"""Network layers: the implicit GEMM against oneDNN, and `auto` against both."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import visops
from bench.harness import Case, Contender, Tolerance, case, pair_of_gradients
from torch import Tensor
from torch.nn import functional

SUMS = Tolerance(max_abs=2e-3, mean_abs=1e-4, why="sums in another order, fused products")
HALF = Tolerance(max_abs=0.1, mean_abs=1e-2, why="results rounded to bfloat16")
GRADIENT = Tolerance(max_abs=0.1, mean_abs=1e-3, why="sums over all pixels")
NEAR_BEST = 0.9  # of the best method's speed, which `auto` must reach


class Layer(NamedTuple):
    """Sizes of input and weight, and the required ratio to F.conv2d's speed."""

    name: str
    input: tuple[int, int, int, int]
    channels: int
    kernel: int
    stride: int = 1
    dtype: torch.dtype = torch.float32
    layout: torch.memory_format = torch.contiguous_format
    floor: float | None = None

    @property
    def label(self) -> str:
        """A label with sizes and options."""
        shape = "×".join(map(str, self.input))
        more = "" if self.dtype == torch.float32 else f", {str(self.dtype)[6:]}"
        more += "" if self.layout == torch.contiguous_format else ", NHWC"
        return f"{shape} → {self.channels}, {self.kernel}×{self.kernel}{more}"

    def operands(self) -> tuple[Tensor, Tensor]:
        """Input and weight, scaled for results of about 1."""
        torch.manual_seed(0)
        weight = torch.randn(self.channels, self.input[1], self.kernel, self.kernel)
        weight /= (weight[0].numel()) ** 0.5
        data = torch.randn(self.input).to(self.dtype)
        return data.contiguous(memory_format=self.layout), weight.to(self.dtype)

    @property
    def arguments(self) -> dict[str, Any]:
        """The options that F.conv2d takes too."""
        return {"stride": self.stride, "padding": self.kernel // 2}

    @property
    def tolerance(self) -> Tolerance:
        """The tolerance of its precision."""
        return HALF if self.dtype == torch.bfloat16 else SUMS


LAYERS = (
    Layer("64 channels", (8, 64, 56, 56), 64, 3, floor=0.85),
    Layer("128 channels", (8, 128, 28, 28), 128, 3, floor=0.85),
    Layer("256 channels", (8, 256, 14, 14), 256, 3, floor=0.85),
    Layer("channels_last", (8, 64, 56, 56), 64, 3, layout=torch.channels_last),
    Layer("stem", (8, 3, 224, 224), 64, 7, 2, floor=3.0),
    Layer("one channel", (1, 1, 1080, 1920), 1, 3, floor=3.0),
    Layer("four channels", (1, 4, 1080, 1920), 4, 3, floor=3.0),
    Layer("float64", (4, 64, 56, 56), 64, 3, dtype=torch.float64, floor=3.0),
    Layer("float64 stem", (4, 3, 224, 224), 64, 7, 2, dtype=torch.float64, floor=3.0),
    Layer("complex64", (4, 32, 56, 56), 32, 3, dtype=torch.complex64),
    Layer("bfloat16", (8, 64, 56, 56), 64, 3, dtype=torch.bfloat16),
)


def parts(result: Tensor) -> Tensor:
    """View complex numbers as pairs to compare them."""
    return torch.view_as_real(result) if result.is_complex() else result


def calls_of(layer: Layer) -> Callable[[Any], Callable[[], Tensor]]:
    """F.conv2d or one of our methods, by name, of the same operands."""
    data, weight = layer.operands()

    def call(name: Any) -> Callable[[], Tensor]:
        if name == "F.conv2d":
            return lambda: functional.conv2d(data, weight, **layer.arguments)
        return lambda: visops.conv2d(data, weight, method=name, **layer.arguments)

    return call


def forward(layer: Layer) -> list[Contender]:
    """The implicit GEMM against torch's convolution; the explicit one beside it."""
    call = calls_of(layer)
    options: dict[str, Any] = {"tolerance": layer.tolerance, "comparable": parts}
    return [
        Contender("visops, implicit", call("implicit"), comparable=parts),
        Contender("F.conv2d", call("F.conv2d"), floor=layer.floor, **options),
        Contender("visops, im2col", call("im2col"), bound=True, **options),
    ]


def auto(layer: Layer) -> list[Contender]:
    """`auto` against every method."""
    call = calls_of(layer)
    options: dict[str, Any] = {"tolerance": layer.tolerance, "comparable": parts}
    options |= {"floor": NEAR_BEST, "bound": True}
    return [
        Contender("visops, auto", call("auto"), comparable=parts),
        *(Contender(name, call(name), **options) for name in ("implicit", "im2col", "torch")),
    ]


def training(layer: Layer) -> list[Contender]:
    """Forward and the gradients of input and weight."""

    def ours(data: Tensor, weight: Tensor) -> Tensor:
        return visops.conv2d(data, weight, method="implicit", **layer.arguments)

    def theirs(data: Tensor, weight: Tensor) -> Tensor:
        return functional.conv2d(data, weight, **layer.arguments)

    found = pair_of_gradients("F.conv2d", ours, theirs, layer.operands(), GRADIENT)
    return [replace(found[0], name="visops, implicit"), *found[1:]]


def cases() -> list[Case]:
    """The cases, in the order of the tables."""
    jobs = (
        ("conv2d", forward, LAYERS),
        ("conv2d, auto and the methods", auto, LAYERS),
        ("conv2d, forward and gradients", training, LAYERS[:1] + LAYERS[4:6]),
    )
    return [
        case(group, layer.label, build, layer, quick=i in (0, 4), on_cuda=True)
        for group, build, layers in jobs
        for i, layer in enumerate(layers)
    ]
