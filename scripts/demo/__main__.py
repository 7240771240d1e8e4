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
COUNT, SIZE = 16, 512  # photos that are warped, and their sides


def run(options: argparse.Namespace) -> None:
    """Run both parts."""
    if options.images:
        found, origin = folder_photos(Path(options.images), COUNT), options.images
    else:
        found, origin = packaged_photos(), "scikit-image and scikit-learn"

    print("== Augmentation in one pass: visops.transforms")
    bar: dict[str, Any] = {"unit": "photo", "leave": False, "disable": None}
    annotated = list(found)[:SCENES]
    scenes = [scene(name, found[name]) for name in tqdm(annotated, desc="outlining", **bar)]
    demo_augment.run(scenes, options.output / "demo_augment.png")

    print("\n== A warp: visops.warp_affine")
    whole = tqdm(found.values(), desc="preparing", **bar)
    prepared = [square(photo, SIZE) for photo in whole]
    photos = [prepared[i % len(prepared)] for i in range(COUNT)]
    demo_warp.run(photos, origin, options.output / "demo_preview.png")


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
