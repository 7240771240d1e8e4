"""Writes and runs the ninja file of a build; used by the build_*.py beside it only.

NOTE [ Kernels first ]
Kernels need neither torch nor Python, and torch takes minutes to install. Run as a program, after
`pip install ninja`, this file compiles them meanwhile:

    python scripts/build_ninja.py    # the environment variables are those in setup.py

It writes a ninja file of its own with the same objects, flags and log as the whole build, which
then finds them done.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path

from build_sanitizers import (
    build_folder,
    check_flags,
    compile_flags,
    emulates_neon,
    emulation_flags,
    emulation_folder,
    has_gpu_constants,
    interprets_ptx,
    sanitizers,
)
from build_toolchain import (
    FLAGS,
    TARGET,
    Cuda,
    compiler_cache,
    fail,
    find_compiler,
    is_gcc,
    isa_levels,
    machine_of,
    switch,
)
from cross.targets import linker

ROOT = Path(__file__).resolve().parent.parent
# Relative to ROOT, where ninja runs. Objects by another compiler have a folder of their own.
_BY_ZIG = [TARGET.name] if TARGET is not None and TARGET.compiled_by_zig else []
BUILD = Path("build", "-".join([build_folder(sanitizers()), *_BY_ZIG]))
GENERATED = BUILD / "generated"  # headers that the build writes


def files_below(folder: str, pattern: str = "*.cpp") -> list[Path]:
    """Files of a folder and of the families in it, relative to the repository."""
    return sorted(path.relative_to(ROOT) for path in (ROOT / folder).rglob(pattern))


def sources(*folders: str) -> list[str]:
    """C++ files below folders, as setuptools wants them."""
    return [path.as_posix() for folder in folders for path in files_below(folder)]


def command_line(words: Iterable[str | Path]) -> str:
    """Quote words for the shell, then for ninja."""
    strings = [str(word) for word in words]
    line = subprocess.list2cmdline(strings) if os.name == "nt" else shlex.join(strings)
    return line.replace("$", "$$")


def defines(macros: Mapping[str, str]) -> list[str]:
    """Macros as compiler flags."""
    return [f"-D{name}={value}" for name, value in macros.items()]


def includes(paths: Iterable[str | Path]) -> list[str]:
    """Third-party include folders, whose headers must not warn."""
    return [word for path in paths for word in ("-isystem", str(path))]


class NinjaFile:
    """The content of build.ninja. Paths in it are relative to the repository."""

    def __init__(self, cuda: Cuda | None) -> None:
        self._lines = [f"builddir = {BUILD.as_posix()}"]
        self.compiler = find_compiler()
        cache = compiler_cache()
        cxx = command_line([*cache, *self.compiler])
        strict = switch("VISOPS_WERROR") or False
        self._flags = [*FLAGS.compile, "-Icsrc", f"-I{GENERATED}"]
        # zig describes all code for debuggers unless told otherwise: a third of its time.
        self._flags += ["-g0"] if TARGET is not None and TARGET.compiled_by_zig else []
        if TARGET is not None and TARGET.system == "windows":
            self._flags.remove("-fPIC")  # all code there can move, and Clang won't be told so
        self._flags += FLAGS.warnings_are_errors if strict else []
        self._flags += compile_flags(sanitizers())
        self._flags += shlex.split(os.environ.get("CXXFLAGS", ""))
        self._rule("cxx", f"{cxx} -MD -MF $out.d $flags -c $in -o $out", reads_headers=True)
        if TARGET is None:
            self._rule("link", f"{cxx} $in $flags -o $out")
        else:
            self._rule("link", f"{command_line(linker(TARGET))} $in $flags -o $out")
            write = [sys.executable, "scripts/cross/targets.py", TARGET.name]
            self._rule("imports", f"{command_line(write)} $out $in")
        if cuda is not None:
            nvcc = command_line([*cache, cuda.nvcc])
            self._rule("nvcc", f"{nvcc} -MD -MF $out.d $flags -c $in -o $out", reads_headers=True)
            self._rule("ptx", f"{nvcc} -MD -MF $out.d $flags --ptx $in -o $out", reads_headers=True)
            host = [flag for flag in FLAGS.compile if not flag.startswith("-std")]
            # The host compiler sees nvcc's output with headers expanded, much of it unused.
            host += ["-Wno-unused-function", "-Wno-unneeded-internal-declaration"]
            # Code for the GPU is optimised by default; nvcc's -O is about the host's.
            self._device_flags = ["-std=c++17", "-fmad=false", "-Icsrc"]
            self._nvcc_flags = [*self._device_flags, *cuda.arch_flags()]
            # The host's code runs once a launch.
            self._nvcc_flags += [f"-Xcompiler={flag}" for flag in [*host, *FLAGS.small]]
            # A fifth of the size; drivers of CUDA 13 and newer all read it.
            self._nvcc_flags += ["--compress-mode=size"] if cuda.major >= 13 else []
            self._nvcc_flags += ["-Werror=all-warnings"] if strict else []
            self._nvcc_flags += ["-ccbin", self.compiler[0]] if os.environ.get("CXX") else []

    def _rule(self, name: str, command: str, reads_headers: bool = False) -> None:
        self._lines += [f"rule {name}", f"  command = {command}", f"  description = {name} $out"]
        self._lines += ["  deps = gcc", "  depfile = $out.d"] if reads_headers else []

    def build(self, out: Path, rule: str, inputs: Iterable[Path], flags: Iterable[str]) -> None:
        """Make `out` from `inputs` by a rule: cxx, nvcc, imports or link."""
        words = [re.sub(r"([$: ])", r"$\1", path.as_posix()) for path in (out, *inputs)]
        self._lines.append(f"build {words[0]}: {rule} {' '.join(words[1:])}")
        self._lines.append(f"  flags = {command_line(flags)}")

    def objects(self, folder: str, files: Iterable[Path], flags: Iterable[str] = ()) -> list[Path]:
        """Compile C++ files to objects in `folder` and return those."""
        return self._compile("cxx", folder, files, [*self._flags, *flags])

    def cuda_objects(self, folder: str, files: Iterable[Path]) -> list[Path]:
        """Compile CUDA files."""
        return self._compile("nvcc", folder, files, self._nvcc_flags)

    def ptx(self, folder: str, files: Iterable[Path]) -> None:
        """Compile CUDA files to PTX: family.name.ptx, for the lowest GPU that is built for."""
        flags = [*self._device_flags, "-arch=compute_80"]
        flags += [] if has_gpu_constants() else defines({"VISOPS_SMALL_CONSTANTS": "1"})
        made = {
            ".".join(file.relative_to("csrc/cuda").with_suffix(".ptx").parts): file
            for file in files
        }
        for stale in (ROOT / BUILD / folder).glob("*.ptx"):  # of files that are no more
            if stale.name not in made:
                stale.unlink()
        for name, file in made.items():
            self.build(BUILD / folder / name, "ptx", [file], flags)

    def _compile(
        self, rule: str, folder: str, files: Iterable[Path], flags: list[str]
    ) -> list[Path]:
        made = {BUILD / folder / f"{file}.o": file for file in files}
        for out, file in made.items():
            self.build(out, rule, [file], flags)
        return list(made)

    def run(self, name: str = "build.ninja") -> None:
        """Write the file and bring everything in it up to date."""
        folder = ROOT / BUILD
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("\n".join(self._lines) + "\n")
        path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
        program = shutil.which("ninja", path=path) or fail("no ninja; run: pip install ninja")
        jobs = os.environ.get("MAX_JOBS")
        command = [program, "-f", f"{BUILD}/{name}", *(["-j", jobs] if jobs else [])]
        # make names its job server to all commands, but opens it to other makes only.
        environment = {key: value for key, value in os.environ.items() if key != "MAKEFLAGS"}
        # Another clone's objects are this one's: paths below the repository count as relative.
        environment |= {"CCACHE_NOHASHDIR": "1", "CCACHE_BASEDIR": str(ROOT)}
        if subprocess.run(command, cwd=ROOT, env=environment).returncode:
            hint = "; VISOPS_WERROR=0 lets warnings pass" if switch("VISOPS_WERROR") else ""
            fail(f"compiling failed, see the first error above{hint}")


def _kernels(*names: str) -> set[str]:
    return {f"csrc/cpu/{name}_kernel.cpp" for name in names}


# Large kernels that are as fast if GCC does not copy their loops. Each was timed with and without:
# augmentations, pooling and most gradients do gain from the copies.
LEAN = _kernels(
    "convolution/conv2d",
    "convolution/convolve2d",
    "roi/crops",
    "roi/paste",
    "warp/affine",
    "warp/affine_backward_image",
)

# Kernels whose loops hold next to no 512-bit vectors, or only read, add and store with them: their
# AVX2 objects serve processors with AVX-512 as well. That was read in the object code. Four were
# timed on an Intel Xeon, one thread, AVX2's time over AVX-512's: roi/crops 0.85 to 1.04,
# masks/components 0.99, masks/distance 0.99 and 1.05 in two runs, warp/affine_backward_image 0.89
# to 0.97 for float32 and float16, up to 1.06 for float64.
AVX2_SUFFICES = _kernels(
    "convolution/col2im",
    "masks/components",
    "masks/distance",
    "masks/paste_backward",
    "roi/align_max_backward",
    "roi/align_rotated",
    "roi/crops",
    "roi/crops_backward",
    "roi/paste_backward",
    "roi/ps_align",
    "suppression/nms_match",
    "suppression/nms_pad",
    "suppression/nms_rotated",
    "warp/affine_backward_image",
)


# ARM's kernels in x86's default slot; SIMDe is quick from SSE4.1 on.
_NEON_EMULATION = [
    *("-msse4.1", "-DVISOPS_NEON=1", "-isystem", "tests/neon_emulation"),
    *("-Wno-psabi", "-Wno-ignored-attributes", "-Wno-aggressive-loop-optimizations"),
]


def cpu_kernels(file: NinjaFile) -> list[Path]:
    """Compile csrc/cpu once per instruction set."""
    objects = []
    gcc = is_gcc(file.compiler)
    machine = machine_of(file.compiler)
    levels = isa_levels(file.compiler)
    if "default" in levels and emulates_neon():
        levels["default"] = (0, _NEON_EMULATION)
    for isa, (slot, flags) in levels.items():
        for source in files_below("csrc/cpu"):
            if isa == "avx512" and "avx2" in levels and source.as_posix() in AVX2_SUFFICES:
                continue  # StubTable::best_cpu() takes the next best kernel
            slot_flags = [*defines({"VISOPS_ISA_SLOT": str(slot)}), *flags]
            if gcc and flags != FLAGS.plain:
                slot_flags += FLAGS.calls if machine == "x86_64" else []
                slot_flags += FLAGS.lean if source.as_posix() in LEAN else []
            objects += file.objects(isa, [source], slot_flags)
    return objects


# First on the include path, so that <cuda_runtime.h> is the emulation's.
_EMULATION = [
    "-Itests/cuda_on_cpu",
    *defines({"VISOPS_CUDA_EMULATION": "1"}),
]


def emulation_of_cuda(file: NinjaFile) -> list[Path]:
    """Compile what stands in for CUDA, and what lets tests choose kernels."""
    return file.objects("emulated", [Path("tests/cuda_on_cpu/force_cpu.cpp")], _EMULATION)


def checks_of_cuda(file: NinjaFile, torch_api: Iterable[str]) -> list[Path]:
    """Compile the checks of emulated kernels' memory, where VISOPS_SANITIZE asks for them."""
    if "cuda" not in sanitizers():
        return []
    flags = [*_EMULATION, *check_flags(), *torch_api]
    return file.objects("emulated", files_below("tests/cuda_on_cpu/checks"), flags)


def emulated_kernels(file: NinjaFile) -> list[Path]:
    """Compile the CUDA kernels as C++."""
    flags = [*_EMULATION, *FLAGS.emulation, *emulation_flags(sanitizers())]
    if interprets_ptx():  # the launches are replaced, and kernels are told by their addresses
        flags = ["-Itests/ptx/hook", *flags, "-O0", "-fno-ipa-icf"]
    return file.objects(emulation_folder("emulated"), files_below("csrc/cuda", "*.cu"), flags)


# The processor's widest vectors: an instruction of a warp goes through 32 lanes.
_INTERPRETER = ["-march=native", "-mprefer-vector-width=512", "-fno-strict-aliasing"]
_PTX_TESTS = ["-Itests/ptx"]


def ptx_interpreter(file: NinjaFile) -> list[Path]:
    """Compile the CUDA kernels to PTX, and what runs it in their place (tests/ptx)."""
    file.ptx(emulation_folder("kernels"), files_below("csrc/cuda", "*.cu"))
    interpreter = file.objects("ptx", files_below("tests/ptx/interpreter"), _INTERPRETER)
    self_test = file.objects("ptx", files_below("tests/ptx/self_test"), [*_PTX_TESTS, "-O1"])
    file.build(BUILD / "ptx/self_test", "link", self_test + interpreter, [])
    guard = file.objects("ptx", files_below("tests/ptx/guard"))
    file.build(BUILD / "ptx/libptx_guard.so", "link", guard, ["-shared", "-ldl"])
    return interpreter + file.objects("ptx", files_below("tests/ptx/hook"), _PTX_TESTS)


if __name__ == "__main__":
    kernels = NinjaFile(None)
    cpu_kernels(kernels)
    if switch("VISOPS_EMULATION"):
        emulation_of_cuda(kernels)
        emulated_kernels(kernels)
    kernels.run("kernels.ninja")
