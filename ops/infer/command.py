"""The command ``python -m visops.infer``."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .arguments import parse
from .cluster.distributed import merge, run_rank
from .cluster.rendezvous import torchrun_rank
from .engine.pipeline import Pipeline
from .images.preprocess import Preprocess
from .models.describe import read_classes
from .models.detection import Detection
from .models.model import Model, load_models
from .models.postprocess import Auto, Classification, Segmentation
from .options import Options
from .store.summary import Summary
from .view.report import table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    args = parse(arguments)
    try:
        if args.merge:
            summary = merge(args.out, args.format)
            print(table(summary))
            return summary.exit_code
        _reject_useless_options(args)
        if args.device.startswith("cpu"):
            from .engine.process import keep_freed_memory

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


def _reject_useless_options(args: argparse.Namespace) -> None:
    """Refuse options that have no effect in the chosen engine."""
    ray, ranks = args.engine == "ray", torchrun_rank() is not None
    way, other = "with --engine ray" if ray else "under torchrun", "without --engine ray"
    for option, given, useless, where in (
        ("--profile", args.profile, ray or ranks, way),
        ("--writer-threads", args.writer_threads is not None, ray, way),
        ("--ray-address", args.ray_address is not None, not ray, other),
        ("--ray-networks", args.ray_networks is not None, not ray, other),
    ):
        if given and useless:
            raise ValueError(f"visops.infer: {option} has no effect {where}: leave it out")
    if ray and args.workers == 0:
        raise ValueError("visops.infer: --workers is 0, must be at least 1 with --engine ray")


def _options(args: argparse.Namespace) -> Options:
    fields: dict[str, Any] = {
        "batch_size": args.batch_size,
        "device": args.device,
        "seed": args.seed,
        "format": args.format,
        "annotate": args.annotate,
        "masks": args.masks,
        "autocast": args.autocast,
        "channels_last": args.channels_last,
        "reduced": args.reduced,
        "exif": args.exif,
        "max_pixels": args.max_pixels,
        "max_bytes": args.max_bytes,
        "max_batch_pixels": args.max_batch_pixels,
        "preprocess": _changed(Preprocess(), args),  # for model files
    }
    for name in ("workers", "writer_threads"):
        if getattr(args, name) is not None:
            fields[name] = getattr(args, name)
    return Options(**fields)


def _changed(
    preprocess: Preprocess, args: argparse.Namespace, *, normalises: bool = False
) -> Preprocess:
    """Return a model's own preprocessing with --size, --fit, --mean and --std applied."""
    mean, std = (
        getattr(preprocess, name) if normalises or given is None else given or None
        for name, given in (("mean", args.mean), ("std", args.std))
    )
    return replace(
        preprocess,
        size=args.size or preprocess.size,
        fit=args.fit or preprocess.fit,
        mean=mean,
        std=std,
    )


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
    if (args.mean, args.std) != (None, None) and all(_normalises(model) for model in models):
        raise ValueError(
            "visops.infer: --mean and --std have no effect: torchvision's detectors normalise "
            "images themselves; leave them out"
        )
    for model in models:
        if model.postprocess == Auto():  # a Python file may have brought its own
            model.postprocess = postprocess
        if model.preprocess is not None:
            model.preprocess = _changed(model.preprocess, args, normalises=_normalises(model))
    _name_classes(models, args.classes)
    return models


def _normalises(model: Model) -> bool:
    """Whether a model is one of torchvision's detectors, which normalise images themselves."""
    return model.as_list and model.source.startswith("torchvision ")


def _name_classes(models: Sequence[Model], given: Sequence[str]) -> None:
    """Give models the names of classes that --classes says."""
    named = {model.name: model for model in models}
    for text in given:
        name, separator, path = text.partition("=")
        if text == "none":
            for model in models:
                model.classes = None
        elif separator and name in named:
            named[name].classes = read_classes(path)
        else:
            classes = read_classes(text)
            for model in models:
                if model.classes is None:
                    model.classes = classes
