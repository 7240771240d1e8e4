"""Five networks over a folder of photos: visops.infer beside a simple script.

The script processes one photo at a time: decode, preprocess in one pass, run four classifiers and a
torchvision detector, suppress boxes by torchvision, write a JSON file and the photo with its boxes.
visops.infer works in batches of 64, with workers and threads; it also syncs and commits what it
writes. Both must produce the same records. Both keep freed memory, which glibc's malloc would give
back after each large activation.
"""

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import visops
from bench.augmentation.pictures import MEAN, STD, jpeg_files
from bench.five_networks import DETECTOR, IOU, MOST, SCORE, SIDE, TOP, build_networks
from bench.harness import Case, Contender, rows
from bench.harness.report import ROOT
from PIL import Image, ImageDraw
from torch import Tensor, nn
from torchvision.io import ImageReadMode, decode_image
from torchvision.ops import batched_nms
from visops import infer

CACHE = ROOT / "out" / "inference"  # photos
BROKEN_EVERY = 96
Record = dict[str, Any]
Records = dict[str, Record]  # by the photo's name

SCORE_TOLERANCE = 1e-4  # of scores within [0, 1]
BOX_TOLERANCE = 0.05  # pixels of the photo
# A network's last bits depend on how many images it gets at once. At a threshold they decide
# whether there is a box, or which of two classes is first.
MOST_TIES = 0.005  # of all boxes and classes


def make_photos(root: Path, count: int) -> Path:
    """Return a folder of `count` files below `root`, some cut off; it is made once."""
    folder = root / f"photos_{count}"
    if not folder.is_dir():
        unfinished = folder.with_suffix(".tmp")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        for index, file in enumerate(jpeg_files(count)):
            broken = index % BROKEN_EVERY == BROKEN_EVERY // 2
            content = file[: len(file) // 2] if broken else file
            (unfinished / f"été_{index:05d}.jpg").write_bytes(content)
        unfinished.rename(folder)
    return folder


def by_library(
    folder: Path, out: Path, networks: Mapping[str, nn.Module], batch: int, device: torch.device
) -> Records:
    """Run visops.infer over a folder."""
    found: dict[str, Any] = dict.fromkeys(networks, infer.Classification(top_k=TOP))
    found[DETECTOR] = infer.Detection(score_threshold=SCORE, iou_threshold=IOU, max_detections=MOST)
    summary = infer.run(
        folder,
        out,
        [infer.Model(name, net, postprocess=found[name]) for name, net in networks.items()],
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
    return {record["image"]: record for record in map(json.loads, lines)}


@torch.inference_mode()
def by_script(
    folder: Path, out: Path, networks: Mapping[str, nn.Module], device: torch.device
) -> Records:
    """Do one photo at a time."""
    records = {}
    for path in sorted(folder.iterdir()):
        record: Record = {"image": path.name, "status": "ok", "outputs": {}}
        try:
            photo = decode_image(str(path), ImageReadMode.RGB)
        except RuntimeError as error:
            record |= {"status": "failed", "reason": str(error)}
        else:
            scale = SIDE / photo.shape[2], SIDE / photo.shape[1]
            matrix = [[scale[0], 0.0, 0.0], [0.0, scale[1], 0.0]]
            options: Any = {"antialias": True, "convention": "half_pixel", "mean": MEAN, "std": STD}
            pixels = visops.augment([photo.to(device)], [matrix], (SIDE, SIDE), **options)
            for name, network in networks.items():
                outputs = network(pixels)
                record["outputs"][name] = (
                    detected(outputs, scale) if name == DETECTOR else classified(outputs)
                )
            draw(photo, record["outputs"].get(DETECTOR), out / path.name)
        (out / f"{path.name}.json").write_text(json.dumps(record), encoding="utf-8")
        records[path.name] = record
    return records


def classified(logits: Tensor) -> Record:
    """Return the best classes of one image, from ``[1, K]``, and their probabilities."""
    scores, labels = logits[0].softmax(0).topk(TOP)
    return {"labels": labels.tolist(), "scores": scores.tolist()}


def detected(outputs: Mapping[str, Tensor], scale: tuple[float, float]) -> Record:
    """Return the boxes of one image, in its pixels, from ``[1, A, 4]`` and ``[1, A, K]``."""
    boxes, scores = outputs["boxes"][0], outputs["scores"][0]
    anchors, labels = (scores > SCORE).nonzero(as_tuple=True)
    boxes, scores = boxes[anchors], scores[anchors, labels]
    kept = batched_nms(boxes, scores, labels, IOU)[:MOST]
    whole = boxes[kept] / boxes.new_tensor([*scale, *scale])
    return {
        "boxes": whole.tolist(),
        "labels": labels[kept].tolist(),
        "scores": scores[kept].tolist(),
    }


def draw(photo: Tensor, found: Record | None, path: Path) -> None:
    """Write the photo with its boxes, the best one last."""
    picture = Image.fromarray(photo.permute(1, 2, 0).contiguous().numpy())
    pen = ImageDraw.Draw(picture)
    boxes = list(zip(*found.values(), strict=True)) if found else []
    for box, label, score in reversed(boxes):
        pen.rectangle(box, outline="red", width=2)
        pen.text((box[0] + 3, box[1] + 1), f"{label} {score:.2f}", fill="red")
    picture.save(path, "JPEG", quality=90)


def check(ours: Records, theirs: Records) -> None:
    """Raise unless both runs have the same photos, and, but for ties, the same results."""
    states = [{name: record["status"] for name, record in own.items()} for own in (ours, theirs)]
    if states[0] != states[1]:
        raise RuntimeError("the runs differ in which photos they have, or could read")
    seen = ties = 0
    for name, record in ours.items():
        for network, found in record.get("outputs", {}).items():
            expected = theirs[name]["outputs"][network]
            apart = distances(found, expected)
            seen += apart.numel()
            ties += int((~(apart <= 1.0)).sum())  # NaN is no distance
    if ties > MOST_TIES * max(seen, 1):
        raise RuntimeError(f"{ties} of {seen} boxes and classes are in one run only")


def distances(found: Record, expected: Record) -> Tensor:
    """Return how far each box, or class, is from the nearest of the other run; 1 is as allowed."""
    ours, theirs = in_tolerances(found), in_tolerances(expected)
    if len(ours) == 0 or len(theirs) == 0:
        return torch.full((len(ours) + len(theirs),), float("inf"))
    apart = (ours[:, None] - theirs).abs().amax(-1)
    return torch.cat([apart.amin(1), apart.amin(0)])


def in_tolerances(found: Record) -> Tensor:
    """Return a row for each box, or class: label, score and sides, as multiples of tolerances."""
    labels = 1e6 * torch.tensor(found["labels"], dtype=torch.float64)  # another is another box
    scores = torch.tensor(found["scores"], dtype=torch.float64) / SCORE_TOLERANCE
    parts = [labels[:, None], scores[:, None]]
    if "boxes" in found:
        boxes = torch.tensor(found["boxes"], dtype=torch.float64).reshape(-1, 4)
        parts.append(boxes / BOX_TOLERANCE)
    return torch.cat(parts, dim=1)


def contenders(
    folder: Path, networks: Mapping[str, nn.Module], batch: int, device: torch.device
) -> list[Contender]:
    """Both ways; a script whose records differ fails the row."""
    seen: list[Records] = []

    def into_a_folder(job: Callable[[Path], Records]) -> Callable[[], Records]:
        def call() -> Records:
            out = Path(tempfile.mkdtemp(prefix="infer-", dir=folder.parent))
            try:
                return job(out)
            finally:
                shutil.rmtree(out)

        return call

    def agree(records: Records) -> None:
        check(records, seen[0])

    library = into_a_folder(lambda out: by_library(folder, out, networks, batch, device))
    script = into_a_folder(lambda out: by_script(folder, out, networks, device))
    return [
        Contender("visops", library, comparable=seen.append),
        Contender("one photo at a time", script, comparable=agree),
    ]


def photos(count: int) -> list[Contender]:
    """JPEG files of many sizes, some of them broken."""
    infer.keep_freed_memory()
    device = torch.get_default_device()
    networks = {name: net.to(device) for name, net in build_networks().items()}
    return contenders(make_photos(CACHE, count), networks, 64, device)


def all_cases() -> list[Case]:
    """The cases that this machine can run."""
    table = {f"{count} files": (count,) for count in (64, 512)}
    options: Any = {"memory": False, "workers": True, "on_cuda": True}
    return rows("five networks", photos, table, "^64", **options)
