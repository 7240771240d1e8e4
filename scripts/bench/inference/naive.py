"""The script to start from: one photo at a time, everything in one loop."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import nn

from .clock import Timing, whole
from .loops import classify, detect
from .networks import DETECTOR
from .steps import SUFFIX, decode, preprocess, skipped, to_device, write


@torch.inference_mode()
def run_naive(
    folder: Path,
    files: Sequence[str],
    out: Path,
    networks: Mapping[str, nn.Module],
    device: torch.device,
) -> Timing:
    """Write a record of each file, and draw the results on each photo."""
    timing = Timing(device=device)
    with whole(timing):
        for name in files:
            if not name.endswith(SUFFIX):
                write(out, skipped(name), None)
                continue
            with timing.stage("decode"):
                photo = decode(folder / name)
            if isinstance(photo, str):
                write(out, {"image": name, "status": "failed", "reason": photo}, None)
                continue
            with timing.stage("preprocess"):
                pixels = preprocess([to_device(photo, device)])
            outputs = {}
            for network_name, network in networks.items():
                with timing.stage("models"):
                    output = network(pixels)
                with timing.stage("post-process"):
                    if network_name == DETECTOR:
                        outputs[network_name] = detect(
                            output["logits"][0].cpu().numpy(),
                            output["shifts"][0].cpu().numpy(),
                            network.anchors.cpu().numpy(),  # type: ignore[operator, union-attr]
                            width=photo.shape[2],
                            height=photo.shape[1],
                        )
                    else:
                        outputs[network_name] = classify(output[0].cpu().numpy())
            with timing.stage("write"):
                write(out, {"image": name, "status": "ok", "outputs": outputs}, photo)
    return timing
