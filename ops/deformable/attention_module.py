"""Multi-scale deformable attention as a layer, with mmcv's and Deformable DETR's parameters."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .attention import multi_scale_deformable_attention


class MultiScaleDeformableAttention(nn.Module):
    r"""The attention layer of Deformable DETR, on :func:`visops.multi_scale_deformable_attention`.

    Linear layers compute locations and weights from the query, values from the pyramid, and the
    result from what was attended to. Parameters have the names, shapes and initial values of mmcv's
    ``MultiScaleDeformableAttention`` and Deformable DETR's ``MSDeformAttn``, so state dicts of both
    load. The caller adds the residual and applies dropout.

    Parameters
    ----------
    embed_dims : int
        Channels of queries, values and results; a multiple of `num_heads`.
    num_heads : int
    num_levels : int
        Levels of the pyramid.
    num_points : int
        Samples of a head on each level.

    Raises
    ------
    ValueError
        If a number is not positive, or heads don't divide the channels.

    Notes
    -----
    Initially, all queries sample alike: head i looks in direction :math:`2 \pi i / h`, its samples
    1, 2, … pixels away, with equal weights. Zhu et al., "Deformable DETR: Deformable Transformers
    for End-to-End Object Detection", 2021.

    Examples
    --------
    >>> import torch, visops
    >>> layer = visops.MultiScaleDeformableAttention(64, num_heads=4, num_levels=2)
    >>> pyramid = torch.rand(1, 6 * 8 + 3 * 4, 64)
    >>> queries, locations = torch.rand(1, 10, 64), torch.rand(1, 10, 2, 2)
    >>> layer(queries, locations, pyramid, [(6, 8), (3, 4)]).shape
    torch.Size([1, 10, 64])
    """

    def __init__(
        self, embed_dims: int = 256, num_heads: int = 8, num_levels: int = 4, num_points: int = 4
    ) -> None:
        super().__init__()
        sizes = {
            "embed_dims": embed_dims,
            "num_heads": num_heads,
            "num_levels": num_levels,
            "num_points": num_points,
        }
        kind = "visops.MultiScaleDeformableAttention"
        for name, size in sizes.items():
            if size <= 0:
                raise ValueError(f"{kind}: {name} is {size}, must be > 0")
        if embed_dims % num_heads != 0:
            raise ValueError(
                f"{kind}: embed_dims is {embed_dims}, must be a multiple of num_heads, {num_heads}"
            )
        self.embed_dims = embed_dims
        self.num_heads = num_heads
        self.num_levels = num_levels
        self.num_points = num_points
        samples = num_heads * num_levels * num_points
        self.sampling_offsets = nn.Linear(embed_dims, 2 * samples)
        self.attention_weights = nn.Linear(embed_dims, samples)
        self.value_proj = nn.Linear(embed_dims, embed_dims)
        self.output_proj = nn.Linear(embed_dims, embed_dims)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Set all parameters to their initial values."""
        angles = torch.arange(self.num_heads, dtype=torch.float32) * (2 * math.pi / self.num_heads)
        directions = torch.stack([angles.cos(), angles.sin()], -1)
        directions /= directions.abs().amax(-1, keepdim=True)  # to the sides of a square
        distances = torch.arange(1, self.num_points + 1, dtype=torch.float32)
        offsets = directions[:, None, None] * distances[:, None]
        offsets = offsets.expand(-1, self.num_levels, -1, -1)
        nn.init.zeros_(self.sampling_offsets.weight)
        self.sampling_offsets.bias.copy_(offsets.flatten())
        nn.init.zeros_(self.attention_weights.weight)
        nn.init.zeros_(self.attention_weights.bias)
        for layer in (self.value_proj, self.output_proj):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(
        self,
        query: Tensor,
        reference_points: Tensor,
        value: Tensor,
        spatial_shapes: Sequence[tuple[int, int]] | Tensor,
        level_start_index: Sequence[int] | Tensor | None = None,
        key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        """Attend.

        Parameters
        ----------
        query : Tensor ``[B, Q, C]``
            With its positional encoding added.
        reference_points : Tensor ``[B, Q, L, 2]`` or ``[B, Q, L, 4]``, or 1 for L
            x, y in units of the map, which offsets in pixels of the level are added to; or boxes
            cx, cy, w, h, of whose half sides offsets are fractions.
        value : Tensor ``[B, S, C]``
            The levels' pixels one level after another.
        spatial_shapes : sequence of L pairs, or Tensor ``[L, 2]``
            Height and width of each level, as in :func:`visops.multi_scale_deformable_attention`.
        level_start_index : optional
            Likewise.
        key_padding_mask : Tensor ``[B, S]`` of bool, optional
            True where `value` is padding, which counts as 0.

        Returns
        -------
        Tensor ``[B, Q, C]``

        Raises
        ------
        ValueError
            For wrong shapes: `reference_points` has 2 or 4 numbers for each level.
        TypeError
            If something is not a tensor, or `key_padding_mask` is not bool.
        RuntimeError, TypeError
            As :func:`visops.multi_scale_deformable_attention`.
        """
        samples = (self.num_heads, self.num_levels, self.num_points)
        self._check(query, reference_points, value, key_padding_mask)
        values = self.value_proj(value)
        if key_padding_mask is not None:
            values = values.masked_fill(key_padding_mask[..., None], 0)
        offsets = self.sampling_offsets(query).unflatten(-1, (*samples, 2))
        weights = self.attention_weights(query).unflatten(-1, (self.num_heads, -1)).softmax(-1)
        attended: Tensor = multi_scale_deformable_attention(
            values.unflatten(-1, (self.num_heads, -1)),
            spatial_shapes,
            self._locations(reference_points, offsets, spatial_shapes),
            weights.unflatten(-1, samples[1:]),
            level_start_index=level_start_index,
        )
        result: Tensor = self.output_proj(attended)
        return result

    def _check(self, query: Any, reference_points: Any, value: Any, padding: Any) -> None:
        """Raise for what the layers below would refuse in terms of their own matrices."""
        kind = "visops.MultiScaleDeformableAttention"
        tensors = {"query": query, "reference_points": reference_points, "value": value}
        if padding is not None:
            tensors["key_padding_mask"] = padding
        for name, tensor in tensors.items():
            if not isinstance(tensor, Tensor):
                raise TypeError(
                    f"{kind}: {name} is a {type(tensor).__name__}, must be a torch.Tensor"
                )
        for name in ("query", "value"):
            shape = tensors[name].shape
            if len(shape) != 3 or shape[-1] != self.embed_dims:
                letter = "Q" if name == "query" else "S"
                raise ValueError(
                    f"{kind}: {name} has shape {list(shape)}, must be "
                    f"[B, {letter}, {self.embed_dims}]"
                )
        images, queries = query.shape[:2]
        shape, wanted = reference_points.shape, (images, queries, self.num_levels)
        if (
            len(shape) != 4
            or shape[3] not in (2, 4)
            or any(given not in (size, 1) for given, size in zip(shape[:3], wanted, strict=True))
        ):
            rows = f"[{images}, {queries}, {self.num_levels}, "
            raise ValueError(
                f"{kind}: reference_points has shape {list(shape)}, must be {rows}2] or {rows}4]"
            )
        if value.shape[0] != images:
            raise ValueError(f"{kind}: value has {value.shape[0]} images, query has {images}")
        if padding is not None:
            if padding.dtype is not torch.bool:
                given = str(padding.dtype).removeprefix("torch.")
                raise TypeError(f"{kind}: key_padding_mask has dtype {given}, must be bool")
            if padding.shape != value.shape[:2]:
                raise ValueError(
                    f"{kind}: key_padding_mask has shape {list(padding.shape)}, must be "
                    f"{list(value.shape[:2])}, as value"
                )

    def _locations(self, reference_points: Tensor, offsets: Tensor, spatial_shapes: Any) -> Tensor:
        numbers = reference_points.shape[-1]
        around = reference_points[:, :, None, :, None]
        if numbers == 4:
            return around[..., :2] + offsets / self.num_points * around[..., 2:] * 0.5
        if isinstance(spatial_shapes, Tensor):
            sizes = spatial_shapes.to(reference_points.device).flip(-1)
        else:
            rows = [(width, height) for height, width in spatial_shapes]
            sizes = torch.tensor(rows, device=reference_points.device)
        return around + offsets / sizes[:, None].to(reference_points.dtype)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"embed_dims={self.embed_dims}, num_heads={self.num_heads}, "
            f"num_levels={self.num_levels}, num_points={self.num_points}"
        )
