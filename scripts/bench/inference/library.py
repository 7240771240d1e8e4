"""The same job in visops.infer: batches, workers, overlapping stages, and durable results.

It does more than the script: every file is synced before the batch that it belongs to is committed,
so that no crash loses or repeats anything.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from visops import infer

from .networks import BOX_WEIGHTS, DETECTOR, IOU, LARGEST, MOST, SCORE, SIDE, TOP, Detector

Record = dict[str, Any]


def boxes_of(shifts: Tensor, anchors: Tensor) -> Tensor:
    """Return the corners of the anchors, ``[A, 4]``, moved by the outputs, ``[N, A, 4]``."""
    moved = shifts / shifts.new_tensor(BOX_WEIGHTS)
    centre = anchors[:, :2] + moved[..., :2] * anchors[:, 2:]
    half = moved[..., 2:].clamp(max=LARGEST).exp() * anchors[:, 2:] * 0.5
    return torch.cat([centre - half, centre + half], dim=-1).clamp(0, SIDE)


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
            # All classes but the background.
            "scores": outputs["logits"].softmax(dim=-1)[..., 1:].contiguous(),
        }


def _model(name: str, network: nn.Module) -> infer.Model:
    if name != DETECTOR:
        return infer.Model(name, network, postprocess=infer.Classification(top_k=TOP))
    assert isinstance(network, Detector)
    found = infer.Detection(score_threshold=SCORE, iou_threshold=IOU, max_detections=MOST)
    return infer.Model(name, Dense(network), postprocess=found)


def run_library(
    folder: Path, out: Path, networks: Mapping[str, nn.Module], device: torch.device, batch: int
) -> list[Record]:
    """As :func:`bench.inference.naive.run_naive`, of the whole folder; returns the records."""
    models = [_model(name, network) for name, network in networks.items()]
    summary = infer.run(
        folder,
        out,
        models,
        batch_size=batch,
        device=str(device),
        preprocess=infer.Preprocess((SIDE, SIDE)),
        channels_last=True,
        annotate="jpeg",
        reduced=False,
        exif=False,
    )
    if summary.exit_code:
        raise RuntimeError(f"visops.infer ended with {summary.counts}, signal: {summary.signal}")
    lines = (out / "results.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]
