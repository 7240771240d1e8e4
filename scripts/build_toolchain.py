"""The compilers that visops is built with, and their options; used by the build_*.py beside it."""

import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from cross.targets import HOST, MACHINES, compiler, wanted_target

DEFAULT_CUDA_ARCHS = "8.0;9.0+PTX"


@dataclass(frozen=True)
class Flags:
    """Options of GCC and Clang."""

    compile: list[str]
    warnings_are_errors: list[str]
    emulation: list[str]  # for .cu files compiled as C++, which need not be fast
    calls: list[str]  # for kernels that copy and fill few bytes at a time; GCC on x86 only
    lean: list[str]  # for kernels that these make smaller and no slower; GCC only
    plain: list[str]  # for kernels that only x86 processors from before AVX2 run
    arm: list[str]  # for kernels that every 64-bit ARM processor runs
    small: list[str]  # for what runs once a call
    isa: dict[str, list[str]]  # in the order of Slot in core/dispatch/kernel_stub.h


FLAGS = Flags(
    compile=[
        *("-std=c++17", "-O3", "-DNDEBUG", "-fPIC"),
        *("-fvisibility=hidden", "-fvisibility-inlines-hidden", "-ffunction-sections"),
        *("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"),
        # GCC 12 warns about its own AVX-512 headers (GCC bug 105593); Clang lacks this warning.
        *("-Wall", "-Wextra", "-Wno-unknown-warning-option", "-Wno-maybe-uninitialized"),
    ],
    warnings_are_errors=["-Werror"],
    emulation=["-O2", "-Wno-unknown-pragmas", "-x", "c++"],
    # GCC writes copies and fills whose size it knows a limit of as `rep movs` and `rep stos`. These
    # take dozens of cycles to begin; a call of memcpy does not. Only x86 has them.
    calls=["-mmemcpy-strategy=libcall:-1:noalign", "-mmemset-strategy=libcall:-1:noalign"],
    # GCC copies loops for what is the same in every turn, such as strides of 1.
    lean=[
        "-fno-unswitch-loops",
        "-fno-version-loops-for-strides",
        "-fno-tree-loop-distribution",
    ],
    # Small: processors without AVX2 are from before 2013. The warning is a false one, of a loop
    # that is not unrolled.
    plain=["-Os", "-Wno-aggressive-loop-optimizations"],
    # GCC 12 gives the same false warning where it unrolls that loop for ARM.
    arm=["-Wno-aggressive-loop-optimizations"],
    small=["-Os"],
    isa={
        "default": [],
        "avx2": ["-mavx2", "-mf16c"],
        "avx512": [
            *("-mavx2", "-mf16c"),
            *("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"),
            "-mprefer-vector-width=512",
        ],
    },
)
# What -march=native defines on processors for which core/dispatch/kernel_stub.cpp chooses a slot.
_AVX2 = {"AVX2", "FMA", "F16C"}
NATIVE_MACROS = {
    "avx2": _AVX2,
    "avx512": _AVX2 | {"AVX512F", "AVX512BW", "AVX512DQ", "AVX512VL"},
}
TARGET = wanted_target()


def fail(message: str) -> NoReturn:
    """Stop the build with one line."""
    raise SystemExit(f"visops: {message}")


def switch(name: str) -> bool | None:
    """Read a 0/1 environment variable; None where it is unset or empty."""
    value = os.environ.get(name, "")
    if value not in ("", "0", "1"):
        fail(f"{name}={value} is not known; it can be 0 or 1")
    return None if value == "" else value == "1"


def find_compiler() -> list[str]:
    """Return the command of the C++ compiler: zig's for other systems; else CXX or what is here."""
    if TARGET is not None and TARGET.compiled_by_zig:
        return compiler(TARGET)
    wanted = os.environ.get("CXX")
    names = [wanted] if wanted else ["c++", "g++", "clang++"]
    for name in names:
        command = shlex.split(name)
        if shutil.which(command[0]):
            return command
    fail(f"no C++ compiler: looked for {', '.join(names)}; install one or set CXX")


def compiler_cache() -> list[str]:
    """Return the command that compilers run through: ccache, where it is installed.

    VISOPS_CCACHE=0 leaves it out. zig is not known to it, and keeps objects itself.
    """
    by_zig = TARGET is not None and TARGET.compiled_by_zig
    found = None if by_zig or switch("VISOPS_CCACHE") is False else shutil.which("ccache")
    return [found] if found else []


def machine_of(compiler: list[str]) -> str:
    """Return the machine that a compiler builds for, as Linux names it."""
    macros = (predefined_macros(compiler) if shutil.which(compiler[0]) else None) or {}
    return next((name for name in MACHINES if f"__{name}__" in macros), HOST)


@dataclass(frozen=True)
class Cuda:
    """The CUDA toolkit that the kernels are compiled with."""

    nvcc: Path
    version: str
    archs: list[str]  # "8.0", "9.0+PTX"

    @property
    def major(self) -> int:
        """The first number of the version."""
        return int(self.version.split(".")[0])

    def arch_flags(self) -> list[str]:
        """nvcc's spelling of `archs`.

        Kernels use nothing that is newer than 8.0, and making PTX takes most of
        nvcc's time: the PTX of the lowest architecture from there on is assembled for all of them.
        """
        parsed = []
        for arch in self.archs:
            match = re.fullmatch(r"(\d+)\.(\d)([a-z]?)(\+PTX)?", arch)
            if match is None:
                fail(f"TORCH_CUDA_ARCH_LIST has {arch!r}; expected numbers as in 8.0;9.0+PTX")
            parsed.append((int(match[1] + match[2]), match[3], match[4]))
        lowest = min((n for n, variant, _ in parsed if n >= 80 and not variant), default=None)
        flags = []
        for number, variant, with_ptx in parsed:
            ptx = lowest if number >= 80 and not variant else f"{number}{variant}"
            flags.append(f"-gencode=arch=compute_{ptx},code=sm_{number}{variant}")
            if with_ptx:
                flags.append(f"-gencode=arch=compute_{ptx},code=compute_{ptx}")
        return flags

    def library_dirs(self) -> list[Path]:
        """Where libcudart_static is: system packages and conda differ."""
        home = self.nvcc.parent.parent
        machine = f"targets/{platform.machine()}-linux/lib"
        return [home / d for d in ("lib64", "lib", machine) if (home / d).is_dir()]


def find_cuda(torch_cuda: str | None, gpus: Callable[[], list[str]] = list) -> Cuda | None:
    """Find the toolkit for CUDA kernels; print one line if they are left out.

    `gpus` returns the architectures of this machine's GPUs ("8.0"), for VISOPS_CUDA=native.
    """
    request = os.environ.get("VISOPS_CUDA", "")
    if request not in ("", "0", "1", "native"):
        fail(f"VISOPS_CUDA={request} is not known; it can be 0, 1 or native")
    found: Cuda | str
    native = gpus() if request == "native" else []
    if request == "0":
        found = "VISOPS_CUDA=0"
    elif TARGET is not None and TARGET.compiled_by_zig:
        found = "of the wheels, only that for Linux x86-64 has them"
    elif request == "native" and not native:
        found = "VISOPS_CUDA=native, and torch sees no GPU here"
    else:
        found = _matching_cuda(torch_cuda, native)
    if isinstance(found, Cuda):
        return found
    if request == "1":
        fail(f"VISOPS_CUDA=1, but {found}")
    print(f"visops: building without CUDA kernels: {found}")
    return None


def _matching_cuda(torch_cuda: str | None, native: list[str]) -> Cuda | str:
    """Return the toolkit, or the reason why there is none."""
    if torch_cuda is None:
        return "this torch was built without CUDA"
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    on_path = shutil.which("nvcc")
    if home:
        nvcc = Path(home, "bin", "nvcc")
    elif on_path:
        nvcc = Path(on_path).resolve()
    else:
        nvcc = Path("/usr/local/cuda/bin/nvcc")
    if not nvcc.is_file():
        return f"nvcc was not found ({nvcc}); install CUDA {torch_cuda} or set CUDA_HOME"
    output = subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout
    release = re.search(r"release (\d+\.\d+)", output)
    if release is None:
        return f"{nvcc} --version names no release"
    version = release[1]
    if version.split(".")[0] != torch_cuda.split(".")[0]:
        return f"nvcc is CUDA {version} and torch was built for CUDA {torch_cuda}: majors differ"
    archs = os.environ.get("TORCH_CUDA_ARCH_LIST") or ";".join(native) or DEFAULT_CUDA_ARCHS
    return Cuda(nvcc, version, re.split(r"[;\s]+", archs.strip()))


_TURBO = """\
#include <cstdio>
#include <jpeglib.h>
#if !defined(LIBJPEG_TURBO_VERSION_NUMBER) || LIBJPEG_TURBO_VERSION_NUMBER < 2000000
#error jpeglib.h is not that of libjpeg-turbo 2 or newer
#endif
int main() {
  jpeg_decompress_struct info;
  jpeg_create_decompress(&info);
  jpeg_skip_scanlines(&info, 0);
}
"""


def find_jpeg() -> bool:
    """Whether programs can be built with libjpeg-turbo; print one line if they can't."""
    request = switch("VISOPS_JPEG")
    if request is False:
        print("visops: building without libjpeg-turbo: VISOPS_JPEG=0")
        return False
    reason = _jpeg_problem()
    if reason is None:
        return True
    if request:
        fail(f"VISOPS_JPEG=1, but {reason}")
    print(f"visops: building without libjpeg-turbo: {reason}")
    return False


def _jpeg_problem() -> str | None:
    """Compile and link a program; return the compiler's first error."""
    flags = [shlex.split(os.environ.get(name, "")) for name in ("CXXFLAGS", "LDFLAGS")]
    with tempfile.TemporaryDirectory() as folder:
        command = [*find_compiler(), *flags[0], "-x", "c++", "-", "-o", f"{folder}/program"]
        run = subprocess.run(
            [*command, *flags[1], "-ljpeg"], input=_TURBO, capture_output=True, text=True
        )
    if run.returncode == 0:
        return None
    lines = [line for line in run.stderr.splitlines() if "error" in line or "cannot find" in line]
    return f"{(lines or ['the compiler failed'])[0]}; install libjpeg-turbo's headers"


def predefined_macros(compiler: list[str], *flags: str) -> dict[str, str] | None:
    """Return what a GNU-like compiler defines by itself; None if it refuses the flags."""
    command = [*compiler, *flags, "-dM", "-E", "-x", "c++", os.devnull]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if run.returncode else dict(re.findall(r"#define (\w+) (.*)", run.stdout))


def is_gcc(compiler: list[str]) -> bool:
    """Whether the compiler is GCC, and not one that says so."""
    macros = predefined_macros(compiler) or {}
    return "__GNUC__" in macros and "__clang__" not in macros


def folding_flags(compiler: list[str]) -> list[str]:
    """Linker options that make one of functions with the same code; none where no linker has them.

    "Safe" leaves out functions whose addresses could be compared.
    """
    if TARGET is not None or os.environ.get("LDFLAGS"):  # zig, which links for targets, can't
        return []
    for linker in ("gold", "lld"):
        flags = [f"-fuse-ld={linker}", "-Wl,--icf=safe"]
        with tempfile.TemporaryDirectory() as folder:
            command = [*compiler, "-shared", "-x", "c++", os.devnull, "-o", f"{folder}/library"]
            done = subprocess.run([*command, *flags], capture_output=True, check=False)
        if done.returncode == 0:
            return flags
    return []


def native_isa(compiler: list[str]) -> str:
    """Return the best instruction set of `FLAGS.isa` that this machine's processor has."""
    macros = predefined_macros(compiler, "-march=native")
    if macros is None:
        fail(
            f"VISOPS_ISA=native: {compiler[0]} does not know -march=native; name the slots instead"
        )
    best = "default"
    for name, needed in NATIVE_MACROS.items():
        if all(macros.get(f"__{name}__") == "1" for name in needed):
            best = name
    return best


def isa_levels(compiler: list[str]) -> dict[str, tuple[int, list[str]]]:
    """Slot number and flags per instruction set: those in VISOPS_ISA, by default all."""
    machine = machine_of(compiler)
    levels = {"default": (0, FLAGS.arm if machine == "aarch64" else [])}
    if machine == "x86_64":
        levels = {name: (slot, flags) for slot, (name, flags) in enumerate(FLAGS.isa.items())}
        levels["default"] = (0, FLAGS.plain)
    value = os.environ.get("VISOPS_ISA", "")
    wanted = value.split(",") if value else list(levels)
    if wanted == ["native"]:
        wanted = [native_isa(compiler) if len(levels) > 1 else "default"]
    if not set(wanted) <= set(levels):
        known = f"native, or hold {', '.join(levels)}"
        fail(f"VISOPS_ISA={value} is not known; it can be {known}")
    return {name: levels[name] for name in wanted}
