"""Augments and warps real photos.

The photos are those that scikit-image and scikit-learn carry inside their packages, so nothing is
downloaded; ``--images`` (or the environment variable IMAGES) takes a folder instead. Two parts:

augment: a chain of ``visops.transforms`` on photos with boxes, masks and key points, and a preview
of what it does to the first one.

warp: the originals, the photos warped by random matrices, and these warped back.

`make bench` compares with other libraries.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that `demo` is a package

from tqdm import tqdm

from demo import augment as demo_augment
from demo import warp as demo_warp
from demo.objects import scene
from demo.photos import DemoError, folder_photos, packaged_photos, square

SCENES = 8  # photos that are augmented


def run(options: argparse.Namespace) -> None:
    """Run both parts."""
    if options.count < 1 or options.size < 16:
        raise DemoError("--count must be at least 1 and --size at least 16")
    if options.images:
        found, origin = folder_photos(Path(options.images), options.count), options.images
    else:
        found, origin = packaged_photos(), "scikit-image and scikit-learn"

    print("== Augmentation in one pass: visops.transforms")
    bar: dict[str, Any] = {"unit": "photo", "leave": False, "disable": None}
    annotated = list(found)[:SCENES]
    scenes = [scene(name, found[name]) for name in tqdm(annotated, desc="outlining", **bar)]
    demo_augment.run(scenes, options.output / "demo_augment.png")

    print("\n== A warp: visops.warp_affine")
    whole = tqdm(found.values(), desc="preparing", **bar)
    prepared = [square(photo, options.size) for photo in whole]
    photos = [prepared[i % len(prepared)] for i in range(options.count)]
    demo_warp.run(photos, origin, options.seed, options.output / "demo_preview.png")


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--images",
        default=os.environ.get("IMAGES") or None,
        metavar="FOLDER",
        help="use its JPEG and PNG files, subfolders included (default: $IMAGES, else packaged)",
    )
    parser.add_argument("--count", type=int, default=16, help="photos to warp (default: 16)")
    parser.add_argument("--size", type=int, default=512, help="side of those (default: 512)")
    parser.add_argument("--seed", type=int, default=0, help="of the random warps (default: 0)")
    parser.add_argument(
        "--output", type=Path, default=Path("out"), metavar="FOLDER", help="where pictures go"
    )
    try:
        run(parser.parse_args())
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
