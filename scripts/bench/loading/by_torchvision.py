"""The same work by torchvision: what a worker does with a sample."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
import torchvision
import torchvision.transforms.v2 as T
from bench.augmentation.pictures import MEAN, STD
from bench.loading.files import BATCH, JITTER, ONE, SCALE, TARGET
from bench.loading.ours import channel_means
from PIL import Image
from torchvision import tv_tensors


def photo(path: str) -> Any:
    """Pixels [H, W, 3], by the fastest of the decoders that peers have."""
    content = Path(path).read_bytes()
    if path.endswith(".png"):
        pixels: Any = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR_RGB)
        return pixels
    import simplejpeg  # which may be missing where only the rest is needed

    return simplejpeg.decode_jpeg(content)


def torchvision_chain(side: int = TARGET, scale: tuple[float, float] = SCALE) -> T.Compose:
    """transforms.v2 on tensors whose memory is HWC, which it resizes fastest."""
    return T.Compose(
        [
            T.RandomResizedCrop(side, scale, antialias=True),
            T.RandomHorizontalFlip(),
            T.ColorJitter(*JITTER),
            T.ToDtype({tv_tensors.Mask: None, "others": torch.float32}, scale=True),
            T.Normalize(MEAN, STD),
        ]
    )


class ByTorchvision:
    """A photo's crop, or a list of its crops; it is decoded once."""

    def __init__(self, crops: Sequence[Any] = ONE) -> None:
        self.chains = [torchvision_chain(*crop) for crop in crops]

    def __call__(self, path: str) -> Any:
        pixels = torch.from_numpy(photo(path)).permute(2, 0, 1)
        views = [chain(pixels).contiguous() for chain in self.chains]
        return views if len(views) > 1 else views[0]


def on_gpu(paths: Sequence[str]) -> Callable[[], list[torch.Tensor]]:
    """nvJPEG, and the transforms there, a photo at a time: sizes differ; the last take a batch."""
    steps = torchvision_chain().transforms
    crop, last = T.Compose(steps[:-2]), T.Compose(steps[-2:])

    def batches() -> Iterator[torch.Tensor]:
        for first in range(0, len(paths), BATCH):
            contents = [
                torch.frombuffer(bytearray(Path(path).read_bytes()), dtype=torch.uint8)
                for path in paths[first : first + BATCH]
            ]
            photos = torchvision.io.decode_jpeg(contents, device="cuda")
            yield last(torch.stack([crop(photo) for photo in photos]))

    return lambda: channel_means(batches())


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
