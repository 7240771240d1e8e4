"""Files are cut by sense: a header has two includers, and a folder few files."""

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_FILES = 24
# Headers with one includer, and why they are not part of it.
ALONE = {
    "core/roi/geometry.h": "the model of a box, which the pages refer to",
    **dict.fromkeys(
        (f"cpu/simd/{name}.h" for name in ("avx2", "avx512", "default", "neon", "neon_sums")),
        "an instruction set",
    ),
    **dict.fromkeys(
        (
            "cpu/convolution/convolve2d_block.h",
            "cpu/masks/distance_search.h",
            "cpu/suppression/nms_grid.h",
            *(f"cpu/warp/augment_{n}.h" for n in ("resize_integers", "scatter", "task")),
            *(f"cuda/pixels/{n}.h" for n in ("colors", "lossy", "neighbourhoods")),
            "cuda/pixels/noise_and_dropouts.h",
        ),
        "too long together",
    ),
}
# Folders that have more files, and how many they had last.
LARGE = {
    "tests/build": 46,
    "tests/convolution": 30,
    "tests/deformable": 28,
    "tests/docs": 30,
    "tests/infer": 36,
    "tests/masks": 35,
    "tests/references": 29,
    "tests/roi": 30,
    "tests/suppression": 38,
    "tests/transforms": 60,
    "tests/warp": 44,
}


def test_a_header_with_one_includer_is_part_of_it() -> None:
    sources = [p for folder in ("csrc", "tests") for p in (ROOT / folder).rglob("*.*")]
    sources = [p for p in sources if p.suffix in (".h", ".cpp", ".cu")]
    included = Counter(
        header
        for path in sources
        for header in set(re.findall(r'^#\s*include "(.+)"', path.read_text(), re.MULTILINE))
    )
    headers = {p.relative_to(ROOT / "csrc").as_posix() for p in (ROOT / "csrc").rglob("*.h")}
    assert {header for header in headers if included[header] < 2} == ALONE.keys()


def test_folders_have_few_files() -> None:
    files = [p for top in ("csrc", "ops", "tests", "scripts") for p in (ROOT / top).rglob("*.*")]
    written = [p for p in files if p.suffix in (".py", ".pyi", ".h", ".cpp", ".cu", ".txt")]
    counts = Counter(path.parent.relative_to(ROOT).as_posix() for path in written)
    assert {f for f, n in counts.items() if n > LARGE.get(f, MOST_FILES)} == set()
    assert {f for f in LARGE if counts[f] <= MOST_FILES} == set(), "no exceptions any more"
