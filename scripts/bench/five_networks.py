"""Five small torchvision networks: four classifiers and a detector.

No weights are fetched. Those drawn at random give the same answer for any photo, for the statistics
that batch normalisation divides by are not of any data; here they are taken from a batch of noise.
The detector's last layers are scaled, so that scores and boxes are spread as a trained one's are.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torchvision.models import get_model
from torchvision.models.detection.image_list import ImageList

CLASSIFIERS = ("mobilenet_v3_small", "shufflenet_v2_x0_5", "squeezenet1_1", "mnasnet0_5")
DETECTOR = "ssdlite320_mobilenet_v3_large"
SIDE = 224  # of the input, for all networks

TOP = 5  # classes per image
SCORE, IOU, MOST = 0.1, 0.5, 100  # minimum score, maximum overlap, maximum number of boxes

LOGIT_SPREAD, SHIFT_SPREAD = 3.0, 1.0  # standard deviations of the detector's outputs
BOX_WEIGHTS = (10.0, 10.0, 5.0, 5.0)  # SSD divides x, y, width, height by these
LARGEST = float(np.log(1000.0 / 16.0))  # logarithm of the largest ratio of box to anchor


class Detector(nn.Module):
    """torchvision's SSDlite up to the boxes and scores of all anchors, without suppression."""

    anchors: Tensor  # [A, 4] centre and size, pixels of the input

    def __init__(self) -> None:
        super().__init__()
        whole: Any = get_model(DETECTOR, weights=None, weights_backbone=None)
        self.backbone, self.head = whole.backbone, whole.head
        with torch.inference_mode():
            pixels = torch.zeros(1, 3, SIDE, SIDE)
            features = list(self.backbone.eval()(pixels).values())
            corners = whole.anchor_generator(ImageList(pixels, [(SIDE, SIDE)]), features)[0]
        low, high = corners[:, :2], corners[:, 2:]
        self.register_buffer("anchors", torch.cat([(low + high) / 2, high - low], dim=1).clone())

    def outputs(self, pixels: Tensor) -> dict[str, Tensor]:
        """Map ``[N, 3, SIDE, SIDE]`` to logits ``[N, A, 91]``, 0 being background, and shifts."""
        found = self.head(list(self.backbone(pixels).values()))
        return {"logits": found["cls_logits"], "shifts": found["bbox_regression"]}

    def forward(self, pixels: Tensor) -> dict[str, Tensor]:
        """``[N, 3, SIDE, SIDE]`` -> ``[N, A, 4]`` and ``[N, A, 90]``: all but the background."""
        found = self.outputs(pixels)
        moved = found["shifts"] / found["shifts"].new_tensor(BOX_WEIGHTS)
        centre = self.anchors[:, :2] + moved[..., :2] * self.anchors[:, 2:]
        half = moved[..., 2:].clamp(max=LARGEST).exp() * self.anchors[:, 2:] * 0.5
        boxes = torch.cat([centre - half, centre + half], dim=-1).clamp(0, SIDE)
        return {"boxes": boxes, "scores": found["logits"].softmax(dim=-1)[..., 1:].contiguous()}


def _noise(seed: int) -> Tensor:
    """Return normalised images with detail at all scales, [16, 3, SIDE, SIDE]."""
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.zeros(16, 3, SIDE, SIDE)
    for side in (2, 7, 28, SIDE):
        noise = torch.randn(16, 3, side, side, generator=generator)
        pixels += nn.functional.interpolate(noise, (SIDE, SIDE), mode="bilinear")
    return pixels


def _take_statistics(network: nn.Module, pixels: Tensor) -> None:
    norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all batches, of which there is one
        norm.train()
    with torch.no_grad():
        network(pixels)
    network.eval()


def _spread(detector: Detector, pixels: Tensor) -> None:
    with torch.no_grad():
        outputs = detector.outputs(pixels)
        for name, part, wanted in (
            ("logits", detector.head.classification_head, LOGIT_SPREAD),
            ("shifts", detector.head.regression_head, SHIFT_SPREAD),
        ):
            gain = wanted / float(outputs[name].std())
            for branch in part.module_list:
                branch[-1].weight.mul_(gain)


def build_networks() -> dict[str, nn.Module]:
    """Return all five by name."""
    networks: dict[str, nn.Module] = {}
    for seed, name in enumerate((*CLASSIFIERS, DETECTOR)):
        torch.manual_seed(seed)
        network = Detector() if name == DETECTOR else get_model(name, weights=None)
        networks[name] = network.eval()
        _take_statistics(network, _noise(seed))
        if isinstance(network, Detector):
            _spread(network, _noise(seed))
    return networks
