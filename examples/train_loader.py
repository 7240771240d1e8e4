"""Train a classifier on a folder of photos, with visops' loader: see train_torchvision.py.

    python examples/train_loader.py photos/ --epochs 5

`photos/` holds a folder for each class. A run that was interrupted goes on where it was: with
--resume, in the middle of an epoch, with no photo left out or seen twice.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from torch import nn
from torchvision.datasets import ImageFolder
from torchvision.models import resnet18
from visops import transforms

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def make_loader(folder: Path, size: int, batch_size: int, device: str) -> transforms.Loader:
    """Photos in batches, on the device."""
    chain = transforms.Compose(
        [
            transforms.DecodeJpeg(),
            transforms.RandomResizedCrop(size),
            transforms.RandomHorizontalFlip(),
            transforms.ColorJitter(0.4, 0.4, 0.4, 0.1),
            transforms.ToDtype(torch.float32, scale=True),
            transforms.Normalize(MEAN, STD),
        ],
        seed=0,
    )
    dataset = ImageFolder(str(folder))
    return transforms.Loader(
        dataset, chain, batch_size, shuffle=True, drop_last=True, device=device, on_error="skip"
    )


def main(arguments: list[str] | None = None) -> float:
    """Train; return the last loss."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint.pt"))
    parser.add_argument("--resume", action="store_true")
    options = parser.parse_args(arguments)

    loader = make_loader(options.folder, options.size, options.batch_size, options.device)
    print(loader)
    torch.manual_seed(0)
    network = resnet18(num_classes=len(loader.dataset.classes)).to(options.device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    if options.resume:
        state = torch.load(options.checkpoint, weights_only=True)
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])

    loss = torch.zeros(())
    for epoch in range(loader.epoch, options.epochs):
        began = time.perf_counter()
        for step, (images, labels) in enumerate(loader):
            optimizer.zero_grad()
            loss = criterion(network(images), labels)
            loss.backward()
            optimizer.step()
            if step % 100 == 99:
                save(options.checkpoint, network, optimizer, loader)
        save(options.checkpoint, network, optimizer, loader)
        seconds = time.perf_counter() - began
        print(f"epoch {epoch}: loss {loss.item():.3f}, {seconds:.1f} s; {loader.stats()}")
    return loss.item()


def save(
    path: Path, network: nn.Module, optimizer: torch.optim.Optimizer, loader: transforms.Loader
) -> None:
    """Write a checkpoint."""
    torch.save(
        {
            "network": network.state_dict(),
            "optimizer": optimizer.state_dict(),
            "loader": loader.state_dict(),
        },
        path,
    )


if __name__ == "__main__":
    main()
