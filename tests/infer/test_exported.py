"""torch.export files: of any batch size, of a fixed one, and files that are something else."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
from torch import Tensor, nn
from visops import batched_nms, infer
from visops.infer import Auto, Preprocess, load_model
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
def test_a_fixed_batch_size_takes_any_number_of_images(
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


def test_a_dynamic_batch_size_is_not_fixed(tmp_path: Path) -> None:
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
def test_a_state_dict_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"net{suffix}"
    torch.save(Network().state_dict(), path)
    wanted = "TorchScript" if suffix == ".pth" else "torch.export"
    with pytest.raises(ValueError, match=rf"net{suffix} is not a {wanted} file: .* A state dict"):
        load_model(str(path))
    path.write_bytes(b"nothing at all")
    with pytest.raises(ValueError, match=rf"net{suffix} is not a {wanted} file: "):
        load_model(str(path))


# Detectors that suppress boxes themselves


class Suppressing(nn.Module):
    """A detector with NMS inside; its boxes depend on the image, and so does their number."""

    def __init__(self, as_list: bool, alone: bool = False) -> None:
        super().__init__()
        self.as_list, self.alone = as_list, alone

    def one(self, image: Tensor) -> dict[str, Tensor]:
        starts = image[:, :4, :4].mean(0).flatten() * 8
        boxes = torch.stack([starts, starts, starts + 4, starts + 4], 1)
        scores = image[0, 4, :].repeat(2) * 0.9 + 0.1
        labels = torch.arange(16) % 2
        keep = batched_nms(boxes, scores, labels, 0.3)
        return {"boxes": boxes[keep], "scores": scores[keep], "labels": labels[keep]}

    def forward(self, images: Any) -> Any:
        found = [self.one(image) for image in (images if self.as_list else images.unbind())]
        return found[0] if self.alone else found


@pytest.mark.parametrize(
    ("as_list", "alone", "size"),
    [(False, False, 1), (False, True, 1), (False, False, 3), (True, False, 1), (True, False, 3)],
)
def test_detectors_with_suppression_inside(
    tmp_path: Path, as_list: bool, alone: bool, size: int
) -> None:
    network = Suppressing(as_list, alone)
    example: Any = torch.rand(size, 3, 8, 8)
    program = torch.export.export(network, (list(example) if as_list else example,))
    torch.export.save(program, tmp_path / "net.pt2")
    model = load_model(str(tmp_path / "net.pt2"))
    assert (model.batch_size, model.as_list) == (size, as_list)
    images = torch.rand(5, 3, 8, 8)
    found = model.forward(images, [], [])
    counts = [len(item["boxes"]) for item in found]
    assert len(counts) == 5
    assert len(set(counts)) > 1, "every image has as many boxes"
    for item, image in zip(found, images, strict=True):
        torch.testing.assert_close(item, network.one(image))
    placements = [Preprocess((8, 8)).placement(8, 8)] * 5
    for result, count in zip(Auto()(found, placements), counts, strict=True):
        assert len(result["boxes"]) == len(result["labels"]) == count


class SuppressingByTorchvision(nn.Module):
    """A detector for a single image, with torchvision's NMS inside."""

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        corners = images[0, :2, :4, :4].flatten(1).T * 8
        boxes, scores = torch.cat([corners, corners + 4], 1), images[0, 2, :4, :4].flatten()
        keep = torchvision.ops.nms(boxes, scores, 0.3)
        return {"boxes": boxes[keep], "scores": scores[keep], "labels": torch.zeros_like(keep)}


@pytest.mark.parametrize("suffix", [".pt2", ".ts"])
def test_torchvisions_operators_are_known_to_a_fresh_process(tmp_path: Path, suffix: str) -> None:
    network, example = SuppressingByTorchvision(), torch.rand(1, 3, 8, 8)
    path = tmp_path / f"net{suffix}"
    if suffix == ".pt2":
        torch.export.save(torch.export.export(network, (example,)), path)
    else:
        torch.jit.trace(network, (example,), strict=False).save(path)
    torch.save(example, tmp_path / "example.pt")
    script = (
        "import sys, torch\n"
        "from visops.infer import load_model\n"
        "assert 'torchvision' not in sys.modules\n"
        "network, example = (load_model(sys.argv[1]).call, torch.load(sys.argv[2]))\n"
        "print(len(network(example)['boxes']))"
    )
    files = str(path), str(tmp_path / "example.pt")
    command = [sys.executable, "-W", "ignore", "-c", script, *files]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) == len(network(example)["boxes"])


def test_a_scripted_detector(tmp_path: Path) -> None:
    """Scripted, torchvision's detectors take a list and return their losses too."""
    network: Any = load_model("ssdlite320_mobilenet_v3_large", "random").call
    network.score_thresh, network.detections_per_img = 0.012, 9
    torch.jit.script(network).save(tmp_path / "net.ts")
    model = load_model(str(tmp_path / "net.ts"))
    assert model.as_list
    model.to(torch.device("cpu"), torch.contiguous_format)
    images = torch.rand(2, 3, 64, 64)
    with torch.inference_mode():
        found = model.forward(images, [], [])
        expected = network.eval()(list(images))
    torch.testing.assert_close(found, expected)


def test_boxes_of_one_image_and_of_no_batch() -> None:
    one = {"boxes": torch.tensor([[0.0, 0, 4, 4]]), "scores": torch.tensor([0.5])}
    placement = Preprocess((8, 8)).placement(8, 8)
    (found,) = Auto()(one, [placement])
    assert found["boxes"].tolist() == [[0, 0, 4, 4]]
    with pytest.raises(ValueError, match=r"boxes of shape \[1, 4\] for 2 images, must be \[N, K"):
        Auto()(one, [placement] * 2)
