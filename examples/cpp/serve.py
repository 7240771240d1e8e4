"""serve.cpp in Python: the same requests, answers and report.

    python serve.py DETECTOR.pt2 < requests.txt > answers.txt
    python serve.py < requests.txt > answers.txt

Without a package, the detector runs uncompiled.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from detector import Detector, line
from torch import Tensor

WARMUP = 10  # requests that are not counted


def read_photo(path: str) -> Tensor:
    """Read a binary PPM as uint8 ``[3, height, width]``."""
    header, _, pixels = Path(path).read_bytes().partition(b"\n")
    _, width, height, _ = header.split()
    photo = torch.frombuffer(bytearray(pixels), dtype=torch.uint8)
    return photo.reshape(int(height), int(width), 3).permute(2, 0, 1).contiguous()


def percentile(ordered: list[float], part: float) -> float:
    """Return the smallest time that a part of all times does not exceed."""
    return ordered[math.ceil(part * len(ordered)) - 1]


def serve(name: str, detector: Callable[[Tensor], Sequence[Tensor]]) -> None:
    """Answer requests, then report times."""
    times = []
    for request in sys.stdin:
        path = request.rstrip("\n")
        photo = read_photo(path)
        begin = time.perf_counter()
        found = detector(photo)
        times.append((time.perf_counter() - begin) * 1e3)
        print(line(path, found), flush=True)
    ordered = sorted(times[WARMUP:])
    if ordered:
        p50, p99 = percentile(ordered, 0.5), percentile(ordered, 0.99)
        summary = f"{name}: {len(ordered)} photos on 1 thread: p50 {p50:.2f} ms, p99 {p99:.2f} ms"
        print(summary, file=sys.stderr)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with torch.inference_mode():
        if len(sys.argv) > 1:
            serve("Python", torch._inductor.aoti_load_package(sys.argv[1]))
        else:
            serve("Python, not compiled", Detector().eval())
