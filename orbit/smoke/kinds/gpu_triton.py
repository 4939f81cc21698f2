"""Whether Triton compiles a kernel here (its launcher with the image's C compiler) and the kernel computes right."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orbit.smoke.kinds import numerics
from orbit.smoke.kinds.gpu import product_bound
from orbit.smoke.model import CheckError, Context

ROWS, INNER, COLUMNS = 256, 512, 192


def check_triton(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Compile into an empty cache folder, so that nothing made elsewhere is used, and compare a matmul with float64."""
    del parameters, context
    with tempfile.TemporaryDirectory(prefix="triton-") as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        import torch

        from orbit.smoke.kinds.triton_kernel import matmul

        torch.manual_seed(numerics.SEED)
        left = numerics.bf16_random(torch, ROWS, INNER)
        right = numerics.bf16_random(torch, INNER, COLUMNS)
        exact, bound = product_bound(left, right)
        facts = {"matmul": numerics.compare("triton matmul", matmul(left, right), exact, bound)}
        made = sorted({path.suffix for path in Path(folder).rglob("*") if path.is_file()})
    for suffix in (".cubin", ".so"):
        if suffix not in made:
            raise CheckError(f"Triton made no {suffix} file in its empty cache (made: {', '.join(made) or 'nothing'})")
    return {"summary": f"compiled here; {numerics.share_text(facts)}", "compared": facts}
