"""The training scripts run, on a folder of photos made here."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from transforms.loader.photos import FILES

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    for index, file in enumerate(FILES):
        path = folder / ("cat", "dog")[index % 2] / f"{index:02}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file)
    return folder


SMALL = ["--epochs", "1", "--batch-size", "8", "--size", "32", "--device", "cpu"]


def test_with_our_loader(photos: Path, tmp_path: Path, capsys: Any) -> None:
    main: Any = script("train_loader").main
    checkpoint = ["--checkpoint", str(tmp_path / "checkpoint.pt")]
    assert main([str(photos), *SMALL, *checkpoint]) == main([str(photos), *SMALL, *checkpoint])
    main([str(photos), *SMALL, "--epochs", "2", *checkpoint, "--resume"])
    lines = capsys.readouterr().out.splitlines()
    epochs = [line.partition(":")[0] for line in lines if line.startswith("epoch")]
    assert epochs == ["epoch 0", "epoch 0", "epoch 1"]
    assert "images in" in lines[-1]


def test_with_torchvision(photos: Path) -> None:
    loss = script("train_torchvision").main([str(photos), *SMALL, "--workers", "0"])
    assert torch.isfinite(torch.tensor(loss))
