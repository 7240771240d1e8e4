"""Runs cuobjdump over a library and reads what it says of registers, stack and shared memory."""

import os
import re
import shutil
import site
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

# Where wheels put the program: NVIDIA's own, then Triton's, which torch depends on.
IN_PACKAGES = ("nvidia/*/bin/cuobjdump", "triton/backends/nvidia/bin/cuobjdump")

# On these architectures every block has 1 KB that the driver uses, and cuobjdump adds it to the
# shared memory of kernels that have some.
RESERVED_SHARED = 1024
COUNTS_RESERVED_FROM = 90


class NotReadableError(Exception):
    """A tool or a part of the library is missing; the text says which."""


@dataclass(frozen=True)
class Resources:
    """What a kernel takes on one architecture."""

    registers: int  # of a thread
    stack: int  # bytes of a thread: arrays, and registers spilled
    shared: int  # static bytes of a block


def find_cuobjdump() -> Path:
    """Return the toolkit's cuobjdump: CUDA_HOME, then PATH, then installed packages."""
    home = os.environ.get("CUDA_HOME")
    candidates = [Path(home, "bin", "cuobjdump")] if home else []
    on_path = shutil.which("cuobjdump")
    candidates += [Path(on_path)] if on_path else []
    for folder in {*site.getsitepackages(), *sys.path}:
        for pattern in IN_PACKAGES if folder else ():
            candidates += sorted(Path(folder).glob(pattern))
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    raise NotReadableError(
        "cuobjdump was not found: neither in CUDA_HOME, on PATH, nor in an installed package"
        " (nvidia-cuda-cuobjdump, triton)"
    )


def run_cuobjdump(*words: str | Path, folder: Path | None = None) -> str:
    """Run it; return what it prints."""
    command = [find_cuobjdump(), *words]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if run.returncode:
        raise NotReadableError(f"cuobjdump failed: {run.stderr.strip() or run.stdout.strip()}")
    return run.stdout


def read_resources(library: Path) -> dict[str, dict[int, Resources]]:
    """Every kernel's resources by architecture (80, 90), by mangled name."""
    return parse_resources(run_cuobjdump("--dump-resource-usage", library))


def parse_resources(text: str) -> dict[str, dict[int, Resources]]:
    """Read the output of ``cuobjdump --dump-resource-usage``."""
    found: dict[str, dict[int, Resources]] = {}
    arch, name = 0, ""
    for line in text.splitlines():
        if line.startswith("arch = sm_"):
            arch = int(re.sub(r"\D", "", line))
        elif line.startswith(" Function "):
            name = line.split()[1].rstrip(":")
        elif "REG:" in line:
            values = {key: int(value) for key, value in re.findall(r"(\w+):(\d+)", line)}
            shared = values["SHARED"]
            if arch >= COUNTS_RESERVED_FROM and shared:
                shared -= RESERVED_SHARED
            # LOCAL is memory that ptxas reserves outside the stack frame.
            stack = values["STACK"] + values["LOCAL"]
            found.setdefault(name, {})[arch] = Resources(values["REG"], stack, shared)
    return found


def read_ptx(library: Path) -> str:
    """The intermediate code that the library carries for newer GPUs."""
    text = run_cuobjdump("--dump-ptx", library)
    if ".entry" not in text:
        raise NotReadableError(
            f"{library} carries no PTX; build it with +PTX in TORCH_CUDA_ARCH_LIST"
        )
    return text


def read_compiler(library: Path) -> str:
    """The version of ptxas that made the object code, as in 13.0.88."""
    first = run_cuobjdump("--list-elf", library).split()[-1:]
    if not first:
        raise NotReadableError(f"{library} has no object code for any GPU")
    with tempfile.TemporaryDirectory() as folder:
        run_cuobjdump("--extract-elf", first[0], library.resolve(), folder=Path(folder))
        for file in Path(folder).iterdir():
            version = re.search(rb"release [\d.]+, V(\d+\.\d+\.\d+)", file.read_bytes())
            if version:
                return version[1].decode()
    raise NotReadableError(f"the object code in {library} does not name its compiler")
