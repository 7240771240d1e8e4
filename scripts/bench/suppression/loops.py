"""The loops of loops.cpp as functions of tensors, compiled on first use."""

import ctypes
import functools
import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_METHODS = {"hard": 0, "linear": 1, "gaussian": 2}


@functools.cache
def _library() -> ctypes.CDLL:
    source = Path(__file__).with_name("loops.cpp")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "loops.so"
        compiler = shlex.split(os.environ.get("CXX", "c++"))
        options = ["-std=c++17", "-O3", "-march=native", "-shared", "-fPIC"]
        subprocess.run([*compiler, *options, str(source), "-o", str(library)], check=True)
        loaded = ctypes.CDLL(str(library))
    for name in ("soft_nms_loop", "nms_rotated_loop"):
        getattr(loaded, name).restype = ctypes.c_int64
    return loaded


def _loop(name: str, *arguments: Any) -> int:
    """Call a loop, with tensors as pointers and integers of 64 bits."""

    def converted(value: Any) -> Any:
        if isinstance(value, Tensor):
            return ctypes.c_void_p(value.data_ptr())
        return ctypes.c_int64(value) if isinstance(value, int) else value

    count: int = getattr(_library(), name)(*map(converted, arguments))
    return count


def soft_nms(
    boxes: Tensor, scores: Tensor, method: str, iou_threshold: float, sigma: float, min_score: float
) -> tuple[Tensor, Tensor]:
    """mmcv's algorithm on float32 boxes [N, 4] and scores [N]: kept indices and their scores."""
    keep, kept_scores = torch.empty(len(boxes), dtype=torch.int64), torch.empty(len(boxes))
    numbers = map(ctypes.c_float, (iou_threshold, sigma, min_score))
    given = boxes, scores, len(boxes), *numbers, _METHODS[method]
    count = _loop("soft_nms_loop", *given, keep, kept_scores)
    return keep[:count], kept_scores[:count]


def nms_rotated(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Kept indices of rotated boxes [N, 5]."""
    order = scores.argsort(descending=True, stable=True)
    keep, by_score = torch.empty(len(boxes), dtype=torch.int64), boxes[order].double()
    threshold = ctypes.c_double(iou_threshold)
    count = _loop("nms_rotated_loop", by_score, len(boxes), threshold, keep)
    return order[keep[:count]]
