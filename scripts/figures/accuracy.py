"""Whether accuracy stays: a small network trained by torchvision's chain and by ours.

    python scripts/figures/accuracy.py

trains a network on scikit-learn's digits with both chains, by five seeds each, draws the curves of
docs/accuracy.md, and prints its numbers: accuracies, and how far an evaluation's values differ.
"""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import skimage.data
import torch
import torch.nn.functional as F
from PIL import Image
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torchvision.transforms import v2
from visops import transforms

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that `figures` is a package

from figures.drawing import BLUE, RED, panels, save

SEEDS, EPOCHS, BATCH = 5, 30, 64


def training_chain(library: Any) -> list[Any]:
    """The same line in both libraries."""
    return [
        library.RandomResizedCrop(28, scale=(0.6, 1.0), antialias=True),
        library.RandomRotation(15, interpolation=v2.InterpolationMode.BILINEAR),
        library.ColorJitter(0.4, 0.4),
        library.ToDtype(torch.float32, scale=True),
        library.Normalize([0.3], [0.35]),
        library.RandomErasing(0.25, scale=(0.02, 0.1)),
    ]


def evaluation_chain(library: Any) -> list[Any]:
    return [library.Resize(256, antialias=True), library.CenterCrop(224)]


def digits() -> tuple[Tensor, Tensor]:
    """1,797 handwritten digits as photos [N, 1, 32, 32] of bytes, in an order without meaning."""
    data = load_digits()
    small = torch.from_numpy(data.images / 16 * 255).float()[:, None]
    large = F.interpolate(small, (32, 32), mode="bilinear", antialias=True).round().byte()
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(large)))
    return large[order], torch.from_numpy(data.target)[order]


def network() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)),
    )


def train(
    augment: Callable[[Tensor], Tensor], seed: int, images: Tensor, labels: Tensor
) -> list[float]:
    """Return the share of right answers on the last 540 digits, after each epoch."""
    torch.manual_seed(seed)
    held_out = v2.functional.normalize(
        v2.functional.resize(images[-540:], [28, 28], antialias=True) / 255, [0.3], [0.35]
    )
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=5e-4)
    steps = (len(images) - 540) // BATCH
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * steps)
    found = []
    for _ in range(EPOCHS):
        model.train()
        for chosen in torch.randperm(len(images) - 540)[: steps * BATCH].split(BATCH):
            batch = torch.stack([augment(images[i]) for i in chosen.tolist()])
            optimizer.zero_grad()
            F.cross_entropy(model(batch), labels[chosen]).backward()
            optimizer.step()
            schedule.step()
        model.eval()
        with torch.no_grad():
            right = model(held_out).argmax(1) == labels[-540:]
        found.append(float(right.float().mean()))
    return found


def curves() -> None:
    """Draw both libraries' curves, and print the last accuracies."""
    figure, axes = panels(1, 7, 3.6)
    data = digits()
    for name, color, chain in (
        ("torchvision", RED, v2.Compose(training_chain(v2))),
        ("visops", BLUE, transforms.Compose(training_chain(transforms))),
    ):
        runs = np.array([train(chain, seed, *data) for seed in range(SEEDS)]) * 100
        epochs = np.arange(1, EPOCHS + 1)
        axes.plot(epochs, runs.T, color=color, alpha=0.25, lw=1)
        axes.plot(epochs, runs.mean(0), color=color, lw=2, label=name)
        last = runs[:, -5:].mean(1)
        print(f"{name}: {last.mean():.2f} % ± {last.std(ddof=1):.2f} of {SEEDS} seeds")
    axes.set(xlabel="epoch", ylabel="right answers, %", ylim=(80, 100), xlim=(1, EPOCHS))
    axes.legend(frameon=False, loc="lower right")
    save(figure, "accuracy.png")


def evaluation() -> None:
    """Print by how many levels an evaluation's values differ from torchvision's."""
    photos = [skimage.data.astronaut(), skimage.data.coffee(), skimage.data.cat()]
    for reduced in (False, True):
        chain = transforms.Compose(
            [transforms.DecodeJpeg(reduced=reduced), *evaluation_chain(transforms)]
        )
        gaps = []
        for photo in photos:
            file = io.BytesIO()
            Image.fromarray(np.tile(photo, (2, 2, 1))).save(file, "JPEG", quality=95)
            theirs = v2.Compose([v2.PILToTensor(), *evaluation_chain(v2)])(Image.open(file))
            gaps.append((chain(file.getvalue()).int() - theirs.int()).abs().flatten())
        gap = torch.cat(gaps).float()
        print(f"reduced={reduced}: at most {int(gap.max())} levels, {gap.mean():.3f} on average")


if __name__ == "__main__":
    mpl.use("Agg")
    torch.set_num_threads(1)
    evaluation()
    curves()
