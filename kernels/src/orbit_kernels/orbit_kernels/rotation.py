"""Block-diagonal rotation of activations (OFT) as torch ops.

``block_rotation(x, rotation)``: y[..., r*b + c] = sum_k x[..., r*b + k] R[r, k, c], differentiable any number of times.
Torch ops (namespace ``orbit_kernels``):

- ``block_rotation``: y from x and R, or with R transposed;
- ``block_rotation_grads``: gradients of x and of R in one pass;
- ``block_rotation_grad_rotation``: gradient of R alone.

Activations ``[tokens, n*b]`` are ``x``, ``grad`` or ``y`` below; R is ``[n, b, b]``, or ``[1, b, b]`` when one rotation
serves all n blocks. Which program serves which call is decided by :func:`choose`.
"""

from __future__ import annotations

import ctypes
import functools
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from orbit_kernels import _library
from orbit_kernels._library import INT32, INT32_POINTER, INT64, POINTER, declare

DTYPE_CODES = {torch.float16: 1, torch.bfloat16: 2}
TILE_ROWS, GROUP_COLUMNS = 64, 128
"""Tokens and columns of what a block of threads works on at a time."""
SMALL_BLOCKS = (8, 16, 32, 64)
"""Block sizes put on the diagonal of 64 x 64 matrices, two of them in a column group."""
MAX_CLUSTER = 8
"""Blocks of threads that can add their sums of dR."""

ROTATE = declare(
    "orbit_block_rotation",
    INT32, INT32, POINTER, INT64, POINTER, INT32, INT32, INT32, POINTER, INT64, INT64, INT32, INT32, INT32, INT32,
    INT32, POINTER,
)  # fmt: skip
BACKWARD = declare(
    "orbit_block_rotation_backward",
    INT32, INT32, POINTER, INT64, POINTER, INT64, POINTER, INT32, INT32, INT32, POINTER, INT64, INT64, INT32, INT32,
    INT32, INT32, POINTER, POINTER,
)  # fmt: skip
CLUSTERS = declare("orbit_block_rotation_clusters", INT32, INT32, INT32, INT32, INT32, INT32, INT32_POINTER)


def block_rotation(x: Tensor, rotation: Tensor) -> Tensor:
    """``x`` ``[..., n*b]`` times the block-diagonal matrix of ``rotation`` ``[n, b, b]`` or ``[1, b, b]`` (shared).

    ``x`` is bfloat16, float16, float32 or float64; ``rotation`` has the same type or float32. With 16-bit ``x`` a
    float32 rotation is rounded to the type of ``x`` first; products are summed in float32 and the result is rounded
    once. The gradient of ``rotation`` is summed in float32 over all tokens and has the type of ``rotation``. Raises
    ValueError for tensors that do not fit.
    """
    rows = x if x.ndim in (0, 2) else x.reshape(-1, x.shape[-1])
    out: Tensor = torch.ops.orbit_kernels.block_rotation(rows, rotation, False)
    return out.view(x.shape)


# --- which program ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Program:
    """How one call is computed on a CUDA device."""

    name: Literal["kernel", "matmul"]
    """``kernel``: csrc/block_rotation*.cu; ``matmul``: torch.bmm on strided views, without copies."""
    stages: int = 0
    """Tiles in flight in one block of threads."""
    resident: int = 1
    """Blocks of threads on one multiprocessor at a time (forward; the backward kernels' is asked of the driver)."""
    shares: int = 0
    """Blocks of threads for each column group; 0: :func:`best_shares`."""


Task = Literal["rotate", "grads", "grad_rotation"]
MATMUL = Program("matmul")
KERNELS: dict[tuple[Task, int], Program] = {
    ("rotate", 64): Program("kernel", 6, 2),
    ("rotate", 128): Program("kernel", 4, 2),
    ("grads", 64): Program("kernel", 3),
    ("grads", 128): Program("kernel", 3),
    ("grad_rotation", 64): Program("kernel", 4),
    ("grad_rotation", 128): Program("kernel", 4),
}
"""Best measured on an H200 (tests/bench/bench_block_rotation.py --sweep); blocks below 64 count as 64."""
FEWEST_VALUES: dict[Task, dict[int, int]] = {
    "rotate": {8: 1 << 19, 16: 1 << 19, 32: 1 << 23, 64: 1 << 24, 128: 1 << 25},
    "grads": {8: 1 << 19, 16: 1 << 19, 32: 1 << 23, 64: 1 << 23, 128: 1 << 24},
    "grad_rotation": {8: 1 << 23, 16: 1 << 23, 32: 1 << 26},
}
"""Task -> block size -> values of x from which on the kernel is faster than torch.bmm (measured with 4096 features; a
missing size: never). The kernels need some 3 us more to start."""


def size_class(block: int) -> int:
    """The block size whose kernel serves ``block``."""
    return 64 if block in SMALL_BLOCKS else block


def choose(task: Task, block: int, dtype: torch.dtype, *, values: int, has_code: bool) -> Program:
    """The program for one call with ``values`` in x, on a device for which the library has code or not."""
    fewest = FEWEST_VALUES[task].get(block)
    if not has_code or dtype not in DTYPE_CODES or fewest is None or values < fewest:
        return MATMUL
    return KERNELS[task, size_class(block)]


@functools.lru_cache(maxsize=4096)
def best_shares(groups: int, tiles: int, resident: tuple[int, ...]) -> int:
    """Into how many shares the tiles of each column group go; ``resident[s - 1]``: groups of s shares that run at once.

    The time of a share is its tiles, and about two more for starting and ending; groups that do not run at once wait.
    """
    costs = [(-(-groups // at_once) * (-(-tiles // shares) + 2), shares)
             for shares, at_once in enumerate(resident, 1) if shares <= tiles and at_once > 0]  # fmt: skip
    return min(costs)[1]


@functools.cache
def _resident(device: int, program: Program) -> tuple[int, ...]:
    count = torch.cuda.get_device_properties(device).multi_processor_count * program.resident
    return tuple(count // shares for shares in range(1, count + 1))


@functools.cache
def _clusters(device: int, dtype: int, block: int, with_input: bool, stages: int) -> tuple[int, ...]:
    found = []
    for shares in range(1, MAX_CLUSTER + 1):
        count = ctypes.c_int32()
        CLUSTERS(device, dtype, block, with_input, shares, stages, ctypes.byref(count))
        found.append(count.value)
    return tuple(found)


def _program(task: Task, x: Tensor, block: int) -> Program:
    index = x.device.index
    found = _library.image(index)
    if found is None:
        name = torch.cuda.get_device_name(index)
        warnings.warn(f"orbit_kernels has no code for {name}: torch.bmm runs instead", RuntimeWarning, stacklevel=2)
    return choose(task, block, x.dtype, values=x.numel(), has_code=found is not None)


# --- what fits --------------------------------------------------------------------------------------------------------


def _check(x: Tensor, rotation: Tensor, *, name: str = "x") -> None:
    """Raise ValueError unless ``rotation`` rotates ``x``; says what was found and what is expected."""
    if x.ndim != 2 or not x.is_floating_point():
        raise ValueError(f"{name}: {_shown(x)}, expected floating point [tokens, features]")
    if rotation.ndim != 3 or rotation.shape[1] != rotation.shape[2] or rotation.shape[1] < 1:
        raise ValueError(f"rotation: {_shown(rotation)}, expected [blocks, size, size]")
    count, size = rotation.shape[:2]
    if x.shape[1] % size != 0 or count not in (1, x.shape[1] // size):
        raise ValueError(f"rotation: {_shown(rotation)} does not divide {x.shape[1]} features into blocks")
    if rotation.dtype not in (x.dtype, torch.float32):
        raise ValueError(f"rotation: {_shown(rotation)}, expected {x.dtype} or torch.float32")
    if rotation.device != x.device:
        raise ValueError(f"rotation: {_shown(rotation)}, expected {x.device} as {name}")


def _check_pair(grad: Tensor, x: Tensor, block: int) -> None:
    if x.ndim != 2 or not x.is_floating_point() or block < 1 or x.shape[1] % block != 0:
        raise ValueError(f"x: {_shown(x)}, expected floating point [tokens, features] in blocks of {block}")
    if grad.shape != x.shape or grad.dtype != x.dtype or grad.device != x.device:
        raise ValueError(f"grad: {_shown(grad)}, expected {_shown(x)} as x")


def _shown(tensor: Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)} on {tensor.device}"


def _sum_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _rows(x: Tensor) -> Tensor:
    """``x``, or a copy where the copy engine cannot read it: rows not contiguous, overlapping, not 16-byte aligned."""
    tokens, features = x.shape
    fits = features <= 1 or x.stride(1) == 1
    if fits and tokens > 1:
        fits = x.stride(0) >= features and x.stride(0) % 8 == 0
    return x if fits and x.data_ptr() % 16 == 0 else x.clone(memory_format=torch.contiguous_format)


def _packed(rotation: Tensor) -> Tensor:
    """``rotation``, or a copy where it is not contiguous or not 16-byte aligned."""
    fits = rotation.is_contiguous() and rotation.data_ptr() % 16 == 0
    return rotation if fits else rotation.clone(memory_format=torch.contiguous_format)


def _by_block(x: Tensor, block: int) -> Tensor:
    """``[n, tokens, b]`` view of ``[tokens, n*b]``; of a copy where the values of a row are apart."""
    x = x if x.stride(1) == 1 else x.contiguous()
    return x.view(x.shape[0], x.shape[1] // block, block).transpose(0, 1)


# --- forward ----------------------------------------------------------------------------------------------------------


def _rotate_matmul(x: Tensor, rotation: Tensor, transposed: bool) -> Tensor:
    block = rotation.shape[1]
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    factor = (rotation.mT if transposed else rotation).to(x.dtype).expand(x.shape[1] // block, block, block)
    torch.bmm(_by_block(x, block), factor, out=_by_block(out, block))
    return out


def _rotate_kernel(
    program: Program, x: Tensor, rotation: Tensor, transposed: bool, *, portable: bool = False
) -> Tensor:
    x, rotation = _rows(x), _packed(rotation)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel() > 0:
        shares = program.shares or best_shares(*_grid(x), _resident(x.device.index, program))
        ROTATE(
            x.device.index, DTYPE_CODES[x.dtype], x.data_ptr(), x.stride(0), rotation.data_ptr(), rotation.shape[1],
            rotation.dtype == torch.float32, rotation.shape[0] == 1, out.data_ptr(), out.stride(0), x.shape[0],
            x.shape[1], transposed, portable, shares, program.stages, _stream(x),
        )  # fmt: skip
    return out


def _rotate_cuda(x: Tensor, rotation: Tensor, transposed: bool) -> Tensor:
    _check(x, rotation)
    program = _program("rotate", x, rotation.shape[1])
    if program.name == "matmul":
        return _rotate_matmul(x, rotation, transposed)
    return _rotate_kernel(program, x, rotation, transposed)


def _rotate_cpu(x: Tensor, rotation: Tensor, transposed: bool) -> Tensor:
    _check(x, rotation)
    wide = _sum_dtype(x.dtype)
    return _rotate_matmul(x.to(wide), rotation.to(x.dtype).to(wide), transposed).to(x.dtype)


def _rotate_fake(x: Tensor, rotation: Tensor, transposed: bool) -> Tensor:
    del transposed
    _check(x, rotation)
    return x.new_empty(x.shape)


def _grid(x: Tensor) -> tuple[int, int]:
    """Column groups, and tiles in each."""
    return -(-x.shape[1] // GROUP_COLUMNS), -(-x.shape[0] // TILE_ROWS)


def _stream(x: Tensor) -> int:
    return int(torch.cuda.current_stream(x.device).cuda_stream)


# --- backward ---------------------------------------------------------------------------------------------------------


def _grad_rotation_matmul(grad: Tensor, x: Tensor, block: int) -> Tensor:
    left, right = _by_block(x, block).transpose(1, 2), _by_block(grad, block)
    wide = _sum_dtype(x.dtype)
    return torch.bmm(left, right) if x.dtype == wide else torch.bmm(left, right, out_dtype=wide)


def _backward_kernel(
    program: Program, grad: Tensor, x: Tensor, rotation: Tensor | None, block: int, *, portable: bool = False
) -> tuple[Tensor | None, Tensor]:
    """Gradients of x (None without a rotation) and of each block's rotation ``[n, b, b]`` float32."""
    grad, x = _rows(grad), _rows(x)
    sums = torch.empty((x.shape[1] // block, block, block), dtype=torch.float32, device=x.device)
    out = None if rotation is None else torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel() == 0:
        return out, sums.zero_()
    device, dtype, given = x.device.index, DTYPE_CODES[x.dtype], rotation is not None
    rotation = x if rotation is None else _packed(rotation)
    shares = program.shares or best_shares(*_grid(x), _clusters(device, dtype, block, given, program.stages))
    BACKWARD(
        device, dtype, grad.data_ptr(), grad.stride(0), x.data_ptr(), x.stride(0), rotation.data_ptr(), block,
        rotation.dtype == torch.float32, rotation.shape[0] == 1, None if out is None else out.data_ptr(), x.shape[1],
        x.shape[0], x.shape[1], portable, shares, program.stages, sums.data_ptr(), _stream(x),
    )  # fmt: skip
    return out, sums


def _shared_sum(sums: Tensor, count: int) -> Tensor:
    """The sum over blocks when one rotation served them all."""
    return sums if sums.shape[0] == count else sums.sum(0, keepdim=True)


def _grad_rotation_cuda(grad: Tensor, x: Tensor, block: int, shared: bool) -> Tensor:
    _check_pair(grad, x, block)
    program = _program("grad_rotation", x, block)
    if program.name == "matmul":
        sums = _grad_rotation_matmul(grad, x, block)
    else:
        _none, sums = _backward_kernel(program, grad, x, None, block)
    return _shared_sum(sums, 1 if shared else x.shape[1] // block)


def _grads_cuda(grad: Tensor, x: Tensor, rotation: Tensor) -> tuple[Tensor, Tensor]:
    _check(x, rotation)
    count, block = rotation.shape[:2]
    _check_pair(grad, x, block)
    program = _program("grads", x, block)
    if program.name == "matmul":
        return _rotate_cuda(grad, rotation, True), _grad_rotation_cuda(grad, x, block, count == 1)
    out, sums = _backward_kernel(program, grad, x, rotation, block)
    assert out is not None
    return out, _shared_sum(sums, count)


def _grad_rotation_cpu(grad: Tensor, x: Tensor, block: int, shared: bool) -> Tensor:
    _check_pair(grad, x, block)
    wide = _sum_dtype(x.dtype)
    return _shared_sum(_grad_rotation_matmul(grad.to(wide), x.to(wide), block), 1 if shared else x.shape[1] // block)


def _grads_cpu(grad: Tensor, x: Tensor, rotation: Tensor) -> tuple[Tensor, Tensor]:
    count, block = rotation.shape[:2]
    return _rotate_cpu(grad, rotation, True), _grad_rotation_cpu(grad, x, block, count == 1)


def _grad_rotation_fake(grad: Tensor, x: Tensor, block: int, shared: bool) -> Tensor:
    _check_pair(grad, x, block)
    return x.new_empty((1 if shared else x.shape[1] // block, block, block), dtype=_sum_dtype(x.dtype))


def _grads_fake(grad: Tensor, x: Tensor, rotation: Tensor) -> tuple[Tensor, Tensor]:
    _check(x, rotation)
    _check_pair(grad, x, rotation.shape[1])
    return x.new_empty(x.shape), x.new_empty(rotation.shape, dtype=_sum_dtype(x.dtype))


# --- autograd: each derivative is again one of the three ops ----------------------------------------------------------


def _rotate_context(ctx: Any, inputs: tuple[Tensor, Tensor, bool], output: Tensor) -> None:
    del output
    x, rotation, ctx.transposed = inputs
    needs_x, needs_rotation = ctx.needs_input_grad[:2]
    ctx.save_for_backward(x if needs_rotation else None, rotation)
    ctx.needs = needs_x, needs_rotation


def _rotate_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
    x, rotation = ctx.saved_tensors
    needs_x, needs_rotation = ctx.needs
    ops = torch.ops.orbit_kernels
    if needs_x and needs_rotation and not ctx.transposed:
        grad_x, grad_rotation = ops.block_rotation_grads(grad, x, rotation)
        return grad_x, grad_rotation.to(rotation.dtype), None
    grad_x = ops.block_rotation(grad, rotation, not ctx.transposed) if needs_x else None
    if not needs_rotation:
        return grad_x, None, None
    pair = (x, grad) if ctx.transposed else (grad, x)
    sums = ops.block_rotation_grad_rotation(*pair, rotation.shape[1], rotation.shape[0] == 1)
    return grad_x, sums.to(rotation.dtype), None


def _grad_rotation_context(ctx: Any, inputs: tuple[Tensor, Tensor, int, bool], output: Tensor) -> None:
    del output
    ctx.save_for_backward(*inputs[:2])


def _grad_rotation_backward(ctx: Any, outer: Tensor) -> tuple[Tensor, Tensor, None, None]:
    grad, x = ctx.saved_tensors
    ops = torch.ops.orbit_kernels
    return ops.block_rotation(x, outer, False), ops.block_rotation(grad, outer, True), None, None


def _grads_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None:
    del output
    ctx.save_for_backward(*inputs)


def _grads_backward(ctx: Any, outer_x: Tensor, outer_rotation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    grad, x, rotation = ctx.saved_tensors
    ops = torch.ops.orbit_kernels
    of_grad = ops.block_rotation(outer_x, rotation, False) + ops.block_rotation(x, outer_rotation, False)
    sums = ops.block_rotation_grad_rotation(grad, outer_x, rotation.shape[1], rotation.shape[0] == 1)
    return of_grad, ops.block_rotation(grad, outer_rotation, True), sums.to(rotation.dtype)


LIBRARY = torch.library.Library("orbit_kernels", "FRAGMENT")
for _schema, _cuda, _cpu, _fake, _context, _backward in (
    ("block_rotation(Tensor x, Tensor rotation, bool transposed) -> Tensor",
     _rotate_cuda, _rotate_cpu, _rotate_fake, _rotate_context, _rotate_backward),
    ("block_rotation_grads(Tensor grad, Tensor x, Tensor rotation) -> (Tensor, Tensor)",
     _grads_cuda, _grads_cpu, _grads_fake, _grads_context, _grads_backward),
    ("block_rotation_grad_rotation(Tensor grad, Tensor x, int block, bool shared) -> Tensor",
     _grad_rotation_cuda, _grad_rotation_cpu, _grad_rotation_fake, _grad_rotation_context, _grad_rotation_backward),
):  # fmt: skip
    _name = f"orbit_kernels::{_schema.partition('(')[0]}"
    LIBRARY.define(_schema, tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order))
    torch.library.impl(_name, "CUDA", _cuda, lib=LIBRARY)
    torch.library.impl(_name, "CPU", _cpu, lib=LIBRARY)
    torch.library.register_fake(_name, _fake, lib=LIBRARY)
    torch.library.register_autograd(_name, _backward, setup_context=_context, lib=LIBRARY)
