"""A build's kernels written down, read back and compared with another build's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from orbit.audit.binary.cubin import Kernel
from orbit.audit.deep.baseline import (
    Baseline,
    DepthDiff,
    diff_baselines,
    make_baseline,
    read_baseline,
    render_depth_diff,
    write_baseline,
)
from orbit.errors import InputError
from tests.audit.depths import FILE, both, library, make_depth, read
from tests.writers.cubin import EMPTY, works


def build(hopper: dict[str, tuple[int, str]], blackwell: dict[str, tuple[int, str]], *, path: str = FILE) -> Baseline:
    """The baseline of one container: (bytes of code, stub) by kernel for each target."""

    def kernels(rows: dict[str, tuple[int, str]]) -> dict[str, Kernel]:
        return {name: Kernel(name, size, stub, "") for name, (size, stub) in rows.items()}  # type: ignore[arg-type]

    return make_baseline(make_depth({"h100": kernels(hopper), "b200": kernels(blackwell)}, path=path))


BEFORE = build({"_Z1av": (2048, ""), "_Z1bv": (512, "")}, {"_Z1av": (3072, ""), "_Z1bv": (640, "")})


def test_of_a_file(tmp_path: Path) -> None:
    prefix = library(tmp_path, both({"k": works(2048)}, {"k": EMPTY}), both({"k": works(512)}, {"k": EMPTY}))
    env, depth = read(prefix)
    found = make_baseline(depth, env.in_site)
    assert found.files == {"ext/_c.so": {"k": {"sm_90a": 2560, "sm_100a": 512}}}
    assert found.stubs == {"ext/_c.so": {"k": {"sm_100a": "empty"}}}


def test_equal_builds_give_equal_files(tmp_path: Path) -> None:
    other = build({"_Z1bv": (512, ""), "_Z1av": (2048, "")}, {"_Z1bv": (640, ""), "_Z1av": (3072, "")})
    for name, baseline in (("one", BEFORE), ("two", other)):
        write_baseline(tmp_path / name, baseline)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert read_baseline(tmp_path / "one") == BEFORE
    assert diff_baselines(BEFORE, read_baseline(tmp_path / "two")).equal


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"junk",
        b'{"schema": "orbit.depth/1", "files": {}}',
        zstandard.compress(b"junk"),
        zstandard.compress(b'{"schema": "orbit.depth/9", "files": {}}'),
        zstandard.compress(b'{"schema": "orbit.depth/1", "files": {"f": {"k": {"sm_90": "many"}}}}'),
        zstandard.compress(b'{"schema": "orbit.depth/1", "files": {}, "more": 1}'),
        zstandard.compress(json.dumps({"schema": "orbit.depth/1", "files": {}}).encode())[:-4],
    ],
)
def test_what_is_no_baseline_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "b").write_bytes(content)
    with pytest.raises(InputError, match="not a baseline"):
        read_baseline(tmp_path / "b")


def test_a_kernel_that_became_a_stub() -> None:
    after = build({"_Z1av": (2048, ""), "_Z1bv": (512, "")}, {"_Z1av": (256, "empty"), "_Z1bv": (640, "")})
    (item,) = diff_baselines(BEFORE, after).files
    assert [(c.kernel, c.arch, c.before, c.after) for c in item.stubbed] == [("_Z1av", "sm_100a", 3072, 256)]
    assert (item.resized, item.revived, item.code_bytes) == ((), (), {"sm_100a": (3712, 896)})
    (back,) = diff_baselines(after, BEFORE).files
    assert ([change.kernel for change in back.revived], back.stubbed) == (["_Z1av"], ())


def test_kernels_and_sizes() -> None:
    after = build({"_Z1av": (4096, ""), "_Z1cv": (256, "")}, {"_Z1av": (3072, ""), "_Z1cv": (256, "")})
    (item,) = diff_baselines(BEFORE, after).files
    assert (item.added, item.removed) == (("_Z1cv",), ("_Z1bv",))
    assert [(c.kernel, c.arch, c.before, c.after) for c in item.resized] == [("_Z1av", "sm_90a", 2048, 4096)]


def test_a_kernel_that_one_architecture_lost() -> None:
    after = build({"_Z1av": (2048, ""), "_Z1bv": (512, "")}, {"_Z1bv": (640, "")})
    (item,) = diff_baselines(BEFORE, after).files
    assert (item.archs_removed, item.removed, item.stubbed) == ({"sm_100a": ("_Z1av",)}, (), ())
    (back,) = diff_baselines(after, BEFORE).files
    assert back.archs_added == {"sm_100a": ("_Z1av",)}


def test_files() -> None:
    after = build({}, {}, path="other.so")
    diff = diff_baselines(BEFORE, after)
    assert (diff.files_added, diff.files_removed, diff.files) == (("other.so",), ("ext/_c.so",), ())


def test_text_names_what_breaks_first() -> None:
    after = build(
        {"_Z1av": (4096, ""), "_Z1bv": (512, "")}, {"_Z1av": (256, "empty"), "_Z1bv": (640, ""), "_Z1cv": (64, "")}
    )
    text = render_depth_diff(diff_baselines(BEFORE, after))
    assert "kernels that do nothing now: 1: a (sm_100a: 3072 -> 256 bytes)" in text
    assert "kernels added: 1: c" in text
    assert "code for sm_90a: 2560 -> 4608 bytes (+80.0%)" in text
    assert text.index("do nothing") < text.index("added") < text.index("another size")
    assert render_depth_diff(DepthDiff()) == "the kernels of both builds are the same\n"


SIZES = st.dictionaries(
    st.sampled_from("abc"), st.dictionaries(st.sampled_from(["sm_90a", "sm_100a"]), st.integers(0, 9), min_size=1)
)


@given(st.dictionaries(st.sampled_from("xy"), SIZES), st.dictionaries(st.sampled_from("xy"), SIZES))
def test_builds_are_equal_exactly_when_nothing_differs(
    one: dict[str, dict[str, dict[str, int]]], two: dict[str, dict[str, dict[str, int]]]
) -> None:
    diff = diff_baselines(Baseline(files=one), Baseline(files=two))
    assert diff.equal == (one == two)
    assert bool(render_depth_diff(diff))
