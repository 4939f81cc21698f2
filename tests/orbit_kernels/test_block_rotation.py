"""Block rotation and the rotations of OFT on the CPU: by hand, by their identities, and as torch ops."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from orbit_kernels import rotation  # noqa: E402
from orbit_kernels.oft import cayley_neumann  # noqa: E402
from orbit_kernels.rotation import MATMUL, Program, best_shares, block_rotation, choose  # noqa: E402

OPS = torch.ops.orbit_kernels


def random(*shape: int, dtype: Any = None, seed: int = 0, grad: bool = False) -> Any:
    made = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype or torch.float64)
    return made.requires_grad_(grad)


# --- the rotation -----------------------------------------------------------------------------------------------------


def test_by_hand() -> None:
    # one token, two blocks of two: [1, 2] [[1, 2], [3, 4]] = [7, 10], [3, 4] [[0, 1], [-1, 0]] = [-4, 3]
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0]], dtype=torch.float64, requires_grad=True)
    r = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[0.0, 1.0], [-1.0, 0.0]]], dtype=torch.float64, requires_grad=True)
    y = block_rotation(x, r)
    assert y.tolist() == [[7.0, 10.0, -4.0, 3.0]]
    # dx = dy R^T and dR = x^T dy with dy = [1, 0, 2, 1]
    y.backward(torch.tensor([[1.0, 0.0, 2.0, 1.0]], dtype=torch.float64))
    assert x.grad.tolist() == [[1.0, 3.0, 1.0, -2.0]]
    assert r.grad.tolist() == [[[1.0, 0.0], [2.0, 0.0]], [[6.0, 3.0], [8.0, 4.0]]]


@pytest.mark.parametrize(("blocks", "block"), [(1, 5), (3, 4), (6, 1)])
def test_it_is_a_block_diagonal_matrix(blocks: int, block: int) -> None:
    x, r = random(7, blocks * block), random(blocks, block, block, seed=1)
    matrix = torch.block_diag(*r)
    torch.testing.assert_close(block_rotation(x, r), x @ matrix)
    torch.testing.assert_close(OPS.block_rotation(x, r, True), x @ matrix.T)


def test_one_block_for_all() -> None:
    x, r = random(7, 12), random(1, 4, 4, seed=1, grad=True)
    repeated = r.detach().repeat(3, 1, 1).requires_grad_()
    shared, single = block_rotation(x, r), block_rotation(x, repeated)
    assert torch.equal(shared, single)
    weight = random(7, 12, seed=2)
    (shared * weight).sum().backward()
    (single * weight).sum().backward()
    torch.testing.assert_close(r.grad, repeated.grad.sum(0, keepdim=True))


@pytest.mark.parametrize("shape", [(12,), (2, 3, 12), (0, 12)])
def test_leading_dimensions(shape: tuple[int, ...]) -> None:
    x, r = random(*shape), random(3, 4, 4, seed=1)
    expected = (x.reshape(-1, 12) @ torch.block_diag(*r)).view(shape)
    torch.testing.assert_close(block_rotation(x, r), expected)


def test_rows_at_any_distance_and_columns_too() -> None:
    wide, r = random(7, 30), random(3, 4, 4, seed=1)
    for x in (wide[:, 1:13], wide[:, :24:2], random(12, 7).T, wide[:1, :12].expand(7, 12)):
        torch.testing.assert_close(block_rotation(x, r), x @ torch.block_diag(*r))


def test_16_bit_is_summed_in_float32_and_rounded_once() -> None:
    # 257 + 1 - 256: bfloat16 would drop the 1 at every step; R is rounded to bfloat16 before: 1 + 2^-9 is 1
    x = torch.tensor([[256.0, 1.0, 1.0, -256.0]]).bfloat16()
    r = torch.zeros(1, 4, 4)
    r[0, :, 0] = 1.0 + 2.0**-9
    assert block_rotation(x, r).tolist() == [[2.0, 0.0, 0.0, 0.0]]
    assert block_rotation(x, r).dtype == torch.bfloat16


def test_the_gradient_of_the_rotation_is_float32_where_the_rotation_is() -> None:
    x, r = random(600, 8).bfloat16(), random(2, 4, 4, seed=1).float().requires_grad_()
    y = block_rotation(x, r)
    dy = random(600, 8, seed=2).bfloat16()
    y.backward(dy)
    exact = torch.einsum("trk,trc->rkc", x.double().view(600, 2, 4), dy.double().view(600, 2, 4))
    assert r.grad.dtype == torch.float32
    # 600 products of up to a few units: float32 sums are this close, bfloat16 ones are not
    torch.testing.assert_close(r.grad.double(), exact, rtol=0, atol=1e-3)


def test_no_tokens_give_no_gradient() -> None:
    r = random(2, 4, 4, grad=True)
    block_rotation(random(0, 8), r).sum().backward()
    assert torch.equal(r.grad, torch.zeros(2, 4, 4, dtype=torch.float64))


# --- as torch ops -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_derivatives(count: int, transposed: bool) -> None:
    x, r = random(5, 12, grad=True), random(count, 4, 4, seed=1, grad=True)

    def call(*inputs: Any) -> Any:
        return OPS.block_rotation(*inputs, transposed)

    assert torch.autograd.gradcheck(call, (x, r))
    assert torch.autograd.gradgradcheck(call, (x, r))
    for keep in (0, 1):
        inputs = [each.detach().requires_grad_(at == keep) for at, each in enumerate((x, r))]
        assert torch.autograd.gradcheck(call, inputs)


@pytest.mark.parametrize("count", [1, 3])
def test_the_ops_are_what_torch_expects_of_ops(count: int) -> None:
    x, dy, r = random(5, 12, grad=True), random(5, 12, seed=3, grad=True), random(count, 4, 4, seed=1, grad=True)
    calls = [
        (OPS.block_rotation, (x, r, False)),
        (OPS.block_rotation, (x, r, True)),
        (OPS.block_rotation_grads, (dy, x, r)),
        (OPS.block_rotation_grad_rotation, (dy, x, 4, count == 1)),
    ]
    for op, inputs in calls:
        assert set(torch.library.opcheck(op.default, inputs).values()) == {"SUCCESS"}


def test_the_traced_program_is_the_same() -> None:
    # whole graph, forward and backward; no code is generated, so this needs no compiler
    compiled = torch.compile(block_rotation, fullgraph=True, backend="aot_eager", dynamic=True)
    for tokens in (3, 5):
        x, r = random(tokens, 12, grad=True), random(3, 4, 4, seed=1, grad=True)
        plain = torch.autograd.grad(block_rotation(x, r).square().sum(), (x, r))
        traced = torch.autograd.grad(compiled(x, r).square().sum(), (x, r))
        assert all(torch.equal(a, b) for a, b in zip(plain, traced, strict=True))


@pytest.mark.parametrize(
    ("x", "r", "says"),
    [
        ((5, 12), (3, 4, 5), r"rotation: torch\.float64 \[3, 4, 5\] on cpu, expected \[blocks, size, size\]"),
        ((5, 12), (4, 4), r"expected \[blocks, size, size\]"),
        ((5, 12), (2, 4, 4), "does not divide 12 features into blocks"),
        ((5, 12), (2, 5, 5), "does not divide 12 features into blocks"),
    ],
)
def test_shapes_that_do_not_fit(x: tuple[int, ...], r: tuple[int, ...], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        block_rotation(random(*x), random(*r))


def test_types_that_do_not_fit() -> None:
    x, r = random(5, 12), random(3, 4, 4)
    with pytest.raises(ValueError, match=r"rotation: torch\.float16 .* expected torch\.float64 or torch\.float32"):
        block_rotation(x, r.half())
    with pytest.raises(ValueError, match=r"x: torch\.int64 .* expected floating point"):
        block_rotation(x.long(), r)
    with pytest.raises(ValueError, match=r"grad: torch\.float64 \[4, 12\] .* expected .* \[5, 12\] on cpu as x"):
        OPS.block_rotation_grads(x[:4], x, r)
    with pytest.raises(ValueError, match="in blocks of 5"):
        OPS.block_rotation_grad_rotation(x, x, 5, False)


# --- which program ----------------------------------------------------------------------------------------------------


def test_kernels_are_for_16_bit_blocks_up_to_128() -> None:
    def chosen(block: int, dtype: Any = torch.bfloat16, task: Any = "grads", **facts: Any) -> Program:
        return choose(task, block, dtype, **{"values": 1 << 26, "has_code": True, **facts})

    assert {block: chosen(block).name for block in (4, 8, 16, 32, 48, 64, 128, 256, 512, 1024)} == {
        4: "matmul", 8: "kernel", 16: "kernel", 32: "kernel", 48: "matmul", 64: "kernel", 128: "kernel",
        256: "matmul", 512: "matmul", 1024: "matmul",
    }  # fmt: skip
    assert chosen(64, torch.float16).name == "kernel"
    assert chosen(64, torch.float32) is chosen(64, has_code=False) is MATMUL
    # the gradient of R alone: torch is faster from 64 on
    assert [chosen(block, task="grad_rotation").name for block in (16, 32, 64)] == ["kernel", "kernel", "matmul"]


def test_little_work_is_not_worth_a_kernel() -> None:
    # 1024 tokens of 4096 features
    assert choose("rotate", 16, torch.bfloat16, values=1 << 22, has_code=True).name == "kernel"
    assert choose("rotate", 128, torch.bfloat16, values=1 << 22, has_code=True) is MATMUL
    sizes = {task: list(fewest) for task, fewest in rotation.FEWEST_VALUES.items()}
    assert all((task, rotation.size_class(block)) in rotation.KERNELS for task in sizes for block in sizes[task])


@pytest.mark.parametrize("program", rotation.KERNELS.items())
def test_shared_memory_is_enough(program: Any) -> None:
    (task, size), chosen = program
    # KiB: barriers, rotations, results of dx, and the tiles; a multiprocessor has 228, a block of threads costs 1 more
    fixed = 1 + (0 if task == "grad_rotation" else size // 4) + (16 if task == "grads" else 0)
    tile = 16 if task == "rotate" else 32
    assert (fixed + chosen.stages * tile + 1) * chosen.resident <= 228
    assert fixed + chosen.stages * tile <= 227
    assert task != "rotate" or (chosen.stages >= 4 and chosen.stages % 2 == 0)


def test_shares_fill_the_device_once() -> None:
    resident = tuple(264 // shares for shares in range(1, 265))
    # 32 groups: 8 shares are 256 blocks of threads of 264 at once, 9 would not be; one tile cannot be shared
    assert best_shares(32, 128, resident) == 8
    assert best_shares(32, 1, resident) == 1
    for groups, tiles in itertools.product((1, 3, 32, 86, 300), (1, 2, 8, 128)):
        shares = best_shares(groups, tiles, resident)
        assert 1 <= shares <= tiles
    assert best_shares(32, 128, (132, 66, 42, 0, 0, 0, 0, 0)) == 3


# --- rotations from parameters ----------------------------------------------------------------------------------------


def test_zeros_are_the_identity() -> None:
    r = cayley_neumann(torch.zeros(3, 6), 4)
    assert torch.equal(r, torch.eye(4).expand(3, 4, 4))
    x = random(5, 12, dtype=torch.float32).bfloat16()
    assert torch.equal(block_rotation(x, r), x)


def test_two_by_two_by_hand() -> None:
    # Q = [[0, q], [-q, 0]], Q^2 = -q^2 I: R = (1 - 2 q^2 + q^4) I + (2 - 2 q^2) Q
    q = 0.25
    r = cayley_neumann(torch.tensor([[q]], dtype=torch.float64), 2)[0]
    same, other = 1 - 2 * q**2 + q**4, (2 - 2 * q**2) * q
    torch.testing.assert_close(r, torch.tensor([[same, other], [-other, same]], dtype=torch.float64))


def test_values_are_the_upper_triangle_row_by_row() -> None:
    small = 1e-6 * torch.arange(1, 7, dtype=torch.float64)
    r = cayley_neumann(small[None], 4)[0]
    expected = torch.zeros(4, 4, dtype=torch.float64)
    expected[0, 1], expected[0, 2], expected[0, 3], expected[1, 2], expected[1, 3], expected[2, 3] = small
    # R = I + 2 Q + O(Q^2)
    torch.testing.assert_close(r, torch.eye(4, dtype=torch.float64) + 2 * (expected - expected.T), rtol=0, atol=1e-9)


def test_it_is_the_series_term_by_term() -> None:
    values = 0.1 * random(2, 15)
    r = cayley_neumann(values, 6)
    rows, columns = torch.triu_indices(6, 6, 1)
    for index in range(2):
        q = torch.zeros(6, 6, dtype=torch.float64)
        q[rows, columns] = values[index]
        q = q - q.T
        powers = [torch.linalg.matrix_power(q, n) for n in range(5)]
        series = powers[0] + 2 * (powers[1] + powers[2] + powers[3]) + powers[4]
        torch.testing.assert_close(r[index], series)


def test_how_far_from_orthogonal() -> None:
    # R = (I + Q)^2 (I + Q^2), so R R^T = (I - Q^4)^2
    r, identity = cayley_neumann(0.2 * random(2, 15), 6), torch.eye(6, dtype=torch.float64)
    q = torch.zeros(2, 6, 6, dtype=torch.float64)
    rows, columns = torch.triu_indices(6, 6, 1)
    q[:, rows, columns] = 0.2 * random(2, 15)
    q = q - q.mT
    off = identity - torch.linalg.matrix_power(q, 4)
    torch.testing.assert_close(r @ r.mT, off @ off)


def test_orthogonality_shrinks_with_the_fourth_power() -> None:
    values = random(1, 28)
    values /= values.norm()

    def error(scale: float) -> float:
        r = cayley_neumann(scale * values, 8)[0]
        return float((r @ r.T - torch.eye(8, dtype=torch.float64)).abs().max())

    errors = [error(2.0**-n) for n in range(2, 7)]
    assert all(later < earlier for earlier, later in itertools.pairwise(errors))
    assert math.log2(errors[-2] / errors[-1]) == pytest.approx(4, abs=0.1)


def test_parameters_have_derivatives() -> None:
    values = (0.2 * random(2, 6)).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: cayley_neumann(v, 4), (values,))
    x = random(3, 8)
    assert torch.autograd.gradcheck(lambda v: block_rotation(x, cayley_neumann(v, 4)), (values,))


def test_a_rotation_can_be_baked_into_the_weight() -> None:
    # W (R^T x) for each token is x R W^T: the weight of a model without rotations is W blockdiag(R^T)
    x, weight = random(7, 12), random(10, 12, seed=1)
    r = cayley_neumann(0.3 * random(3, 6, seed=2), 4)
    baked = weight @ torch.block_diag(*r.mT)
    torch.testing.assert_close(block_rotation(x, r) @ weight.T, x @ baked.T)
    torch.testing.assert_close(baked, OPS.block_rotation(weight, r, True))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_parameters_become_float32_rotations(dtype: str) -> None:
    assert cayley_neumann(torch.zeros(3, 6, dtype=getattr(torch, dtype)), 4).dtype == torch.float32


@pytest.mark.parametrize(
    ("values", "size", "says"),
    [
        ((3, 5), 4, r"oft_r: torch\.float64 \[3, 5\], expected floating point \[n, 6\] for block_size 4"),
        ((6,), 4, r"floating point \[n, 6\]"),
        ((3, 0), 0, r"for block_size 0"),
    ],
)
def test_parameters_that_do_not_fit(values: tuple[int, ...], size: int, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        cayley_neumann(random(*values), size)


def test_a_block_of_one_is_one() -> None:
    assert torch.equal(cayley_neumann(torch.zeros(3, 0), 1), torch.ones(3, 1, 1))
    with pytest.raises(ValueError, match="expected floating point"):
        cayley_neumann(torch.zeros(3, 6, dtype=torch.int64), 4)
