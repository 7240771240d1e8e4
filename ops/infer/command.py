"""The command ``python -m visops.infer``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from .cluster.distributed import merge, run_rank, torchrun_rank
from .engine.pipeline import Pipeline
from .images.preprocess import Preprocess
from .models.detection import Detection
from .models.model import Model, load_models
from .models.postprocess import Auto, Classification, Segmentation
from .options import Options
from .store.summary import Summary
from .view.report import table

__all__ = ["main", "parser"]

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
    options = parser()
    args = options.parse_args(arguments)
    if not args.merge and (args.images is None or not args.models):
        options.error("--images and --models are needed, but with --merge")
    try:
        if args.merge:
            summary = merge(args.out, args.format)
            print(table(summary))
            return summary.exit_code
        _refuse_what_does_nothing(args)
        if args.device.startswith("cpu"):
            from .engine.memory import keep_freed_memory

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
        from .cluster.ray_engine import run_ray  # Ray need not be installed

        return run_ray(
            pipeline,
            args.images,
            args.out,
            address=args.ray_address,
            decoders=args.workers,
            networks=args.ray_networks,
            progress=args.progress,
        )
    if torchrun_rank() is not None:
        return run_rank(pipeline, args.images, args.out, progress=args.progress)
    return pipeline.run(args.images, args.out, progress=args.progress, profile=args.profile)


def _refuse_what_does_nothing(args: argparse.Namespace) -> None:
    """Refuse options that the chosen way to run has no use for."""
    ray, ranks = args.engine == "ray", torchrun_rank() is not None
    way, other = "with --engine ray" if ray else "under torchrun", "without --engine ray"
    for option, given, useless, where in (
        ("--profile", args.profile, ray or ranks, way),
        ("--writer-threads", args.writer_threads is not None, ray, way),
        ("--ray-address", args.ray_address is not None, not ray, other),
        ("--ray-networks", args.ray_networks is not None, not ray, other),
    ):
        if given and useless:
            raise ValueError(f"visops.infer: {option} does nothing {where}: leave it out")
    if ray and args.workers == 0:
        raise ValueError("visops.infer: --workers is 0, must be at least 1 with --engine ray")


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
        "preprocess": _changed(Preprocess(), args),  # of models' files
    }
    for name in ("workers", "writer_threads"):
        if getattr(args, name) is not None:
            fields[name] = getattr(args, name)
    return Options(**fields)


def _changed(preprocess: Preprocess, args: argparse.Namespace) -> Preprocess:
    """Return a model's own input with what is said of all inputs."""
    return replace(preprocess, size=args.size or preprocess.size, fit=args.fit or preprocess.fit)


def _models(args: argparse.Namespace) -> list[Model]:
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
    models = load_models(args.models.split(","), args.weights, args.seed)
    for model in models:
        model.postprocess = postprocess
        if model.preprocess is not None:
            model.preprocess = _changed(model.preprocess, args)
        if args.weights is None and model.source.startswith("torchvision "):
            print(
                f"visops.infer: {model.name} has random weights (seed {args.seed}); "
                f"--weights DIR with {model.name}.pth gives it others",
                file=sys.stderr,
            )
    return models


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no number of at least {least}")
        return int(text)

    return number


def _size(text: str) -> tuple[int, int]:
    """Height and width: 224, or 320x480."""
    parts = text.lower().split("x")
    if len(parts) > 2 or not all(part.isdigit() and int(part) for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 224 or 320x480")
    return int(parts[0]), int(parts[-1])


def parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    options = argparse.ArgumentParser(
        prog="python -m visops.infer",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = options.add_argument_group("what").add_argument
    add("--images", metavar="DIR", help="every file below it is an input")
    add("--out", metavar="DIR", required=True, help="for results; go on with what is there")
    add(
        "--models",
        metavar="NAME,...",
        help="models of torchvision, such as resnet18,mobilenet_v3_small, and files: TorchScript "
        "(.pt, .pth, .ts, .torchscript) or torch.export (.pt2); all see the same batches",
    )
    add(
        "--weights",
        metavar="DIR",
        help="state dicts of torchvision's models, NAME.pth; without it weights are random",
    )
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

    add = options.add_argument_group("how networks see images").add_argument
    add("--batch-size", type=int, default=64, metavar="N", help="images at a time (default 64)")
    add(
        "--size",
        type=_size,
        metavar="H[xW]",
        help="of all networks' input; by default, for models of torchvision, what each was trained "
        "for (classification, mostly 224), what it would resize images to (detection, mostly 800, "
        "else 300 or 320; from other sizes it still does), or 520 (segmentation); for files 224",
    )
    add(
        "--fit",
        choices=("stretch", "letterbox", "crop"),
        help="whole images at another aspect ratio, whole ones with bars, or the middle; by "
        "default crop for classification, letterbox for detection, stretch for segmentation and "
        "files",
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

    add = options.add_argument_group("what is made of outputs").add_argument
    add("--top-k", type=int, default=5, metavar="K", help="classes of an image (default 5)")
    add("--score-threshold", type=float, default=0.05, metavar="S", help="of boxes (default 0.05)")
    add("--iou-threshold", type=float, default=0.5, metavar="T", help="of NMS (default 0.5)")
    add(
        "--soft-nms",
        choices=("linear", "gaussian"),
        help="lower scores instead of dropping boxes; detectors with masks or keypoints then make "
        "them of every box above the score, which may take many times as long",
    )
    add("--max-detections", type=int, default=100, metavar="N", help="of an image (default 100)")

    add = options.add_argument_group("where and how fast").add_argument
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
        metavar="N",
        help="threads that encode and write (default 4); not with --engine ray",
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
    add(
        "--ray-networks",
        type=_at_least(1),
        metavar="N",
        help="processes with the networks, with Ray",
    )

    add = options.add_argument_group("besides").add_argument
    add("--dry-run", action="store_true", help="list and plan, print counts, write nothing")
    add(
        "--progress",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="a bar on the terminal, with each stage's images/s and the one that limits",
    )
    add(
        "--profile",
        action="store_true",
        help="write a torch.profiler trace of the first batches; of one process, so neither under "
        "torchrun nor with --engine ray",
    )
    add(
        "--merge",
        action="store_true",
        help="only merge a finished OUT, as after torchrun",
    )
    return options
