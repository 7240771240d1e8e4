"""The script to start from: one photo at a time, everything in one loop, loops in NumPy."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import visops
from bench.augmentation.pictures import MEAN, STD
from PIL import Image, ImageDraw
from torch import Tensor, nn
from torchvision.io import ImageReadMode, decode_image

from .networks import DETECTOR, IOU, MOST, SCORE, SIDE, TOP

Array = npt.NDArray[np.float32]
Record = dict[str, Any]

SUFFIX = ".jpg"


def list_files(folder: Path) -> list[str]:
    """Return the paths of all files, relative to the folder."""
    files = (p for p in folder.rglob("*") if p.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in files)


def decode(path: Path) -> Tensor | str:
    """Return ``[3, H, W]`` of uint8, or the reason why the file can't be read."""
    try:
        return decode_image(str(path), ImageReadMode.RGB)
    except RuntimeError as error:
        # torchvision's messages start with its function, file and line.
        return re.sub(r"^\w+, \S+:\d+, ", "", str(error)).split("\n")[0]


def preprocess(photo: Tensor) -> Tensor:
    """Return a resized, normalised photo ``[1, 3, SIDE, SIDE]``, on its device."""
    matrix = [[SIDE / photo.shape[2], 0.0, 0.0], [0.0, SIDE / photo.shape[1], 0.0]]
    options: Any = {"antialias": True, "convention": "half_pixel"}
    return visops.augment([photo], [matrix], (SIDE, SIDE), mean=MEAN, std=STD, **options)


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


def classify(logits: Array) -> Record:
    """Return the best classes of one image, from ``[1000]``, and their probabilities."""
    powers = np.exp(logits - logits.max())
    scores = powers / powers.sum()
    labels = np.argsort(-scores, kind="stable")[:TOP]
    return {"labels": labels.tolist(), "scores": scores[labels].tolist()}


def suppress(boxes: Array, scores: Array) -> npt.NDArray[np.int64]:
    """Return the indices of the boxes of one class that are kept, by descending score."""
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    order = np.argsort(-scores, kind="stable")
    kept = []
    while order.size:
        best, rest = order[0], order[1:]
        kept.append(best)
        low = np.maximum(boxes[best, :2], boxes[rest, :2])
        high = np.minimum(boxes[best, 2:], boxes[rest, 2:])
        common = (high - low).clip(min=0).prod(axis=1)
        union = areas[best] + areas[rest] - common
        order = rest[common <= IOU * union]
    return np.array(kept, np.int64)


def detect(boxes: Array, scores: Array, width: int, height: int) -> Record:
    """Return the boxes of one image, in its pixels, from ``[A, 4]`` and ``[A, 90]``."""
    found = []
    for label in range(scores.shape[1]):
        (above,) = np.nonzero(scores[:, label] > SCORE)
        if above.size:
            for index in above[suppress(boxes[above], scores[above, label])]:
                found.append((float(scores[index, label]), label, int(index)))
    found.sort(key=lambda row: (-row[0], row[1], row[2]))
    found = found[:MOST]
    scale = np.array([width / SIDE, height / SIDE] * 2, np.float32)
    return {
        "boxes": [(boxes[index] * scale).tolist() for _, _, index in found],
        "labels": [label for _, label, _ in found],
        "scores": [score for score, _, _ in found],
    }


@torch.inference_mode()
def run_naive(
    folder: Path,
    files: Sequence[str],
    out: Path,
    networks: Mapping[str, nn.Module],
    device: torch.device,
) -> None:
    """Write a record of each file, and draw the results on each photo."""
    for name in files:
        if not name.endswith(SUFFIX):
            write(out, {"image": name, "status": "skipped"}, None)
            continue
        photo = decode(folder / name)
        if isinstance(photo, str):
            write(out, {"image": name, "status": "failed", "reason": photo}, None)
            continue
        pixels = preprocess(photo.to(device))
        outputs = {}
        for network_name, network in networks.items():
            output = network(pixels)
            if network_name == DETECTOR:
                boxes, scores = (output[part][0].cpu().numpy() for part in ("boxes", "scores"))
                outputs[network_name] = detect(boxes, scores, photo.shape[2], photo.shape[1])
            else:
                outputs[network_name] = classify(output[0].cpu().numpy())
        write(out, {"image": name, "status": "ok", "outputs": outputs}, photo)
