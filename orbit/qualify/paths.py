"""The paths of a qualification: which part of the model goes through which kernels, and what each needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orbit.errors import InputError
from orbit.qualify.model import DTYPES, Definition, Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """One way through the model."""

    name: str
    replaces: str
    """Operations that are not torch's plain ones."""
    module: str = ""
    """What must import."""
    kinds: tuple[Kind, ...] = ("cuda",)
    dtypes: tuple[str, ...] = DTYPES
    trains: bool = True
    """Has a backward pass; else only what a rollout computes is run."""


PATHS = (
    Path(name="torch", replaces="nothing", kinds=("cpu", "cuda")),
    Path(name="sdpa", replaces="attention by torch's scaled_dot_product_attention", kinds=("cpu", "cuda")),
    Path(
        name="sgl-kernel",
        replaces="RMSNorm and gated SiLU by sglang-kernel",
        module="sgl_kernel",
        dtypes=("bfloat16",),
        trains=False,
    ),
    Path(name="orbit-kernels", replaces="log-probs by orbit-kernels", module="orbit_kernels"),
    Path(
        name="transformer-engine",
        replaces="products and RMSNorm by Transformer Engine",
        module="transformer_engine.pytorch",
        dtypes=("bfloat16",),
    ),
    Path(
        name="causal-conv1d",
        replaces="the convolution by causal-conv1d",
        module="causal_conv1d",
        dtypes=("bfloat16",),
    ),
)


def find_path(name: str) -> Path:
    """The path of that name. Raises :class:`InputError`."""
    for path in PATHS:
        if path.name == name:
            return path
    raise InputError(f"no path named {name!r}", fix=f"known: {', '.join(path.name for path in PATHS)}")


def cases_of(definition: Definition, kind: Kind, names: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Path and type of every case on that kind of device; ``names`` chooses paths (the plain one is always run)."""
    wanted = {find_path(name).name for name in names}
    for path in PATHS:
        if kind in path.kinds and (not wanted or path.name in wanted or path.name == PATHS[0].name):
            for dtype in definition.dtypes:
                if dtype in path.dtypes:
                    yield path.name, dtype
