"""Builds with the sanitizers named in VISOPS_SANITIZE, spelt as for `-fsanitize`.

Their objects go to folders of their own. The result needs the sanitizers' shared libraries, which
an ordinary Python must preload; `make test-asan` and `make test-tsan` do so.

One more, "cuda", is our own and needs no library: it looks at the memory of emulated CUDA kernels
(tests/cuda_on_cpu/checks). They are compiled as for ThreadSanitizer, whose functions it replaces.
"""

import os
from collections.abc import Mapping

KNOWN = ("address", "cuda", "thread", "undefined")
# What the kernels' memory checks take over of torch's functions; see checks/tensors.cpp in
# tests/cuda_on_cpu.
WRAPPED = (
    "torch_get_mutable_data_ptr",
    "torch_get_const_data_ptr",
    "aoti_torch_empty_strided",
    "aoti_torch_delete_tensor_object",
    "torch_call_dispatcher",
    # These are our own functions; see tests/cuda_on_cpu/checks/boxes.cpp.
    "_ZN6visops10check_roisEPKcS1_RKNS_14RoiAlignParamsE",
    "_ZN6visops16check_crop_boxesEPKcRKNS_9CropBoxesEl",
)


def sanitizers(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the sanitizers in VISOPS_SANITIZE; none by default."""
    value = environment.get("VISOPS_SANITIZE", "")
    names = [name for name in value.split(",") if name]
    unknown = [name for name in names if name not in KNOWN]
    if unknown:
        raise SystemExit(
            f"visops: VISOPS_SANITIZE={value} is not known; it can hold {', '.join(KNOWN)}"
        )
    if {"address", "thread"} <= set(names):
        raise SystemExit("visops: VISOPS_SANITIZE can't hold both address and thread")
    if "cuda" in names and len(names) > 1:
        raise SystemExit("visops: VISOPS_SANITIZE can't hold cuda and others")
    return names


def has_gpu_constants(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether emulated kernels take the constants of a GPU (VISOPS_GPU_CONSTANTS=1)."""
    return environment.get("VISOPS_GPU_CONSTANTS", "0") not in ("", "0")


def emulates_neon(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether x86's default slot gets ARM's kernels (VISOPS_EMULATE_NEON=1)."""
    return environment.get("VISOPS_EMULATE_NEON", "0") not in ("", "0")


def interprets_ptx(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether emulated launches run the PTX that nvcc makes of the kernels (VISOPS_PTX=1)."""
    return environment.get("VISOPS_PTX", "0") not in ("", "0")


def build_folder(names: list[str]) -> str:
    """Return the folder of object files below build/."""
    emulated = ["neon"] if emulates_neon() else []
    return "-".join(["ninja", *names, *emulated])


def emulation_folder(name: str) -> str:
    """Return a name for what emulated kernels differ in; all other objects are shared."""
    ptx = ["ptx"] if interprets_ptx() else []
    constants = ["gpu-constants"] if has_gpu_constants() else []
    return "-".join([name, *ptx, *constants])


def compile_flags(names: list[str]) -> list[str]:
    """Return compiler flags for GCC and Clang. The first error ends the process.

    Optimised, some kernels with all of UBSan's checks take GCC minutes each.
    """
    if not names or "cuda" in names:
        return []
    level = "-O0" if "undefined" in names else "-O1"
    return [
        f"-fsanitize={','.join(names)}",
        *("-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1", level),
    ]


def emulation_flags(names: list[str]) -> list[str]:
    """Return flags for emulated kernels: GCC's, where their memory is looked at."""
    constants = ["-DVISOPS_GPU_CONSTANTS=1", "-DCUDART_VERSION=13000"]
    constants = constants if has_gpu_constants() else []
    if "cuda" not in names:
        return constants
    return [
        *constants,
        *("-fsanitize=thread,bounds", "-O1", "-g1", "-DVISOPS_CUDA_CHECK=1"),
        # volatile accesses count as atomic. Who calls whom is not asked for.
        *("--param=tsan-distinguish-volatile=1", "--param=tsan-instrument-func-entry-exit=0"),
    ]


def check_flags() -> list[str]:
    """Return flags for the checks themselves."""
    return ["-DVISOPS_CUDA_CHECK=1", "-g1"]


def link_flags(names: list[str]) -> list[str]:
    """Return linker flags for GCC and Clang."""
    if "cuda" in names:
        return [f"-Wl,--wrap={name}" for name in WRAPPED]
    return [f"-fsanitize={','.join(names)}"] if names else []
