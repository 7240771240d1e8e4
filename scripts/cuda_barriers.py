"""Takes away each barrier of the CUDA kernels in turn and says what notices.

    make build/cuda-check/.built
    PYTHONPATH=build/cuda-check python scripts/cuda_barriers.py --write

A barrier is passed at run time, so nothing is compiled anew. Each is taken away from the operators
whose `tests/*/*_outputs.py` reach it, in a process of its own, until the checks of memory
(tests/cuda_check) speak. The table goes to docs/cuda_barriers.md.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import multiprocessing
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "csrc" / "cuda"
PAGE = ROOT / "docs" / "cuda_barriers.md"
BARRIER = re.compile(r"\b(__syncthreads|__syncwarp)\(")
MODULES = sorted(
    f"{file.parent.name}.{file.stem}" for file in (ROOT / "tests").glob("*/*_outputs.py")
)


@dataclass(frozen=True)
class Barrier:
    """One call in the sources."""

    file: str  # relative to csrc/cuda
    line: int
    name: str
    number: int  # of those in the file, from 1
    of: int

    @property
    def place(self) -> str:
        """As the checks name it."""
        return f"csrc/cuda/{self.file}:{self.line}"


def barriers() -> list[Barrier]:
    """All barriers of the kernels, by file and line; comments hold none."""
    found = []
    for path in sorted([*KERNELS.rglob("*.h"), *KERNELS.rglob("*.cu")]):
        lines = path.read_text().splitlines()
        calls = [
            (i + 1, match[1])
            for i, line in enumerate(lines)
            if (match := BARRIER.search(line.split("//")[0]))
        ]
        file = path.relative_to(KERNELS).as_posix()
        found += [
            Barrier(file, line, name, i + 1, len(calls)) for i, (line, name) in enumerate(calls)
        ]
    return found


def conv2d_outputs() -> Iterator[tuple[str, np.ndarray]]:
    """The kernels of conv2d are no part of the outputs compared: matrix products may differ."""
    import visops

    rng = np.random.default_rng(3)
    image = torch.from_numpy(rng.standard_normal((2, 20, 9, 11))).requires_grad_()
    weight = torch.from_numpy(rng.standard_normal((70, 20, 3, 3))).requires_grad_()
    result = visops.conv2d(image, weight, padding=1, method="implicit")
    yield "forward", result.detach().numpy()
    result.square().sum().backward()
    assert image.grad is not None
    assert weight.grad is not None
    yield "image", image.grad.numpy()
    yield "weight", weight.grad.numpy()


def outputs_of(module: str) -> Iterator[tuple[str, np.ndarray]]:
    """What the module's operators compute on emulated kernels."""
    if module == "conv2d":
        return conv2d_outputs()
    found: Iterable[tuple[str, np.ndarray]] = importlib.import_module(module).outputs()
    return iter(found)


class Library:
    """The functions of tests/cuda_check/control.cpp."""

    def __init__(self) -> None:
        from visops._loader import LIBRARY

        library = ctypes.CDLL(str(LIBRARY))
        if not hasattr(library, "visops_skip_barrier"):
            raise SystemExit(f"{LIBRARY} was not built with VISOPS_SANITIZE=cuda")
        self._skip = library.visops_skip_barrier
        self._skip.argtypes = [ctypes.c_char_p, ctypes.c_int]
        self._take = library.visops_take_barriers
        self._take.restype = ctypes.c_char_p

    def skip(self, place: str) -> None:
        """Take this barrier away."""
        file, line = place.rsplit(":", 1)
        self._skip(file.encode(), int(line))

    def take_reached(self) -> set[str]:
        """Places of the barriers that threads came to since the last call."""
        return set(self._take().decode().split())


def in_a_process(work: Callable[..., Any], *arguments: Any, seconds: float) -> Any:
    """Return work(*arguments) of a forked process; a string where it failed or took too long."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def run() -> None:
        sender.send(work(*arguments))

    process = context.Process(target=run)
    process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            return "it does not end"
        return receiver.recv()
    except EOFError:
        return "the process dies"
    finally:
        process.kill()
        process.join()


def call_all(module: str, seconds: float) -> tuple[str, bool]:
    """Compute the module's outputs, for so long; return the first error, and if that is all."""
    start = time.perf_counter()
    try:
        for _ in outputs_of(module):
            if time.perf_counter() - start > seconds:
                return "", False
    except RuntimeError as error:
        return str(error), True
    return "", True


def baseline(library: Library, module: str, seconds: float) -> tuple[float, set[str], str]:
    """Seconds, barriers reached, and the first error, with all barriers in place."""
    library.take_reached()
    start = time.perf_counter()
    error, _ = call_all(module, seconds)
    return time.perf_counter() - start, library.take_reached(), error


def notice(library: Library, module: str, place: str, seconds: float) -> str:
    """What is said without this barrier, or nothing."""
    library.skip(place)
    error, is_all = call_all(module, seconds)
    return error or ("" if is_all else UNFINISHED)


UNFINISHED = "not within the time given"
KINDS = {
    ": a race: ": "race",
    ": uninitialised memory: ": "uninitialised",
    ": out of bounds: ": "bounds",
    "CUDA emulation: ": "barrier",
}


def kind_of(message: str) -> str:
    """The first kind of finding in a message."""
    found = [(message.find(text), kind) for text, kind in KINDS.items() if text in message]
    return min(found)[1] if found else message.splitlines()[0][:60]


def row(barrier: Barrier, modules: list[str], seen: str) -> str:
    """One row of the table."""
    kernel = re.match(r"CUDA (?:check|emulation): (\w+)", seen)
    noticed = f"{kind_of(seen)}, in `{kernel[1]}`" if kernel else kind_of(seen) if seen else "no"
    where = modules[0].split(".")[-1].removesuffix("_outputs") if modules else "not run"
    name = f"`{barrier.file}`"
    return f"| {name} | {barrier.number} of {barrier.of} | `{barrier.name}` | {noticed} | {where} |"


def main() -> int:
    """Print a row per barrier; return how many nobody notices."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="barriers whose place holds this text")
    parser.add_argument("--modules", nargs="*", default=[*MODULES, "conv2d"])
    parser.add_argument("--seconds", type=float, default=60, help="how long to call a module")
    parser.add_argument("--write", action="store_true", help="write docs/cuda_barriers.md")
    arguments = parser.parse_args()

    sys.path.insert(0, str(ROOT / "tests"))
    from kernels import use_slot

    library, limit = Library(), arguments.seconds
    torch.set_num_threads(1)
    rows, unnoticed = [], 0
    with use_slot("cuda_emulated"):
        for module in arguments.modules:
            if module != "conv2d":
                importlib.import_module(module)
        reached: dict[str, tuple[float, set[str]]] = {}
        for module in arguments.modules:
            found = in_a_process(baseline, library, module, limit, seconds=10 * limit)
            seconds, places, error = found if isinstance(found, tuple) else (0.0, set(), found)
            reached[module] = (seconds, places)
            print(f"{module}: {seconds:.1f} s, {len(places)} barriers {error}", flush=True)
        for barrier in barriers():
            if arguments.only not in barrier.place:
                continue
            users = sorted(
                (seconds, module)
                for module, (seconds, places) in reached.items()
                if barrier.place in places
            )
            seen, by = "", [module for _, module in users]
            for module in by:
                seen = in_a_process(
                    notice, library, module, barrier.place, limit, seconds=10 * limit
                )
                if seen not in ("", UNFINISHED):
                    by = [module]
                    break
            unnoticed += seen in ("", UNFINISHED)
            rows.append(row(barrier, by, seen))
            print(f"{barrier.place} {rows[-1]}", flush=True)
    if arguments.write:
        write(rows)
    return unnoticed


def write(rows: list[str]) -> None:
    """Replace the table of the page."""
    text = PAGE.read_text()
    start = text.index("| file |")
    end = text.find("\n\n", start)
    head = "| file | | barrier | without it | by the calls of |\n|-|-|-|-|-|"
    tail = text[end:] if end >= 0 else "\n"
    PAGE.write_text(text[:start] + "\n".join([head, *rows]) + tail)


if __name__ == "__main__":
    sys.exit(main())
