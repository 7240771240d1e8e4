"""Calls recorded for other systems: what their comparison would find (scripts/cross)."""

import importlib.metadata
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from cross import chains, files
from cross.machine import wanted_packages
from cross.records import (
    Recorder,
    call_chains,
    call_files,
    difference,
    packed,
    refusal,
    replay,
    unpacked,
)
from packaging.utils import canonicalize_name
from visops import nms, warp_affine
from visops._loader import LIBRARY

from installable.calls_file import write_calls

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


def refused_call() -> list[tuple[str, bytes, bytes]]:
    with Recorder() as recorder, pytest.raises(RuntimeError, match=r"visops\.nms"):
        torch.ops.visops.nms(torch.zeros(2, 3), torch.zeros(2), 0.5, -1, None)
    return recorder.calls


def test_refusals_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ((name, before, _),) = refused_call()
    (tmp_path / "some.calls").write_bytes(pickle.dumps(refused_call()))
    assert replay(tmp_path, ["some"]) == {"calls": 1, "refused": 1}
    for other in ({"refused": "visops.nms: no"}, torch.zeros(1)):
        calls = [(name, before, packed((other, None)))]
        (tmp_path / "some.calls").write_bytes(pickle.dumps(calls))
        assert replay(tmp_path, ["some"])["differ"] == 1
        assert f"call 0, {name}: refused with visops.nms: boxes" in capsys.readouterr().out


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """replay.cpp, which Wine runs, built for this machine."""
    compiler = shutil.which("c++")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("takes a compiler and Linux' loader")
    folder = Path(torch.__file__).parent
    made = tmp_path_factory.mktemp("replay") / "replay"
    command = [compiler, "-std=c++17", "-DTORCH_TARGET_VERSION=0x020b000000000000"]
    command += ["-isystem", str(folder / "include"), str(Path(__file__).with_name("replay.cpp"))]
    command += [f"-L{folder / 'lib'}", "-ltorch_cpu", "-lc10", "-ldl", "-o", str(made)]
    command += ["-Wl,--allow-shlib-undefined"]
    subprocess.run(command, check=True)
    libraries = [str(folder / "lib"), *map(str, folder.parent.glob("nvidia/*/lib"))]
    return ["env", f"LD_LIBRARY_PATH={':'.join(libraries)}", str(made), str(LIBRARY)]


def test_the_program_for_wine_compares_bits_and_words(program: list[str], tmp_path: Path) -> None:
    recorded = [*recorded_calls(), *refused_call()]
    (tmp_path / "some.calls").write_bytes(pickle.dumps(recorded))
    file = tmp_path / "calls"
    assert write_calls(file, [tmp_path / "some.calls"]) == 0
    done = subprocess.run([*program, str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"'calls': {len(recorded)}, 'refused': 1, 'words': 1" in done.stdout
    data = bytearray(file.read_bytes())
    data[-5] ^= 1  # of the words
    data[data.index(b"visops::nms") - 9] ^= 1  # the last of the warped image's bytes
    file.write_bytes(data)
    done = subprocess.run([*program, str(file)], capture_output=True, text=True)
    assert done.returncode == 1
    assert "'differ': 2" in done.stdout


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


def test_files_give_their_pixels_and_their_errors_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs = [*files.inputs()]
    monkeypatch.setattr(files, "inputs", lambda: [*inputs[:3], *inputs[-12:]])
    calls = call_files()
    assert {name for name, _, _ in calls} == {"file decode", "file load"}
    words = [refusal(unpacked(after)) for _, _, after in calls]
    assert any(text is not None for text in words)
    (tmp_path / "files.calls").write_bytes(pickle.dumps(calls))
    total = replay(tmp_path, ["files"])
    assert (total["calls"], total["differ"]) == (15, 0)
    assert total["refused"] == sum(text is not None for text in words)
    name, before, after = calls[-1]
    batches: Any = unpacked(after)
    batches[0][0].view(-1)[7] += 1
    calls[-1] = (name, before, packed(batches))
    (tmp_path / "files.calls").write_bytes(pickle.dumps(calls))
    assert replay(tmp_path, ["files"])["differ"] == 1
    assert "call 14, file load: 1 of " in capsys.readouterr().out


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
