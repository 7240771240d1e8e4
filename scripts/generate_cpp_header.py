"""Write ops/include/visops/ops.h: a C++ function for every public operator.

    python scripts/generate_cpp_header.py

They come from the operators' schemas, and the comments above them from their declarations.

The functions find their operator in torch's dispatcher and call it there, so that the header fits
every build of the library whose schemas are these. It has C++'s usual types: int64_t and
IntArrayRef where a schema says SymInt, which matters to torch.export alone.
"""

import re
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import torch
import visops
from visops._torch.declaring import DECLARED

ROOT = Path(__file__).resolve().parent.parent
HEADER = ROOT / "ops" / "include" / "visops" / "ops.h"

# A schema's types as C++ takes them. Python sees a SymInt as an int.
ARGUMENTS = {
    "Tensor": "const at::Tensor&",
    "Optional[Tensor]": "const std::optional<at::Tensor>&",
    "List[Tensor]": "at::TensorList",
    "int": "int64_t",
    "List[int]": "at::IntArrayRef",
    "float": "double",
    "Optional[float]": "std::optional<double>",
    "List[float]": "at::ArrayRef<double>",
    "bool": "bool",
    "str": "std::string_view",
    "Optional[ScalarType]": "std::optional<at::ScalarType>",
}

TOP = """\
// Written by scripts/generate_cpp_header.py from the operators' schemas: don't edit it.
//
// The operators of visops as C++ functions on at::Tensor. The library must be in the process:
// linked (in CMake, visops::visops) or loaded with dlopen. Otherwise a call throws c10::Error.
// Bad arguments throw a std::exception whose message names them.
//
// There are no gradients: those are registered by Python, and backward() does no more than warn.
// Strings, defaults and results are as in torch.ops.visops.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>

namespace visops {
namespace detail {

template <typename Function>
c10::TypedOperatorHandle<Function> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}

}  // namespace detail
"""


def literal(value: Any) -> str:
    """Return a default value as C++ writes it."""
    if value is None:
        return "std::nullopt"
    if isinstance(value, list):
        return "{" + ", ".join(literal(each) for each in value) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)


def comment(name: str) -> str:
    """Return what is said above an operator's function."""
    declaration = DECLARED[name]
    described = declaration.description
    if not described:
        documented = getattr(visops, declaration.documented_as).__doc__.splitlines()[0]
        described = re.sub(r"(?::func:)?`+(?:visops\.)?([^`]+)`+", r"\1", documented)
    return f"{described} {declaration.note}".strip()


def function(name: str) -> str:
    """Return an operator's C++ function."""
    schema = getattr(torch.ops.visops, name).default._schema
    parameters = []
    for argument in schema.arguments:
        kind = str(argument.real_type)
        parameters.append(f"{ARGUMENTS[kind]} {argument.name}")
        if argument.has_default_value():
            parameters[-1] += f" = {literal(argument.default_value)}"
    if any(str(result.type) != "Tensor" for result in schema.returns):
        raise ValueError(f"{schema} returns more than tensors")
    result = "at::Tensor"
    if len(schema.returns) > 1:
        result = f"std::tuple<{', '.join([result] * len(schema.returns))}>"
    return f"""\
// {comment(name)}
inline {result} {name}({", ".join(parameters)}) {{
  static const auto op = detail::find<decltype({name})>("visops::{name}");
  return op.call({", ".join(argument.name for argument in schema.arguments)});
}}
"""


def header() -> str:
    """Return the header, formatted as the repository demands."""
    functions = [function(name) for name in sorted(DECLARED) if not DECLARED[name].private]
    text = "\n".join([TOP, *functions, "}  // namespace visops\n"])
    command = [str(Path(sysconfig.get_path("scripts"), "clang-format"))]
    command += [f"--assume-filename={HEADER}"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    HEADER.write_text(header())
