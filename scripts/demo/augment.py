"""The demo of the transforms: a chain of one pass on a photo with boxes, a mask and key points."""

import time
from collections.abc import Sequence
from pathlib import Path

import torch
from visops import transforms

from demo.objects import Scene

SIZE = 224
IGNORED = 255  # class of the mask where there is no photo


def chain() -> transforms.Compose:
    """A training chain, whose steps run in one pass."""
    return transforms.Compose(
        [
            transforms.RandomResizedCrop(SIZE, scale=(0.35, 1.0)),
            transforms.RandomHorizontalFlip(),
            transforms.RandomAffine(12.0, (0.1, 0.1), (0.85, 1.15), 5.0),
            transforms.ColorJitter(0.3, 0.3, 0.3, 0.05),
            transforms.ToDtype(torch.float32, scale=True),
            transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ],
        seed=0,
        boxes="sanitize",
        mask_fill=IGNORED,
    )


def run(scenes: Sequence[Scene], output: Path) -> None:
    """Draw what the chain does to the first photo, and say what a sample of each takes."""
    fused = chain()
    print(fused)
    figure = transforms.preview(fused, scenes[0].sample(), 11)
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=110)
    samples = [scene.sample() for scene in scenes]
    best = float("inf")
    for _ in range(20):
        began = time.perf_counter()
        fused.collate(samples, index=range(len(samples)))
        best = min(best, time.perf_counter() - began)
    print(
        f"\n{len(samples)} photos with boxes, a mask and key points: "
        f"{best / len(samples) * 1e3:.2f} ms each, {torch.get_num_threads()} threads"
    )
    print(f"Preview: {output}")
