"""The focal loss: its definition, torchvision's values, and logits without bounds."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from kernels import every_slot, use_slot
from references import focal as reference
from torch import Tensor

INF, NAN = float("inf"), float("nan")
NUMBERS = [(0.25, 2.0), (0.7, 1.5), (-1.0, 0.5), (0.0, 0.0), (1.0, 3.0)]


def problem(dtype: torch.dtype = torch.float64, spread: float = 3.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(13, 37, generator=generator, dtype=torch.float64) * spread
    targets = torch.rand(13, 37, generator=generator, dtype=torch.float64)
    targets[:5] = targets[:5].round()
    return logits.to(dtype), targets.to(dtype)


@pytest.mark.matrix
@every_slot
@pytest.mark.parametrize(("alpha", "gamma"), NUMBERS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_values(slot: str, dtype: torch.dtype, alpha: float, gamma: float) -> None:
    with use_slot(slot):
        logits, targets = problem(dtype)
        wanted = reference.losses(logits.double().numpy(), targets.double().numpy(), alpha, gamma)
        found = visops.sigmoid_focal_loss(logits, targets, alpha, gamma)
        assert found.dtype == dtype
        least = 1e-30 if dtype == torch.float64 else 1e-7 if dtype == torch.float16 else 1e-37
        steps = {torch.float64: 1e-13, torch.float32: 4e-6}.get(dtype, 2 * torch.finfo(dtype).eps)
        np.testing.assert_allclose(found.double().numpy(), wanted, rtol=steps, atol=least)


@pytest.mark.matrix
@every_slot
def test_classes_are_targets_of_one(slot: str) -> None:
    with use_slot(slot):
        logits, _ = problem(torch.float32)
        labels = torch.arange(13) * 5 % 40 - 1  # some are no class
        found = []
        for targets in (labels, (labels[:, None] == torch.arange(37)).float()):
            leaf = logits.clone().requires_grad_()
            losses = visops.sigmoid_focal_loss(leaf, targets)
            incoming = torch.linspace(-1, 1, losses.numel()).view_as(losses)
            found.append((losses, *torch.autograd.grad(losses, leaf, incoming)))
        assert all(map(torch.equal, *found))


def test_mmcv_s_mean_of_classes() -> None:
    """The sum by the number of rows; of targets for each logit it is torchvision's mean."""
    logits, classes = torch.randn(6, 4), torch.tensor([0, 3, 4, -1, 2, 2])
    one_hot = (classes[:, None] == torch.arange(4)).float()
    total = visops.sigmoid_focal_loss(logits, one_hot, reduction="sum")
    of_classes = visops.sigmoid_focal_loss(logits, classes, reduction="mean")
    torch.testing.assert_close(of_classes, total / 6)
    of_logits = visops.sigmoid_focal_loss(logits, one_hot, reduction="mean")
    torch.testing.assert_close(of_logits, total / 24)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(("alpha", "gamma"), NUMBERS[:3])
def test_torchvision_s_values_and_gradients(alpha: float, gamma: float, reduction: Any) -> None:
    ops = pytest.importorskip("torchvision.ops")
    found, grads = [], []
    for function in (ops.sigmoid_focal_loss, visops.sigmoid_focal_loss):
        logits, targets = (tensor.requires_grad_() for tensor in problem())
        losses = function(logits, targets, alpha, gamma, reduction)
        first = torch.autograd.grad(losses.sum(), [logits, targets], create_graph=True)
        second = torch.autograd.grad(first[0].sum() + first[1].sum(), [logits, targets])
        found.append(losses)
        grads.append([*first, *second])
    torch.testing.assert_close(found[1], found[0])
    for ours, theirs in zip(grads[1], grads[0], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-9)


@every_slot
@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_logits_without_bounds(slot: str, gamma: float) -> None:
    """Sure and right costs nothing, sure and wrong costs its logit; gradients are 0 and 1."""
    with use_slot(slot):
        sure = torch.tensor([-INF, -1e30, -200.0, 200.0, 1e30, INF])
        for target in (0.0, 1.0):
            logits = sure.clone().requires_grad_()
            losses = visops.sigmoid_focal_loss(logits, torch.full_like(sure, target), -1, gamma)
            losses.sum().backward()
            assert logits.grad is not None
            wrong = (sure > 0) != (target == 1.0)
            assert torch.equal(losses.detach()[wrong], sure.abs()[wrong])
            assert (losses.detach()[~wrong] < 1e-40).all()
            assert torch.equal(logits.grad[wrong], torch.full((3,), 1.0 - 2.0 * target))
            assert (logits.grad[~wrong].abs() < 1e-40).all()


@every_slot
def test_small_losses_keep_their_digits(slot: str) -> None:
    with use_slot(slot):
        logits = torch.tensor([-6.0, -15.0, -40.0])
        found = visops.sigmoid_focal_loss(logits, torch.zeros(3), 0.25, 0.0)
        expected = 0.75 * torch.nn.functional.softplus(logits.double())
        torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=0.0)


@every_slot
def test_nan_stays_where_it_is(slot: str) -> None:
    with use_slot(slot):
        logits, targets = torch.zeros(2, 6), torch.zeros(2, 6)
        logits[0, 2] = targets[1, 4] = NAN
        losses = visops.sigmoid_focal_loss(logits.requires_grad_(), targets)
        losses.sum().backward()
        assert logits.grad is not None
        for values in (losses, logits.grad):
            assert torch.equal(values.isnan().nonzero(), torch.tensor([[0, 2], [1, 4]]))


def test_autocast_computes_in_float32() -> None:
    logits, targets = problem(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        losses = visops.sigmoid_focal_loss(logits, targets)
    assert losses.dtype == torch.float32
    assert torch.equal(losses, visops.sigmoid_focal_loss(logits.float(), targets.float()))
