"""The same job in visops.infer: all four changes, overlapping stages, and durable results.

It does more than the other variants: every file is synced before the batch that it belongs to is
committed, so that no crash loses or repeats anything.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from visops import infer

from .changes import Limits
from .clock import Timing, whole
from .networks import DETECTOR, IOU, MOST, SCORE, SIDE, TOP, Detector
from .on_device import boxes_of, scores_of

Record = dict[str, Any]

NAMES = {
    "collate": "preprocess",
    "postprocess": "post-process",
}  # as in the table of the other variants


class Dense(nn.Module):
    """A detector whose outputs are boxes and scores of all anchors."""

    def __init__(self, detector: Detector) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, pixels: Tensor) -> dict[str, Tensor]:
        """``[N, 3, SIDE, SIDE]`` -> ``[N, A, 4]`` and ``[N, A, 90]``."""
        outputs = self.detector(pixels)
        return {
            "boxes": boxes_of(outputs["shifts"], self.detector.anchors),
            "scores": scores_of(outputs["logits"]),
        }


def _model(name: str, network: nn.Module) -> infer.Model:
    if name != DETECTOR:
        return infer.Model(name, network, postprocess=infer.Classification(top_k=TOP))
    assert isinstance(network, Detector)
    found = infer.Detection(score_threshold=SCORE, iou_threshold=IOU, max_detections=MOST)
    return infer.Model(name, Dense(network), postprocess=found)


def run_library(
    folder: Path,
    out: Path,
    networks: Mapping[str, nn.Module],
    device: torch.device,
    *,
    channels_last: bool,
    limits: Limits,
) -> Timing:
    """As :func:`bench.inference.naive.run_naive`, of the whole folder."""
    timing = Timing()
    with whole(timing):
        models = [_model(name, network) for name, network in networks.items()]
        summary = infer.run(
            folder,
            out,
            models,
            batch_size=limits.batch,
            workers=limits.workers,
            writer_threads=limits.writers,
            device=str(device),
            preprocess=infer.Preprocess((SIDE, SIDE)),
            channels_last=channels_last,
            annotate="jpeg",
            reduced=False,
            exif=False,
        )
    if summary.exit_code:
        raise RuntimeError(f"visops.infer ended with {summary.counts}, signal: {summary.signal}")
    for stage in summary.stages:
        if stage.name == "list":
            continue
        name = NAMES.get(stage.name, stage.name)
        timing.stages[name] += stage.busy
        # "decode" is the time spent waiting for the workers, not their work.
        timing.apart[name] = limits.writers if name == "write" else 1
    return timing


def read_library(out: Path) -> list[Record]:
    """Return its records."""
    lines = (out / "results.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]
