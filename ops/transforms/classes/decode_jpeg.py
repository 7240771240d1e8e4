"""Decoding as the first step of a chain."""

import math
from typing import Literal

from ..._native import Step
from ...jpeg.file import CHANNELS, MAX_PIXELS
from ..arguments import flag, one_of, whole
from ..base import Builtin
from ..chain.decode import Decoding
from ..chain.effects import NO_STEP, Effects
from ..sample.files import EncodedOptions

__all__ = ["DecodeImage", "DecodeJpeg"]


class DecodeJpeg(Decoding, Builtin):
    """Decode JPEG files, as the first transform of a chain, and only what the chain keeps.

    Images of the sample are then files: their paths, or their content, as ``bytes``, another
    buffer, or a 1-d uint8 tensor or array. Their size is read first and all parameters are drawn
    for it, as for decoded images. Only the rows and columns that the first pass reads are decoded:
    after ``RandomResizedCrop``, those of the crop. Masks, boxes and other targets are as beside any
    image.

    Parameters
    ----------
    mode : {"rgb", "gray"}
        Three channels or one, whatever the file holds.
    exif : bool
        Turn images upright by their EXIF orientation. Targets must be for the upright image.
        Otherwise, images come as they are stored.
    reduced : bool, optional
        Decode at 1/2, 1/4 or 1/8 of the scale if the first pass shrinks the image by at least as
        much, in every direction, and with `antialias`: a crop that is still as large as its result.
        Values then differ: blocks of pixels are averaged first, and the rest is resized. By default
        chains do so that draw random numbers, as for training; those that don't, as for evaluation,
        decode at full scale. False: results are those of an image decoded whole, but for the
        rounding of coordinates, by which a value may be 1 of 255 more or less. With
        ``Compose(exact=True)``, too.
    max_pixels : int
        Refuse larger images, by default with more than 2^28 pixels.

    Notes
    -----
    A sample is a file, a list of files (a batch), a tuple whose first content of a file, or else
    whose first path, is the image, or a dict with it under a name of images. Files of a batch are
    decoded by as many threads as torch may use: one in the worker of a data loader.

    PNG, WebP, GIF (the first image), BMP, TIFF and PPM files among them are decoded whole, by
    Pillow: a mixed folder doesn't stop.

    ``DecodeImage`` is another name of this class. A wrong or damaged file is an error that names
    its place in the sample: see :func:`visops.decode_jpeg`.

    Raises
    ------
    OSError
        A path can't be read.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> from PIL import Image
    >>> from visops import transforms
    >>> file = io.BytesIO()
    >>> Image.fromarray(np.full((120, 160, 3), 90, np.uint8)).save(file, "JPEG")
    >>> chain = transforms.Compose([transforms.DecodeJpeg(), transforms.RandomResizedCrop(32)])
    >>> chain(file.getvalue()).shape
    torch.Size([3, 32, 32])
    >>> images, labels = chain(([file.getvalue()] * 4, [0, 1, 2, 3]))
    >>> images.shape
    torch.Size([4, 3, 32, 32])
    """

    def __init__(
        self,
        mode: Literal["rgb", "gray"] = "rgb",
        exif: bool = True,
        reduced: bool | None = None,
        max_pixels: int = MAX_PIXELS,
    ) -> None:
        super().__init__()
        one_of("DecodeJpeg", "mode", mode, CHANNELS, "'rgb' or 'gray'")
        self.mode, self.exif = mode, flag("DecodeJpeg", "exif", exif)
        self.reduced = None if reduced is None else flag("DecodeJpeg", "reduced", reduced)
        self.max_pixels = whole(
            "DecodeJpeg", "max_pixels", max_pixels, 1, "a whole number >= 1", math.inf
        )

    @property
    def options(self) -> EncodedOptions:  # type: ignore[override]
        return EncodedOptions(self.mode, self.exif, self.max_pixels)

    def effects(self) -> Effects:
        return Effects()

    def chain_step(self) -> Step | None:
        return NO_STEP  # chain/decode.py reads this from the pass


DecodeImage = DecodeJpeg
