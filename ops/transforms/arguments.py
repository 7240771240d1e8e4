"""Checks of the transforms' arguments; messages name transform, argument, value and range."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Literal, NoReturn, Protocol, TypeGuard

import numpy as np

from .._torch.numbers import on_one_line
from .._torch.options import Interpolation, check_word
from .._torch.options import flag as checked_flag

INTERPOLATIONS = {
    "nearest": "nearest",
    "nearest-exact": "nearest",
    "bilinear": "bilinear",
    "bicubic": "bicubic",
    "lanczos": "lanczos",
    0: "nearest",  # Pillow's constants, as in torchvision
    1: "lanczos",
    2: "bilinear",
    3: "bicubic",
}


class _Enumerated(Protocol):
    """A member of torchvision's InterpolationMode."""

    @property
    def value(self) -> Any: ...


OneInterpolation = Interpolation | Literal["nearest-exact", "lanczos"] | int | _Enumerated
# Each sample draws one of several; "random" is timm's word for bilinear or bicubic.
InterpolationArgument = OneInterpolation | Literal["random"] | Sequence[OneInterpolation]

MOST_SIDE = 2**31 - 1  # pixels along an axis of an image

MASK_FILL = 0  # as in torchvision and albumentations

PADDINGS = {
    "constant": "constant",
    "edge": "replicate",
    "replicate": "replicate",
    "reflect": "reflect",
    "symmetric": "symmetric",
    "circular": "circular",
}


def fail(owner: str, argument: str, value: Any, allowed: str, error: type = ValueError) -> NoReturn:
    """Raise the error of a wrong argument."""
    raise error(f"visops.transforms.{owner}: {argument} is {on_one_line(value)}, must be {allowed}")


def reject_names(owner: str, names: Iterable[str], hints: Mapping[str, str]) -> None:
    """Refuse arguments that there are not; `hints` say what another library's are here."""
    for name in names:
        hint = f"; {hints[name]}" if name in hints else ""
        raise TypeError(f"visops.transforms.{owner}: there is no argument {name!r}{hint}")


def plain_number(value: Any) -> Any:
    """Return an array or a tensor of no dimension as a number; anything else as it is."""
    no_dimension = getattr(value, "ndim", None) == 0 and hasattr(value, "item")
    return value.item() if no_dimension else value


def number(
    owner: str,
    argument: str,
    value: Any,
    low: float = -math.inf,
    high: float = math.inf,
    allowed: str = "a finite number",
    whole_value: Any = None,
) -> float:
    """Check one number in [low, high]; `whole_value` is the argument it is part of, if any."""
    shown = value if whole_value is None else whole_value
    value = plain_number(value)
    if isinstance(value, bool) or not isinstance(value, Real):
        fail(owner, argument, shown, allowed, TypeError)
    result = float(value)
    if not (math.isfinite(result) and low <= result <= high):
        fail(owner, argument, shown, allowed)
    return result


def whole(
    owner: str, argument: str, value: Any, low: int, allowed: str, high: float = MOST_SIDE
) -> int:
    """Check one integer in [low, high]; `allowed` needn't say how large a side may be."""
    value = plain_number(value)
    if isinstance(value, bool) or not isinstance(value, Integral):
        fail(owner, argument, value, allowed, TypeError)
    result = int(value)
    if not low <= result <= high:
        too_large = result > high == MOST_SIDE
        fail(owner, argument, value, f"at most {MOST_SIDE}" if too_large else allowed)
    return result


def probability(owner: str, value: Any) -> float:
    """Check the argument `p`."""
    return number(owner, "p", value, 0.0, 1.0, "a probability in [0, 1]")


def flag(owner: str, argument: str, value: Any) -> bool:
    """Check a truth value: words such as "no" have one of Python's, and mean the other."""
    return checked_flag(f"transforms.{owner}", argument, value)


def one_of(
    owner: str, argument: str, value: Any, words: Collection[str], allowed: str = ""
) -> None:
    """Refuse what is not one of the words; `allowed` describes them, by default all."""
    check_word(f"transforms.{owner}", argument, value, words, allowed)


def is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    """Return whether an argument holds several values: a string is one."""
    return isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str)


def interval(
    owner: str,
    argument: str,
    value: Any,
    low: float = -math.inf,
    high: float = math.inf,
    allowed: str = "two finite numbers (min, max)",
    whole_value: Any = None,
) -> tuple[float, float]:
    """Check a pair low <= a <= b <= high."""
    if not is_sequence(value):
        fail(owner, argument, value, allowed, TypeError)
    whole_value = value if whole_value is None else whole_value
    if len(value) != 2:
        fail(owner, argument, value, allowed)
    a, b = (number(owner, argument, v, low, high, allowed, whole_value) for v in value)
    if a > b:
        fail(owner, argument, whole_value, f"{allowed}, the smaller first")
    return a, b


def spread(owner: str, argument: str, value: Any) -> tuple[float, float]:
    """Check a range of angles: a pair, or d for [-d, d]."""
    allowed = "a number >= 0 or two finite numbers (min, max)"
    if is_sequence(value):
        return interval(owner, argument, value, allowed=allowed)
    d = number(owner, argument, value, 0.0, allowed=allowed)
    return -d, d


def symmetric(owner: str, name: str, value: Any, low: float, high: float) -> tuple[float, float]:
    """Check a range: a pair in [low, high], or x for [-x, x]."""
    allowed = f"a number in [0, {high:g}] or two in [{low:g}, {high:g}] (min, max)"
    if is_sequence(value):
        return interval(owner, name, value, low, high, allowed)
    limit = number(owner, name, value, 0.0, high, allowed)
    return -limit, limit


def up_to(
    owner: str, name: str, value: Any, low: float, high: float, what: str = "a number"
) -> tuple[float, float]:
    """Check a range: a pair in [low, high], or its upper end alone, for [low, x]."""
    allowed = f"{what} in [{low:g}, {high:g}] or two of them (min, max)"
    if is_sequence(value):
        return interval(owner, name, value, low, high, allowed)
    return float(low), number(owner, name, value, low, high, allowed)


def whole_range(owner: str, name: str, value: Any, low: float, high: float) -> tuple[int, int]:
    """Check a range of whole numbers, as :func:`up_to` does."""
    ends = up_to(owner, name, value, low, high, "a whole number")
    if not all(end.is_integer() for end in ends):
        fail(owner, name, value, f"a whole number in [{low:g}, {high:g}] or two of them (min, max)")
    return int(ends[0]), int(ends[1])


def size_pair(owner: str, argument: str, value: Any) -> tuple[int, int]:
    """Check a size: height and width, or one number for both."""
    allowed = "a whole number >= 1 or a pair (height, width) of such"
    if not is_sequence(value):
        side = whole(owner, argument, value, 1, allowed)
        return side, side
    if len(value) not in (1, 2):
        fail(owner, argument, value, allowed)
    sides = [whole(owner, argument, v, 1, allowed) for v in value]
    return sides[0], sides[-1]


FillArgument = float | Sequence[float] | Mapping[Any, Any] | None


class Fill(tuple[float, ...]):
    """A fill: a number or one per channel, and what masks get where a dict says so."""

    mask: int | None = None


_FILL = (
    "a finite number or one per channel, in the image's units (masks take Compose's mask_fill), or "
    "a dict of such by type: tv_tensors.Image, Video and Mask, torch.Tensor, PIL.Image.Image or "
    "'others'"
)


def fill_values(owner: str, value: Any) -> tuple[float, ...]:
    """Check a fill: a number, one per channel, None for 0, or a dict of such by type."""
    if isinstance(value, Mapping):
        return _fill_by_type(owner, value)
    if value is None:
        return (0.0,)
    if not is_sequence(value):
        return (number(owner, "fill", value, allowed=_FILL),)
    if len(value) == 0:
        fail(owner, "fill", value, _FILL)
    values = tuple(number(owner, "fill", v, allowed=_FILL, whole_value=value) for v in value)
    return values[:1] if len(set(values)) == 1 else values


def _fill_by_type(owner: str, fills: Mapping[Any, Any]) -> Fill:
    """Read a dict of fills, as torchvision has it; a type that is missing is filled with 0."""
    images: list[tuple[float, ...]] = []
    masks: list[Any] = []
    for key, value in fills.items():
        name = key.__name__ if isinstance(key, type) else key
        if name in ("Image", "Video", "Tensor"):
            images.append(fill_values(owner, value))
        elif name == "Mask":
            masks.append(value)
        elif name not in ("others", "BoundingBoxes", "KeyPoints"):
            fail(owner, "fill", fills, _FILL, TypeError)
    default = getattr(fills, "default_factory", None)  # of a defaultdict
    if default is not None and not images:
        images = [fill_values(owner, default())]
    if "others" in fills:
        images = images or [fill_values(owner, fills["others"])]
        masks = masks or [fills["others"]]
    if len(set(images)) > 1:
        fail(owner, "fill", fills, "the same for all types of images")
    fill = Fill(images[0] if images else (0.0,))
    if masks:
        mask = number(owner, "fill", masks[0] or 0, allowed="a whole number for masks")
        if not mask.is_integer():
            fail(owner, "fill", fills, "a whole number for masks")
        fill.mask = int(mask)
    return fill


def mask_fills_of_chain(transforms: Sequence[Any], given: int | None) -> tuple[int, int]:
    """Return the values outside the image of masks of integers, and of floats and bool.

    The first is from Compose or from a transform's fill for masks, the second only from such a
    fill.
    """
    other = 0
    found = MASK_FILL if given is None else given
    source = None if given is None else f"Compose has mask_fill={given}"
    for transform in transforms:
        mask = getattr(getattr(transform, "fill", None), "mask", None)
        if mask is None:
            continue
        name = type(transform).__name__
        if source is not None and mask != found:
            raise ValueError(
                f"visops.transforms.{name}: fill has {mask} for masks, {source}; must be the same "
                "in a chain"
            )
        found, source = mask, f"{name} has {mask}"
        other = mask
    return found, other


def interpolation_mode(owner: str, value: Any, argument: str = "interpolation") -> str:
    """Check an interpolation: a name, an InterpolationMode of torchvision or a Pillow constant."""
    name = getattr(value, "value", value)
    mode = INTERPOLATIONS.get(name) if isinstance(name, (str, int)) else None
    if mode is None or mode == "lanczos":
        fail(owner, argument, name, "'nearest', 'bilinear' or 'bicubic'")
    return mode


# What timm's transforms draw from.
RANDOM_MODES = ("bilinear", "bicubic")


def interpolation_modes(owner: str, value: Any, antialias: bool) -> str | tuple[str, ...]:
    """Check an interpolation, or several of which each sample draws one; "random" is timm's.

    With `antialias`, Lanczos' filter is one.
    """
    last = "'bicubic' or 'lanczos'" if antialias else "'bicubic'"
    known = f"'nearest', 'bilinear'{',' if antialias else ' or'} {last}"
    allowed = f"{known}, a sequence of such, of which each sample draws one, or 'random'"
    if isinstance(value, str) and value == "random":
        return RANDOM_MODES
    several = is_sequence(value)
    found = []
    for own in value if several else [value]:
        name = getattr(own, "value", own)
        mode = INTERPOLATIONS.get(name) if isinstance(name, (str, int)) else None
        if mode is None or (mode == "lanczos" and not antialias):
            shown = value if several else name
            why = "; 'lanczos' is a filter of antialias=True" if name == "lanczos" else ""
            fail(owner, "interpolation", shown, f"{allowed}{why}")
        found.append(mode)
    if not 0 < len(found) <= 255:
        fail(owner, "interpolation", value, allowed)
    return tuple(found) if len(set(found)) > 1 else found[0]


def padding_name(owner: str, value: Any) -> str:
    """Check a padding mode; return visops.augment's name for it."""
    name = PADDINGS.get(value) if isinstance(value, str) else None
    if name is None:
        fail(
            owner, "padding_mode", value, "'constant', 'edge', 'reflect', 'symmetric' or 'circular'"
        )
    return name


def padding_ltrb(owner: str, value: Any) -> tuple[int, int, int, int]:
    """Check a padding: one number, (left/right, top/bottom) or (left, top, right, bottom)."""
    allowed = (
        "a whole number >= 0, or 2 (left and right, top and bottom) or 4 of them (left, top, "
        "right, bottom)"
    )
    sides = list(value) if is_sequence(value) else [value]
    if len(sides) not in (1, 2, 4):
        fail(owner, "padding", value, allowed)
    sides = [whole(owner, "padding", side, 0, allowed) for side in sides]
    left, top, right, bottom = sides * (4 // len(sides))
    return left, top, right, bottom


def check_channels(owner: str, channels: int, allowed: Sequence[int] = (1, 3)) -> None:
    """Refuse an image whose number of channels is not an allowed one."""
    if channels not in allowed:
        *others, last = map(str, allowed)
        raise ValueError(
            f"visops.transforms.{owner}: the image has {channels} channels, must have "
            + (f"{', '.join(others)} or {last}" if others else last)
        )


def reject_lost_options(transforms: Sequence[Any], given: Mapping[str, Any]) -> None:
    """Refuse the transforms of a recipe without the options that belong to them."""
    for transform in transforms if len(transforms) > 1 else ():
        options = getattr(transform, "_recipe_options", {})
        if lost := {name: value for name, value in options.items() if name not in given}:
            named = ", ".join(f"{name}={value!r}" for name, value in lost.items())
            raise ValueError(
                f"visops.transforms.Compose: {type(transform).__name__} is part of a recipe with "
                f"{named}, which must be given here too; recipes take JPEG files with files=True"
            )
