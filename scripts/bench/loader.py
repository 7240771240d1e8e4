"""From JPEG files on disk to batches: our loader's threads against workers and other libraries.

A call is an epoch of 256 photos in batches of 64, by two threads or two worker processes that have
started already; files are in the page cache. Crop, flip, jitter, normalise, at random parameters:
what is compared is the mean of each channel. "bound" decodes the same windows with the same decoder
and augments them in two threads, with all parameters prepared: the least that the loader could
take. Rows of "visops, ..." are our own chain in a DataLoader, sample by sample and by
`Compose.collate`. Peers decode with simplejpeg, the fastest that they have; SPDL's own decoder
needs FFmpeg's libraries. `--costs` measures instead images per second by threads, the share of each
stage, the first batch and the memory of a large data set, into results of their own.
"""

import importlib.util
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that `bench` is a package

from bench.augmentation.pictures import SAME_MEAN, Size
from bench.harness import EXACT, Case, Contender, case, main
from bench.loading import by_torchvision, costs, files, ours, peers, workers

FLOORS = {
    "bound": 0.9,
    "visops, sample by sample": 1.4,
    "visops, collate": 1.4,
    "torchvision": 4.0,
    "albumentations": 2.5,
    "SPDL": 1.0,
    "DALI": 1.0,
}


def photo_contenders(size: Size) -> list[Contender]:
    """Photos alone."""
    paths, own = files.paths_of(size), ours.chain()
    calls: dict[str, Any] = {
        "visops": ours.loader(paths, own),
        "bound": ours.Bound(paths, own),
        "visops, sample by sample": ours.one_by_one(paths, own),
        "visops, collate": ours.collated(paths, ours.chain()),
        "torchvision": workers.in_workers(paths, by_torchvision.ByTorchvision()),
        "albumentations": workers.in_workers(paths, peers.ByAlbumentations()),
    }
    if importlib.util.find_spec("spdl") is not None:
        calls["SPDL"] = peers.Spdl(paths)
    if importlib.util.find_spec("nvidia.dali") is not None:
        calls["DALI"] = peers.Dali(paths)
    return [_contender(name, call) for name, call in calls.items()]


def detection_contenders(size: Size) -> list[Contender]:
    """Photos with eight boxes, and a mask in a PNG file."""
    samples = files.objects_of(size)
    own = ours.chain(boxes="sanitize")
    return [
        _contender("visops", ours.loader(samples, own)),
        _contender("visops, collate", ours.collated(samples, own)),
        Contender(
            "torchvision",
            workers.in_workers(
                samples,
                by_torchvision.DetectionByTorchvision(),
                by_torchvision.lists_of_boxes,
            ),
            SAME_MEAN,
            floor=3.0,
            comparable=ours.mean,
        ),
    ]


def _contender(name: str, call: Any) -> Contender:
    same = name in ("bound", "visops, sample by sample")
    tolerance = EXACT if same else SAME_MEAN
    bound = name == "bound" or name.startswith("visops,")
    return Contender(name, call, tolerance, FLOORS.get(name), ours.mean, bound)


def all_cases() -> list[Case]:
    """Two sizes of photos, and one with targets."""
    options: dict[str, Any] = {
        "threads": 1,
        "memory": False,
        "workers": True,
        "images": files.COUNT,
    }
    return [
        *(
            case(
                "JPEG files → batches of 64, 2 threads or workers",
                f"{size[1]}×{size[0]}",
                photo_contenders,
                size,
                quick=size == (480, 640),
                **options,
            )
            for size in ((480, 640), (375, 500))
        ),
        case(
            "the same with 8 boxes and a mask in a PNG file",
            "640×480",
            detection_contenders,
            (480, 640),
            **options,
        ),
    ]


if __name__ == "__main__":
    if "--costs" in sys.argv:
        sys.exit(costs.main())
    sys.exit(main("loader", __doc__ or "", all_cases()))
