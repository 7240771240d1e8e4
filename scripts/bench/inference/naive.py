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
from PIL import Image, ImageDraw
from torch import Tensor, nn
from torchvision.io import ImageReadMode, decode_image

from .networks import BOX_WEIGHTS, DETECTOR, IOU, LARGEST, MOST, SCORE, SIDE, TOP

Array = npt.NDArray[np.float32]
Record = dict[str, Any]

MEAN = [0.485, 0.456, 0.406]
STD = [0.229, 0.224, 0.225]
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


def softmax(logits: Array) -> Array:
    """Return the softmax along the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    result: Array = powers / powers.sum(axis=-1, keepdims=True)
    return result


def classify(logits: Array) -> Record:
    """Return the best classes of one image, from ``[1000]``, and their probabilities."""
    scores = softmax(logits)
    labels = np.argsort(-scores, kind="stable")[:TOP]
    return {"labels": labels.tolist(), "scores": scores[labels].tolist()}


def boxes_of(shifts: Array, anchors: Array) -> Array:
    """Return the corners of the anchors, ``[A, 4]``, moved by the network's outputs."""
    moved = shifts / np.array(BOX_WEIGHTS, np.float32)
    centre = anchors[:, :2] + moved[:, :2] * anchors[:, 2:]
    half = np.exp(np.minimum(moved[:, 2:], np.float32(LARGEST))) * anchors[:, 2:] * np.float32(0.5)
    corners: Array = np.concatenate([centre - half, centre + half], axis=1)
    return corners.clip(0, SIDE)


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


def detect(logits: Array, shifts: Array, anchors: Array, width: int, height: int) -> Record:
    """Return the boxes of one image, in its pixels, from ``[A, 91]`` and ``[A, 4]``."""
    boxes = boxes_of(shifts, anchors)
    scores = softmax(logits)
    found = []
    for label in range(1, scores.shape[1]):
        (above,) = np.nonzero(scores[:, label] > SCORE)
        if above.size:
            for index in above[suppress(boxes[above], scores[above, label])]:
                found.append((float(scores[index, label]), label - 1, int(index)))
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
                outputs[network_name] = detect(
                    output["logits"][0].cpu().numpy(),
                    output["shifts"][0].cpu().numpy(),
                    network.anchors.cpu().numpy(),  # type: ignore[operator, union-attr]
                    width=photo.shape[2],
                    height=photo.shape[1],
                )
            else:
                outputs[network_name] = classify(output[0].cpu().numpy())
        write(out, {"image": name, "status": "ok", "outputs": outputs}, photo)
