"""Peak memory of one call beyond its inputs and its output.

On the CPU this is what the process really holds, so it covers torch, NumPy and OpenCV alike, and
scratch buffers inside C++ libraries. Linux tracks the peak of a process's resident set and resets
it on request (``/proc/self/clear_refs``). An allocator that keeps freed blocks would hide a peak
inside memory that is already resident. So the measurement runs in a separate process, whose
environment makes glibc return every block of 64 KiB or more to the system at once; that would be
too slow for timing. Each contender is called once to settle thread pools and caches, its result is
dropped, the peak is reset, and then

    extra = peak during a second call - resident before it - bytes of its result

The kernel counts pages per core and adds them up late: figures below half a MiB are noise, and
reported as 0. Blocks below 64 KiB may come from memory that is already resident.

On a GPU it is the caching allocator's own peak.
"""

import ctypes
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tqdm import tqdm

if TYPE_CHECKING:
    from .contender import Contender

NOISE = 512 * 1024  # bytes
_REPEATS = 3
_PR_SET_THP_DISABLE = 41  # a 2 MiB page behind a small array would count in full
ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "0",
    "MALLOC_TOP_PAD_": "0",
}


def result_bytes(value: Any) -> int:
    """Bytes of the arrays that a call returns."""
    if isinstance(value, (tuple, list)):
        return sum(result_bytes(item) for item in value)
    if isinstance(value, torch.Tensor):
        return value.untyped_storage().nbytes()
    return value.nbytes if isinstance(value, np.ndarray) else 0


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {name}")


def _once_cpu(call: Callable[[], Any]) -> int:
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    result = call()
    return _status("VmHWM") - before - result_bytes(result)


def _once_cuda(call: Callable[[], Any], device: str) -> int:
    gc.collect()
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    result = call()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before - result_bytes(result)


def extra_bytes(call: Callable[[], Any], device: str) -> int:
    """The least of a few measurements, since every disturbance adds memory."""
    call()
    once = _once_cpu if device == "cpu" else lambda c: _once_cuda(c, device)
    least = once(call)
    for _ in range(_REPEATS - 1):
        if least < NOISE or least > 16 * NOISE:  # nothing, or too much for a disturbance
            break
        least = min(least, once(call))
    return least if device != "cpu" or least >= NOISE else 0


def supported() -> bool:
    """Whether this system can reset and report a process's peak."""
    return os.access("/proc/self/clear_refs", os.W_OK)


def measure(program: Sequence[str], arguments: Sequence[str]) -> dict[str, int]:
    """Run a program again as the measuring process; bytes by case key and contender's name."""
    if not supported():
        print("no /proc/self/clear_refs: memory is not measured", file=sys.stderr)
        return {}
    done = subprocess.run(
        [sys.executable, *program, *arguments, "--memory-child"],
        env={**os.environ, **ENVIRONMENT},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(program)}: the memory measurement failed, see above")
    measured: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return measured


def child(cases: "Sequence[tuple[str, str, Callable[[], Sequence[Contender]]]]") -> None:
    """The measuring process: prints one line of JSON."""
    ctypes.CDLL(None).prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)
    torch.set_num_threads(1)
    found: dict[str, int] = {}
    for key, device, build in tqdm(cases, desc="memory", unit="case", leave=False, disable=None):
        for contender in build():
            found[f"{key}/{contender.name}"] = extra_bytes(contender.call, device)
    print(json.dumps(found))
