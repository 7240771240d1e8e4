"""Compiles visops' shared libraries and `visops._native`; used by setup.py only.

NOTE [ How visops is built ]
There are three shared libraries without Python, in `visops/lib`, and one Python module:

- libvisops: the operators and their CPU kernels. torch.ops.load_library loads it; so does dlopen in
  a C++ program. It needs libtorch_cpu alone.
- libvisops_cuda: the CUDA kernels. libvisops loads it, from the same folder, when the first CUDA
  tensor comes (csrc/core/dispatch/cuda_library.h): only this one needs libtorch_cuda.
- libvisops_jpeg: the decoder of JPEG files, where libjpeg-turbo's headers are. It has a C
  interface and needs libjpeg alone. Python loads it when the first file comes.
- visops._native: what Python calls without torch's dispatcher, with the kernels of libvisops
  (csrc/core/dispatch/cuda_library.h). It is per Python version; without it there are operators on
  tensors and no chains.

One ninja file holds every object of all of them, so that everything compiles in parallel and a
second build compiles only what a changed source or header touches.

- csrc/core is compiled once: it needs neither torch nor Python.
- csrc/cpu is compiled once per instruction set; the kernels register themselves, and
  core/dispatch/kernel_stub.cpp chooses at run time.
- csrc/library.cpp and csrc/torch see torch's stable headers, csrc/python sees pybind11.
- csrc/cuda goes through nvcc; with VISOPS_EMULATION=1 also through the C++ compiler, with
  tests/cuda_on_cpu/cuda_runtime.h standing in for CUDA's, into libvisops.

The libraries name torch's libraries but hold no path to them: `import torch`, or the C++ program,
has loaded them by then. The CUDA runtime is linked statically, as NCCL and cuDNN do it, so that
nothing depends on the minor version, or the place, of the one torch brings.

No product is ever contracted with a sum (-ffp-contract=off, -fmad=false): results are equal
bit for bit on every instruction set and device.

VISOPS_TARGET builds what a wheel holds, for this or another system: NOTE [ Wheels for other
systems ] (cross/targets.py).
"""

import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pybind11
import torch
from build_ninja import (
    BUILD,
    GENERATED,
    ROOT,
    NinjaFile,
    checks_of_cuda,
    cpu_kernels,
    defines,
    emulated_kernels,
    emulation_of_cuda,
    files_below,
    includes,
    ptx_interpreter,
)
from build_sanitizers import emulation_folder, interprets_ptx, sanitizers
from build_sanitizers import link_flags as sanitizer_link_flags
from build_toolchain import (
    FLAGS,
    TARGET,
    Cuda,
    fail,
    find_cuda,
    find_jpeg,
    folding_flags,
    switch,
)
from cross.targets import OWN, import_libraries, libraries_of, python_config
from cross.targets import link_flags as cross_link_flags
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.editable_wheel import editable_wheel

# Files outside of the kernels that are compiled for speed. Most go through all boxes, points or
# images themselves; those around nms() are half of a small call. The others only check
# and prepare a call, which takes as long when they are compiled for size.
FAST_FRONTS = {
    "csrc/torch/tensor.cpp",
    *(f"csrc/torch/suppression/{n}.cpp" for n in ("nms", "nms_host", "soft_nms")),
    "csrc/core/numbers/assignment.cpp",
    *(f"csrc/core/masks/{name}.cpp" for name in ("polygons", "rle")),
    *(path.relative_to(ROOT).as_posix() for path in (ROOT / "csrc/core/chain").rglob("*.cpp")),
    *(path.relative_to(ROOT).as_posix() for path in (ROOT / "csrc/core/pixels").rglob("*.cpp")),
    "csrc/core/warp/fields.cpp",
    *(f"csrc/core/roi/{name}.cpp" for name in ("align", "align_rotated", "schedule")),
    "csrc/core/suppression/nms.cpp",
}

TORCH_API = "0x020b000000000000"  # 2.11: the oldest torch that the binary runs on
LIBRARY = TARGET.library if TARGET else "lib{}.so"
# Templates of the standard library are visible otherwise, and taken from anywhere.
EXPORTS = GENERATED / "exports.map"


def link_flags(libraries: Iterable[str] = (), cuda: Cuda | None = None) -> list[str]:
    """Link here with torch's libraries: their names are recorded, their paths are not."""
    flags = ["-shared", "-Wl,--as-needed", "-Wl,--exclude-libs,ALL", "-Wl,--gc-sections"]
    flags += [f"-Wl,--version-script={EXPORTS}", *sanitizer_link_flags(sanitizers())]
    flags += [f"-L{Path(torch.__file__).parent / 'lib'}", *(f"-l{name}" for name in libraries)]
    return [*flags, *system_libraries(cuda)]


def system_libraries(cuda: Cuda | None = None) -> list[str]:
    """Link with what the system has, and CUDA's runtime."""
    flags = [f"-L{folder}" for folder in cuda.library_dirs()] if cuda else []
    flags += ["-lcudart_static", "-lrt", "-lpthread"] if cuda else []
    flags += ["-ldl"] if TARGET is None or TARGET.system == "linux" else []
    return [*flags, *shlex.split(os.environ.get("LDFLAGS", ""))]


def fronts(
    file: NinjaFile, folder: str, sources: Iterable[Path], flags: Iterable[str] = ()
) -> list[Path]:
    """Compile for size what runs once a call."""
    objects: list[Path] = []
    for source in sources:
        small = [] if source.as_posix() in FAST_FRONTS else FLAGS.small
        objects += file.objects(folder, [source], [*flags, *small])
    return objects


def used_by_native(objects: Iterable[Path]) -> list[Path]:
    """Objects of the core that `_native` needs: what all families share, and its own."""
    families = {path.name for path in (ROOT / "csrc" / "core").iterdir() if path.is_dir()}
    others = families - {"chain", "dispatch", "images", "masks", "numbers", "pixels", "warp"}
    return [path for path in objects if path.parent.name not in others]


@dataclass(frozen=True)
class Python:
    """An interpreter that `_native` is compiled for."""

    tag: str  # "311", "313t"
    include: str
    suffix: str  # ".cpython-311-x86_64-linux-gnu.so"


@functools.cache
def pythons() -> list[Python]:
    """Interpreters named by VISOPS_PYTHONS; this one where that is not set.

    They are this machine's also where another system is built for, which has the same headers.
    """
    ask = (
        "import json, sysconfig as s; v = s.get_config_var; t = 't' * bool(v('Py_GIL_DISABLED'));"
        "print(json.dumps([v('py_version_nodot') + t, s.get_path('include'), v('EXT_SUFFIX')]))"
    )
    found = []
    for command in os.environ.get("VISOPS_PYTHONS", sys.executable).split(os.pathsep):
        run = subprocess.run([command, "-c", ask], capture_output=True, text=True, check=False)
        if run.returncode:
            fail(f"VISOPS_PYTHONS names {command}, which does not run: {run.stderr.strip()}")
        tag, include, suffix = json.loads(run.stdout)
        if TARGET is not None:
            suffix = TARGET.module.format(tag)
            if TARGET.compiled_by_zig:
                # Python's headers want the pyconfig.h beside them.
                others = shutil.ignore_patterns("pyconfig.h")
                copy = GENERATED / f"python{tag}"
                shutil.copytree(include, ROOT / copy, ignore=others, dirs_exist_ok=True)
                write_generated(f"{copy.name}/pyconfig.h", python_config(TARGET, tag[-1] == "t"))
                include = str(copy)
        found.append(Python(tag, include, suffix))
    return found


def gpu_archs() -> list[str]:
    """Architectures of this machine's GPUs, as in TORCH_CUDA_ARCH_LIST."""
    gpus = range(torch.cuda.device_count() if torch.cuda.is_available() else 0)
    return sorted({"{}.{}".format(*torch.cuda.get_device_capability(gpu)) for gpu in gpus})


def build_id(version: str) -> str:
    """Name a build: libraries of one name fit each other."""
    digest = hashlib.sha256()
    for path in [*files_below("csrc", "*.h"), *files_below("csrc"), *files_below("csrc", "*.cu")]:
        digest.update((ROOT / path).read_bytes())
    return f"{version}-{digest.hexdigest()[:12]}"


def write_generated(name: str, text: str) -> None:
    """Write a file for the compilers; touch it only if it changed."""
    file = ROOT / GENERATED / name
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists() or file.read_text() != text:
        file.write_text(text)


def write_build_header(version: str, cuda: Cuda | None) -> None:
    """Tell the sources what they are built as and with."""
    torch_cuda = torch.version.cuda or ""
    macros = {
        "VISOPS_VERSION": version,
        "VISOPS_BUILD": build_id(version),
        "VISOPS_TORCH_VERSION": torch.__version__,
        "VISOPS_LIBRARY": LIBRARY.format("visops"),
        "VISOPS_CUDA_LIBRARY": LIBRARY.format("visops_cuda"),
        "VISOPS_CUDA_VERSION": cuda.version if cuda else "",
        "VISOPS_CUDA_ARCHS": ";".join(cuda.archs) if cuda else "",
        # Where pip finds torches for the CUDA version of this one.
        "VISOPS_TORCH_INDEX": f"https://download.pytorch.org/whl/cu{torch_cuda.replace('.', '')}",
    }
    lines = [f'#define {name} "{value}"' for name, value in macros.items()]
    lines.append(f"#define VISOPS_CUDA_MAJOR {cuda.major if cuda else 0}")
    text = "\n".join(["// Written by scripts/build_extensions.py.", *lines, ""])
    write_generated("visops_build.h", text)


class BuildExtensions(build_ext):
    """Replaces setuptools' compiling; see NOTE [ How visops is built ]."""

    def get_ext_filename(self, fullname: str) -> str:
        """Name the library as the system names libraries, without a Python tag."""
        if fullname == "visops.lib.visops":
            return str(Path("visops", "lib", LIBRARY.format("visops")))
        return super().get_ext_filename(fullname)

    def run(self) -> None:
        """Refuse what would put another system's libraries over this one's."""
        if TARGET is not None and TARGET.name != OWN and self.inplace:
            fail(f"libraries for {TARGET.name} would replace this machine's; use --build-lib")
        super().run()

    def build_extensions(self) -> None:
        """Compile everything and put it where setuptools expects it."""
        version = self.distribution.get_version()
        cuda_files = files_below("csrc/cuda", "*.cu")
        cuda = find_cuda(torch.version.cuda, gpu_archs) if cuda_files else None
        emulation = switch("VISOPS_EMULATION") or False
        if interprets_ptx() and (cuda is None or not emulation):
            fail("VISOPS_PTX=1 takes nvcc and VISOPS_EMULATION=1")
        write_build_header(version, cuda)
        write_generated(EXPORTS.name, "{ global: visops_*; PyInit_*; local: *; };\n")
        file = NinjaFile(cuda)

        torch_api = [
            *defines({"TORCH_TARGET_VERSION": TORCH_API}),
            *includes([Path(torch.__file__).parent / "include"]),
        ]
        core = fronts(file, "core", files_below("csrc/core"))
        shared = core + cpu_kernels(file)
        for_tests = emulation_of_cuda(file) if emulation else []
        shared += emulated_kernels(file) + checks_of_cuda(file, torch_api) if emulation else []
        shared += ptx_interpreter(file) if interprets_ptx() else []

        # What is built, by its place in the package.
        variant = emulation_folder("test") if emulation else "release"
        folder = BUILD / (f"{variant}-{TARGET.name}" if TARGET else variant)
        built = {}

        # Tests read names in disassembly, sanitizers print them; nobody else needs them.
        is_named = emulation or bool(sanitizers())
        # Folded functions have one name for several, which tests would misread. The CUDA library is
        # linked without: the runtime tells kernels by the addresses of functions.
        fold = [] if is_named else folding_flags(file.compiler)

        def link(
            destination: str,
            inputs: Iterable[Path],
            torch_libraries: Sequence[str],
            asks_torch: Iterable[Path] = (),
            flags: Iterable[str] = (),
            tag: str | None = None,
        ) -> None:
            """Link objects; some of them call torch, or the Python of a tag."""
            built[destination] = folder / Path(destination).name
            if TARGET is None:
                own = [*link_flags(torch_libraries), *flags, *([] if is_named else ["-Wl,-s"])]
                return file.build(built[destination], "link", inputs, own)
            imported = []
            names = import_libraries(TARGET, torch_libraries, tag)
            for name in names:
                imported.append(folder / Path(destination).stem / name)
                file.build(imported[-1], "imports", asks_torch, [])
            own = cross_link_flags(TARGET, destination, EXPORTS, file.compiler)
            file.build(built[destination], "link", [*inputs, *imported], [*own, *flags])

        front = fronts(
            file, "torch", [Path("csrc/library.cpp"), *files_below("csrc/torch")], torch_api
        )
        library = f"lib/{LIBRARY.format('visops')}"
        system = system_libraries()
        link(library, for_tests + shared + front, ["torch_cpu", "c10"], front, [*system, *fold])
        if cuda is not None and not interprets_ptx():
            kernels = file.cuda_objects("cuda", cuda_files)
            asking = file.objects(
                "cuda", files_below("csrc/cuda"), [*torch_api, *defines({"USE_CUDA": "1"})]
            )
            library = f"lib/{LIBRARY.format('visops_cuda')}"
            names = ["torch_cuda", "torch_cpu", "c10"]
            link(library, core + kernels + asking, names, asking, system_libraries(cuda))
        if find_jpeg():
            decoder = file.objects("jpeg", files_below("csrc/jpeg"))
            decoder += [path for path in core if path.name == "own_new.cpp.o"]
            by_gcc = TARGET is not None and not TARGET.compiled_by_zig
            jpeg = libraries_of(file.compiler, "libjpeg.so") if by_gcc else ["-ljpeg"]
            link(f"lib/{LIBRARY.format('visops_jpeg')}", decoder, [], (), [*jpeg, *system])
        for python in pythons():
            bindings = file.objects(
                f"numpy{python.suffix}",
                files_below("csrc/python"),
                [*torch_api, *includes([pybind11.get_include(), python.include])],
            )
            link(
                f"_native{python.suffix}",
                for_tests + used_by_native(core) + bindings,
                ["torch_cpu", "c10"],
                bindings,
                [*system, *fold],
                python.tag,
            )
        file.run()

        package = Path(self.get_ext_fullpath("visops._native")).parent
        install_all(
            {package / destination: ROOT / made for destination, made in built.items()}, package
        )
        record = f"""# Written by the build: what this copy of visops was built as and with.
version = "{version}"
torch_version = "{torch.__version__}"
"""
        (package / "_build.py").write_text(record)
        self.built = [*built, "_build.py"]

    def copy_extensions_to_source(self) -> None:
        """Copy all that was built: setuptools knows of two files only."""
        source = Path(self.build_lib, "visops")
        package = Path(self.get_finalized_command("build_py").get_package_dir("visops"))
        install_all(
            {package / destination: source / destination for destination in self.built}, package
        )


class Wheel(bdist_wheel):
    """Tags the wheel: nothing in it that must load depends on the Python version."""

    def get_tag(self) -> tuple[str, str, str]:
        """Any Python 3, any ABI, the platform that was built for."""
        tag = TARGET.tag if TARGET else super().get_tag()[2]
        # auditwheel writes the name of the oldest Linux, once it has looked.
        return "py3", "none", re.sub("^manylinux_2_28", "linux", tag)


class Editable(editable_wheel):
    """Installs a folder in which the package has its name, and is found by type checkers.

    By default it would be found by a hook of Python's import alone, since its folder is called ops.
    Setuptools has no public way to say so: where this one is gone, the default stays.
    """

    def _select_strategy(self, name: str, tag: str, build_lib: str) -> Any:
        link = Path("build/editable/visops").absolute()
        try:
            from setuptools.command.editable_wheel import _StaticPth

            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(Path("ops").absolute(), target_is_directory=True)
        except (ImportError, OSError):  # Windows lets administrators alone make links
            return super()._select_strategy(name, tag, build_lib)
        return _StaticPth(self.distribution, name, [link.parent])


def install_all(files: Mapping[Path, Path], package: Path) -> None:
    """Put files in their places (place: file), instead of what an earlier build left there."""
    for stale in (*package.glob("_native.*[!i]"), *package.glob("lib/*")):
        stale.unlink()
    for target, source in files.items():
        install(source, target)


def install(source: Path, target: Path) -> None:
    """Replace a file without writing into one that a running process has loaded."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    shutil.copy(source, target)  # as of now: setuptools passes on only what is newer
