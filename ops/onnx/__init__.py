"""How ``torch.onnx.export`` writes this library's operators.

``import visops`` does not import this module, and this module imports onnxscript only when the
table is made.
"""

from .table import translation_table

__all__ = ["translation_table"]
