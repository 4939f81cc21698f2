"""orbit.profile.diff.compare, consequences and view: every kind of change, and each computed consequence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orbit.profile.diff.consequences import COMPUTED
from orbit.profile.diff.view import GapFact, RecipeFact, View
from tests.profile.diff.sides import TARGET, binary, change, diff, follows, kinds, pure, view
from tests.profile.locks import package

B200 = {"name": "b200", "devices": [], "capability": "10.0", "sass": "sm_100", "feature": "sm_100a"}
KERNEL = RecipeFact("kernel", "kernel", "source", "cuda")
SDIST = '{{ url = "https://files.test/kernel-1.0.tar.gz", hash = "sha256:{0}", size = 5 }}'


def test_equal_locks_are_equal() -> None:
    a = view(pure("one"), binary("two"))
    found = diff(a, view(pure("one"), binary("two")))
    assert found.equal
    assert (found.changes, found.consequences, found.unchanged, found.fetch_bytes) == ((), (), 2, 0)


def test_every_kind_of_change() -> None:
    a = view(pure("gone"), pure("moves"), binary("nvidia-cublas-cu12", "12.8"), binary("bytes"), pure("stays"))
    b = view(pure("moves", "2.0"), binary("nvidia-cublas", "13.0"), binary("bytes", digest="cd" * 32), pure("new"),
             pure("stays"))  # fmt: skip
    found = diff(a, b)
    assert kinds(found) == {
        "gone": "removed", "moves": "moved", "nvidia-cublas": "renamed", "bytes": "replaced", "new": "added",
    }  # fmt: skip
    assert (found.equal, found.unchanged) == (False, 1)
    assert change(found, "nvidia-cublas").was == "nvidia-cublas-cu12"
    assert {each.sentence for each in found.changes} == {
        "gone 1.0 (gone)", "moves 1.0 -> 2.0", "nvidia-cublas-cu12 12.8 -> nvidia-cublas 13.0",
        "bytes 1.0 (other bytes)", "new 1.0 (new)",
    }  # fmt: skip
    back = diff(b, a)
    assert change(back, "nvidia-cublas-cu12").was == "nvidia-cublas"


def test_a_name_is_used_once() -> None:
    a = view(binary("nvidia-x-cu12"), binary("nvidia-x-cu13"))
    found = diff(a, view(binary("nvidia-x")))
    assert sorted(kinds(found).values()) == ["removed", "renamed"]


def test_every_change_has_a_consequence() -> None:
    found = diff(view(pure("a"), binary("b")), view(pure("a", "2"), binary("b", "2"), binary("torch")))
    assert all(each.consequences for each in found.changes)
    assert change(found, "a").consequences == ("python-only",)
    assert change(found, "b").consequences == ("binaries",)
    assert "torch-abi" in change(found, "torch").consequences


def test_what_is_only_compiled_with_is_marked() -> None:
    a, b = (view(binary("ninja", v), recipes=(KERNEL,), cuda=("ninja",)) for v in ("1", "2"))
    assert not change(diff(a, b), "ninja").installed
    assert kinds(diff(view(cuda=()), view(binary("ninja"), cuda=("ninja",)))) == {}  # no recipe is compiled with it


# --- each computed consequence: what brings it about, and what does not -----------------------------------------------


def runtime(version: str, name: str = "nvidia-cuda-runtime") -> str:
    return binary(name, version)


def test_driver() -> None:
    a, b = view(runtime("13.0.96")), view(runtime("12.8.90", "nvidia-cuda-runtime-cu12"))
    found = follows(diff(a, b), "driver")
    assert found is not None
    assert found.lines[0] == "CUDA 13.0 -> 12.8"
    assert "580.65.06 -> 525.60.13" in found.lines[1]
    assert found.packages == ("nvidia-cuda-runtime-cu12",)
    patch = follows(diff(a, view(runtime("13.0.99"))), "driver")
    assert patch is not None
    assert patch.lines == ("another patch release of CUDA 13.0",)
    strange = follows(diff(a, view(runtime("19.1.0"))), "driver")
    assert strange is not None
    assert "[[drivers]]" in strange.lines[1]
    assert follows(diff(a, view(runtime("13.0.96"), pure("x"))), "driver") is None


def test_targets() -> None:
    both, one = view(targets=(TARGET, B200)), view()
    gone, new = follows(diff(both, one), "targets"), follows(diff(one, both), "targets")
    assert gone is not None
    assert gone.lines == ("b200 (10.0) is no target any more",)
    assert new is not None
    assert new.lines == ("b200 (10.0) is a target now",)
    plain = follows(diff(one, view(targets=({**TARGET, "feature": "sm_90"},))), "targets")
    assert plain is not None
    assert plain.lines == ("h100: compiled for sm_90a -> sm_90",)
    assert not diff(both, one).equal


def test_coverage_lost_and_gained() -> None:
    gap = GapFact("lib/ops.so", "h100", "none", "written for another device")
    bare, with_gap = view(), view(gaps=(gap,))
    lost = follows(diff(bare, with_gap), "coverage")
    assert lost is not None
    assert lost.lines == ("h100: lib/ops.so: none (written for another device)",)
    assert follows(diff(with_gap, bare), "coverage") is None
    gained = follows(diff(with_gap, bare), "coverage-gained")
    assert gained is not None
    assert gained.lines == ("h100: lib/ops.so",)
    assert diff(with_gap, view(gaps=(gap,))).equal


def test_compiler() -> None:
    a = view(binary("nvidia-cuda-nvcc", "13.0.88"))
    found = follows(diff(a, view(binary("nvidia-cuda-nvcc", "13.0.88"), toolkit="host")), "compiler")
    assert found is not None
    assert "ORBIT_CUDA_TOOLKIT" in found.lines[0]
    assert follows(diff(a, view(binary("nvidia-cuda-nvcc", "13.1.1"))), "compiler") is None


def test_namespaces() -> None:
    found = follows(diff(view(binary("nvidia-nccl-cu13")), view(binary("nvidia-nccl-cu12"))), "namespaces")
    assert found is not None
    assert found.packages == ("nvidia-nccl-cu12",)
    assert follows(diff(view(pure("sgl-kernel")), view(pure("sglang-kernel"))), "namespaces") is None


def test_torch_abi_names_what_is_bound_to_it_and_did_not_move() -> None:
    def side(torch: str, vision: str) -> list[str]:
        return [
            binary("torch", torch),
            binary("vision", vision, needs=["torch"]),
            binary("ext", needs=["torch"]),
            pure("wrapper", needs=["torch"]),
            binary("alone"),
        ]

    found = follows(diff(view(*side("2.9.1", "0.24")), view(*side("2.11.0", "0.26"))), "torch-abi")
    assert found is not None
    assert found.lines[0] == "torch 2.9.1 -> 2.11.0"
    assert found.lines[1].endswith("need for torch: ext")
    assert found.packages == ("torch", "vision")
    assert follows(diff(view(*side("2.9.1", "0.24")), view(*side("2.9.1", "0.26"))), "torch-abi") is None


def kernel(digest: str = "ab") -> str:
    return package("kernel", wheels=[], sdist=SDIST.format(digest * 32))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"packages": (kernel("cd"), binary("ninja"))}, "another source"),
        ({"packages": (kernel(), binary("ninja", "2"))}, "another build environment (cuda)"),
        ({"targets": (TARGET, B200)}, "other architectures"),
        ({"toolkit": "host"}, "another nvcc"),
    ],
)
def test_recompile(changed: dict[str, Any], why: str) -> None:
    options: dict[str, Any] = {"packages": (kernel(), binary("ninja")), "recipes": (KERNEL,), "cuda": ("ninja",)}

    def side(**fields: Any) -> View:
        given = options | fields
        return view(*given.pop("packages"), **given)

    assert follows(diff(side(), side()), "recompile") is None
    found = follows(diff(side(), side(**changed)), "recompile")
    assert found is not None
    assert found.lines == (f"kernel 1.0: {why}",)


def test_a_kernel_of_one_side_only() -> None:
    found = follows(diff(view(), view(kernel(), recipes=(KERNEL,))), "recompile")
    assert found is not None
    assert found.lines == ("kernel 1.0: not a kernel of the first profile",)


def test_verify() -> None:
    published = RecipeFact("k", "k", "prebuilt", "cuda")
    a, b = (view(binary("k", v), recipes=(published,)) for v in ("1", "2"))
    found = follows(diff(a, b), "verify")
    assert found is not None
    assert found.packages == ("k",)
    assert follows(diff(a, a), "verify") is None


def test_sources() -> None:
    git = 'git = "https://git.test/x?rev=1#0123456789012345678901234567890123456789"'
    a = view(binary("x"), binary("y"))
    b = view(package("x", "2.0", source=git), binary("y", digest="cd" * 32))
    found = follows(diff(a, b), "sources")
    assert found is not None
    assert found.packages == ("x", "y")
    assert follows(diff(a, view(binary("x", "2"), binary("y"))), "sources") is None


def test_python_and_glibc() -> None:
    a = view(binary("x"))
    python = follows(diff(a, view(binary("x"), python="==3.13.*")), "python")
    assert python is not None
    assert python.lines == ("==3.12.* -> ==3.13.*",)
    newer = view(binary("x", tag="cp312-cp312-manylinux_2_34_x86_64"))
    glibc = follows(diff(a, newer), "glibc")
    assert glibc is not None
    assert glibc.lines == ("2.28 (x) -> 2.34 (x)",)
    both = view(binary("x", tag="cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64"))
    assert both.side().glibc == "2.17"


def test_download() -> None:
    a = view(binary("x", size=1_000_000_000), binary("y", size=500_000_000))
    found = diff(a, view(binary("x", size=1_000_000_000), binary("y", "2", size=1_500_000_000)))
    size = follows(found, "download")
    assert size is not None
    assert size.lines == ("1.50 GB -> 2.50 GB; 1.50 GB of it is not in the first",)
    assert found.fetch_bytes == 1_500_000_000


def test_every_computed_consequence_has_its_test() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in COMPUTED if f'"{name}"' not in text] == []
