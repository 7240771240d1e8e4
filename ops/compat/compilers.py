"""What the library was compiled with, under python_cpp_extension's names."""

from .._info import build_info


def get_compiler_version() -> str:
    """Name and version of the C++ compiler that visops was built with, such as ``GCC 12.2``."""
    return str(build_info()["compiler"])


def get_compiling_cuda_version() -> str:
    """CUDA version that visops was built with, such as ``13.0``; ``not available`` without CUDA."""
    return str(build_info()["cuda_built"] or "not available")
