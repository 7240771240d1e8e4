"""scripts/arm: what it would find; the emulator itself is in `make test-arm`."""

import importlib.metadata
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from cross import chains
from cross.machine import wanted_packages
from cross.records import Recorder, call_chains, difference, packed, replay, unpacked
from packaging.utils import canonicalize_name
from visops import nms, warp_affine

TESTS = Path(__file__).resolve().parents[1]


def nan_of(bits: int) -> torch.Tensor:
    return torch.tensor([bits], dtype=torch.int32).view(torch.float32)


@pytest.mark.parametrize(
    ("got", "wanted", "found"),
    [
        (torch.ones(3), torch.ones(3), None),
        (torch.ones(0), torch.ones(0), None),
        (torch.ones(3), torch.ones(3, dtype=torch.float64), "dtype torch.float32, not"),
        (torch.ones(3), torch.ones(1, 3), "shape "),
        (torch.ones(2, 3), torch.ones(3, 2).t(), "strides (3, 1), not (1, 2)"),
        (torch.tensor([0.0]), torch.tensor([-0.0]), "1 of 1 torch.float32: [0.0], not [-0.0]"),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "1 of 2 torch.int64: [2], not [3]"),
        (nan_of(0x7FC00000), nan_of(0x7FC00001), "NaN payloads"),
        (nan_of(0x7FC00000), torch.tensor([1.0]), "1 of 1"),
        (torch.tensor([1 + 2j]), torch.tensor([1 - 2j]), "1 of 1 torch.complex64"),
    ],
)
def test_differences(got: torch.Tensor, wanted: torch.Tensor, found: str | None) -> None:
    text = difference(got, wanted)
    assert text == found or (found is not None and text is not None and text.startswith(found))


def recorded_calls() -> list[tuple[str, bytes, bytes]]:
    image = torch.randint(0, 256, (3, 9, 11), dtype=torch.uint8)
    boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 5.0], [9.0, 9.0, 12.0, 12.0]])
    with Recorder() as recorder:
        warp_affine(image, torch.tensor([[0.9, 0.2, 1.0], [-0.2, 0.9, 1.0]]), (8, 8))
        nms(boxes, torch.tensor([0.5, 0.9, 0.1]), 0.5)
    return recorder.calls


def test_calls_give_their_results_again(tmp_path: Path) -> None:
    calls = recorded_calls()
    assert len(calls) >= 2
    (tmp_path / "some.calls").write_bytes(pickle.dumps(calls))
    total = replay(tmp_path, ["some"])
    assert total["calls"] == len(calls)
    assert total["tensors"] >= len(calls)
    assert total["differ"] == 0


def test_a_changed_bit_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls = recorded_calls()
    name, before, after = calls[0]
    results: Any = unpacked(after)
    warped = results[0]
    warped.view(-1)[5] ^= 1
    calls[0] = (name, before, packed(results))
    (tmp_path / "some.calls").write_bytes(pickle.dumps(calls))
    assert replay(tmp_path, ["some"])["differ"] == 1
    assert f"call 0, {name}: 1 of " in capsys.readouterr().out


def test_chains_give_their_results_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called = [*chains.inputs()]
    images = [own["image"] if isinstance(own, dict) else own for _, own, _ in called]
    given = [c for c, image in zip(called, images, strict=True) if image.shape == (3, 17, 64)]
    assert {name for name, _, _ in given} == {
        *chains.steps(),
        *chains.of_bytes_alone(),
        *chains.of_samples(),
    }
    first = {name: (name, image, index) for name, image, index in reversed(given)}
    monkeypatch.setattr(chains, "inputs", lambda: [*first.values()])
    calls = call_chains()
    (tmp_path / "chains.calls").write_bytes(pickle.dumps(calls))
    total = replay(tmp_path, ["chains"])
    assert (total["calls"], total["differ"]) == (len(first), 0)
    at = [name for name, _, _ in calls].index("chain elastic")
    name, before, after = calls[at]
    arguments, index = unpacked(before)
    calls[at] = (name, packed((arguments, {"index": index["index"] + 1})), after)
    (tmp_path / "chains.calls").write_bytes(pickle.dumps(calls))
    assert replay(tmp_path, ["chains"])["differ"] == 1
    assert f"call {at}, {name}: " in capsys.readouterr().out


def test_the_machine_has_what_tests_of_values_import() -> None:
    """Else `make test-arm` fails on the day when their part of the tests runs."""
    packages = importlib.metadata.packages_distributions()
    wanted = wanted_packages()
    imported: dict[str, str] = {}
    for file in TESTS.glob("**/test_*.py"):
        text = file.read_text()
        if "mark.matrix" in text:
            names = re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE)
            imported |= {name: file.name for name in names if name in packages}
    del imported["visops"]
    assert {"torch", "cv2", "albumentations"} <= imported.keys()
    needed = {name: {canonicalize_name(p) for p in packages[name]} for name in imported}
    assert {name: imported[name] for name in imported if not needed[name] & wanted.keys()} == {}
