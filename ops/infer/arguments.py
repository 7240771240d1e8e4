"""The options of ``python -m visops.infer``, group by group.

It imports neither torch nor this package, so that ``--help`` is quick.
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

_DESCRIPTION = """\
Run networks over all images of a folder. Every file below it ends as one record: ok, failed or
skipped. However a run ends, even if it is killed, starting it again continues where it stopped.
"""

_EPILOG = """\
OUT holds results.jsonl (or .parquet), quarantine.jsonl (what failed, and why), summary.json,
plan.jsonl and manifest*.jsonl (what is planned and done), parts/ (records by batch) and, if
requested, annotated/, pictures/, masks/ and trace.json.

Exit status: 0 if every input was processed (failed ones too: see quarantine.jsonl), 1 for errors
and inputs unaccounted for, 2 for wrong options, 128 + the signal's number after a signal.

Several processes: torchrun --nproc-per-node N -m visops.infer ..., or --engine ray.
"""

Add = Callable[..., Any]


def parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    options = argparse.ArgumentParser(
        prog="python -m visops.infer",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for title, group in (
        ("input and output", _add_files),
        ("how networks see images", _add_inputs),
        ("what is made of outputs", _add_results),
        ("device and speed", _add_speed),
        ("Ray", _add_ray),
        ("other", _add_other),
    ):
        group(options.add_argument_group(title).add_argument)
    return options


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command's arguments; exit with 2 if they are wrong."""
    options = parser()
    args = options.parse_args(arguments)
    if not args.merge and (args.images is None or not args.models):
        options.error("--images and --models are required, except with --merge")
    return args


def _add_files(add: Add) -> None:
    add(
        "--images",
        metavar="PATH",
        help="folder of inputs, below which every file is one; or a pattern, such as "
        "'photos/**/*.jpg'; or a .csv or .txt file that lists them",
    )
    add(
        "--out",
        metavar="DIR",
        required=True,
        help="folder for results; an unfinished run in it continues",
    )
    add(
        "--models",
        metavar="NAME,...",
        help="torchvision models, such as resnet18,mobilenet_v3_small; files: TorchScript (.pt, "
        ".pth, .ts, .torchscript) or torch.export (.pt2); and file.py:function, a function of your "
        "own that returns a network; all see the same batches",
    )
    add(
        "--weights",
        metavar="DIR",
        help="folder of state dicts NAME.pth for torchvision models, or random",
    )
    add("--seed", type=int, default=0, help="seed of random weights (default 0)")
    add(
        "--format",
        choices=("jsonl", "parquet"),
        default="jsonl",
        help="format of the results (default jsonl); running again with the other one converts",
    )
    add(
        "--annotate",
        nargs="?",
        const="jpeg",
        choices=("jpeg", "png"),
        help="also write each image with its results drawn on it (default jpeg)",
    )


def _add_inputs(add: Add) -> None:
    add("--batch-size", type=int, default=64, metavar="N", help="images per batch (default 64)")
    add(
        "--size",
        type=_size,
        metavar="H[xW]",
        help="input size of all networks; by default, for torchvision models, the size each was "
        "trained for (classification, mostly 224), the size it would resize images to (detection, "
        "mostly 800, else 300 or 320; it resizes other sizes again), or 520 (segmentation); 224 "
        "for files",
    )
    add(
        "--fit",
        choices=("stretch", "letterbox", "crop"),
        help="the whole image stretched, the whole image with bars, or its middle; by default crop "
        "for classification, letterbox for detection, stretch for segmentation and files",
    )
    add(
        "--reduced",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="decode JPEGs at least twice as large as needed at a fraction of their size; faster, "
        "with slightly different pixels (default: yes, unless --annotate)",
    )
    add(
        "--exif",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="turn images upright by their EXIF orientation (default: yes)",
    )
    add(
        "--max-pixels",
        type=int,
        default=1 << 28,
        metavar="N",
        help="larger images fail (default 2^28)",
    )
    add(
        "--max-bytes",
        type=int,
        default=1 << 30,
        metavar="N",
        help="larger files fail, unread (default 2^30)",
    )
    add(
        "--max-batch-pixels",
        type=int,
        default=3 << 28,
        metavar="N",
        help="images fail that give a batch more decoded pixels, of 3 bytes each, than that "
        "(default 3 * 2^28: 64 photos of 12 megapixels); smaller batches have room for them",
    )

    for name, what in (("mean", "subtracted from"), ("std", "dividing")):
        add(
            f"--{name}",
            type=_channels,
            metavar="M[,M,M]",
            help=f"{what} the channels, with white at 1, for all models but torchvision's "
            "detectors, which do it themselves: a number, three, or none (default: as each "
            "torchvision model was trained, ImageNet's for files)",
        )


def _add_results(add: Add) -> None:
    add(
        "--classes",
        action="append",
        default=[],
        metavar="[MODEL=]FILE",
        help="names of classes for records and pictures, a line each, label 0 first: for one "
        "model, or for all without names of their own, as torchvision's have; none leaves names "
        "out; may be repeated",
    )
    add("--top-k", type=int, default=5, metavar="K", help="classes per image (default 5)")
    add(
        "--score-threshold",
        type=float,
        default=0.05,
        metavar="S",
        help="drop boxes with lower scores (default 0.05)",
    )
    add("--iou-threshold", type=float, default=0.5, metavar="T", help="NMS overlap (default 0.5)")
    add(
        "--soft-nms",
        choices=("linear", "gaussian"),
        help="lower scores instead of dropping boxes; detectors with masks or keypoints then "
        "compute them for every box above the score threshold, which may take many times as long",
    )
    add("--max-detections", type=int, default=100, metavar="N", help="per image (default 100)")
    add(
        "--masks",
        choices=("rle", "png"),
        default="rle",
        help="keep masks as run lengths in records (default), or as label maps in PNG files: k on "
        "the k-th mask of a record, the best on top, 0 elsewhere",
    )


def _add_speed(add: Add) -> None:
    add("--device", default="cpu", help="cpu (default), cuda, cuda:1, ...")
    add(
        "--workers",
        type=int,
        metavar="N",
        help="decoding processes (default: one per core, at most 8); 0 decodes in this process; "
        "results do not depend on it",
    )
    add(
        "--writer-threads",
        type=int,
        metavar="N",
        help="threads that encode and write (default 4); not with --engine ray",
    )
    add(
        "--autocast",
        choices=("bfloat16", "float16"),
        help="run networks in this type where torch.autocast considers it safe",
    )
    add(
        "--channels-last",
        action="store_true",
        help="use channels_last, which speeds up convolutions on CPUs (often by half) and on GPUs "
        "with --autocast; the last digits of results differ",
    )


def _add_ray(add: Add) -> None:
    add(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="run in this process (or torchrun's processes), or on a Ray cluster",
    )
    add(
        "--ray-address",
        metavar="ADDRESS",
        help="the cluster's address (default: the cluster this machine belongs to, else a new one)",
    )
    add(
        "--ray-networks",
        type=_at_least(1),
        metavar="N",
        help="processes that run the networks on Ray",
    )


def _add_other(add: Add) -> None:
    add("--dry-run", action="store_true", help="list and plan, print counts, write nothing")
    add(
        "--progress",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="show a progress bar with each stage's images/s and the slowest stage; where standard "
        "error is no terminal, a line every half minute",
    )
    add(
        "--profile",
        action="store_true",
        help="write a torch.profiler trace of the first batches; single process only: neither "
        "under torchrun nor with --engine ray",
    )
    add(
        "--merge", action="store_true", help="only merge a finished OUT, for example after torchrun"
    )


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not an integer of at least {least}")
        return int(text)

    return number


def _channels(text: str) -> tuple[float, ...]:
    """Three numbers: 0.5, or 0.5,0.4,0.3; empty for none."""
    if text == "none":
        return ()
    try:
        numbers = tuple(map(float, text.split(",")))
    except ValueError:
        numbers = ()
    if len(numbers) not in (1, 3):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number, nor three, nor none")
    return numbers * 3 if len(numbers) == 1 else numbers


def _size(text: str) -> tuple[int, int]:
    """Height and width: 224, or 320x480."""
    parts = text.lower().split("x")
    if len(parts) > 2 or not all(part.isdigit() and int(part) for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 224 or 320x480")
    return int(parts[0]), int(parts[-1])
