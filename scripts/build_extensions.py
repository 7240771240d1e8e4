"""Compiles `visops._C` and `visops._numpy`; used by setup.py only.

NOTE [ How the extensions are built ]
One ninja file holds every object of both modules, so that all of them compile in parallel and a
second build compiles only what a changed source or header touches.

- csrc/core is compiled once: it needs neither torch nor Python.
- csrc/cpu is compiled once per instruction set; the kernels register themselves, and
  core/kernel_stub.cpp chooses at run time.
- csrc/library.cpp and csrc/torch (`_C`) see torch's stable headers and the limited Python API.
- csrc/numpy (`_numpy`) sees pybind11. Of the above it links only what warps of arrays use.
- csrc/cuda goes through nvcc into `_C`; with VISOPS_EMULATION=1 also through the C++ compiler,
  with tests/cuda_emulation/cuda_runtime.h standing in for CUDA's, into both modules.

The modules name torch's libraries but hold no path to them: `import torch` comes first and has
loaded them by then. The CUDA runtime is linked statically, as NCCL and cuDNN do it, so that the
module does not depend on the minor version, or the place, of the one torch brings.

No product is ever contracted with a sum (-ffp-contract=off, -fmad=false): results are equal
bit for bit on every instruction set and device. The MSVC flags have not been tried.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pybind11
import torch
from build_sanitizers import build_folder, compile_flags, sanitizers
from build_sanitizers import link_flags as sanitizer_link_flags
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path("build", build_folder(sanitizers()))  # relative to ROOT, where ninja runs
TORCH_API = "0x020b000000000000"  # 2.11: the oldest torch that the binary runs on
PYTHON_API = "0x030b0000"  # 3.11: the oldest Python; see requires-python
DEFAULT_CUDA_ARCHS = "8.0;9.0+PTX"


@dataclass(frozen=True)
class Flags:
    """The options that one family of compilers takes."""

    compile: list[str]
    warnings_are_errors: list[str]
    define: str
    include: str
    system_include: str
    emulation: list[str]  # for .cu files compiled as C++, which need not be fast
    isa: dict[str, list[str]]  # in the order of Slot in core/kernel_stub.h


GNU = Flags(  # GCC and Clang
    compile=[
        *("-std=c++17", "-O3", "-DNDEBUG", "-fPIC"),
        *("-fvisibility=hidden", "-fvisibility-inlines-hidden"),
        *("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"),
        # GCC 12 warns about its own AVX-512 headers (GCC bug 105593); Clang lacks this warning.
        *("-Wall", "-Wextra", "-Wno-unknown-warning-option", "-Wno-maybe-uninitialized"),
    ],
    warnings_are_errors=["-Werror"],
    define="-D",
    include="-I",
    system_include="-isystem",
    emulation=["-O2", "-Wno-unknown-pragmas", "-x", "c++"],
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
MSVC = Flags(
    compile=[
        *("/nologo", "/std:c++17", "/O2", "/DNDEBUG", "/DNOMINMAX", "/MD", "/EHsc", "/utf-8"),
        *("/fp:precise", "/W3", "/external:W0"),
    ],
    warnings_are_errors=["/WX"],
    define="/D",
    include="/I",
    system_include="/external:I",
    emulation=["/wd4068", "/TP"],
    isa={"default": [], "avx2": ["/arch:AVX2"], "avx512": ["/arch:AVX512"]},
)
WINDOWS = os.name == "nt"
FLAGS = MSVC if WINDOWS else GNU


def fail(message: str) -> NoReturn:
    """Stop the build with one line."""
    raise SystemExit(f"visops: {message}")


def switch(name: str) -> bool | None:
    """Read a 0/1 environment variable; None where it is unset or empty."""
    value = os.environ.get(name, "")
    if value not in ("", "0", "1"):
        fail(f"{name}={value} is not known; it can be 0 or 1")
    return None if value == "" else value == "1"


def files_below(folder: str, pattern: str = "*.cpp") -> list[Path]:
    """Files of a folder and of the families in it, relative to the repository."""
    return sorted(path.relative_to(ROOT) for path in (ROOT / folder).rglob(pattern))


def sources(*folders: str) -> list[str]:
    """C++ files below folders, as setuptools wants them."""
    return [path.as_posix() for folder in folders for path in files_below(folder)]


def find_compiler() -> list[str]:
    """Return the command of the C++ compiler, CXX where that is set."""
    wanted = os.environ.get("CXX")
    names = [wanted] if wanted else ["cl"] if WINDOWS else ["c++", "g++", "clang++"]
    for name in names:
        command = shlex.split(name, posix=not WINDOWS)
        if shutil.which(command[0]):
            return command
    fail(f"no C++ compiler: looked for {', '.join(names)}; install one or set CXX")


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
        """nvcc's spelling of `archs`."""
        flags = []
        for arch in self.archs:
            match = re.fullmatch(r"(\d+)\.(\d[a-z]?)(\+PTX)?", arch)
            if match is None:
                fail(f"TORCH_CUDA_ARCH_LIST has {arch!r}; expected numbers as in 8.0;9.0+PTX")
            number = match[1] + match[2]
            flags.append(f"-gencode=arch=compute_{number},code=sm_{number}")
            if match[3]:
                flags.append(f"-gencode=arch=compute_{number},code=compute_{number}")
        return flags

    def library_dirs(self) -> list[Path]:
        """Where libcudart_static is: system packages, conda and Windows differ."""
        home = self.nvcc.parent.parent
        machine = f"targets/{platform.machine()}-linux/lib"
        return [home / d for d in ("lib64", "lib", "lib/x64", machine) if (home / d).is_dir()]


def find_cuda(torch_cuda: str | None) -> Cuda | None:
    """Find the toolkit for CUDA kernels; print one line if they are left out."""
    request = switch("VISOPS_CUDA")
    if request is False:
        print("visops: building without CUDA kernels: VISOPS_CUDA=0")
        return None
    found = _matching_cuda(torch_cuda)
    if isinstance(found, Cuda):
        return found
    if request:
        fail(f"VISOPS_CUDA=1, but {found}")
    print(f"visops: building without CUDA kernels: {found}")
    return None


def _matching_cuda(torch_cuda: str | None) -> Cuda | str:
    """Return the toolkit, or the reason why there is none."""
    if torch_cuda is None:
        return "this torch was built without CUDA"
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    on_path = shutil.which("nvcc")
    if home:
        nvcc = Path(home, "bin", "nvcc.exe" if WINDOWS else "nvcc")
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
    archs = os.environ.get("TORCH_CUDA_ARCH_LIST") or DEFAULT_CUDA_ARCHS
    return Cuda(nvcc, version, re.split(r"[;\s]+", archs.strip()))


def command_line(words: Iterable[str | Path]) -> str:
    """Quote words for the shell, then for ninja."""
    strings = [str(word) for word in words]
    line = subprocess.list2cmdline(strings) if WINDOWS else shlex.join(strings)
    return line.replace("$", "$$")


def defines(macros: Mapping[str, str]) -> list[str]:
    """Macros as compiler flags."""
    return [f"{FLAGS.define}{name}={value}" for name, value in macros.items()]


def includes(paths: Iterable[str | Path]) -> list[str]:
    """Third-party include folders, whose headers must not warn."""
    return [word for path in paths for word in (FLAGS.system_include, str(path))]


class NinjaFile:
    """The content of build.ninja. Paths in it are relative to the repository."""

    def __init__(self, cuda: Cuda | None) -> None:
        self._lines = [f"builddir = {BUILD.as_posix()}"]
        compiler = find_compiler()
        cxx = command_line(compiler)
        strict = switch("VISOPS_WERROR") or False
        self._flags = [*FLAGS.compile, f"{FLAGS.include}csrc"]
        self._flags += FLAGS.warnings_are_errors if strict else []
        self._flags += compile_flags(sanitizers())
        self._flags += shlex.split(os.environ.get("CXXFLAGS", ""))
        if WINDOWS:
            self._rule("cxx", f"{cxx} /showIncludes $flags /c $in /Fo$out", deps="msvc")
            self._rule("link", "link /nologo /DLL $in $flags /OUT:$out")
        else:
            self._rule("cxx", f"{cxx} -MD -MF $out.d $flags -c $in -o $out", deps="gcc")
            self._rule("link", f"{cxx} $in $flags -o $out")
        if cuda is not None:
            nvcc = command_line([cuda.nvcc])
            self._rule("nvcc", f"{nvcc} -MD -MF $out.d $flags -c $in -o $out", deps="gcc")
            host = [flag for flag in FLAGS.compile if not flag.startswith(("-std", "/std"))]
            # The host compiler sees nvcc's output with headers expanded, much of it unused.
            host += (
                [] if WINDOWS else ["-Wno-unused-function", "-Wno-unneeded-internal-declaration"]
            )
            self._nvcc_flags = ["-std=c++17", "-O3", "-fmad=false", "-Icsrc", *cuda.arch_flags()]
            self._nvcc_flags += [f"-Xcompiler={flag}" for flag in host]
            # A fifth of the size; drivers of CUDA 13 and newer all read it.
            self._nvcc_flags += ["--compress-mode=size"] if cuda.major >= 13 else []
            self._nvcc_flags += ["-Werror=all-warnings"] if strict else []
            self._nvcc_flags += ["-ccbin", compiler[0]] if os.environ.get("CXX") else []

    def _rule(self, name: str, command: str, deps: str | None = None) -> None:
        self._lines += [f"rule {name}", f"  command = {command}", f"  description = {name} $out"]
        self._lines += [f"  deps = {deps}"] if deps else []
        self._lines += ["  depfile = $out.d"] if deps == "gcc" else []

    def build(self, out: Path, rule: str, inputs: Iterable[Path], flags: Iterable[str]) -> None:
        """Make `out` from `inputs` by a rule: cxx, nvcc or link."""
        words = [re.sub(r"([$: ])", r"$\1", path.as_posix()) for path in (out, *inputs)]
        self._lines.append(f"build {words[0]}: {rule} {' '.join(words[1:])}")
        self._lines.append(f"  flags = {command_line(flags)}")

    def objects(self, folder: str, files: Iterable[Path], flags: Iterable[str] = ()) -> list[Path]:
        """Compile C++ files to objects in `folder` and return those."""
        return self._compile("cxx", folder, files, [*self._flags, *flags])

    def cuda_objects(self, folder: str, files: Iterable[Path]) -> list[Path]:
        """Compile CUDA files."""
        return self._compile("nvcc", folder, files, self._nvcc_flags)

    def _compile(
        self, rule: str, folder: str, files: Iterable[Path], flags: list[str]
    ) -> list[Path]:
        made = {BUILD / folder / f"{file}.o": file for file in files}
        for out, file in made.items():
            self.build(out, rule, [file], flags)
        return list(made)

    def run(self) -> None:
        """Write the file and bring everything in it up to date."""
        folder = ROOT / BUILD
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "build.ninja").write_text("\n".join(self._lines) + "\n")
        path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
        program = shutil.which("ninja", path=path) or fail("no ninja; run: pip install ninja")
        jobs = os.environ.get("MAX_JOBS")
        command = [program, "-f", f"{BUILD}/build.ninja", *(["-j", jobs] if jobs else [])]
        if subprocess.run(command, cwd=ROOT).returncode:
            hint = "; VISOPS_WERROR=0 lets warnings pass" if switch("VISOPS_WERROR") else ""
            fail(f"compiling failed, see the first error above{hint}")


def link_flags(cuda: Cuda | None) -> list[str]:
    """Link with torch's libraries: their names are recorded, their paths are not."""
    torch_lib = Path(torch.__file__).parent / "lib"
    libraries = ["torch_cpu", "c10"] + (["torch_cuda"] if cuda else [])
    cuda_dirs = cuda.library_dirs() if cuda else []
    extra = shlex.split(os.environ.get("LDFLAGS", ""))
    if WINDOWS:
        libraries += ["cudart_static"] if cuda else []
        folders = [torch_lib, *cuda_dirs, Path(sys.base_prefix, "libs")]
        return [f"/LIBPATH:{d}" for d in folders] + [f"{name}.lib" for name in libraries] + extra
    if sys.platform == "darwin":
        flags = ["-bundle", "-undefined", "dynamic_lookup", "-Wl,-rpath,@loader_path/../torch/lib"]
    else:
        flags = ["-shared", "-Wl,--as-needed", "-Wl,--exclude-libs,ALL"]
    flags += sanitizer_link_flags(sanitizers())
    flags += [f"-L{folder}" for folder in [torch_lib, *cuda_dirs]]
    flags += [f"-l{name}" for name in libraries]
    flags += ["-lcudart_static", "-lrt", "-lpthread", "-ldl"] if cuda else []
    return flags + extra


def used_by_numpy(objects: Iterable[Path]) -> list[Path]:
    """Objects that `_numpy` needs: what every kernel shares, and the forward affine warp."""
    families = {path.name for path in (ROOT / "csrc" / "core").iterdir() if path.is_dir()}
    return [
        path
        for path in objects
        if path.parent.name not in families
        or (path.name.startswith("affine") and "backward" not in path.name)
    ]


def isa_levels() -> dict[str, tuple[int, list[str]]]:
    """Slot number and flags per instruction set."""
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    return {
        name: (slot, flags)
        for slot, (name, flags) in enumerate(FLAGS.isa.items())
        if x86 or name == "default"
    }


class BuildExtensions(build_ext):
    """Replaces setuptools' compiling; see NOTE [ How the extensions are built ]."""

    def build_extensions(self) -> None:
        """Compile both modules and put them where setuptools expects them."""
        version = self.distribution.get_version()
        cuda_files = files_below("csrc/cuda", "*.cu")
        cuda = find_cuda(torch.version.cuda) if cuda_files else None
        emulation = switch("VISOPS_EMULATION") or False
        file = NinjaFile(cuda)

        common: list[str | Path] = [
            Path(torch.__file__).parent / "include",
            sysconfig.get_path("include"),
        ]
        macros = {"TORCH_TARGET_VERSION": TORCH_API}
        front = {
            **macros,
            "Py_LIMITED_API": PYTHON_API,
            "VISOPS_VERSION": f'"{version}"',
            "VISOPS_TORCH_VERSION": f'"{torch.__version__}"',
        }
        if cuda is not None:
            front["USE_CUDA"] = "1"
            front["VISOPS_CUDA_VERSION"] = f'"{cuda.version}"'
            front["VISOPS_CUDA_ARCHS"] = f'"{";".join(cuda.archs)}"'

        shared = file.objects("core", files_below("csrc/core"))
        for isa, (slot, flags) in isa_levels().items():
            slot_flags = [*defines({"VISOPS_ISA_SLOT": str(slot)}), *flags]
            shared += file.objects(isa, files_below("csrc/cpu"), slot_flags)
        if emulation:
            # First on the include path, so that <cuda_runtime.h> is the emulation's.
            flags = [
                f"{FLAGS.include}tests/cuda_emulation",
                *defines({"VISOPS_CUDA_EMULATION": "1"}),
            ]
            shared += file.objects("emulated", files_below("tests/cuda_emulation"), flags)
            shared += file.objects("emulated", cuda_files, [*flags, *FLAGS.emulation])

        objects = {
            "visops._C": file.objects(
                "torch",
                [Path("csrc/library.cpp"), *files_below("csrc/torch")],
                defines(front) + includes(common),
            ),
            "visops._numpy": file.objects(
                "numpy",
                files_below("csrc/numpy"),
                defines(macros) + includes([pybind11.get_include(), *common]),
            ),
        }
        if cuda is not None:
            objects["visops._C"] += file.cuda_objects("cuda", cuda_files)

        built = {}
        for extension in self.extensions:
            name = Path(self.get_ext_filename(extension.name)).name
            built[extension.name] = BUILD / ("test" if emulation else "release") / name
            flags = link_flags(cuda if extension.name == "visops._C" else None)
            needed = shared if extension.name == "visops._C" else used_by_numpy(shared)
            inputs = needed + objects[extension.name]
            file.build(built[extension.name], "link", inputs, flags)
        file.run()

        for name, module in built.items():
            install(ROOT / module, Path(self.get_ext_fullpath(name)))
        record = f"""# Written by the build: what this copy of visops was built as and with.
version = "{version}"
torch_version = "{torch.__version__}"
"""
        Path(self.get_ext_fullpath("visops._C")).with_name("_build.py").write_text(record)

    def copy_extensions_to_source(self) -> None:
        """Copy the record of the build as well: editable installs import it."""
        super().copy_extensions_to_source()
        package = self.get_finalized_command("build_py").get_package_dir("visops")
        install(Path(self.build_lib, "visops", "_build.py"), Path(package, "_build.py"))


def install(source: Path, target: Path) -> None:
    """Replace a file without writing into one that a running process has loaded."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    shutil.copy(source, target)  # as of now: setuptools passes on only what is newer
