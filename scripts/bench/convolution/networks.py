"""Network layers: the implicit GEMM against oneDNN."""

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


class Layer(NamedTuple):
    """Sizes of input and weight."""

    input: tuple[int, int, int, int]
    channels: int
    kernel: int
    stride: int = 1
    dtype: torch.dtype = torch.float32
    layout: torch.memory_format = torch.contiguous_format

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
    Layer((8, 64, 56, 56), 64, 3),
    Layer((8, 128, 28, 28), 128, 3),
    Layer((8, 256, 14, 14), 256, 3),
    Layer((8, 64, 56, 56), 64, 3, layout=torch.channels_last),
    Layer((8, 3, 224, 224), 64, 7, 2),
    Layer((1, 1, 1080, 1920), 1, 3),
    Layer((4, 64, 56, 56), 64, 3, dtype=torch.float64),
    Layer((4, 32, 56, 56), 32, 3, dtype=torch.complex64),
    Layer((8, 64, 56, 56), 64, 3, dtype=torch.bfloat16),
)


def parts(result: Tensor) -> Tensor:
    """View complex numbers as pairs to compare them."""
    return torch.view_as_real(result) if result.is_complex() else result


def forward(layer: Layer) -> list[Contender]:
    """The implicit GEMM against torch's convolution."""
    data, weight = layer.operands()

    def ours() -> Tensor:
        return visops.conv2d(data, weight, method="implicit", **layer.arguments)

    def theirs() -> Tensor:
        return functional.conv2d(data, weight, **layer.arguments)

    return [
        Contender("visops, implicit", ours, comparable=parts),
        Contender("F.conv2d", theirs, layer.tolerance, parts),
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
        ("conv2d, forward and gradients", training, LAYERS[:1] + LAYERS[4:6]),
    )
    return [
        case(group, layer.label, build, layer, quick=i in (0, 4), on_cuda=True)
        for group, build, layers in jobs
        for i, layer in enumerate(layers)
    ]
