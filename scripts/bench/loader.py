"""From JPEG files on disk to batches: our loader's threads against workers and other libraries.

A call is an epoch of 256 photos in batches of 64, by two threads or two worker processes that have
started already; files are in the page cache. Crop, flip, jitter, normalise, at random parameters:
what is compared is the mean of each channel. Dense photos are the same photos with grain as of a
film, each with as much as makes its file 4.8 bits a pixel. "bound" decodes the same windows with
the same decoder and augments them in two threads, with all parameters prepared: the least that the
loader could take. Rows of "visops, ..." are our own chain in a DataLoader, sample by sample and by
`Compose.collate`. Peers decode with simplejpeg, the fastest that they have, and PNG with OpenCV;
SPDL's own decoder needs FFmpeg's libraries. FFCV reads a file of its own, of arrays (raw) or of
JPEG files of quality 90, and jitters no hue. A peer that can't be imported is left out, and a line
says so. `python scripts/bench loading.costs` measures images per second by threads, the share of
each stage, the first batch and the memory of a large data set, into results of their own.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from bench.augmentation.pictures import SAME_MEAN, Size
from bench.harness import EXACT, Case, Contender, rows
from bench.loading import by_torchvision, files, ours, peers


def photo_contenders(size: Size, kind: files.Kind) -> list[Contender]:
    """Photos alone."""
    paths, own = files.paths_of(size, kind), ours.chain()
    calls: dict[str, Any] = {"visops": ours.loader(paths, own)}
    if kind != "png":  # whose files our decoder can't decode in parts
        calls["bound"] = ours.Bound(paths, own)
    calls |= {
        "visops, sample by sample": ours.one_by_one(paths, own),
        "visops, collate": ours.collated(paths, ours.chain()),
        "torchvision": ours.in_workers(paths, by_torchvision.ByTorchvision()),
        "albumentations": ours.in_workers(paths, peers.ByAlbumentations()),
    }
    if peers.importable("SPDL", "spdl.pipeline"):
        calls["SPDL"] = peers.Spdl(paths)
    if peers.importable("DALI", "nvidia.dali"):
        calls["DALI"] = peers.Dali(paths)
    if kind != "png":
        calls |= _ffcv(paths)
    return contenders(calls)


def _ffcv(paths: Sequence[str], **options: Any) -> dict[str, Any]:
    if not peers.importable("FFCV", "ffcv"):
        return {}
    return {f"FFCV, {mode}": peers.Ffcv(paths, mode, **options) for mode in ("raw", "JPEG")}


def plain_contenders(size: Size) -> list[Contender]:
    """Photos without jitter, which takes most of FFCV's time."""
    paths, own = files.paths_of(size, "dense"), ours.chain(jitter=False)
    calls = {
        "visops": ours.loader(paths, own),
        "bound": ours.Bound(paths, own),
        **_ffcv(paths, jitter=False),
    }
    return contenders(calls)


def view_contenders(size: Size) -> list[Contender]:
    """Several crops of each photo, for self-supervision."""
    paths, own = files.paths_of(size, "dense"), ours.views()
    calls: dict[str, Any] = {
        "visops": ours.loader(paths, own),
        "visops, sample by sample": ours.one_by_one(paths, own),
        "visops, collate": ours.collated(paths, ours.views()),
        "torchvision": ours.in_workers(paths, by_torchvision.ByTorchvision(files.VIEWS)),
        "albumentations": ours.in_workers(paths, peers.ByAlbumentations(files.VIEWS)),
    }
    return contenders(calls)


def detection_contenders(size: Size) -> list[Contender]:
    """Photos with eight boxes, and a mask in a PNG file."""
    samples = files.objects_of(size)
    own = ours.chain(boxes="sanitize")
    load, collate = by_torchvision.DetectionByTorchvision(), by_torchvision.lists_of_boxes
    theirs = ours.in_workers(samples, load, collate)
    calls = {"visops": ours.loader(samples, own), "visops, collate": ours.collated(samples, own)}
    return contenders({**calls, "torchvision": theirs})


def gpu_contenders() -> list[Contender]:
    """Batches on a GPU, all of the host's cores at work; the chain on either side of the copy."""
    few, cores = files.paths_of((480, 640)), os.cpu_count() or 1
    paths = [few[index % len(few)] for index in range(32 * files.BATCH)]
    calls: dict[str, Any] = {
        name: ours.loader(paths, ours.chain(), cores, device="cuda", augment_on=side)
        for name, side in (("visops", "device"), ("visops, chain on the CPU", "cpu"))
    }
    calls["torchvision, workers"] = ours.onto_gpu(paths, by_torchvision.ByTorchvision(), cores)
    calls["torchvision, nvJPEG"] = by_torchvision.on_gpu(paths)
    return contenders(calls)


def contenders(calls: Mapping[str, Any]) -> list[Contender]:
    """What makes the same batches, sample by sample, is compared bit by bit."""
    exact = ("bound", "visops, sample by sample")
    return [
        Contender(
            name,
            call,
            EXACT if name in exact else SAME_MEAN,
            ours.mean,
            name == "bound" or name.startswith("visops,"),
        )
        for name, call in calls.items()
    ]


def all_cases() -> list[Case]:
    """Two sizes of photos, dense ones, PNG, one with targets, and several crops."""
    options: dict[str, Any] = {"threads": 1, "memory": False, "workers": True}
    options["images"] = files.COUNT
    work = "batches of 64, 2 threads or workers"
    large, small = (480, 640), (375, 500)
    dense = f"500×375, dense: {files.DENSE} bits a pixel"
    photos: dict[str, tuple[Size, files.Kind]] = {
        "640×480": (large, "smooth"),
        "500×375": (small, "smooth"),
        dense: (small, "dense"),
    }
    objects = f"JPEG files, 8 boxes and a mask in a PNG file → {work}"
    crops = f"JPEG files → 2 crops of 224² and 6 of 96² each, {work}"
    whole: dict[str, tuple[Size, files.Kind]] = {"500×375": (small, "png")}
    on_gpu = options | {"images": 2048, "device": "cuda"}
    gpu_group = "JPEG files → batches of 64 on the GPU"
    return [
        *rows(f"JPEG files → {work}", photo_contenders, photos, "640", **options),
        *rows(objects, detection_contenders, {"640×480": (large,)}, **options),
        *rows(f"JPEG files → {work}: no jitter", plain_contenders, {dense: (small,)}, **options),
        *rows(f"PNG files → {work}", photo_contenders, whole, **options),
        *rows(crops, view_contenders, {dense: (small,)}, **options),
        *rows(gpu_group, gpu_contenders, {"2048 of 640×480": ()}, **on_gpu),
    ]
