"""scripts/profile_conv.py: the ladder is climbed, and what it writes is what it measured."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

for package in ("cv2", "matplotlib", "pyinstrument", "torchvision", "tqdm"):
    pytest.importorskip(package)


import profile_conv  # noqa: E402
from bench.harness import Tolerance  # noqa: E402
from profiling import (  # noqa: E402
    Climb,
    Ladder,
    Rung,
    climb,
    conv,
    ladder,
    profilers,
)

ARGUMENTS = {
    "conv": ["--size", "8", "12", "--kernel", "3"],
    "conv_kernel": ["--size", "2", "3", "--image", "10"],
}


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profilers, "TARGET", 1e-3)
    monkeypatch.setattr(ladder, "SAMPLE_SECONDS", 1e-4)


@pytest.mark.parametrize("op", ARGUMENTS)
def test_ladders(op: str, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    lines: list[str] = []
    options = ["--limit", "10", "--seconds", "1e-3", "--threads", "2", "--out", str(tmp_path)]
    assert profile_conv.main([*ARGUMENTS[op], *options], lines.append) == 0
    assert torch.get_num_threads() == threads

    content = json.loads((tmp_path / "times.json").read_text())
    assert content["op"] == op
    rungs = {rung["name"]: rung for rung in content["rungs"]}
    sizes = [int(word) for word in ARGUMENTS[op][1:3]]
    for name, rung in rungs.items():
        assert [time["size"] for time in rung["times"]] == sizes, name
        assert all(0 < time["min_s"] <= time["median_s"] for time in rung["times"]), name
    assert next(iter(rungs)) == "Python loop"
    assert any(name.endswith("2 threads") for name in rungs)

    table = (tmp_path / "times.txt").read_text()
    assert all(f"\n{name} " in table for name in rungs)
    assert (tmp_path / "times.png").read_bytes().startswith(b"\x89PNG")
    both = (tmp_path / "profilers.txt").read_text()
    assert both.count("cProfile: every call") == both.count("pyinstrument: a look") >= 2
    assert "function calls" in both
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    traced = {event["name"] for event in events if "name" in event}
    own = [name for name in rungs if name.startswith("visops")]
    assert own
    assert {f"rung: {name}" for name in own} <= traced
    assert any(name.startswith("visops::") for name in traced)
    assert str(tmp_path / "trace.json") in lines[-1]


def test_rungs_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """They do the same job: here on the CPU, which stands in."""
    monkeypatch.setattr(conv, "gpu", lambda: "cpu")
    made = conv.by_image(3)
    rungs = made.build(20)
    assert rungs[-1].name.endswith("GPU")
    Climb(made, [20]).check(rungs[-3:], 20)


@pytest.mark.cuda
def test_gpu(tmp_path: Path) -> None:
    options = ["--seconds", "1e-3", "--out", str(tmp_path)]
    assert profile_conv.main(["--size", "8", *options], lambda line: None) == 0
    assert "visops, GPU" in (tmp_path / "times.txt").read_text()


def test_no_profilers(tmp_path: Path) -> None:
    options = ["--seconds", "1e-3", "--no-profilers", "--out", str(tmp_path)]
    assert profile_conv.main(["--size", "8", *options], lambda line: None) == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"times.txt", "times.json", "times.png"}


@pytest.mark.parametrize(
    "arguments", [["--fft"], ["--size", "0"], ["--kernel", "3", "--image", "8"]]
)
def test_bad_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        profile_conv.main(arguments)
    assert "error: " in capsys.readouterr().err


def test_results_must_agree() -> None:
    wrong = Rung("wrong", lambda: np.array([1.0, 2.5]), tolerance=Tolerance(max_abs=0.4))
    right = Rung("right", lambda: torch.tensor([1, 2]))
    with pytest.raises(ValueError, match=r"size 3: wrong differs from right by 0\.5, mean 0\.25"):
        climb(made(lambda size: [wrong, right]), [3], limit=1.0, seconds=0)


def test_slow_rungs_are_left_out() -> None:
    slow: list[int] = []

    def build(size: int) -> list[Rung]:
        def call() -> list[int]:
            slow.append(size)
            time.sleep(0.005)
            return [size]

        late = [Rung("late" if size > 2 else "early", lambda: [size])]
        return [Rung("slow", call), *late, Rung("fast", lambda: [size])]

    def sizes(limit: float) -> dict[str, list[int]]:
        found = climb(made(build), [8, 2, 8], limit=limit, seconds=0)
        assert found.sizes == [2, 8]
        return {name: list(times) for name, times in found.times.items()}

    # Four times the size is sixteen times the work.
    others = {"late": [8], "early": [2]}
    assert list(sizes(limit=1.0).items()) == [
        ("slow", [2, 8]),
        ("late", [8]),
        ("early", [2]),
        ("fast", [2, 8]),
    ]
    slow.clear()
    assert sizes(limit=0.07) == {"slow": [2], "fast": [2, 8], **others}
    assert set(slow) == {2}
    assert sizes(limit=0.0) == {"slow": [2], "fast": [2], **others}


def made(build: Callable[[int], Sequence[Rung]], **more: Any) -> Ladder:
    return Ladder("op", "a job", "size", (1,), lambda size: size**2, build, **more)
