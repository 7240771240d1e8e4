"""Both pipelines run on the same photos, and what is found."""

import copy
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import transforms
from ..transforms.classes import types
from .handed_over import Counterpart, leaves, library_of

Pair = tuple[np.ndarray, np.ndarray]  # theirs and ours, [C, H, W] in levels of 255

# After these, torchvision's transforms get tensors.
TO_TENSORS = ("PILToTensor", "ToImage", "ToTensor")
ROUNDS = 5  # both libraries in turn; the fastest counts
DRAWS = 4  # of a photo, where statistics are compared
PICTURES = 4
AMPLIFIED = 8  # differences in the picture
_SEEN = 0.1  # a transform's mean difference, in levels, from which on it is named


@dataclass
class Values:
    """How far the results of two pipelines differ, in levels of 255.

    Attributes
    ----------
    unlike : list of str
        Transforms whose parameters can't be handed over: empty if results were compared one by one.
    largest, mean : float
        Differences of values; NaN unless they were compared one by one.
    theirs, ours : tuple of float
        Mean and standard deviation of all values, and the mean difference of neighbours.
    sizes : list of str
        Photos whose results have different shapes.
    """

    unlike: list[str]
    largest: float = float("nan")
    mean: float = float("nan")
    theirs: tuple[float, float, float] = (0.0, 0.0, 0.0)
    ours: tuple[float, float, float] = (0.0, 0.0, 0.0)
    sizes: list[str] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list, repr=False)  # some of those of one shape


@dataclass
class Comparison:
    """What :func:`compare` found; `print` shows it.

    Attributes
    ----------
    library : str
    photos : int
        How many.
    chain : Compose
        Ours.
    notes : list of str
        What stays the other library's, and what differs by rule.
    values : Values
    alone : dict of str to float
        Mean differences of single transforms, where one can be seen.
    seconds : tuple of float
        A photo in their pipeline and in ours, on one thread, decoding not counted.
    """

    library: str
    photos: int
    chain: Any
    notes: list[str]
    values: Values
    alone: dict[str, float]
    seconds: tuple[float, float]

    def __str__(self) -> str:
        values = self.values
        lines = [str(self.chain), ""]
        lines += [f"note: {note}" for note in self.notes]
        lines += [f"sizes differ: {size}" for size in values.sizes[:3]]
        if values.unlike:
            lines.append(
                f"values in levels of 255, {self.photos} photos, {DRAWS} draws each; "
                f"{', '.join(values.unlike)} can't be told what ours drew:"
            )
            names = ("mean", "standard deviation", "mean difference of neighbours")
            for name, own, their in zip(names, values.ours, values.theirs, strict=True):
                lines.append(f"  {name}: {self.library} {their:.2f}, visops {own:.2f}")
        else:
            lines.append(
                f"values in levels of 255, {self.photos} photos with the same parameters in both: "
                f"largest difference {values.largest:.2f}, mean {values.mean:.3f}"
            )
        if self.alone:
            alone = (f"{name} {mean:.2f}" for name, mean in self.alone.items())
            lines.append(f"  mean differences of single transforms: {', '.join(alone)}")
        their, own = (1e3 * seconds for seconds in self.seconds)
        lines.append(
            f"time of a decoded photo, one thread: {self.library} {their:.2f} ms, visops "
            f"{own:.2f} ms ({their / own:.1f}x)"
        )
        return "\n".join(lines)

    def picture(self) -> Any:
        """Return a Pillow image of some results: theirs, ours, and the difference about grey."""
        from PIL import Image

        rows = []
        for theirs, ours in self.values.pairs:
            apart = 128.0 + AMPLIFIED * (ours - theirs)
            shown = [np.clip(part, 0, 255).round() for part in (theirs, ours, apart)]
            rows.append(np.concatenate(shown, axis=2).astype(np.uint8))
        if not rows:
            raise ValueError("visops.compare: no photo has results of the same size in both")
        width = max(row.shape[2] for row in rows)
        rows = [np.pad(row, ((0, 0), (0, 0), (0, width - row.shape[2]))) for row in rows]
        pixels = np.concatenate(rows, axis=1).transpose(1, 2, 0)
        return Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[..., 0])


def compare(pipeline: Any, photos: Sequence[Any], *, seed: int = 0) -> Comparison:
    """Run a pipeline and the chain that `convert` makes of it on the same photos.

    Parameters
    ----------
    pipeline : callable
        A ``Compose`` of ``torchvision.transforms``, ``torchvision.transforms.v2`` or
        albumentations, or a list of their transforms.
    photos : sequence
        What the pipeline takes: Pillow images, uint8 tensors ``[3, H, W]``, or for albumentations
        arrays ``[H, W, 3]``.
    seed : int
        Both libraries draw by it.

    Returns
    -------
    Comparison

    Raises
    ------
    TypeError, ValueError
        As :func:`transforms.convert`; there are no photos; or results that aren't images.

    Examples
    --------
    >>> import torch, visops.compare
    >>> from torchvision.transforms import v2
    >>> photos = list(torch.randint(0, 256, (3, 3, 90, 80), dtype=torch.uint8))
    >>> theirs = v2.Compose([v2.RandomCrop(64), v2.RandomHorizontalFlip()])
    >>> found = visops.compare.compare(theirs, photos)
    >>> found.values.largest, found.values.unlike
    (0.0, [])
    """
    if not photos:
        raise ValueError("visops.compare: photos is empty, must have one photo or more")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        chain = transforms.convert(pipeline, seed=seed)
    texts = (str(warning.message) for warning in said)
    return Comparison(
        library=library_of(pipeline),
        photos=len(photos),
        chain=chain,
        notes=[text.partition(": ")[2] for text in texts if "transforms.convert: " in text],
        values=_values(pipeline, chain, photos, seed),
        alone=_alone(pipeline, photos, seed),
        seconds=_times(_call(pipeline), chain, photos),
    )


def _values(pipeline: Any, chain: Any, photos: Sequence[Any], seed: int) -> Values:
    """Run a pipeline and the chain that was made of it, and compare what they return."""
    theirs = copy.deepcopy(pipeline)
    parts = [Counterpart(leaf) for leaf in leaves(theirs)]
    library, call = library_of(theirs), _call(theirs)
    found = Values(_that_draw_alone(parts, chain, photos[0]))
    torch.manual_seed(seed)
    if hasattr(theirs, "set_random_seed"):
        theirs.set_random_seed(seed)
    levels = _Levels(chain)
    statistics, apart = (_Statistics(), _Statistics()), []
    for index in range(len(photos) * (DRAWS if found.unlike else 1)):
        photo = photos[index % len(photos)]
        own, params = chain(photo, index=index, return_params=True)
        if not found.unlike:
            for part, drawn in _by_part(parts, params.steps):
                part.hand_over(drawn)
        pair = levels(call(photo), library), levels(own, "visops")
        for image, seen in zip(pair, statistics, strict=True):
            seen.add(image)
        if pair[0].shape != pair[1].shape:
            shapes = (" x ".join(map(str, part.shape)) for part in pair)
            found.sizes.append(f"photo {index % len(photos)}: {library} {', visops '.join(shapes)}")
            continue
        if len(found.pairs) < PICTURES:
            found.pairs.append(pair)
        if not found.unlike:
            difference = np.abs(pair[0] - pair[1])
            apart.append((difference.max(initial=0.0), difference.mean()))
    found.theirs, found.ours = (seen.result() for seen in statistics)
    if apart:
        found.largest = float(max(largest for largest, _ in apart))
        found.mean = float(np.mean([mean for _, mean in apart]))
    return found


def _alone(pipeline: Any, photos: Sequence[Any], seed: int) -> dict[str, float]:
    """Return mean differences of single transforms that change pixels, the largest first."""
    found: dict[str, float] = {}
    for leaf in leaves(pipeline):
        if type(leaf).__name__ in TO_TENSORS:
            photos = [as_tensor(photo) for photo in photos]
        part = Counterpart(copy.deepcopy(leaf))
        if part.stays or all(type(step).__module__ == types.__name__ for step in part.ours):
            continue  # it isn't converted, or a conversion, which may want what comes before it
        with warnings.catch_warnings():  # what it says, it has said of the whole
            warnings.simplefilter("ignore")
            chain = transforms.convert([leaf], seed=seed)
        mean = _values([leaf], chain, photos, seed).mean
        if mean >= _SEEN:
            found[part.name] = max(mean, found.get(part.name, 0.0))
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _by_part(
    parts: Sequence[Counterpart], drawn: Sequence[Any]
) -> Iterator[tuple[Counterpart, Sequence[Any]]]:
    """Yield each of their transforms with what ours in its place drew."""
    start = 0
    for part in parts:
        yield part, drawn[start : start + len(part.ours)]
        start += len(part.ours)


def _that_draw_alone(parts: Sequence[Counterpart], chain: Any, photo: Any) -> list[str]:
    """Return the names of their transforms that can't be told what ours drew."""
    drawn = chain(photo, index=0, return_params=True)[1].steps if chain.transforms else []
    if sum(len(part.ours) for part in parts) not in (0, len(drawn)):
        return ["the containers"]
    return sorted({part.name for part, own in _by_part(parts, drawn) if not part.takes(own)})


def as_tensor(photo: Any) -> Tensor:
    """Return a photo of any kind as uint8 [C, H, W]."""
    if isinstance(photo, Tensor):
        return photo
    return torch.from_numpy(np.atleast_3d(np.array(photo))).movedim(-1, 0).contiguous()


def _call(pipeline: Any) -> Callable[[Any], Any]:
    """Return a function from a photo to what the pipeline makes of it."""
    steps = pipeline if isinstance(pipeline, (list, tuple)) else [pipeline]
    by_name = library_of(pipeline) == "albumentations"

    def call(photo: Any) -> Any:
        for step in steps:
            photo = step(image=photo)["image"] if by_name else step(photo)
        return photo

    return call


class _Levels:
    """Brings results to levels from 0 to 255, [C, H, W] of float64."""

    def __init__(self, chain: Any) -> None:
        # value * scale + shift, of each channel, undoes the chain's conversions.
        self.scale: Any = 1.0
        self.shift: Any = 0.0
        for step in chain.transforms:
            if isinstance(step, transforms.ToDtype):
                to_float = step.scale and step.dtype.is_floating_point
                self.scale = 255.0 if to_float else 1.0
            elif isinstance(step, transforms.Normalize):
                mean, std = (np.reshape(part, (-1, 1, 1)) for part in (step.mean, step.std))
                self.shift = self.shift + self.scale * mean
                self.scale = self.scale * std

    def __call__(self, image: Any, library: str) -> np.ndarray:
        if isinstance(image, Tensor):
            values = image.detach().cpu().double().numpy()
        else:
            values = np.asarray(image, np.float64)
            values = values[None] if values.ndim == 2 else values.transpose(2, 0, 1)
        if values.ndim != 3:
            shape = " x ".join(map(str, values.shape))
            raise TypeError(f"visops.compare: {library}'s result is {shape}, must be an image")
        return values * self.scale + self.shift  # type: ignore[no-any-return]


class _Statistics:
    """Mean and deviation of all values of images, and the mean difference of neighbours."""

    def __init__(self) -> None:
        self._sums: list[tuple[float, float, float, float]] = []

    def add(self, image: np.ndarray) -> None:
        """Count an image [C, H, W]."""
        neighbours = np.abs(np.diff(image, axis=2)).mean() if image.shape[2] > 1 else 0.0
        self._sums.append((image.size, image.sum(), (image**2).sum(), neighbours * image.size))

    def result(self) -> tuple[float, float, float]:
        """Return the three."""
        count, total, squares, neighbours = np.sum(self._sums, axis=0)
        mean = total / count
        deviation = np.sqrt(max(squares / count - mean**2, 0.0))
        return float(mean), float(deviation), float(neighbours / count)


def _times(
    theirs: Callable[[Any], Any], ours: Callable[[Any], Any], photos: Sequence[Any]
) -> tuple[float, float]:
    """Return the seconds that a photo takes in both, which run in turn."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    fastest = [float("inf")] * 2
    try:
        for _ in range(ROUNDS):
            for place, call in enumerate((theirs, ours)):
                began = time.perf_counter()
                for photo in photos:
                    call(photo)
                fastest[place] = min(fastest[place], time.perf_counter() - began)
    finally:
        torch.set_num_threads(threads)
    return fastest[0] / len(photos), fastest[1] / len(photos)
