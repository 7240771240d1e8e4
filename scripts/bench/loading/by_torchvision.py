"""The same work by torchvision: what a worker does with a sample."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision.transforms.v2 as T
from bench.augmentation.pictures import MEAN, STD
from bench.loading.files import JITTER, SCALE, TARGET
from PIL import Image
from torchvision import tv_tensors


def photo(path: str) -> Any:
    """Pixels [H, W, 3]: simplejpeg is the fastest of the decoders that peers have."""
    import simplejpeg  # which may be missing where only the rest is needed

    return simplejpeg.decode_jpeg(Path(path).read_bytes())


def torchvision_chain() -> T.Compose:
    """transforms.v2 on tensors whose memory is HWC, which it resizes fastest."""
    return T.Compose(
        [
            T.RandomResizedCrop(TARGET, SCALE, antialias=True),
            T.RandomHorizontalFlip(),
            T.ColorJitter(*JITTER),
            T.ToDtype({tv_tensors.Mask: None, "others": torch.float32}, scale=True),
            T.Normalize(MEAN, STD),
        ]
    )


class ByTorchvision:
    """One photo."""

    def __init__(self) -> None:
        self.chain = torchvision_chain()

    def __call__(self, path: str) -> Any:
        return self.chain(torch.from_numpy(photo(path)).permute(2, 0, 1)).contiguous()


class DetectionByTorchvision:
    """A photo with boxes and a mask."""

    def __init__(self) -> None:
        self.chain = torchvision_chain()
        self.sanitize = T.SanitizeBoundingBoxes(labels_getter=None)

    def __call__(self, sample: dict[str, Any]) -> Any:
        pixels = torch.from_numpy(photo(sample["image"])).permute(2, 0, 1)
        size: Any = tuple(pixels.shape[1:])
        boxes = torch.from_numpy(sample["boxes"])
        whole = {
            "image": tv_tensors.Image(pixels),
            "boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=size),  # type: ignore[call-overload]
            "mask": tv_tensors.Mask(torch.from_numpy(np.array(Image.open(sample["mask"])))),
        }
        found = self.sanitize(self.chain(whole))
        return {name: value.as_subclass(torch.Tensor) for name, value in found.items()}


def lists_of_boxes(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Collate: images and masks stacked, boxes listed."""
    return {
        "image": torch.stack([sample["image"] for sample in samples]),
        "mask": torch.stack([sample["mask"] for sample in samples]),
        "boxes": [sample["boxes"] for sample in samples],
    }
