"""Counts the instructions that ARM kernels execute, for one result each.

    python scripts/arm/instructions.py                 # a table
    python scripts/arm/instructions.py --plain FOLDER  # beside a build with -DVISOPS_NEON=0

It is the only thing that an emulator says about speed. qemu writes down every block of instructions
that it executes in our library, and how many are in it; two calls of a marker enclose each case.
What torch, memcpy and Python do is not counted. Every case runs once before, to warm up.

For a build without NEON, take another clone: CXXFLAGS=-DVISOPS_NEON=0 python scripts/arm --only
machine,build.
"""

import argparse
import ctypes
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

MARKER = "visops_cpu_library"  # exported, does next to nothing, and is not called by operators
HERE = Path(__file__).resolve()
Case = tuple[str, int, Callable[[], object]]


def cases() -> Iterator[Case]:
    """Yield names, numbers of results, and calls."""
    import torch
    import visops

    torch.manual_seed(0)
    image = torch.randint(0, 256, (1, 3, 128, 128), dtype=torch.uint8)
    turned = visops.get_rotation_matrix2d((64.0, 64.0), 20.0, 1.1)
    scaled = torch.tensor([[0.7, 0.0, 3.2], [0.0, 0.7, 2.1]])
    values = 3 * 128 * 128

    def warp(of: "torch.Tensor", matrix: object, mode: str) -> Callable[[], object]:
        return lambda: visops.warp_affine(of, matrix, (128, 128), mode=mode)

    for name, dtype in (
        ("uint8", torch.uint8),
        ("float16", torch.float16),
        ("bfloat16", torch.bfloat16),
        ("float32", torch.float32),
    ):
        for mode in ("bilinear", "bicubic"):
            yield (
                f"warp_affine, {name}, {mode}, rotated",
                values,
                warp(image.to(dtype), turned, mode),
            )
    yield "warp_affine, uint8, bilinear, scaled", values, warp(image, scaled, "bilinear")
    yield "warp_affine, uint8, bicubic, scaled", values, warp(image, scaled, "bicubic")
    yield "warp_affine, float32, bicubic, scaled", values, warp(image.float(), scaled, "bicubic")

    smaller = torch.tensor([[0.5, 0.0, 0.0], [0.0, 0.5, 0.0]])
    for layout in (torch.contiguous_format, torch.channels_last):
        given = image.contiguous(memory_format=layout)
        name = "planes" if layout == torch.contiguous_format else "pixels"
        shrink = partial(visops.augment, given, smaller, (64, 64), antialias=True)
        yield f"augment, antialiased half size, {name}", 3 * 64 * 64, shrink
    boxes = torch.rand(20, 4) * 30
    boxes[:, 2:] += boxes[:, :2] + 10
    rois = torch.cat([torch.zeros(20, 1), boxes], 1)
    for dtype in (torch.float32, torch.float16):
        features = torch.rand(1, 64, 48, 48).to(dtype)
        name = str(dtype).removeprefix("torch.")
        align = partial(visops.roi_align, features, rois.to(dtype), 7, 1.0, 2, True)
        yield f"roi_align, {name}", 20 * 64 * 49, align
    bits = torch.rand(64, 96, 96) > 0.7
    yield "pack_masks", 64 * 96 * 96, lambda: visops.pack_masks(bits)
    packed = visops.pack_masks(bits)
    yield "mask_iou, packed", 64 * 64, lambda: visops.mask_iou(packed, packed)
    yield "masks_to_rle", 64 * 96 * 96, lambda: visops.masks_to_rle(packed)
    small = torch.rand(20, 28, 28)
    yield (
        "paste_masks",
        20 * 96 * 96,
        lambda: visops.paste_masks(small, boxes * 2, (96, 96), threshold=0.5),
    )
    plane, kernel = torch.rand(64, 64), torch.rand(5, 5)
    yield "convolve2d, 5 x 5, float32", 68 * 68, lambda: visops.convolve2d(plane, kernel)
    complexes = torch.complex(plane, plane)
    yield (
        "convolve2d, 5 x 5, complex64",
        68 * 68,
        lambda: visops.convolve2d(complexes, kernel.to(torch.complex64)),
    )
    x, weight = torch.rand(1, 32, 24, 24), torch.rand(32, 32, 3, 3)
    yield "conv2d, 32 to 32 channels", 32 * 22 * 22, lambda: visops.conv2d(x, weight)
    several = torch.rand(200, 4)
    several[:, 2:] += several[:, :2]
    yield "box_iou", 200 * 200, lambda: visops.box_iou(several, several)
    yield from chain_cases(image[0])


def chain_cases(image: "torch.Tensor") -> Iterator[Case]:
    """Yield the same of single transforms, whose parameters are drawn but always alike."""
    from visops import transforms as T

    steps: dict[str, T.Transform] = {
        "MedianBlur, 3 x 3": T.MedianBlur((3, 3), p=1.0),
        "MedianBlur, 5 x 5": T.MedianBlur((5, 5), p=1.0),
        "GaussianBlur, 5 x 5": T.GaussianBlur(5, 1.2),
        "Sharpen": T.Sharpen(p=1.0),
        "CLAHE, in Lab": T.CLAHE(p=1.0),
        "RandomHSV": T.RandomHSV(),
        "GaussianNoise": T.GaussianNoise(),
    }
    for name, step in steps.items():
        yield f"{name}, uint8", image.numel(), partial(T.Compose([step], seed=0), image, index=0)
    light = image / 255
    for name, step in {
        "MedianBlur, 3 x 3": T.MedianBlur((3, 3), p=1.0),
        "RandomGamma": T.RandomGamma((1.1, 1.1), p=1.0),
    }.items():
        yield f"{name}, float32", light.numel(), partial(T.Compose([step], seed=0), light, index=0)


def play(names: list[str]) -> None:
    """Run the cases between markers: in the emulator."""
    import torch
    from visops._loader import LIBRARY

    torch.set_num_threads(1)
    marker = getattr(ctypes.CDLL(str(LIBRARY)), MARKER)
    marker.restype = ctypes.c_void_p
    offset = ctypes.cast(marker, ctypes.c_void_p).value
    maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    (code,) = (m for m in maps if m[-1].endswith("/libvisops.so") and m[1] == "r-xp")
    print("CODE", code[0], offset, flush=True)
    for name, results, call in cases():
        if names and name not in names:
            continue
        call()
        marker()
        call()
        marker()
        print("CASE", results, name, flush=True)


def counts(log: Iterable[str], marker: int) -> Iterator[int]:
    """Yield instructions between each two calls of the marker, from qemu's log."""
    sizes: dict[int, int] = {}
    block, count, inside = -1, 0, False
    for line in log:
        if line.startswith("0x"):
            if block < 0:
                block = int(line[2 : line.index(":")], 16)
                sizes[block] = 0
            sizes[block] += 1
        elif line.startswith("IN:"):
            block = -1
        elif line.startswith("Trace"):
            at = int(line.split("/", 2)[1], 16)
            if at == marker:
                if inside:
                    yield count
                count, inside = 0, not inside
            elif inside:
                count += sizes[at]


def measure(library: Path) -> dict[str, float]:
    """Return instructions per result of every case, with one build."""
    from arm.machine import EMULATOR, MACHINE

    environment = {**os.environ, "PYTHONPATH": str(library), "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] += f":{MACHINE / 'start'}:{MACHINE / 'site'}"
    python = ["-cpu", "max,sve=off", "-L", str(MACHINE / "root")]
    python += [str(MACHINE / "root" / "usr" / "bin" / "python3"), str(HERE), "--play"]

    first, last, marker = 0, 1, 0
    for _ in range(4):  # where the library lies is known when it was there
        with tempfile.TemporaryDirectory() as folder:
            pipe = Path(folder, "log")
            os.mkfifo(pipe)
            wanted = f"{first:#x}+{last - first:#x}"
            options = ["-d", "in_asm,exec,nochain", "-dfilter", wanted, "-D", str(pipe)]
            command = [EMULATOR, *options, *python, *([] if marker else ["no such case"])]
            running = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
            with pipe.open() as log:
                numbers = list(counts(log, marker))
            printed = running.communicate()[0]
        found = re.search(r"CODE (\w+)-(\w+) (\d+)", printed)
        if found is None:
            raise SystemExit("the emulated program did not start")
        was = first, last, marker
        first, last, marker = int(found[1], 16), int(found[2], 16), int(found[3])
        if was == (first, last, marker):
            break
    else:
        raise SystemExit("the emulator puts the library elsewhere every time")
    rows = re.findall(r"CASE (\d+) (.+)", printed)
    return {name: n / int(results) for n, (results, name) in zip(numbers, rows, strict=True)}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--play", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--plain", type=Path, help="folder of a build with -DVISOPS_NEON=0")
    arguments = parser.parse_args()
    if arguments.play is not None:
        play(arguments.play)
        return
    sys.path.insert(0, str(HERE.parents[1]))
    from arm.machine import HOME

    neon = measure(HOME / "lib")
    plain = measure(arguments.plain.resolve()) if arguments.plain else {}
    width = max(map(len, neon))
    print(f"{'instructions per result':{width}}  {'plain':>8}  {'NEON':>8}")
    for name, count in neon.items():
        before = f"{plain[name]:8.1f}" if name in plain else f"{'':8}"
        print(f"{name:{width}}  {before}  {count:8.1f}")


if __name__ == "__main__":
    main()
