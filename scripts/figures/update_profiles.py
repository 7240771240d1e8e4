"""Runs scripts/profile_conv.py, and updates the output that docs/profiling.md shows.

``python scripts/figures/update_profiles.py`` takes a few minutes on an otherwise idle machine. Name
conv or conv_kernel to run only that.
"""

import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import numpy as np  # noqa: E402
import profile_conv  # noqa: E402
import visops  # noqa: E402

LADDERS = {
    "conv": [],
    "conv_kernel": ["--image", "512", "--no-profilers"],
}
TEXTS = {"times": "", "profilers": "_profilers", "trace": "_trace"}


def update(name: str) -> None:
    """Run a ladder; write its texts to docs/profiles and its picture to docs/images."""
    texts, images = ROOT / "docs" / "profiles", ROOT / "docs" / "images"
    texts.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        profile_conv.main([*LADDERS[name], "--out", folder])
        for kind, suffix in TEXTS.items():
            path = out / f"{kind}.txt"
            if path.exists():
                lines = path.read_text(encoding="utf-8").splitlines()
                if kind == "times":
                    lines.pop()  # the date and the commit
                text = "\n".join(lines) + "\n"
                (texts / f"{name}{suffix}.txt").write_text(text, encoding="utf-8")
        shutil.copyfile(out / "times.png", images / f"profile_{name}.png")


def explain() -> None:
    """Write what `auto` reports for the examples of the page."""
    lines: list[str] = []
    image = np.random.default_rng(0).uniform(size=(1080, 1920)).astype(np.float32)
    for side in (3, 15, 51):
        kernel = image[:side, :side]
        visops.convolve2d(image, kernel, "same", explain=lines.append)
    mean = np.full((15, 15), 1 / 225, np.float32)
    visops.convolve2d(image, mean, "same", explain=lines.append)
    visops.convolve2d(
        image.astype(np.uint8), np.arange(225, dtype=np.uint8).reshape(15, 15), explain=lines.append
    )
    path = ROOT / "docs" / "profiles" / "conv_explain.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for ladder in sys.argv[1:] or LADDERS:
        update(ladder)
    explain()
