"""torch.export files: of any batch size, of a fixed one, and files that are something else."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from visops import infer
from visops.infer import Preprocess, load_model
from visops.infer.models.exported import call_in_fixed_batches

from infer.folders import Network, fill, records


class Several(nn.Module):
    """Outputs of every form, with the batch first, and a number for the whole batch."""

    def forward(self, batch: Tensor) -> Any:
        mean = batch.mean((2, 3))
        return {"means": mean, "more": (mean.sum(1), [mean * 2]), "count": 3}


def exported(path: Path, network: nn.Module, batch: int, dynamic: bool = False) -> str:
    shapes = [{0: torch.export.Dim("batch", min=1, max=64)}] if dynamic else None
    program = torch.export.export(
        network.eval(), (torch.rand(batch, 3, 8, 8),), dynamic_shapes=shapes
    )
    torch.export.save(program, path)
    return str(path)


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("count", [1, 3, 4, 9])
def test_any_number_of_images_with_a_network_of_one_size(
    tmp_path: Path, size: int, count: int
) -> None:
    network = Network()
    model = load_model(exported(tmp_path / "net.pt2", network, size))
    assert model.batch_size == size
    model.to(torch.device("cpu"), torch.channels_last)
    images = torch.rand(count, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(model.forward(images, [], []), network(images))


def test_outputs_of_any_form() -> None:
    sizes = []

    def network(batch: Tensor) -> Any:
        sizes.append(len(batch))
        return Several()(batch)

    images = torch.rand(5, 3, 8, 8)
    found, whole = call_in_fixed_batches(network, 2, images), Several()(images)
    assert sizes == [2, 2, 2]
    assert found["count"] == 3
    torch.testing.assert_close(found, whole)


def test_of_any_size(tmp_path: Path) -> None:
    assert load_model(exported(tmp_path / "net.pt2", Network(), 2, dynamic=True)).batch_size is None


def test_a_run(tmp_path: Path) -> None:
    path = exported(tmp_path / "net.pt2", Network(), 4)
    folder = fill(tmp_path / "images")
    options: dict[str, Any] = {"batch_size": 4, "workers": 0, "preprocess": Preprocess((8, 8))}
    summary = infer.run(folder, tmp_path / "out", [load_model(path)], **options)
    assert (summary.counts.ok, summary.counts.failed, summary.retried) == (13, 4, 0)
    infer.run(folder, tmp_path / "other", {"net": Network()}, **options)
    found, expected = records(tmp_path / "out"), records(tmp_path / "other")
    for name, record in expected.items():
        if record["status"] == "ok":
            one, other = found[name]["outputs"]["net"], record["outputs"]["net"]
            assert one["labels"] == other["labels"]
            assert one["scores"] == pytest.approx(other["scores"], rel=1e-5)


@pytest.mark.parametrize("suffix", [".pth", ".pt2"])
def test_a_state_dict_is_no_network(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"net{suffix}"
    torch.save(Network().state_dict(), path)
    wanted = "TorchScript" if suffix == ".pth" else "torch.export"
    with pytest.raises(ValueError, match=rf"net{suffix} is not a {wanted} file: .* A state dict"):
        load_model(str(path))
    path.write_bytes(b"nothing at all")
    with pytest.raises(ValueError, match=rf"net{suffix} is not a {wanted} file: "):
        load_model(str(path))
