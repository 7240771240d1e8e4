"""The table of translations: what writes each operator, or why nothing can."""

import importlib
from collections.abc import Callable
from typing import Any

import torch

from .. import pixels  # noqa: F401  # it declares operators, and only transforms import it
from .._torch.declaring import DECLARED, Declaration, Refused


def translation_table() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return translations of this library's operators for ``torch.onnx.export``.

    Functions that are composed of torch's operators, such as :func:`visops.transform_boxes`, need
    no translation. The page on export says what becomes of each operator, and how near ONNX Runtime
    comes to its values.

    Returns
    -------
    dict
        Functions by operator, for the argument ``custom_translation_table``. They write opset 18;
        ``torch.onnx.export`` converts that to later ones. A function raises NotImplementedError for
        an operator, or an argument, that ONNX can't express; its message says what to do instead.

    Raises
    ------
    ImportError
        onnx or onnxscript is not installed.

    Examples
    --------
    >>> import torch, visops, visops.onnx
    >>> class Pool(torch.nn.Module):
    ...     def forward(self, maps, boxes):
    ...         return visops.roi_align(maps, boxes, 7, 1 / 16, 2, aligned=True)
    >>> maps, boxes = torch.rand(1, 8, 20, 30), torch.tensor([[0.0, 40, 50, 200, 300]] * 3)
    >>> program = torch.onnx.export(
    ...     Pool().eval(),
    ...     (maps, boxes),
    ...     dynamo=True,
    ...     dynamic_shapes=({0: "images", 2: "height", 3: "width"}, {0: "boxes"}),
    ...     custom_translation_table=visops.onnx.translation_table(),
    ...     verbose=False,
    ... )
    >>> [node.op_type for node in program.model.graph if node.op_type == "RoiAlign"]
    ['RoiAlign']
    """
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"visops.onnx.translation_table: {error}; run: pip install onnx onnxscript"
        ) from None
    return {
        getattr(torch.ops.visops, name).default: _translation(name, declaration)
        for name, declaration in DECLARED.items()
    }


def _translation(name: str, declaration: Declaration) -> Callable[..., Any]:
    """Return what the exporter calls with the arguments of a node."""
    schema = getattr(torch.ops.visops, name).default._schema
    if isinstance(declaration.onnx, Refused):
        reason, instead = declaration.onnx
        instead = instead.format(declaration.documented_as)

        def write(**_: Any) -> Any:
            raise NotImplementedError(
                f"visops.{name}: ONNX can't express this: {reason}; {instead}"
            )
    else:
        write = getattr(importlib.import_module(f".{declaration.onnx}", __package__), name)

    def translate(*given, **named):  # type: ignore[no-untyped-def]
        # No annotations: the exporter would read them as types of ONNX's.
        from .graph import from_graph, to_graph

        values = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
        names = [argument.name for argument in schema.arguments]
        values.update(zip(names, given, strict=False), **named)
        return to_graph(write(**{key: from_graph(value) for key, value in values.items()}))

    translate.__name__ = f"visops_{name}"
    return translate
