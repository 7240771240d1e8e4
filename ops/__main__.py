"""Print what a bug report needs: machine, Python, torch and friends, compilers, and the build.

``python -m visops`` runs this. Where visops can't be imported, run this file itself: the report
then has the error that stopped the import.
"""

import argparse
import contextlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

ISA_FLAGS = (
    *("sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl"),
    *("asimd", "fphp", "asimdhp", "asimddp", "sve", "sve2", "bf16", "i8mm"),  # ARM's names
)
# What each package may be installed as.
PACKAGES = {
    "torchvision": ("torchvision",),
    "NumPy": ("numpy",),
    "OpenCV": (
        "opencv-python",
        "opencv-python-headless",
        "opencv-contrib-python",
        "opencv-contrib-python-headless",
    ),
    "kornia": ("kornia",),
    "pybind11": ("pybind11",),
    "setuptools": ("setuptools",),
}
# What wheels for a system went through before they were made public, by sys.platform and machine.
TRIED = {
    "linux x86_64": "tested; CUDA kernels too",
    "linux aarch64": "tested in an emulator alone",
    "darwin arm64": "compiled by what passed the tests on emulated ARM; never run on a Mac",
    "win32 amd64": "operators and JPEG files compared in Wine alone; visops.infer takes POSIX",
}
VARIABLES = ("VISOPS_", "CXX", "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "TORCH_")


def first_line(*command: str) -> str:
    """Return the first line that a command prints, or why it printed none."""
    path = shutil.which(command[0])
    if path is None:
        return "not found"
    run = subprocess.run([path, *command[1:]], capture_output=True, text=True, check=False)
    lines = (run.stdout or run.stderr).strip().splitlines()
    return f"{lines[0]} ({path})" if lines else f"printed nothing ({path})"


def cpu_model() -> str:
    """Return the processor's name and the instruction sets that matter here."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or "unknown"
    pairs = (line.partition(":") for line in text.splitlines())
    fields = {key.strip(): value.strip() for key, _, value in pairs}
    known = (fields.get("flags") or fields.get("Features") or "").split()
    name = fields.get("model name")
    if name is None and "CPU part" in fields:  # ARM's Linux has numbers only
        name = f"ARM, implementer {fields['CPU implementer']}, part {fields['CPU part']}"
    flags = [flag for flag in ISA_FLAGS if flag in known]
    return f"{name or 'unknown'}, {os.cpu_count()} cores, {' '.join(flags)}"


def version_of(*distributions: str) -> str:
    """Return the version of the first of these distributions that is installed.

    Their metadata have it: importing torchvision or kornia would take seconds.
    """
    for name in distributions:
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return "not installed"


def nvcc() -> str:
    """Return nvcc's release line; the first line is only its name."""
    path = shutil.which("nvcc")
    if path is None:
        return "not found"
    run = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    release = [line for line in run.stdout.splitlines() if "release" in line]
    return f"{release[0] if release else run.stderr.strip()} ({path})"


def torch_version() -> str:
    """Return torch's version with its build, such as +cpu, which the metadata leave out."""
    import torch

    return str(torch.__version__)


def cuda() -> str:
    """Return what torch reports about CUDA."""
    import torch

    if torch.version.cuda is None:
        return "torch was built without CUDA"
    if not torch.cuda.is_available():
        return f"torch was built for CUDA {torch.version.cuda}; it sees no device"
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return f"torch was built for CUDA {torch.version.cuda}; devices: {', '.join(names)}"


def visops_info() -> str:
    """Return visops.build_info(), line by line."""
    import visops

    info = visops.build_info()
    lines = [f"{visops.__version__} from {Path(visops.__file__).parent}"]
    lines += [f"  {key}: {value}" for key, value in info.items() if key != "kernels"]
    lines += [f"  kernels for {kinds}: {names}" for kinds, names in kernels(info["kernels"])]
    return "\n".join(lines)


def kernels(found: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """Return which kernels there are for the same processors; most are for all, and are counted."""
    groups: dict[str, list[str]] = {}
    for name, kinds in sorted(found.items()):
        if kinds:  # CUDA has some of its own
            groups.setdefault(", ".join(kinds), []).append(name)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    return [
        (kinds, ", ".join(names) if number else f"{len(names)} operations")
        for number, (kinds, names) in enumerate(ordered)
    ]


def attempt(report: Callable[..., str], *args: str) -> str:
    """Return a report, or the error that stopped it."""
    try:
        return report(*args)
    except Exception as error:  # whatever is broken is what the report must show
        return f"{type(error).__name__}: {error}"


def main(words: Sequence[str] | None = None) -> None:
    """Print the report."""
    argparse.ArgumentParser(
        prog="python -m visops",
        description="Print what a bug report needs.",
        epilog="Networks over folders of images: python -m visops.infer --help",
    ).parse_args(words)
    print(f"platform: {platform.platform()}, {' '.join(platform.libc_ver())}")
    system = f"{sys.platform} {platform.machine().lower()}"
    print(f"wheels for {system}: {TRIED.get(system, 'none; built from source, never tried')}")
    print(f"CPU: {attempt(cpu_model)}")
    print(f"Python: {sys.version.split()[0]} ({sys.executable})")
    print(f"torch: {attempt(torch_version)}")
    for label, distributions in PACKAGES.items():
        print(f"{label}: {attempt(version_of, *distributions)}")
    print(f"CUDA: {attempt(cuda)}")
    for command in ("g++", "clang++"):
        print(f"{command}: {attempt(first_line, command, '--version')}")
    print(f"nvcc: {attempt(nvcc)}")
    for name in sorted(os.environ):
        if name.startswith(VARIABLES):
            print(f"{name}={os.environ[name]}")
    print(f"visops: {attempt(visops_info)}")


if __name__ == "__main__":
    main()
