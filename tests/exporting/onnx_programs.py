"""Functions exported to ONNX and run by ONNX Runtime."""

import contextlib
import io
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import onnxruntime
import torch
import visops.onnx
from contract.calls import tensors_of
from contract.test_export import dynamic_shapes
from torch import Tensor, nn


class Call(nn.Module):
    """A function as a module, which is what is exported."""

    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, *inputs: Any) -> Any:
        return self.call(*inputs)


class Program:
    """An exported function, called with tensors; exported with the inputs of two steps.

    The exporter's optimiser takes a minute for a thousand nodes: programs of many calls do without.
    """

    def __init__(
        self,
        call: Callable[..., Any],
        first: Any,
        second: Any = None,
        *,
        opset: int = 18,
        optimize: bool = True,
    ) -> None:
        shapes = dynamic_shapes(first, first if second is None else second)
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")  # the exporter's own deprecations
            program = torch.onnx.export(
                Call(call),
                first,
                dynamo=True,
                dynamic_shapes=(shapes,),  # of *inputs, which is one argument
                custom_translation_table=visops.onnx.translation_table(),
                opset_version=opset,
                verbose=False,
                optimize=optimize,
            )
        assert program is not None
        self.model = program.model_proto
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(self.model.SerializeToString(), options)

    def __call__(self, *inputs: Any) -> list[Tensor]:
        given = tensors_of(inputs)
        names = [argument.name for argument in self._session.get_inputs()]
        feed = {name: t.numpy() for name, t in zip(names, given, strict=True)}
        return [torch.from_numpy(found) for found in self._session.run(None, feed)]


def assert_near(found: Sequence[Tensor], expected: Any, error: float, what: str = "") -> None:
    """Compare with eager results; `error` is relative to the largest number, 0 for equal bits."""
    wanted = tensors_of(expected)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), what
        if error == 0:
            assert torch.equal(a, b), what
        elif a.numel():
            difference = (a.double() - b.double()).abs().max().item()
            allowed = error * max(1.0, b.double().abs().max().item())
            assert difference <= allowed, f"{what}: {difference} > {allowed}"
