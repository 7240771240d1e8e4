"""Convolutions: of layers, of images with one kernel, filters, and their columns."""

from typing import Any

import torch
import visops
from torch import Tensor

from .case import FLOATS, Arguments, Draw, OneOf, OpCase, with_options

BORDERS = OneOf("reflect_101", "reflect", "replicate", "wrap", "constant")


def kernel_of(draw: Draw) -> tuple[int, int]:
    found: tuple[int, int] = draw.choose((2, 3), (1, 1), (4, 5), (3, 1))
    return found


def images(draw: Draw, channels: int | None = None) -> Tensor:
    channels = draw.sizes.channels if channels is None else channels
    shape = (draw.sizes.batch, channels, draw.sizes.height, draw.sizes.width)
    if draw.dtype == torch.uint8:
        return draw.tensor(draw.rng.integers(0, 256, shape))
    return draw.normal(*shape)


def layer(draw: Draw) -> Arguments:
    """Return two groups; the size of the image stays."""
    return {
        "input": images(draw, 4),
        "weight": draw.normal(6, 2, *draw.choose((3, 3), (1, 1), (2, 5))),
        "bias": draw.normal(6),
        "padding": draw.choose(1, (2, 4), "same"),
        "dilation": draw.choose(1, (1, 2)),
        "groups": 2,
        "method": "implicit",
    }


def steps(draw: Draw) -> Arguments:
    """Return a layer whose result is smaller."""
    return {
        "input": images(draw),
        "weight": draw.normal(5, draw.sizes.channels, 3, 2),
        "stride": (2, 3),
        "padding": (1, 2),
        "method": "implicit",
    }


def planes(draw: Draw) -> Arguments:
    batch, height, width = draw.sizes.batch, draw.sizes.height, draw.sizes.width
    return {"in1": draw.normal(batch, height, width), "in2": draw.normal(*kernel_of(draw))}


def windows(draw: Draw, **options: Any) -> Arguments:
    return {
        "input": images(draw),
        "kernel_size": kernel_of(draw),
        "stride": draw.choose(1, (2, 1), (1, 3)),
        "padding": draw.choose(2, (2, 0), (3, 4)),
        "dilation": draw.choose(1, (1, 2)),
        **options,
    }


def columns(draw: Draw, **options: Any) -> Arguments:
    """Return what im2col gives of the windows."""
    arguments = windows(draw, **options)
    size = (draw.sizes.height, draw.sizes.width)
    return {**arguments, "input": visops.im2col(**arguments), "output_size": size}


def patches(draw: Draw) -> Arguments:
    return columns(draw, layout="patches")


def filtered(draw: Draw) -> Arguments:
    kernel = draw.tensor(
        draw.rng.standard_normal(draw.choose((3, 5), (1, 1), (4, 2))), torch.float32
    )
    return {"image": images(draw), "kernel": kernel, "channels": "first"}


def image(draw: Draw) -> Arguments:
    return {"image": images(draw), "channels": "first"}


LAYER: dict[str, Any] = {
    "mapped": ("input", "weight"),
    "rows": ("input",),
    "layouts": ("strided", "transposed", "channels_last", "part_of_channels_last"),
    "exact": False,  # torch's convolution computes what is mapped
    "half": False,
    "autocast": True,
}
PLANES: dict[str, Any] = {
    "differentiable": ("in1", "in2"),
    "linear_in": ("in1", "in2"),
    "mapped": ("in1", "in2"),
    "rows": ("in1",),
    "layouts": ("strided", "transposed"),
    "dtypes": FLOATS[2:],  # NumPy's halves are refused, as SciPy refuses them
}
IN_TURN = {
    "mode": OneOf("full", "same", "valid"),
    "boundary": OneOf("fill", "wrap", "symm"),
}
PRODUCTS: dict[str, Any] = {
    **PLANES,
    "exact": False,
    "compiled": False,  # one program for a size: test_convolve2d_methods.py
    "static_fakes": True,
}
LINEAR: dict[str, Any] = {
    "differentiable": ("input",),
    "mapped": ("input",),
    "rows": ("input",),
    "layouts": ("strided", "transposed", "channels_last", "part_of_channels_last"),
}
FILTER: dict[str, Any] = {
    "differentiable": ("image",),
    "linear_in": ("image",),
    "rows": ("image",),
    "layouts": ("strided", "transposed", "channels_last", "part_of_channels_last"),
    "dtypes": FLOATS[2:],
    "exact": False,  # gradients are torch's sums
    "compiled": False,  # which takes a minute: test_filter2d.py compiles them once
}

CASES = [
    OpCase("conv2d", layer, differentiable=("input", "weight", "bias"), **LAYER),
    OpCase("conv2d steps", steps, differentiable=("input", "weight"), **LAYER),
    OpCase("conv2d auto", with_options(layer, method="auto"), differentiable=("input",), **LAYER),
    *(
        OpCase(
            f"convolve2d {mode}, {boundary}",
            with_options(planes, mode=mode, boundary=boundary, method="direct"),
            **PLANES,
        )
        for mode, boundary in (("full", "fill"), ("same", "wrap"), ("full", "symm"))
    ),
    OpCase("correlate2d", with_options(planes, mode="same", method="direct"), **PLANES),
    OpCase("convolve2d im2col", with_options(planes, method="im2col", **IN_TURN), **PRODUCTS),
    OpCase("convolve2d fft", with_options(planes, method="fft", **IN_TURN), **PRODUCTS),
    OpCase("im2col", windows, linear_in=("input",), **LINEAR),
    OpCase(
        "im2col fill",
        with_options(windows, fill_value=0.5, layout="patches"),
        linear_in=("input",),
        **LINEAR,
    ),
    OpCase("col2im", columns, linear_in=("input",), **LINEAR),
    OpCase("col2im patches", patches, linear_in=("input",), **LINEAR),
    OpCase("filter2d", with_options(filtered, border=BORDERS), **FILTER),
    OpCase("gaussian_blur", with_options(image, size=5, sigma=1.2, border=BORDERS), **FILTER),
    OpCase("box_blur", with_options(image, size=OneOf((3, 5), 1, 7), border=BORDERS), **FILTER),
    OpCase(
        "sobel",
        with_options(image, dx=OneOf(1, 0, 2), dy=OneOf(0, 1, 1), size=OneOf(3, 5), border=BORDERS),
        **FILTER,
    ),
]
