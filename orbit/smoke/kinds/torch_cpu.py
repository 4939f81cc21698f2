"""Whether torch computes: float64 arithmetic against results known without it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orbit.smoke.model import CheckError, Context

SIZE = 96


def check_torch_cpu(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """A float64 product of integer matrices must be exact; autograd must give the gradient known by hand.

    The entries are integers below 7, so every partial sum is below 96 * 36 and exactly representable in float64: the
    comparison is for equality, whatever order the BLAS adds in.
    """
    del parameters
    import torch

    left = [[(3 * row + 5 * column) % 7 for column in range(SIZE)] for row in range(SIZE)]
    right = [[(row * column + 2) % 7 for column in range(SIZE)] for row in range(SIZE)]
    columns = list(zip(*right, strict=True))
    by_hand = [[sum(a * b for a, b in zip(row, column, strict=True)) for column in columns] for row in left]
    product = torch.tensor(left, dtype=torch.float64) @ torch.tensor(right, dtype=torch.float64)
    if not torch.equal(product, torch.tensor(by_hand, dtype=torch.float64)):
        raise CheckError("a float64 product of small integer matrices is not exact")
    x = torch.arange(1, SIZE + 1, dtype=torch.float64, requires_grad=True)
    (x * x * x).sum().backward()
    if x.grad is None or not torch.equal(x.grad, 3 * x.detach() * x.detach()):
        raise CheckError("the gradient of sum(x^3) is not 3 x^2")
    cuda = str(torch.version.cuda)
    if context.cuda and cuda != context.cuda:
        raise CheckError(f"torch was built for CUDA {cuda}, the profile's release is {context.cuda}")
    return {"summary": f"torch {torch.__version__}, exact", "torch": str(torch.__version__), "cuda": cuda}
