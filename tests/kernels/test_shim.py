"""orbit.kernels.shim: whatever a build script asks for, the configured architectures are what nvcc gets."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.kernels import shim

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


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    """A build root with fake compilers that write down how they were called."""
    folder = tmp_path / "build" / "cuda" / "bin"
    folder.mkdir(parents=True)
    for tool in shim.TOOLS:
        fake = folder / f"{tool}-real"
        fake.write_text(
            f"#!{sys.executable} -IS\nimport sys, os\n"
            "call = ' '.join([os.path.basename(sys.argv[0]), *sys.argv[1:]])\n"
            f"open({str(tmp_path / 'calls')!r}, 'a').write(call + '\\n')\n"
            "sys.exit(7 if 'broken.cu' in ' '.join(sys.argv) else 0)\n"
        )
        fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    (folder / "shim.py").write_text(Path(shim.__file__).read_text())
    root = tmp_path / "build"
    config = {
        "bin": str(folder),
        "root": str(root),
        "pairs": PAIRS,
        "threads": 1,
        "flags": [],
        "log": str(root / "log"),
    }
    (folder / shim.CONFIG_NAME).write_text(json.dumps(config))
    return root


def call(root: Path, tool: str, *arguments: str, **env: str) -> int:
    command = [sys.executable, "-I", "-S", str(root / "cuda" / "bin" / "shim.py"), tool, *arguments]
    return subprocess.run(command, cwd=root, env={**os.environ, **env}, stderr=subprocess.PIPE, check=False).returncode


def test_a_compile_is_enforced_logged_and_leaves_no_temporary_folder(farm: Path, tmp_path: Path) -> None:
    status = call(farm, "nvcc", "-arch=sm_80", "-c", f"{farm}/a.cu", "-o", "a.o", NVCC_APPEND_FLAGS="-arch=sm_70")
    assert status == 0
    ran = (tmp_path / "calls").read_text().split()
    assert ran[:8] == ["nvcc-real", *OURS, "-c", "a.cu", "-o", "a.o"][:8]
    assert ran[8] == "--keep"
    line = json.loads((farm / "log").read_text())
    assert line["requested"] == [
        "compute_80:sm_80",
        "compute_80:compute_80",
        "compute_70:sm_70",
        "compute_70:compute_70",
    ]
    assert line["effective"] == ["arch=compute_90a,code=sm_90a", "arch=compute_100a,code=sm_100a"]
    assert (line["sources"], line["kind"], line["status"]) == (["a.cu"], "compile", 0)
    assert not list(farm.glob("nvcc-*"))


def test_the_status_of_the_compiler_is_ours(farm: Path) -> None:
    assert call(farm, "nvcc", "-c", "broken.cu") == 7
    assert json.loads((farm / "log").read_text())["status"] == 7


def test_a_refusal_is_logged(farm: Path) -> None:
    assert call(farm, "nvcc", "-ptx", "a.cu") == 2
    assert "holds one architecture" in json.loads((farm / "log").read_text())["error"]
    assert not (farm.parent / "calls").exists()


def test_host_paths_are_taken_from_cudafe_and_ptxas(farm: Path, tmp_path: Path) -> None:
    assert call(farm, "cudafe++", "--orig_src_path_name", f"{farm}/src/a.cu", "x.ii") == 0
    ptx = farm / "a.ptx"
    ptx.write_text(f'.file 1 "{farm}/src/a.cu"\n.file 2 "/usr/include/x.h"\n')
    assert call(farm, "ptxas", "-arch=sm_90a", "a.ptx", "-o", "a.cubin") == 0
    assert ptx.read_text() == '.file 1 "src/a.cu"\n.file 2 "/usr/include/x.h"\n'
    assert (tmp_path / "calls").read_text().splitlines() == [
        "cudafe++-real --orig_src_path_name /src/a.cu x.ii",
        "ptxas-real -arch=sm_90a a.ptx -o a.cubin",
    ]


def test_internal_names_depend_on_source_and_object_alone(farm: Path, tmp_path: Path) -> None:
    for folder in ("nvcc-one", "nvcc-two"):
        (farm / folder).mkdir()
        id_file = f"{folder}/a.module_id"
        source = ("--orig_src_path_name", f"{farm}/src/a.cu")
        assert call(farm, "cudafe++", *source, "--gen_module_id_file", "--module_id_file_name", id_file, "x.ii") == 0
    one, two = ((farm / folder / "a.module_id").read_text() for folder in ("nvcc-one", "nvcc-two"))
    assert one == shim.module_id("src/a.cu", "/elsewhere/nvcc-one/a.module_id")
    assert re.fullmatch(r"_[0-9a-f]{8}_4_a_cu_[0-9a-f]{8}", one)
    assert one.split("_")[1] == two.split("_")[1]
    assert one != two
    ran = (tmp_path / "calls").read_text()
    assert "--gen_module_id_file" not in ran, "cudafe++ would write its own over it"
    assert ran.count("--module_id_file_name") == 2
