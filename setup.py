"""Builds visops: metadata is in pyproject.toml, compiling in scripts/build_*.py.

Environment variables
---------------------
VISOPS_CUDA : 0 leaves the CUDA kernels out, 1 makes it an error if they can't be built, native
    builds them for this machine's GPUs alone, if it has any. By default they are built when nvcc is
    there and of the CUDA major version that torch was built for.
VISOPS_JPEG : 0 leaves out the decoder of JPEG files, 1 makes it an error if it can't be built. By
    default it is built where the compiler finds libjpeg-turbo.
VISOPS_EMULATION : 1 also compiles the CUDA kernels as plain C++, for VISOPS_CPU=cuda_emulated.
VISOPS_WERROR : 1 makes compiler warnings errors.
VISOPS_CCACHE : 0 compiles without ccache, through which compilers run where it is installed.
VISOPS_PYTHONS : interpreters, separated as in PATH, that `_native` is compiled for; by default the
    running one.
VISOPS_ISA : the instruction sets that CPU kernels are compiled for, such as "default,avx2", or
    "native" for the best of this processor; by default all. Without "default", the library runs
    only on processors that have one of them.
VISOPS_SANITIZE : "address,undefined" or "thread" builds with these sanitizers, in other folders;
    "cuda" looks at the memory of emulated CUDA kernels, with GCC and VISOPS_EMULATION=1.
VISOPS_GPU_CONSTANTS : 1 compiles emulated kernels with the constants that a GPU takes. By default
    theirs are so small that tests see several launches, rounds and tiles.
VISOPS_PTX : 1 lets emulated launches run the PTX that nvcc makes of the kernels (tests/ptx), with
    VISOPS_EMULATION=1.
VISOPS_EMULATE_NEON : 1 compiles ARM's kernels for x86 as well, into the default slot, in another
    folder; it takes SIMDe's headers.
VISOPS_TARGET : linux-x86_64, linux-aarch64, macos-arm64 or windows-x86_64: builds what a wheel for
    that system holds, with zig (scripts/cross/targets.py). By default, on Linux, this machine's own
    compiler builds for it.
TORCH_CUDA_ARCH_LIST : GPU architectures; "8.0;9.0+PTX" by default.
CXX, CXXFLAGS, LDFLAGS, CUDA_HOME, MAX_JOBS : as usual.
"""

import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup

sys.path.insert(0, str(Path(__file__).resolve().parent / "scripts"))

from build_extensions import BuildExtensions, Editable, Wheel
from build_ninja import sources

setup(
    packages=["visops", *(f"visops.{package}" for package in find_packages("ops"))],
    ext_modules=[
        # LibTorch's stable ABI and no Python: one binary for every torch. The CUDA kernels are
        # beside it, in a library of their own.
        Extension("visops.lib.visops", ["csrc/library.cpp", *sources("csrc/core", "csrc/torch")]),
        # pybind11 has no limited-API mode: this one is per Python version.
        Extension("visops._native", sources("csrc/core", "csrc/python")),
    ],
    cmdclass={
        "build_ext": BuildExtensions,
        "bdist_wheel": Wheel,
        "editable_wheel": Editable,
    },
)
