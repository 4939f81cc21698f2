"""orbit.kernels.shim.host and host_arguments, with the real g++: the same object and dependency file, hit or miss."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.kernels.shim.host_arguments import HostCall, expand
from orbit.kernels.shim.steps import STATE, UNIT
from tests.kernels.shim.farm import call, configure, lines, make_farm

GXX = shutil.which("g++")
needs_gxx = pytest.mark.skipif(GXX is None, reason="no g++ on this machine")
SOURCE = """#include "a.h"
#include <cstddef>
namespace { int hidden() { return A; } }
int shown() { return hidden(); }
"""
OTHERS = ("-c a.cpp b.cpp", "-c -", "-E -c a.cpp", "-S a.cpp", "a.cpp -o a.out", "-c a.s", "-M -c a.cpp", "-c a.o")


def test_which_calls_compile_one_unit() -> None:
    def source(line: str) -> str:
        return HostCall(line.split()).source

    assert source("-O2 -c a.cpp -o a.o") == "a.cpp"
    assert source("-c -x c++ kd/a.inc -o a.o") == "kd/a.inc"
    assert source("-xc++ -c a") == "a"
    for other in OTHERS:
        assert source(other) == "", other


def test_links_and_questions_are_told_apart() -> None:
    assert HostCall(["-shared", "a.o", "-o", "a.so"]).links
    assert HostCall(["a.cpp", "-o", "a.out"]).links
    for line in ("--version", "-dumpversion", "-print-prog-name=as", "-v", "-E -x c++ /dev/null", "-c a.cpp"):
        assert not HostCall(line.split()).links


def test_dependency_files() -> None:
    assert HostCall(["-c", "a.cpp", "-o", "x/a.o", "-MMD"]).depfile == "x/a.d"
    assert HostCall(["-c", "a.cpp", "-MD"]).depfile == "a.d"
    assert HostCall(["-c", "a.cpp", "-o", "a.o", "-MD", "-MF", "deps"]).depfile == "deps"
    assert HostCall(["-c", "a.cpp", "-o", "a.o", "-MMD", "-MFdeps"]).depfile == "deps"
    assert HostCall(["-c", "a.cpp", "-o", "a.o"]).depfile == ""
    text = HostCall(["-c", "a.cpp", "-o", "a.o", "-MD"]).text_arguments()
    assert text == ["a.cpp", "-MD", "-E", "-MF", "a.d", "-MQ", "a.o"]


def test_what_a_text_does_not_show_is_not_cached() -> None:
    for flag in (
        "-march=native",
        "--coverage",
        "-fprofile-use=x",
        "-gsplit-dwarf",
        "-save-temps",
        "-Wa,-adhln=x",
        "-fmodules-ts",
        "-fauto-profile=x",
    ):
        assert not HostCall(["-c", "a.cpp", flag]).cacheable
    assert HostCall(["-c", "a.cpp", "-march=x86-64-v3"]).cacheable


FLAGS = st.lists(st.sampled_from(["-I/x", "-isystem /y", "-MD", "-MF d", "-MT t", "-o out.o", "-Iz"]), max_size=5)


@given(FLAGS)
def test_where_headers_and_results_are_is_no_part_of_a_key(flags: list[str]) -> None:
    words = [word for flag in flags for word in flag.split()]
    assert [word for word in HostCall([*words, "-O2", "-c", "a.cpp"]).key_arguments() if word != "-MD"] == [
        "-O2",
        "-c",
        "a.cpp",
    ]


def test_response_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "flags").write_text("-c 'a b.cpp' -o a.o")
    assert expand([f"@{tmp_path}/flags", "-O2", "@absent"]) == ["-c", "a b.cpp", "-o", "a.o", "-O2", "@absent"]
    assert HostCall([f"@{tmp_path}/flags"]).source == "a b.cpp"


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    assert GXX
    root = make_farm(tmp_path / "build")
    configure(root, programs={"g++": GXX, "gcc": GXX}, units=str(tmp_path / "units"))
    write(root)
    return root


def write(root: Path, text: str = SOURCE, header: str = "#define A 1\n") -> None:
    (root / "src" / "a.cpp").write_text(text)
    (root / "src" / "a.h").write_text(header)


def gxx(root: Path, *more: str, cwd: str = "src", **env: str) -> bytes:
    flags = ("-g0", "-O2", f"-ffile-prefix-map={root}=.", "-MMD", "-c", f"{root}/src/a.cpp", "-o", f"{root}/src/a.o")
    done = call(root, "g++", *flags, *more, cwd=root / cwd, **env)
    assert done.returncode == 0, done.stderr
    made = (root / "src" / "a.o").read_bytes()
    (root / "src" / "a.o").unlink()
    return made


def became(root: Path) -> list[str]:
    return [line["cache"] for line in lines(root, "host")]


@needs_gxx
def test_hit_and_miss_are_equal_to_the_compiler_alone(farm: Path, tmp_path: Path) -> None:
    alone = [GXX, "-g0", "-O2", "-MMD", "-c", f"{farm}/src/a.cpp", "-o", f"{farm}/src/a.o"]
    subprocess.run([*alone, f"-ffile-prefix-map={farm}=."], check=True)
    expected = (farm / "src" / "a.o").read_bytes(), (farm / "src" / "a.d").read_bytes()
    for _ in range(2):
        (farm / "src" / "a.d").unlink()
        assert (gxx(farm), (farm / "src" / "a.d").read_bytes()) == expected
    assert became(farm) == ["miss", "step"]
    assert [line["source"] for line in lines(farm, "step")] == ["a.cpp", "a.cpp"]
    assert lines(farm, "host")[0]["sources"] == ["src/a.cpp"]
    assert lines(farm, "host")[0]["peak_bytes"] > 1 << 20


@needs_gxx
def test_text_and_flags_decide_and_comments_do_not_change_the_folder(farm: Path, tmp_path: Path) -> None:
    gxx(farm)
    write(farm, header="#define A 2\n")
    gxx(farm)
    gxx(farm, "-O1")
    gxx(farm, "-DB")
    gxx(farm, "-I/nowhere")
    assert became(farm) == ["miss", "miss", "miss", "miss", "step"]


@needs_gxx
def test_two_folders_share_objects(farm: Path, tmp_path: Path) -> None:
    first = gxx(farm)
    assert GXX
    other = make_farm(tmp_path / "another" / "deeper" / "build")
    configure(other, programs={"g++": GXX}, units=str(tmp_path / "units"))
    write(other)
    assert gxx(other) == first
    assert became(other) == ["step"]
    assert str(other) in (other / "src" / "a.d").read_text()


@needs_gxx
def test_warnings_are_said_again_and_errors_are_not_kept(farm: Path) -> None:
    write(farm, text="#warning careful\nint unused_result(int a) { int b; return a; }\n")
    said = []
    for _ in range(2):
        done = call(farm, "g++", "-Wall", "-c", "a.cpp", "-o", "a.o", cwd=farm / "src")
        said.append(done.stderr)
    assert said[0] == said[1]
    assert said[0].count(b"careful") == 2, "the text and the line of the source, once"
    write(farm, text="no code;\n")
    for _ in range(2):
        assert call(farm, "g++", "-c", "a.cpp", "-o", "a.o", cwd=farm / "src").returncode == 1
    assert became(farm) == ["miss", "step", "miss", "miss"]


@needs_gxx
@pytest.mark.parametrize("word", [".incbin", ".include"])
def test_a_file_that_only_the_assembler_reads_is_not_cached(farm: Path, word: str) -> None:
    (farm / "src" / "empty.s").write_text("")
    write(farm, text=f'asm("{word} \\"empty.s\\"");\n')
    gxx(farm)
    assert became(farm) == ["off"]


@needs_gxx
def test_questions_and_standard_input_pass(farm: Path) -> None:
    assert call(farm, "g++", "-dumpfullversion").stdout.strip().decode()[0].isdigit()
    done = call(farm, "gcc", "-E", "-x", "c++", "/dev/null")
    assert (done.returncode, lines(farm)) == (0, [])
    assert call(farm, "g++", "-c", "-x", "c++", "-", "-o", "x.o").returncode == 0
    assert lines(farm) == []


@needs_gxx
def test_links_are_measured_and_what_scripts_try_is_no_unit(farm: Path) -> None:
    (farm / "tmp" / "try.cpp").write_text("int main() { return 0; }\n")
    assert call(farm, "g++", "-c", f"{farm}/tmp/try.cpp", "-o", f"{farm}/tmp/try.o").returncode == 0
    assert call(farm, "g++", f"{farm}/tmp/try.o", "-o", f"{farm}/tmp/try").returncode == 0
    assert [(line["kind"], line.get("step")) for line in lines(farm)] == [
        ("step", "host"),
        ("probe", None),
        ("step", "link"),
    ]
    assert {line["cache"] for line in lines(farm)} == {"off"}


@needs_gxx
def test_a_whole_object_comes_back_without_the_preprocessor(farm: Path, tmp_path: Path) -> None:
    assert GXX
    configure(farm, programs={"g++": GXX}, units=str(tmp_path / "units"), wheel_key="one")
    first = gxx(farm)
    (farm / "src" / "a.h").unlink()
    assert gxx(farm) == first
    assert became(farm) == ["miss", "object"]


@needs_gxx
def test_the_host_side_in_a_part_is_empty_and_links(farm: Path, tmp_path: Path) -> None:
    assert GXX
    part = {"archs": ["sm_90a"], "index": 1, "count": 1}
    units = tmp_path / "units"
    configure(farm, programs={"g++": GXX, "gcc": GXX}, units=str(units), wheel_key="one", part=part)
    kept = gxx(farm)
    assert became(farm) == ["placeholder"]
    assert (farm / "src" / "a.d").read_text() == f"{farm}/src/a.o:\n"
    (farm / "src" / "a.o").write_bytes(kept)
    (farm / "src" / "b.cudafe1.cpp").write_text("no code\n")
    state = {UNIT: "b.cu", STATE: str(tmp_path / "state")}
    inner = ("-c", "-x", "c++", "b.cudafe1.cpp", "-o", "b.o")
    assert call(farm, "gcc", *inner, cwd=farm / "src", **state).returncode == 0
    for arch, text in (("90a", True), ("100a", False)):
        (farm / "src" / "b.cu").write_text("int text;\n")
        name = f"b.compute_{arch}.cpp1.ii"
        assert call(farm, "gcc", "-E", "-x", "c++", "b.cu", "-o", name, cwd=farm / "src", **state).returncode == 0
        assert ("int text;" in (farm / "src" / name).read_text()) is text
    link = ("-shared", "-Wl,-z,defs", "a.o", "b.o", "-o", "ab.so")
    assert call(farm, "g++", *link, cwd=farm / "src").returncode == 0
    assert (tmp_path / "state").read_text() == "placeholder\n"
    assert not units.exists()


@needs_gxx
def test_real_objects_do_not_depend_on_the_folder(farm: Path) -> None:
    digest = hashlib.sha256(gxx(farm)).hexdigest()
    assert re.fullmatch(r"[0-9a-f]{64}", digest)
    assert str(farm).encode() not in gxx(farm)
