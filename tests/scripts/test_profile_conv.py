"""examples/profile_conv.py: what it writes is what it measured."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

for package in ("cv2", "matplotlib", "pyinstrument", "scipy"):
    pytest.importorskip(package)

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "profile_conv.py"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("profile_conv", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PROFILED", 1e-3)
    return module


def test_everything_is_written(example: ModuleType, tmp_path: Path) -> None:
    assert example.main(["--size", "8", "12", "--kernel", "3", "--out", str(tmp_path)]) == 0
    times = (tmp_path / "times.txt").read_text(encoding="utf-8")
    assert all(f"\n{name} " in times for name in example.calls_of(8, 3))
    both = (tmp_path / "profilers.txt").read_text(encoding="utf-8")
    assert both.count("under cProfile") == both.count("function calls") == 4
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {event["name"] for event in events if "name" in event}
    assert "rung: visops direct" in names
    assert any(name.startswith("visops::") for name in names)
    assert (tmp_path / "times.png").read_bytes().startswith(b"\x89PNG")


def test_what_takes_too_long_is_left_out(example: ModuleType) -> None:
    times = example.climb([256, 8], 3, limit=0.05)
    assert list(times["Python loop"]) == [8]
    assert list(times["visops direct"]) == [8, 256]


def test_results_must_agree(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = {"wrong": lambda: np.array([1.0, 2.5]), "right": lambda: np.array([1.0, 2.0])}
    monkeypatch.setattr(example, "calls_of", lambda *_: calls)
    with pytest.raises(ValueError, match=r"^size 3: wrong differs by 0\.5$"):
        example.climb([3], 3, 1.0)
