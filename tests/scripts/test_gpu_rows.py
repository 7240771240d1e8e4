"""The rows of a GPU's benchmark run where most peers are missing."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST_ROWS = """
import sys
for name in ("kornia", "albumentations", "simplejpeg", "mmcv"):
    sys.modules[name] = None  # importing it fails
sys.path.insert(0, "scripts")
from bench.gpu import all_cases
print(len(all_cases("cpu", 0.01)))
"""


def test_rows_need_torch_and_torchvision_only() -> None:
    command = [sys.executable, "-c", LIST_ROWS]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) > 40
