"""orbit.kernels.shim.arguments: whatever a build script asks for, the configured architectures are what nvcc gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.kernels.shim import arguments as shim

PAIRS = [("compute_90a", "sm_90a"), ("compute_100a", "sm_100a")]
OURS = ["-gencode=arch=compute_90a,code=sm_90a", "-gencode=arch=compute_100a,code=sm_100a", "--threads=1"]

ASKED = {
    "-gencode arch=compute_80,code=sm_80": ("compute_80:sm_80",),
    "-gencode=arch=compute_80,code=sm_80": ("compute_80:sm_80",),
    "--generate-code arch=compute_80,code=[sm_80,compute_80]": ("compute_80:sm_80", "compute_80:compute_80"),
    "--generate-code=arch=compute_90,code=sm_90": ("compute_90:sm_90",),
    "-arch sm_90": ("compute_90:sm_90", "compute_90:compute_90"),
    "-arch=sm_90": ("compute_90:sm_90", "compute_90:compute_90"),
    "--gpu-architecture=compute_90": ("compute_90:compute_90",),
    "--gpu-architecture compute_90 --gpu-code sm_90,sm_90a": ("compute_90:sm_90", "compute_90:sm_90a"),
    "-arch=native": ("native:native",),
    "-arch=all-major": ("all-major:all-major",),
    "-code=sm_90 -arch=compute_90": ("compute_90:sm_90",),
}


@pytest.mark.parametrize("flags", sorted(ASKED))
def test_every_spelling_is_seen_and_replaced(flags: str) -> None:
    call = shim.parse(["-O3", *flags.split(), "-c", "a.cu", "-o", "a.o"])
    assert call.requested == ASKED[flags]
    assert shim.enforce(call, PAIRS, 1) == [*OURS, "-O3", "-c", "a.cu", "-o", "a.o"]


def test_the_nine_architectures_of_a_real_build_script() -> None:
    numbers = (75, 80, 87, 90, 100, 120, 103, 110, 121)
    asked = [word for n in numbers for word in ("-gencode", f"arch=compute_{n},code=sm_{n}")]
    call = shim.parse([*asked, "--threads", "4", "-c", "x.cu", "-o", "x.o"])
    assert len(call.requested) == 9
    assert shim.enforce(call, PAIRS, 1) == [*OURS, "-c", "x.cu", "-o", "x.o"]


def test_option_files_are_read(tmp_path: Path) -> None:
    file = tmp_path / "flags.rsp"
    file.write_text("-I/some/include -gencode arch=compute_75,code=sm_75 '-DNAME=\"a b\"'")
    for spelling in (["--options-file", str(file)], [f"-optf={file}"]):
        call = shim.parse([*spelling, "-c", "a.cu"])
        assert call.requested == ("compute_75:sm_75",)
        assert call.arguments == ("-I/some/include", '-DNAME="a b"', "-c", "a.cu")
    with pytest.raises(shim.ShimError, match="option file"):
        shim.parse(["--options-file", str(tmp_path / "absent")])


def test_queries_pass_unchanged() -> None:
    for query in (["--version"], ["-V"], ["--help"], ["--list-gpu-arch"], ["-v", "--dryrun"]):
        call = shim.parse(query)
        assert not call.compiles
        assert shim.enforce(call, PAIRS, 1) == query


def test_device_links_are_enforced() -> None:
    for link in (["-dlink", "a.o", "b.o", "-o", "d.o"], ["-shared", "a.o", "libx.so.1", "-o", "x.so"]):
        call = shim.parse(["-arch=sm_80", *link])
        assert call.compiles
        assert not call.sources
        assert shim.enforce(call, PAIRS, 1) == [*OURS, *link]


def test_values_of_flags_are_not_sources() -> None:
    call = shim.parse(
        ["-include", "common.cu", "-isystem", "inc.cpp", "-o", "out.o", "-c", "real.cu", "-Xcompiler", "-O2"]
    )
    assert call.sources == ("real.cu",)
    assert call.output == "out.o"
    assert shim.parse(["-x", "cu", "-c", "kernel.inc"]).sources == ("kernel.inc",)


def test_one_architecture_results_are_refused_or_narrowed() -> None:
    for flag in ("-ptx", "--cubin"):
        with pytest.raises(shim.ShimError, match="holds one architecture"):
            shim.enforce(shim.parse([flag, "a.cu"]), PAIRS, 1)
        assert shim.enforce(shim.parse([flag, "a.cu"]), PAIRS[:1], 1) == [OURS[0], OURS[2], flag, "a.cu"]
    for flag in ("-E", "-M"):
        assert shim.enforce(shim.parse([flag, "a.cu"]), PAIRS, 1) == [OURS[0], OURS[2], flag, "a.cu"]


def test_pairs_that_lose_the_feature_set_are_refused() -> None:
    for wrong in ([("compute_90", "sm_90a")], [("compute_100", "sm_100f")], [("compute_100a", "sm_100f")], []):
        with pytest.raises(shim.ShimError):
            shim.check_pairs(wrong)
    shim.check_pairs([("compute_90", "sm_90"), ("compute_90a", "compute_90a"), *PAIRS])


def test_paths_below_the_root_become_relative() -> None:
    arguments = ["-I/b/env/include", "-c", "/b/src/x.cu", "-o", "/b/src/build/x.o", "--keep-dir=/b/src", "/usr/x.cu"]
    assert shim.relocate(arguments, "/b", "/b/src/build") == [
        "-I../../env/include",
        "-c",
        "../x.cu",
        "-o",
        "x.o",
        "--keep-dir=..",
        "/usr/x.cu",
    ]
    assert shim.relocate(['-DDIR="/b/x"', "/bb/x", "-Wl,-rpath,/b/lib"], "/b", "/b") == [
        '-DDIR="/b/x"',
        "/bb/x",
        "-Wl,-rpath,/b/lib",
    ]


WORDS = st.sampled_from(
    [
        "-c",
        "a.cu",
        "b.o",
        "-O3",
        "-o",
        "out.o",
        "-DX",
        "-arch=sm_80",
        "-arch",
        "-gencode",
        "sm_90",
        "-x",
        "cu",
        "-t",
        "8",
    ]
)


@given(st.lists(WORDS, max_size=12))
def test_no_other_architecture_ever_gets_through(words: list[str]) -> None:
    try:
        command = shim.enforce(shim.parse(words), PAIRS, 1)
    except shim.ShimError:
        return
    forced = (*shim.GENCODE, *shim.ARCH, *shim.CODE, *shim.THREADS)
    # a value of another flag may look like one: "-o -arch" names an output
    seen = [
        word
        for before, word in zip(["", *command], command, strict=False)
        if word.partition("=")[0] in forced and before not in shim.TAKES_VALUE
    ]
    assert seen in ([], OURS)
    assert command[: len(seen)] == seen, "a flag that waits for a value must not swallow ours"


def test_link_time_optimisation_of_device_code_is_refused() -> None:
    for flag in ("-dlto", "--lto", "--dlink-time-opt", "-gen-opt-lto"):
        with pytest.raises(shim.ShimError, match=f"a.cu: asks for link-time optimisation .{flag}.*machine code"):
            shim.enforce(shim.parse([flag, "-dc", "a.cu"]), PAIRS, 1)


def test_the_number_of_cores_decides_nothing() -> None:
    for flags in (["--split-compile=0"], ["-split-compile", "8"]):
        assert shim.parse([*flags, "-c", "a.cu"]).arguments == ("-c", "a.cu")


def test_which_calls_make_one_object() -> None:
    def one(*words: str) -> bool:
        return shim.parse(words).makes_one_object

    assert one("-c", "a.cu", "-o", "a.o")
    assert one("-dc", "-x", "cu", "a.cpp", "-o", "a.o", "-MD", "-MF", "a.d")
    assert not one("-c", "a.cu", "b.cu", "-o", "a.o")
    assert not one("-c", "a.cu")
    assert not one("a.cu", "-o", "a.out")
    assert not one("-c", "a.cu", "-o", "a.o", "-MD"), "nvcc chooses the name of the dependency file"
    assert not one("-cubin", "a.cu", "-o", "a.cubin")


def test_what_only_reads_is_known() -> None:
    assert shim.parse(["--dryrun", "-c", "a.cu"]).is_dry
    assert shim.parse(["-M", "a.cu"]).is_text
    assert not shim.parse(["-c", "a.cu", "-MD", "-MF", "a.d"]).is_text
    assert shim.parse(["-c", "a.cu", "-MD", "-MF", "a.d"]).depfile == "a.d"
