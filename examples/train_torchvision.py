"""The same as train_loader.py with torchvision's transforms and torch's DataLoader.

    python examples/train_torchvision.py photos/ --epochs 5

It decodes whole photos, in worker processes; a damaged one ends it, and an interrupted epoch begins
anew.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.models import resnet18
from torchvision.transforms import v2

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def make_loader(folder: Path, size: int, batch_size: int, workers: int) -> DataLoader:
    """Photos in batches, on the CPU."""
    chain = v2.Compose(
        [
            v2.ToImage(),
            v2.RandomResizedCrop(size, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ColorJitter(0.4, 0.4, 0.4, 0.1),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )
    dataset = ImageFolder(str(folder), transform=chain)
    return DataLoader(
        dataset,
        batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=torch.cuda.is_available(),
    )


def main(arguments: list[str] | None = None) -> float:
    """Train; return the last loss."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(arguments)

    loader = make_loader(options.folder, options.size, options.batch_size, options.workers)
    torch.manual_seed(0)
    dataset: ImageFolder = loader.dataset  # type: ignore[assignment]
    network = resnet18(num_classes=len(dataset.classes)).to(options.device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    criterion = nn.CrossEntropyLoss()

    loss = torch.zeros(())
    for epoch in range(options.epochs):
        began = time.perf_counter()
        count = 0
        for images, labels in loader:
            images = images.to(options.device, non_blocking=True)
            labels = labels.to(options.device, non_blocking=True)
            optimizer.zero_grad()
            loss = criterion(network(images), labels)
            loss.backward()
            optimizer.step()
            count += len(labels)
        seconds = time.perf_counter() - began
        print(f"epoch {epoch}: loss {loss.item():.3f}, {seconds:.1f} s, {count / seconds:.0f}/s")
    return loss.item()


if __name__ == "__main__":
    main()
