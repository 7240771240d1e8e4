"""Steps that are the same in all variants, because no change affects them."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import visops
from PIL import Image, ImageDraw
from torch import Tensor
from torchvision.io import ImageReadMode, decode_image

from .networks import DETECTOR, SIDE

Record = dict[str, Any]

MEAN = [0.485, 0.456, 0.406]
STD = [0.229, 0.224, 0.225]
SUFFIX = ".jpg"


def list_files(folder: Path) -> list[str]:
    """Return the paths of all files, relative to the folder."""
    files = (p for p in folder.rglob("*") if p.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in files)


def skipped(name: str) -> Record:
    """Return the record of an unreadable file."""
    return {"image": name, "status": "skipped"}


def decode(path: Path) -> Tensor | str:
    """Return ``[3, H, W]`` of uint8, or the reason why the file can't be read."""
    try:
        return decode_image(str(path), ImageReadMode.RGB)
    except RuntimeError as error:
        # torchvision's messages start with its function, file and line.
        return re.sub(r"^\w+, \S+:\d+, ", "", str(error)).split("\n")[0]


def preprocess(photos: Sequence[Tensor], channels_last: bool = False) -> Tensor:
    """Return resized, normalised photos ``[N, 3, SIDE, SIDE]``, on their device."""
    matrices = [
        [[SIDE / photo.shape[2], 0.0, 0.0], [0.0, SIDE / photo.shape[1], 0.0]] for photo in photos
    ]
    return visops.augment(
        list(photos),
        matrices,
        (SIDE, SIDE),
        mean=MEAN,
        std=STD,
        antialias=True,
        convention="half_pixel",
        memory_format=torch.channels_last if channels_last else torch.contiguous_format,
    )


def write(out: Path, record: Record, photo: Tensor | None) -> None:
    """Write the record, and the photo with its boxes drawn, the best one last."""
    path = out / record["image"]
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{path}.json", "w", encoding="utf-8") as file:
        json.dump(record, file)
    if photo is None:
        return
    picture = Image.fromarray(photo.permute(1, 2, 0).contiguous().numpy())
    draw = ImageDraw.Draw(picture)
    found = record["outputs"][DETECTOR]
    boxes = list(zip(found["boxes"], found["labels"], found["scores"], strict=True))
    for box, label, score in reversed(boxes):
        draw.rectangle(box, outline="red", width=2)
        draw.text((box[0] + 3, box[1] + 1), f"{label} {score:.2f}", fill="red")
    picture.save(path, "JPEG", quality=90)


def read_records(out: Path) -> list[Record]:
    """Read what :func:`write` wrote."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(out.rglob("*.json"))]


def to_device(photo: Tensor, device: torch.device) -> Tensor:
    """Return a copy on the device, or the photo itself."""
    return photo.to(device, non_blocking=photo.is_pinned()) if device.type != "cpu" else photo
