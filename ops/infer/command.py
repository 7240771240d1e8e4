"""The command ``python -m visops.infer``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from .detection import Detection
from .models import Model, load_model
from .options import Options
from .pipeline import Pipeline
from .postprocess import Auto, Classification, Segmentation
from .preprocess import Preprocess
from .report import table
from .summary import Summary

__all__ = ["main"]

_DESCRIPTION = """\
Run networks over all images of a folder. Every file below it ends as one record: ok, failed or
skipped. A run that was killed, in whatever way, goes on where it was when it is started again.
"""

_EPILOG = """\
OUT has results.jsonl (or .parquet), quarantine.jsonl (what failed, and why), summary.json,
plan.jsonl and manifest*.jsonl (what is planned and done), parts/ (records by batch) and, where they
are wanted, annotated/, pictures/ and trace.json.

Exit status: 0 if every input has ended (failed ones too: see quarantine.jsonl), 1 for errors and
inputs unaccounted for, 2 for wrong options, 128 + the signal's number after a signal.

Many processes: torchrun --nproc-per-node N -m visops.infer ..., or --engine ray.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = _parser()
    args = parser.parse_args(arguments)
    if args.merge:
        return _merge(args)
    if args.images is None or not args.models:
        parser.error("--images and --models are needed, but with --merge")
    try:
        if args.device.startswith("cpu"):
            from .memory import keep_freed_memory

            keep_freed_memory()
        summary = _run(args)
    except (ImportError, OSError, RuntimeError, TypeError, ValueError) as error:
        text = str(error)
        prefix = (
            "" if text.startswith("visops.infer") else f"visops.infer: {type(error).__name__}: "
        )
        print(f"{prefix}{text}", file=sys.stderr)
        return 1
    if summary.results is not None or os.environ.get("LOCAL_RANK", "0") == "0":
        print(table(summary))
    return summary.exit_code


def _run(args: argparse.Namespace) -> Summary:
    if not os.path.isdir(args.images):
        raise NotADirectoryError(f"visops.infer: --images {args.images} is not a folder")
    options = _options(args)
    pipeline = Pipeline(_models(args), options)
    if args.dry_run:
        return pipeline.dry_run(args.images, args.out)
    if args.engine == "ray":
        from .ray_engine import run_ray

        return run_ray(
            pipeline,
            args.images,
            args.out,
            address=args.ray_address,
            decoders=args.workers,
            networks=args.ray_networks,
            progress=args.progress,
        )
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        from .distributed import run_rank

        return run_rank(pipeline, args.images, args.out, progress=args.progress)
    return pipeline.run(args.images, args.out, progress=args.progress, profile=args.profile)


def _merge(args: argparse.Namespace) -> int:
    from .distributed import merge

    try:
        summary = merge(args.out, args.format)
    except (OSError, RuntimeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    print(table(summary))
    return summary.exit_code


def _options(args: argparse.Namespace) -> Options:
    fields: dict[str, Any] = {
        "batch_size": args.batch_size,
        "device": args.device,
        "seed": args.seed,
        "format": args.format,
        "annotate": args.annotate,
        "autocast": args.autocast,
        "channels_last": args.channels_last,
        "reduced": args.reduced,
        "exif": args.exif,
        "max_pixels": args.max_pixels,
        "writer_threads": args.writer_threads,
    }
    if args.workers is not None:
        fields["workers"] = args.workers
    if (preprocess := _preprocess(args)) is not None:
        fields["preprocess"] = preprocess
    return Options(**fields)


def _preprocess(args: argparse.Namespace) -> Preprocess | None:
    """Return the input for all models, if anything is said of it."""
    if args.size is None and args.fit is None:
        return None
    return Preprocess(args.size or (224, 224), args.fit or "stretch")


def _models(args: argparse.Namespace) -> list[Model]:
    preprocess = _preprocess(args)
    postprocess = Auto(
        Classification(top_k=args.top_k),
        Detection(
            score_threshold=args.score_threshold,
            iou_threshold=args.iou_threshold,
            method=args.soft_nms or "hard",
            max_detections=args.max_detections,
        ),
        Segmentation(),
    )
    models = []
    for name in args.models.split(","):
        model = load_model(name, args.weights, args.seed, preprocess)
        model.postprocess = postprocess
        if args.weights is None and model.source.startswith("torchvision "):
            print(
                f"visops.infer: {name} has random weights (seed {args.seed}); "
                f"--weights DIR with {name}.pth gives it others",
                file=sys.stderr,
            )
        models.append(model)
    return models


def _size(text: str) -> tuple[int, int]:
    """Height and width: 224, or 320x480."""
    parts = text.lower().split("x")
    if len(parts) > 2 or not all(part.isdigit() and int(part) for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 224 or 320x480")
    return int(parts[0]), int(parts[-1])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m visops.infer",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument_group("what").add_argument
    add("--images", metavar="DIR", help="every file below it is an input")
    add("--out", metavar="DIR", required=True, help="for results; go on with what is there")
    add(
        "--models",
        metavar="NAME,...",
        help="models of torchvision, such as resnet18,mobilenet_v3_small, and files: TorchScript "
        "(.pt, .pth, .ts, .torchscript) or torch.export (.pt2); all see the same batches",
    )
    add("--weights", metavar="DIR", help="state dicts, NAME.pth; without it weights are random")
    add("--seed", type=int, default=0, help="of random weights (default 0)")
    add(
        "--format",
        choices=("jsonl", "parquet"),
        default="jsonl",
        help="of the results (default jsonl); another one on the same OUT converts",
    )
    add(
        "--annotate",
        nargs="?",
        const="jpeg",
        choices=("jpeg", "png"),
        help="also write each image with what was found drawn on it (default jpeg)",
    )

    add = parser.add_argument_group("how networks see images").add_argument
    add("--batch-size", type=int, default=64, metavar="N", help="images at a time (default 64)")
    add(
        "--size",
        type=_size,
        metavar="H[xW]",
        help="of networks' input; by default 224 for classification, 520 for segmentation, 320 for "
        "detection",
    )
    add(
        "--fit",
        choices=("stretch", "letterbox", "crop"),
        help="whole images at another aspect ratio, whole ones with bars, or the middle; by "
        "default crop for classification, stretch for segmentation, letterbox for detection",
    )
    add(
        "--reduced",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="decode JPEGs that are twice as large as needed, or more, at a fraction of their "
        "size; faster, with slightly other pixels (default: unless --annotate)",
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

    add = parser.add_argument_group("what is made of outputs").add_argument
    add("--top-k", type=int, default=5, metavar="K", help="classes of an image (default 5)")
    add("--score-threshold", type=float, default=0.05, metavar="S", help="of boxes (default 0.05)")
    add("--iou-threshold", type=float, default=0.5, metavar="T", help="of NMS (default 0.5)")
    add("--soft-nms", choices=("linear", "gaussian"), help="lower scores instead of dropping boxes")
    add("--max-detections", type=int, default=100, metavar="N", help="of an image (default 100)")

    add = parser.add_argument_group("where and how fast").add_argument
    add("--device", default="cpu", help="cpu (default), cuda, cuda:1, ...")
    add(
        "--workers",
        type=int,
        metavar="N",
        help="processes that decode (default: one a core, 8 at most); 0: none but this one; "
        "results don't depend on it",
    )
    add(
        "--writer-threads",
        type=int,
        default=4,
        metavar="N",
        help="threads that encode and write (default 4)",
    )
    add(
        "--autocast",
        choices=("bfloat16", "float16"),
        help="run networks in this type where torch.autocast thinks it safe",
    )
    add(
        "--channels-last",
        action="store_true",
        help="the memory format that convolutions are faster in, on CPUs (often by half) and on "
        "GPUs with --autocast; last digits differ",
    )
    add(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="this process (or torchrun's), or a Ray cluster",
    )

    add(
        "--ray-address",
        metavar="ADDRESS",
        help="of the cluster (default: the one that this machine is part of, or else a new one)",
    )
    add("--ray-networks", type=int, metavar="N", help="processes with the networks, with Ray")

    add = parser.add_argument_group("besides").add_argument
    add("--dry-run", action="store_true", help="list and plan, print counts, write nothing")
    add(
        "--progress",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="a bar on the terminal, with each stage's images/s and the one that limits",
    )
    add("--profile", action="store_true", help="write a torch.profiler trace of the first batches")
    add(
        "--merge",
        action="store_true",
        help="only merge a finished OUT, as after torchrun",
    )
    return parser
