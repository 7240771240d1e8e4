"""The command: ``python -m visops.compare train.py photos/``.

    python -m visops.compare train.py photos/                    # finds the pipeline in the file
    python -m visops.compare train.py photos/ --name "build(train=True)" --picture compared.png

runs a pipeline of torchvision or albumentations and visops on the same photos, and prints how far
their values differ, how long both take, and the line to change. The file is executed, as an import
would.
"""

import argparse
import ast
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .comparison import AMPLIFIED, TO_TENSORS, as_tensor, compare
from .handed_over import leaves, library_of

SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")


def find_pipeline(path: Path, expression: str | None = None) -> tuple[str, Any, int | None]:
    """Execute a file; return the name, the value and the line of the pipeline in it.

    Raises
    ------
    ValueError
        There is no pipeline, or there are several and no `expression` says which.
    """
    sys.path.insert(0, str(path.resolve().parent))
    found = runpy.run_path(str(path), run_name=path.stem)
    if expression is not None:
        value = eval(expression, found)  # the file itself has just been executed
        return expression, value, _line_of(path, expression)
    names = [name for name, value in found.items() if _is_pipeline(value)]
    if len(names) != 1:
        what = f"has {len(names)} pipelines: {', '.join(names)}" if names else "has no pipeline"
        raise ValueError(f"visops.compare: {path} {what}; say which with --name, an expression")
    return names[0], found[names[0]], _line_of(path, names[0])


def _is_pipeline(value: Any) -> bool:
    composed = type(value).__name__ in ("Compose", "Sequential", "ReplayCompose")
    return composed and library_of(value) != "own"


def _line_of(path: Path, name: str) -> int | None:
    """Return the last line of the statement that gives a name its value last."""
    line = None
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            line = node.end_lineno
    return line


def read_photos(folder: Path, count: int, kind: str) -> list[Any]:
    """Return up to `count` photos of a folder, or one file, evenly spread, as `kind` says."""
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("visops.compare: photos want Pillow; run: pip install pillow") from None
    files = [folder] if folder.is_file() else sorted(folder.rglob("*"))
    files = [file for file in files if file.suffix.lower() in SUFFIXES]
    if not files:
        raise ValueError(f"visops.compare: {folder} has no photos ({', '.join(SUFFIXES)})")
    count = min(count, len(files))
    chosen = [files[i * len(files) // count] for i in range(count)]
    photos = [Image.open(file).convert("RGB") for file in chosen]
    changed: dict[str, Callable[[Any], Any]] = {"array": np.array, "tensor": as_tensor}
    return [changed[kind](photo) for photo in photos] if kind in changed else photos


def kind_for(pipeline: Any) -> str:
    """Return what a pipeline is usually given."""
    if library_of(pipeline) == "albumentations":
        return "array"
    names = {type(leaf).__name__ for leaf in leaves(pipeline)}
    first = all(".v2" not in type(leaf).__module__ for leaf in leaves(pipeline))
    return "pil" if names.intersection(TO_TENSORS) or first else "tensor"


def main(words: Sequence[str] | None = None) -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m visops.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("pipeline", type=Path, help="a Python file; it is executed")
    parser.add_argument("photos", type=Path, help="a folder, or one photo")
    parser.add_argument(
        "--name", help="of the pipeline in the file, or an expression that makes it"
    )
    parser.add_argument("--count", type=int, default=32, help="of photos (default: 32)")
    parser.add_argument("--given", choices=("pil", "tensor", "array"), help="what a photo is")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="where to save some results side by side")
    arguments = parser.parse_args(words)
    try:
        if arguments.count < 1:
            raise ValueError(f"visops.compare: --count is {arguments.count}, must be 1 or more")
        name, pipeline, line = find_pipeline(arguments.pipeline, arguments.name)
        kind = arguments.given or kind_for(pipeline)
        photos = read_photos(arguments.photos, arguments.count, kind)
        found = compare(pipeline, photos, seed=arguments.seed)
        print(found)
        where = f"{arguments.pipeline}, after line {line}" if line else arguments.pipeline
        changed = name if name.isidentifier() else "chain"
        print(f"to change in {where}:")
        print(f"    {changed} = visops.transforms.convert({name}, seed={arguments.seed})")
        if arguments.picture is not None:
            found.picture().save(arguments.picture)
            parts = f"{found.library}, visops, difference times {AMPLIFIED}"
            print(f"picture: {arguments.picture} ({parts})")
    except (ImportError, OSError, TypeError, ValueError) as error:
        parser.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()
