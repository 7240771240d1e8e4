"""Describes this build of visops and the machine it runs on."""

import json
from pathlib import Path
from typing import Any

import torch

from ._loader import native_error
from .jpeg.file import decoder_info

# For CMake's CMAKE_PREFIX_PATH, as torch.utils.cmake_prefix_path: find_package(visops) then defines
# the target visops::visops (ops/share/cmake).
cmake_prefix_path: str = str(Path(__file__).resolve().parent / "share" / "cmake")


def build_info() -> dict[str, Any]:
    """Describe this build and the kernels in force.

    Returns
    -------
    dict
        ``version``, ``torch_built`` (the torch it was compiled against), ``torch_abi_target`` (the
        oldest torch it runs on), ``compiler``, ``cuda_built`` (None without CUDA), ``cuda_archs``,
        ``cpu`` (the instruction set in force), ``cpu_available`` (those that this build and this
        processor have, which the environment variable ``VISOPS_CPU`` can name), ``kernels``
        (backends per kernel), ``jpeg`` (what decodes JPEG files, None where nothing does),
        ``jpeg_error`` (why that isn't this package's own library, or None) and ``native_error``
        (why there are no chains for this Python, or None).

    Examples
    --------
    >>> import visops
    >>> visops.build_info()["torch_abi_target"]
    '2.11'
    """
    info: dict[str, Any] = json.loads(torch.ops.visops.build_info())
    info["cuda_archs"] = [arch for arch in info["cuda_archs"].split(";") if arch]
    info |= decoder_info() | {"native_error": native_error}
    return info


# Under python_cpp_extension's names; visops.compat has them.


def get_compiler_version() -> str:
    """Name and version of the C++ compiler that visops was built with, such as ``GCC 12.2``."""
    return str(build_info()["compiler"])


def get_compiling_cuda_version() -> str:
    """CUDA version that visops was built with, such as ``13.0``; ``not available`` without CUDA."""
    return str(build_info()["cuda_built"] or "not available")
