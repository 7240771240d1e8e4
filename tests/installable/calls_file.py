"""Writes recorded calls of operators as replay.cpp reads them: no Python, no pickle."""

import pickle
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import torch
from cross.records import CHAIN, FILE, function_of, refusal, tensors, unpacked
from torch import Tensor

# The letters of a schema's types.
LETTERS = {
    "Tensor": "t",
    "List[Tensor]": "l",
    "int": "i",
    "float": "f",
    "bool": "b",
    "str": "s",
    "ScalarType": "d",
    "List[int]": "I",
    "List[float]": "F",
    "List[bool]": "B",
}
# By number, as in c10/core/ScalarType.h.
DTYPES = (
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.float32, torch.float64, None, torch.complex64, torch.complex128),
    *(torch.bool, None, None, None, torch.bfloat16),
    *[None] * 11,
    *(torch.uint16, torch.uint32, torch.uint64),
)


class Writer:
    """Writes little-endian numbers, and what consists of them."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def numbers(self, kind: str, *values: Any) -> None:
        self._file.write(struct.pack(f"<{len(values)}{kind}", *values))

    def block(self, data: bytes) -> None:
        self.numbers("q", len(data))
        self._file.write(data)

    def tensor(self, tensor: Tensor) -> None:
        """Write the memory from the first element to the last, whatever lies between."""
        self.numbers("q", DTYPES.index(tensor.dtype))
        for values in (tensor.shape, tensor.stride()):
            self.numbers("q", len(values), *values)
        steps = zip(tensor.shape, tensor.stride(), strict=True)
        extent = 1 + sum((size - 1) * stride for size, stride in steps) if tensor.numel() else 0
        memory = tensor.detach().as_strided((extent,), (1,))
        self.block(memory.view(torch.uint8).numpy().tobytes())

    def value(self, kind: str, value: Any) -> None:
        """Write an argument: whether its type is optional, its letter, and what it is."""
        is_optional = kind.startswith("Optional[")
        letter = LETTERS[kind.removeprefix("Optional[").removesuffix("]" * is_optional)]
        self._file.write(b"?" if is_optional else b" ")
        self._file.write(b"n" if value is None else letter.encode())
        if value is None:
            return
        if letter in "IFB":
            self.numbers("q", len(value))
            self.numbers("d" if letter == "F" else "q", *value)
        elif letter == "l":
            self.numbers("q", len(value))
            for tensor in value:
                self.tensor(tensor)
        elif letter == "t":
            self.tensor(value)
        elif letter == "s":
            self.block(value.encode())
        elif letter == "d":
            self.numbers("q", DTYPES.index(value))
        else:
            self.numbers("d" if letter == "f" else "q", value)

    def call(self, operator: str, before: bytes, after: bytes) -> bool:
        """Write a call and what came of it; return False for one that only Python can make."""
        function, is_mutable = function_of(operator)
        args, kwargs = unpacked(before)
        schema = function._schema
        if any(t.layout != torch.strided or type(t) is not Tensor for t in tensors((args, kwargs))):
            return False
        name, _, overload = operator.partition(".")
        self.block(name.encode())
        self.block(overload.encode())
        self.numbers("q", len(schema.arguments))
        given = dict(zip([a.name for a in schema.arguments], args, strict=False)) | kwargs
        values = {a.name: given.get(a.name, a.default_value) for a in schema.arguments}
        for argument in schema.arguments:
            self.value(str(argument.real_type), values[argument.name])
        expected = unpacked(after)
        words = refusal(expected)
        if words is not None:
            self.block(b"!")
            self.block(words.encode())
            return True
        self.block("".join(LETTERS[str(r.real_type)] for r in schema.returns).encode())
        self._file.write(b"m" if is_mutable else b" ")
        wanted = [*tensors(expected[0])]
        if is_mutable:  # arguments in the schema's order, as the program has them
            changed_args, changed_kwargs = expected[1]
            changed = dict(zip([a.name for a in schema.arguments], changed_args, strict=False))
            changed |= changed_kwargs
            wanted += tensors([changed.get(a.name) for a in schema.arguments])
        self.numbers("q", len(wanted))
        for tensor in wanted:
            self.tensor(tensor)
        return True


def write_calls(out: Path, recorded: Iterable[Path]) -> int:
    """Write all calls of operators in these records; return how many are left out."""
    left_out = 0
    with out.open("wb") as file:
        writer = Writer(file)
        for path in recorded:
            for operator, before, after in pickle.loads(path.read_bytes()):
                if not operator.startswith((CHAIN, FILE)):
                    left_out += not writer.call(operator, before, after)
    return left_out
