"""The loops of loops.cpp as functions of tensors, compiled on first use."""

import ctypes
import functools
import os
import shlex
import subprocess
import tempfile
from pathlib import Path

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


def _pointer(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def soft_nms(
    boxes: Tensor, scores: Tensor, method: str, iou_threshold: float, sigma: float, min_score: float
) -> tuple[Tensor, Tensor]:
    """mmcv's algorithm on float32 boxes [N, 4] and scores [N]: kept indices and their scores."""
    keep = torch.empty(len(boxes), dtype=torch.int64)
    kept_scores = torch.empty(len(boxes))
    count = _library().soft_nms_loop(
        _pointer(boxes),
        _pointer(scores),
        ctypes.c_int64(len(boxes)),
        ctypes.c_float(iou_threshold),
        ctypes.c_float(sigma),
        ctypes.c_float(min_score),
        ctypes.c_int(_METHODS[method]),
        _pointer(keep),
        _pointer(kept_scores),
    )
    return keep[:count], kept_scores[:count]


def nms_rotated(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Kept indices of rotated boxes [N, 5]."""
    order = scores.argsort(descending=True, stable=True)
    by_score = boxes[order].double()
    keep = torch.empty(len(boxes), dtype=torch.int64)
    count = _library().nms_rotated_loop(
        _pointer(by_score),
        ctypes.c_int64(len(boxes)),
        ctypes.c_double(iou_threshold),
        _pointer(keep),
    )
    return order[keep[:count]]
