"""From files to pixels. An unreadable file becomes a value, never an exception."""

import errno
import io
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from ..batch import Batch, shortened
from ..frames import Frame
from ..store.durable import named
from ..store.plan import PlannedBatch
from .preprocess import Preprocess

_ORIENTATION = 0x0112
# EXIF orientations that swap width and height, or reverse x or y when turned upright.
_TRANSPOSED, _FROM_RIGHT, _FROM_BOTTOM = (5, 6, 7, 8), (2, 3, 6, 7), (3, 4, 7, 8)
_BACK = {6: 8, 8: 6}  # what undoes an orientation; the others undo themselves
# Faults of the machine, not of a file: every following file would fail too.
_FAULTS = frozenset(
    (
        errno.EIO,
        errno.ESTALE,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOTCONN,
        errno.ETIMEDOUT,
        errno.EHOSTDOWN,
    )
)
_PILLOWS_LIMIT = threading.Lock()

# Limits by default. An image of MAX_PIXELS takes 0.8 GB, also as an uncompressed file; 64 photos of
# 12 megapixels are just within MAX_BATCH_PIXELS.
MAX_PIXELS, MAX_BYTES, MAX_BATCH_PIXELS = 1 << 28, 1 << 30, 3 << 28


@dataclass(frozen=True)
class Decoder:
    """How files become pixels.

    Parameters
    ----------
    root : str
        The folder that paths are relative to.
    targets : sequence of Preprocess
        The network inputs that the pixels must suffice for.
    reduced : bool
        Decode JPEGs at 1/2, 1/4 or 1/8 of their size, as libjpeg can, if they are larger than
        every target needs by at least that factor.
    exif : bool
        Turn images upright by their EXIF orientation, or the one in XMP if there is none.
    max_pixels : int
        Larger images fail: they are more likely decompression bombs than photos.
    max_bytes : int
        Larger files fail, unread.
    max_batch_pixels : int
        Decoded pixels that a batch may have, three bytes each: an image that doesn't fit in with
        those before it fails. Images decoded at a fraction of their size count as decoded.
    """

    root: str
    targets: tuple[Preprocess, ...] = ()
    reduced: bool = False
    exif: bool = True
    max_pixels: int = MAX_PIXELS
    max_bytes: int = MAX_BYTES
    max_batch_pixels: int = MAX_BATCH_PIXELS

    def batch(self, plan: PlannedBatch, allocate: Callable[[int], Tensor] | None = None) -> Batch:
        """Decode a batch: pixels of readable files, reasons for the others.

        Parameters
        ----------
        plan : PlannedBatch
        allocate : callable, optional
            Returns a uint8 tensor of this many bytes, for the pixels; by default ordinary memory.

        Raises
        ------
        OSError
            A file can't be read through no fault of its own: the disk or the network fails, memory
            or file descriptors run out, or the folder of images is gone.
        """
        frames: list[Frame] = []
        parts: list[Tensor] = []
        failures: dict[int, str] = {}
        offset, room = 0, self.max_batch_pixels
        for index, entry in enumerate(plan.entries):
            if entry.status is not None:
                continue
            decoded = self.attempt(entry.path, room)
            if isinstance(decoded, str):
                failures[index] = shortened(decoded)
                continue
            pixels, frame = decoded
            frames.append(replace(frame, index=index, offset=offset))
            parts.append(pixels)
            offset += pixels.numel()
            room -= frame.height * frame.width
        # One tensor per batch: each tensor sent by a worker takes a file descriptor.
        return Batch(plan, _joined(parts, offset, allocate or _memory), frames, failures)

    def attempt(self, path: str, room: int) -> tuple[Tensor, Frame] | str:
        """Decode one image, or return the reason why it fails; raises as :meth:`batch` does."""
        try:
            return self.image(path, room)
        except MemoryError:
            return "decoding it takes more memory than there is"
        except Exception as error:  # whatever a decoder throws at a damaged file
            self._check_machine(error, path)
            return _reason(error)

    def _check_machine(self, error: Exception, path: str) -> None:
        """Raise an error that is not the file's fault."""
        if not isinstance(error, OSError):
            return
        if error.errno in _FAULTS:
            raise named(error, os.path.join(self.root, path)) from error
        if error.errno == errno.ENOENT and not _has_something(self.root):
            message = "the folder of images is gone, or empty; is it mounted?"
            raise OSError(errno.ENOENT, message, self.root) from error

    def image(self, path: str, room: int | None = None) -> tuple[Tensor, Frame]:
        """Decode one image to uint8 ``[H, W, 3]``, of at most `room` decoded pixels."""
        with open(os.path.join(os.fsencode(self.root), os.fsencode(path)), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > self.max_bytes:
                raise ValueError(f"the file's {size} bytes are more than {self.max_bytes}")
            data = bytearray(size)
            del data[file.readinto(data) :]  # it may have shrunk
        if not data:
            raise ValueError("the file is empty")
        try:
            return self._decoded(data, room)
        except Image.DecompressionBombError:
            # Pillow's own limit, a global, may be lower than ours: lift it for this image only.
            with _no_limit_of_pillow():
                return self._decoded(data, room)

    def _decoded(self, data: bytearray, room: int | None) -> tuple[Tensor, Frame]:
        image: Image.Image = Image.open(io.BytesIO(data))
        width, height = image.size
        if width * height > self.max_pixels:
            raise ValueError(f"{width} x {height} pixels are more than {self.max_pixels}")
        orientation = self._orientation(image)
        size = (width, height) if orientation in _TRANSPOSED else (height, width)
        reduction = self._reduction(image, *size) if self.reduced else 1
        decoded = -(-width // reduction) * -(-height // reduction)
        if room is not None and decoded > room:
            raise ValueError(
                f"{decoded} decoded pixels are more than the {room} left of the batch's "
                f"{self.max_batch_pixels}: use smaller batches"
            )
        if reduction > 1:
            # libjpeg takes the number of halvings, but Pillow's draft() takes the size.
            image.draft("RGB", (width // reduction, height // reduction))
            pixels = _as_rgb(image)
        elif _is_for_torchvision(image, data) and (decode := import_torchvision()) is not None:
            pixels = _decode(decode, data)
        else:
            pixels = _as_rgb(image)
        pixels = _turned(pixels, orientation)
        h, w, _ = pixels.shape
        left = size[1] - w * reduction if orientation in _FROM_RIGHT else 0
        top = size[0] - h * reduction if orientation in _FROM_BOTTOM else 0
        return pixels, Frame(0, 0, h, w, *size, reduction, left, top)

    def _orientation(self, image: Image.Image) -> int:
        """Return the EXIF orientation that is still to be applied after decoding."""
        orientation: int = image.getexif().get(_ORIENTATION, 1)
        if image.format == "TIFF":  # Pillow turns these itself, and reports the upright size
            return 1 if self.exif else _BACK.get(orientation, orientation)
        return orientation if self.exif else 1

    def _reduction(self, image: Image.Image, height: int, width: int) -> int:
        """Return the largest reduction of a JPEG that suffices for all targets."""
        if image.format != "JPEG":
            return 1
        placements = [target.placement(height, width) for target in self.targets]
        scale = max(
            (max(placement.scale_x, placement.scale_y) for placement in placements), default=1.0
        )
        # At least one pixel remains: draft() rejects 0.
        return next((r for r in (8, 4, 2) if scale * r <= 1 and min(height, width) >= r), 1)


@cache
def import_torchvision() -> Callable[..., Tensor] | None:
    """Return torchvision's decoder, which releases the GIL; None if this version has none.

    It is imported late: processes that decode nothing start twice as fast without it.
    """
    try:
        from torchvision.io import decode_image
    except ImportError:
        return None
    # It warns on every call that a later version will drop it.
    warnings.filterwarnings("ignore", "The image decoding and encoding capabilities")
    return decode_image


def _memory(count: int) -> Tensor:
    return torch.empty(count, dtype=torch.uint8, device="cpu")


def _joined(parts: list[Tensor], count: int, allocate: Callable[[int], Tensor]) -> Tensor:
    """Return the values of all parts, flat; empty the list on the way, part by part."""
    try:
        flat = allocate(count)
    except RuntimeError as error:  # torch's allocator
        raise OSError(
            errno.ENOMEM,
            f"no memory for {count} bytes of decoded images: use smaller batches, fewer workers, "
            "or a lower max_batch_pixels",
        ) from error
    end = count
    while parts:
        part = parts.pop()
        begin = end - part.numel()
        flat[begin:end] = part.reshape(-1)
        end = begin
    return flat


@contextmanager
def _no_limit_of_pillow() -> Iterator[None]:
    with _PILLOWS_LIMIT:
        before, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = before


def _has_something(folder: str) -> bool:
    try:
        with os.scandir(folder) as found:
            return next(found, None) is not None
    except OSError:
        return False


def _is_for_torchvision(image: Image.Image, data: bytearray) -> bool:
    """Whether torchvision decodes it: JPEG, and 16-bit PNG, of which Pillow would drop 8 bits."""
    if image.format == "PNG" and data[24] == 16:
        image.load()  # raises if it is damaged; torchvision may crash on it
        return True
    return image.format == "JPEG"


def _decode(decode: Callable[..., Tensor], data: bytearray) -> Tensor:
    encoded = torch.frombuffer(data, dtype=torch.uint8)
    # Turned later: torchvision ignores orientations in XMP.
    pixels = decode(encoded, "RGB", apply_exif_orientation=False)
    if pixels.dtype != torch.uint8:  # 16-bit PNG
        pixels = (pixels.to(torch.int32) // 257).to(torch.uint8)
    return pixels.permute(1, 2, 0)


def _as_rgb(image: Image.Image) -> Tensor:
    """Return an image's pixels ``[H, W, 3]``.

    ``convert("RGB")`` alone would clip 16-bit values, whose white is 65535, at 255.
    """
    # Pillow scales PPM values wider than 8 bits to 16 bits.
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PPM", "PNG")):
        grey = (np.asarray(image).astype(np.int32) // 257).astype(np.uint8)
        return torch.from_numpy(grey[..., None].repeat(3, 2))
    if image.mode in ("I", "F"):
        kind = "integers" if image.mode == "I" else "numbers with a fraction"
        raise ValueError(f"its pixels are 32-bit {kind}, which don't say how much is white")
    return torch.from_numpy(np.array(image.convert("RGB")))


def _turned(pixels: Tensor, orientation: int) -> Tensor:
    """Turn pixels ``[H, W, 3]`` upright."""
    if orientation in _TRANSPOSED:
        pixels = pixels.transpose(0, 1)
    flips = [axis for axis, those in ((1, _FROM_RIGHT), (0, _FROM_BOTTOM)) if orientation in those]
    return pixels.flip(flips) if flips else pixels


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    # torchvision's messages start with its function, file and line; Pillow's may contain an
    # object's address, which differs in every run.
    text = re.sub(r"^\w+, \S+:\d+, ", "", str(error))
    if isinstance(error, UnidentifiedImageError):
        text = "not an image of a known format"
    return text.strip() or type(error).__name__
