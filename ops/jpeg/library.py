"""Decoding by libjpeg-turbo, in the shared library that the build makes where its headers are.

The library has a C interface and needs neither torch nor Python. ctypes releases the interpreter's
lock while it runs.
"""

import ctypes
from functools import cache
from typing import Any

import numpy as np

from .._loader import LIBRARY, REINSTALL, check_complete
from .header import Header, Stored

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
