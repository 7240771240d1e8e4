"""A JPEG file in memory, and the decoder in force."""

import ctypes
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._loader import LIBRARY, REINSTALL, check_complete
from .header import REDUCTIONS, Header, Part, Stored, check_pixels
from .pictures import PictureFile, PillowDecoder, is_picture, load_pillow

# Decoding by libjpeg-turbo, in the shared library that the build makes where its headers are.
#
# The library has a C interface and needs neither torch nor Python. ctypes releases the
# interpreter's lock while it runs.

FILE = LIBRARY.with_name(LIBRARY.name.replace("visops", "visops_jpeg"))
_INTERFACE = 1  # of csrc/jpeg/library.cpp
_MESSAGE = 512
_Numbers = ctypes.c_int64 * 7


class TurboDecoder:
    """The functions of the library; they raise ValueError with libjpeg's reason."""

    def __init__(self, library: ctypes.CDLL) -> None:
        # Addresses go as integers: pointers would have to be made for every call.
        data, length = ctypes.c_void_p, ctypes.c_int64
        self._read_header = library.visops_jpeg_read_header
        self._read_header.argtypes = [data, length, _Numbers, ctypes.c_char_p, length]
        self._decode = library.visops_jpeg_decode
        self._decode.argtypes = [data, length, _Numbers, data, ctypes.c_char_p, length]
        number = library.visops_jpeg_turbo_version()
        version = f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"
        self.name = f"libjpeg-turbo {version}"

    def addresses(self) -> tuple[int, int]:
        """Return where C++ finds the functions that read a header, and that decode."""
        return _address(self._read_header), _address(self._decode)

    def read_header(self, data: np.ndarray) -> Header:
        """Read the header of a file, uint8 ``[N]``."""
        numbers, message = _Numbers(), ctypes.create_string_buffer(_MESSAGE)
        if self._read_header(data.ctypes.data, data.size, numbers, message, _MESSAGE):
            raise ValueError(message.value.decode(errors="replace"))
        return Header(*numbers[:4])

    def decode(self, data: np.ndarray, part: Stored, channels: int, orientation: int) -> np.ndarray:
        """Decode a part of a file, turned upright; uint8 ``[H, W, channels]``."""
        size = (part.width, part.height) if orientation >= 5 else (part.height, part.width)
        out = np.empty((*size, channels), np.uint8)
        numbers = _Numbers(*part, channels, orientation)
        message = ctypes.create_string_buffer(_MESSAGE)
        where = out.ctypes.data
        if self._decode(data.ctypes.data, data.size, numbers, where, message, _MESSAGE):
            raise ValueError(message.value.decode(errors="replace"))
        return out


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@cache
def load_turbo() -> TurboDecoder | str:
    """Return the library's functions, or why there are none."""
    if not FILE.is_file():
        return "this copy of visops was built without libjpeg-turbo"
    try:
        check_complete(FILE)
        library = ctypes.CDLL(str(FILE))
        if library.visops_jpeg_interface() != _INTERFACE:
            return f"{FILE.name} is from another version of visops; {REINSTALL}"
        return TurboDecoder(library)
    except (OSError, AttributeError) as error:
        return f"{FILE.name} could not be loaded: {error}; {REINSTALL}"


CHANNELS = {"rgb": 3, "gray": 1}
MAX_PIXELS = 1 << 28  # more is more likely an attack than a photo


@cache
def decoder() -> TurboDecoder | PillowDecoder:
    """Return what decodes: the library of csrc/jpeg, or else Pillow.

    Raises
    ------
    ImportError
        There is neither.
    """
    turbo = load_turbo()
    if not isinstance(turbo, str):
        return turbo
    pillow = load_pillow()
    if not isinstance(pillow, str):
        return pillow
    raise ImportError(
        f"visops.decode_jpeg: {turbo}, and {pillow}; pip install pillow, or install the headers of "
        "libjpeg-turbo and build visops again"
    )


def decoder_info() -> dict[str, str | None]:
    """Describe what decodes, for ``visops.build_info``."""
    turbo = load_turbo()
    if isinstance(turbo, str):
        pillow = load_pillow()
        return {"jpeg": None if isinstance(pillow, str) else pillow.name, "jpeg_error": turbo}
    return {"jpeg": turbo.name, "jpeg_error": None}


def open_file(data: Any, exif: bool, max_pixels: int) -> "JpegFile | PictureFile":
    """Return a file whose header has been read: a JPEG, or another that Pillow decodes.

    Arguments and errors are those of :class:`JpegFile`.
    """
    array = _as_array(data)
    if is_picture(array[:12].tobytes()):
        return PictureFile(array, exif, max_pixels)
    return JpegFile(array, exif, max_pixels)


class JpegFile:
    """A file whose header has been read.

    Parameters
    ----------
    data : bytes, any object with the buffer protocol, or uint8 Tensor or ndarray ``[N]``
    exif : bool
        Whether the image is turned upright.
    max_pixels : int
        Refuse larger images.

    Raises
    ------
    TypeError
        `data` is something else.
    ValueError
        It holds no JPEG, or one that is too large. Messages lack the name of who was called.
    """

    __slots__ = ("data", "header")

    def __init__(self, data: Any, exif: bool, max_pixels: int) -> None:
        self.data = _as_array(data)
        if self.data.size == 0:
            raise ValueError("data is empty, must be a JPEG file")
        header = decoder().read_header(self.data)
        check_pixels(header.height, header.width, max_pixels)
        if header.components not in (1, 3, 4):
            raise ValueError(f"data has {header.components} channels, must have 1, 3 or 4")
        self.header = header if exif else header._replace(orientation=1)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the upright image."""
        return self.header.size

    def decode(
        self, window: tuple[int, int, int, int], reduction: int, channels: int
    ) -> tuple[np.ndarray, Part]:
        """Decode a window (top, left, height, width) of the upright image.

        Returns
        -------
        ndarray, uint8 ``[h, w, channels]``
        Part
            What they cover, which may be `reduction` - 1 pixels more on each side.
        """
        stored, (top, left) = self.header.cover(window, reduction)
        pixels = decoder().decode(self.data, stored, channels, self.header.orientation)
        return pixels, Part(top, left, reduction)


def largest_reduction(window: tuple[int, int], size: tuple[int, int]) -> int:
    """Return the largest reduction after which a window has at least this height and width."""
    fits = (r for r in REDUCTIONS if all(n >= r * m for n, m in zip(window, size, strict=True)))
    return next(fits, 1)


def _as_array(data: Any) -> np.ndarray:
    """Return a file's bytes, which must only be read, without copying them if possible."""
    if isinstance(data, Tensor):
        if data.device.type != "cpu" or data.layout is not torch.strided:
            where = f"on {data.device}" if data.device.type != "cpu" else f"of {data.layout}"
            raise TypeError(f"data is a tensor {where}, must be a dense one on the CPU")
        if data.dtype is not torch.uint8 or data.dim() != 1:
            raise TypeError(_wrong_array(data))
        return np.ascontiguousarray(data.numpy())
    if isinstance(data, np.ndarray):
        if data.dtype != np.uint8 or data.ndim != 1:
            raise TypeError(_wrong_array(data))
        return np.ascontiguousarray(data)
    try:
        return np.frombuffer(memoryview(data).cast("B"), np.uint8)
    except (TypeError, ValueError, BufferError):
        raise TypeError(
            f"data is a {type(data).__name__}, must be the bytes of a JPEG file: bytes, a "
            "contiguous buffer, or a uint8 tensor or array"
        ) from None


def _wrong_array(data: Any) -> str:
    dtype = str(data.dtype).removeprefix("torch.")
    if isinstance(data, Tensor) and data.is_nested:
        return "data is a nested tensor, must be uint8 of one dimension"
    return f"data has dtype {dtype} and shape {list(data.shape)}, must be uint8 of one dimension"
