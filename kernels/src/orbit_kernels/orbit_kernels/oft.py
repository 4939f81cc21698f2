"""Rotations of OFT from the parameters that are trained: the Cayley-Neumann series."""

from __future__ import annotations

import torch
from torch import Tensor


def cayley_neumann(oft_r: Tensor, block_size: int) -> Tensor:
    """Rotations ``[n, b, b]`` from strict upper triangles ``[n, b (b - 1) / 2]`` in row-major order; zeros: identity.

    Q = U - U^T, and R = I + 2 Q + 2 Q^2 + 2 Q^3 + Q^4: five terms of the Neumann series of (I + Q) (I - Q)^-1. This is
    (I + Q)^2 (I + Q^2), so R R^T = (I - Q^4)^2: orthogonal only while Q is small. Computed in float32 (float64 stays),
    differentiable. On CUDA torch's own setting for float32 products applies: with TF32 on, R is less exact. Raises
    ValueError for parameters that do not fit.
    """
    count = block_size * (block_size - 1) // 2
    if block_size < 1 or oft_r.ndim != 2 or oft_r.shape[1] != count or not oft_r.is_floating_point():
        raise ValueError(
            f"oft_r: {oft_r.dtype} {list(oft_r.shape)}, "
            f"expected floating point [n, {count}] for block_size {block_size}"
        )
    values = oft_r if oft_r.dtype == torch.float64 else oft_r.float()
    rows, columns = torch.triu_indices(block_size, block_size, 1, device=oft_r.device)
    upper = values.new_zeros((oft_r.shape[0], block_size, block_size)).index_put(
        (torch.arange(oft_r.shape[0], device=oft_r.device)[:, None], rows[None], columns[None]), values
    )
    q = upper - upper.mT
    square = q @ q
    identity = torch.eye(block_size, dtype=q.dtype, device=q.device)
    # the last three terms are (2 I + 2 Q + Q^2) Q^2; added last, small to large
    return identity + (2 * q + (2 * (identity + q) + square) @ square)
