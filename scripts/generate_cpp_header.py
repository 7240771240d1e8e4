"""Write ops/include/visops/ops.h: a C++ function for every public operator, from its schema.

    python scripts/generate_cpp_header.py

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

ROOT = Path(__file__).resolve().parent.parent
HEADER = ROOT / "ops" / "include" / "visops" / "ops.h"

# Parts of other operators (their backward passes, their forms with `out`), what only transforms
# call, and build_info, which Python decodes: their schemas may change with any version.
PRIVATE = re.compile(
    r".*_(backward(_\w+)?|out|at|fold)|add_grey_means|adjust_pixels|filter_separable|"
    r"build_info"
)

# Operators whose function in Python has another name; its first line describes them.
DOCUMENTED_AS = {
    "affine": "warp_affine",
    "augment_list": "augment",
    "roi_align_max": "roi_align",
}
# Operators that Python calls within other functions.
DESCRIBED = {
    "component_stats": "Areas, boxes and centroids of the labels 1 to regions.",
    "masks_to_runs": "Where the runs of masks end, down their columns, and where masks begin among "
    "them. Takes the bits of pack_masks if a width is given.",
    "runs_to_bits": "Bits, as of pack_masks, from the ends and offsets of masks_to_runs.",
    "mask_boundaries": "Bits of the boundaries of the bits of pack_masks.",
    "measure_masks": "Areas and boxes of the bits of pack_masks, or of masks; x2 and y2 are "
    "exclusive.",
    "paste_binary_masks": "Masks as paste_masks has them; out: bool, uint8 or packed.",
    "suppress_masks": "Which of the masks in `order` suppression keeps, by position.",
    "unpack_masks": "Masks from the bits of pack_masks.",
}
# What the operators do otherwise than those functions.
NOTES = {
    "affine": "The matrix [B, 2, 3] maps destination to source unless inverse_map is false.",
    "augment": "kinds: which kinds of sample there are, where that is known (SampleKind, in "
    "csrc/core/warp/augment_segment.h).",
    "augment_list": "Images may have different sizes.",
    "box_iou": "kind: iou, iof (of boxes1), iof2 (of boxes2), generalized, distance or complete.",
    "box_iou_rotated": "kind: iou, iof (of boxes1) or iof2 (of boxes2).",
    "connected_components": "Returns labels and how many components each mask has.",
    "convolve2d": "start and size name the part of the full result that is wanted.",
    "distance_transform": "Indices are empty unless asked for.",
    "mask_iou": "Takes the bits of pack_masks, or masks; kind: iou or ioa.",
    "match_cost": "Returns each image's [queries, targets], one image after another.",
    "merge_masks": "Takes the bits of pack_masks, their width, and the order to draw them in.",
    "nms_match": "Returns the index of the kept box that each box belongs to.",
    "paste_masks": "Returns numbers; convention: detectron2, or torchvision with padding.",
    "remap": "map_x and map_y [B, h, w] are dense or a grid (bilinear, spline); matrix [B, 3, 3] "
    "leads from there to the source. to_float: the result is float32, with white at 1.",
    "roi_align_max": "Takes the maximum of a bin's samples; also returns where it was.",
}

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


def schemas() -> dict[str, torch._C.FunctionSchema]:
    """Return the public operators' schemas by name, in alphabetical order."""
    named = {}
    for full_name in sorted(torch._C._dispatch_get_all_op_names()):
        namespace, _, name = full_name.partition("::")
        if namespace == "visops" and not PRIVATE.fullmatch(name):
            (named[name],) = torch._C._jit_get_schemas_for_operator(full_name)
    return named


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
    if name in DESCRIBED:
        return DESCRIBED[name]
    documented = getattr(visops, DOCUMENTED_AS.get(name, name)).__doc__.splitlines()[0]
    plain = re.sub(r"(?::func:)?`+(?:visops\.)?([^`]+)`+", r"\1", documented)
    return f"{plain} {NOTES.get(name, '')}".strip()


def function(name: str, schema: torch._C.FunctionSchema) -> str:
    """Return an operator's C++ function."""
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
    functions = [function(name, schema) for name, schema in schemas().items()]
    text = "\n".join([TOP, *functions, "}  // namespace visops\n"])
    command = [str(Path(sysconfig.get_path("scripts"), "clang-format"))]
    command += [f"--assume-filename={HEADER}"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    HEADER.write_text(header())
