"""Libraries in place of NVIDIA's, for a torch that will see no GPU.

torch's libraries name NVIDIA's as needed, so the loader wants to find them. Every function here
says that there is no device. Which functions, and with which version, is read from torch itself.
"""

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

# Whose functions begin how; the first that fits.
BEGINNINGS = {
    "libcudart.": r"(__)?cuda",
    "libcublasLt.": "cublasLt",
    "libcublas.": "cublas",
    "libcudnn.": "cudnn",
    "libcufft.": "cufft",
    "libcufile.": "cuFile",
    "libcusparseLt.": "cusparseLt",
    "libcusparse.": "cusparse",
    "libcusolver.": "cusolver",
    "libcurand.": "curand",
    "libnccl.": "p?nccl",
    "libnvrtc.": "nvrtc",
    "libcupti.": "cupti",
    "libnvshmem_host.": "nvshmem",
}
NAMES_AN_ERROR = re.compile(r"ErrorString|ErrorName|StatusString|LastErrorString|StatusName")
SYMBOL = re.compile(
    r"^\s*\d+: \S+\s+\S+\s+\S+\s+(?P<binding>\S+)\s+\S+\s+(?P<section>\S+)"
    r"\s+(?P<name>[^\s@]+)(?:@+(?P<version>\S+))?",
    re.MULTILINE,
)


def _readelf(library: Path, *options: str) -> str:
    command = ["readelf", "--wide", *options, str(library)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def write_stubs(folder: Path, others: Iterable[Path], compiler: str) -> None:
    """Write the libraries that those in `folder` and others need, and that are nowhere, there."""
    libraries = [*sorted(folder.glob("*.so*")), *others]
    names = {library.name for library in libraries}
    needed: set[str] = set()
    defined: set[str] = set()
    undefined: dict[str, set[str]] = defaultdict(set)
    for library in libraries:
        text = _readelf(library, "--dynamic", "--dyn-syms")
        names.update(re.findall(r"SONAME\).*\[(.*)\]", text))
        needed.update(re.findall(r"NEEDED\).*\[(.*)\]", text))
        for match in SYMBOL.finditer(text):
            if match["section"] != "UND":
                defined.add(match["name"])
            elif match["binding"] != "WEAK":
                undefined[match["name"]].update(filter(None, [match["version"]]))
    functions: dict[str, dict[str, set[str]]] = defaultdict(dict)
    for name in undefined.keys() - defined:
        for beginning, pattern in BEGINNINGS.items():
            if re.match(pattern, name):
                functions[beginning][name] = undefined[name]
                break
    for library_name in sorted(needed - names):
        if re.match(r"lib(cu|nv|nccl)", library_name):
            beginning = library_name.split(".")[0] + "."
            write_stub(folder / library_name, functions[beginning], compiler)


def write_stub(library: Path, functions: dict[str, set[str]], compiler: str) -> None:
    """Write a library with functions of these versions."""
    lines = ['static const char kName[] = "no device";']
    for name in sorted(functions):
        if NAMES_AN_ERROR.search(name):
            lines.append(f"const char* {name}(void) {{ return kName; }}")
        else:
            lines.append(f"long {name}(void) {{ return 100; }}  // cudaErrorNoDevice")
    source, script = library.with_suffix(".c"), library.with_suffix(".map")
    source.write_text("\n".join([*lines, ""]))
    command = [compiler, "-x", "c", "-shared", "-fPIC", "-fno-builtin", "-w"]
    command += [f"-Wl,-soname,{library.name}", "-o", str(library), str(source)]
    versions = sorted(set().union(*functions.values())) if functions else []
    if versions:
        members = {v: [n for n, known in functions.items() if v in known] for v in versions}
        blocks = [f"{v} {{ global: {' '.join(f'{n};' for n in members[v])} }};" for v in versions]
        script.write_text("\n".join(blocks))
        command.append(f"-Wl,--version-script={script}")
    subprocess.run(command, check=True)
    source.unlink()
    script.unlink(missing_ok=True)
