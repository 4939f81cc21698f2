"""orbit.kernels.shim.steps, device, objects, admission: what is done once is not done again, nothing runs unasked."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.kernels.shim.device import normalised, values
from orbit.kernels.shim.measure import execute
from orbit.kernels.shim.places import clean, clean_file, clean_lines, clean_text, hide, reveal
from orbit.kernels.shim.steps import NOT_ADMITTED, STATE, UNIT
from tests.kernels.shim.farm import call, calls, configure, job_server, lines, make_farm, settings

CICC = ("-arch", "compute_90a", "-m64", "--orig_src_file_name", "src/a.cu")


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    return make_farm(tmp_path / "build", units=str(tmp_path / "units"))


def cicc(root: Path, text: str, *more: str, keep: str = "keep", **env: str) -> Any:
    """One call of cicc as nvcc makes it."""
    folder = root / keep
    folder.mkdir(exist_ok=True)
    (folder / "a.cpp1.ii").write_text(text)
    (folder / "a.module_id").write_text("_1_a_cu_2")
    outputs = ("--stub_file_name", f"{keep}/a.stub.c", f"{keep}/a.cpp1.ii", "-o", f"{keep}/a.ptx")
    source = ("--orig_src_path_name", f"{root}/src/csrc/a.cu", "--module_id_file_name", f"{keep}/a.module_id")
    return call(root, "cicc", *CICC, *more, *source, *outputs, **env)


def became(root: Path) -> list[str]:
    return [line["cache"] for line in lines(root, "step")]


def test_the_second_time_everything_comes_from_the_cache(farm: Path, tmp_path: Path) -> None:
    first = cicc(farm, "text")
    ptx = (farm / "keep" / "a.ptx").read_bytes()
    (farm / "keep" / "a.ptx").unlink()
    second = cicc(farm, "text")
    assert (first.returncode, second.returncode) == (0, 0)
    assert (first.stdout, first.stderr) == (b"said cicc-real\n", b"warned cicc-real\n")
    assert (second.stdout, second.stderr) == (first.stdout, first.stderr)
    assert (farm / "keep" / "a.ptx").read_bytes() == ptx
    assert len(calls(farm)) == 1
    miss, hit = lines(farm, "step")
    assert (miss["step"], miss["source"], miss["arch"], miss["cache"]) == ("cicc", "csrc/a.cu", "sm_90a", "miss")
    assert miss["cpu_s"] > 0
    assert miss["peak_bytes"] > 1 << 20
    assert (hit["cache"], hit["cpu_s"], hit["bytes"]) == ("step", 0.0, miss["bytes"])


def test_text_flags_and_compiler_decide(farm: Path, tmp_path: Path) -> None:
    cicc(farm, "text")
    cicc(farm, "other text")
    cicc(farm, "text", "-G")
    configure(farm, units=str(tmp_path / "units"), identities={"cicc": "another one"})
    cicc(farm, "text")
    configure(farm, units=str(tmp_path / "units"), identities={})
    cicc(farm, "text")
    assert became(farm) == ["miss", "miss", "miss", "miss", "off"]


def test_another_folder_has_the_same_results(farm: Path, tmp_path: Path) -> None:
    cicc(farm, f'# 1 "{farm}/src/a.cu"\n')
    other = make_farm(tmp_path / "elsewhere" / "deeper", units=str(tmp_path / "units"))
    cicc(other, f'# 1 "{other}/src/a.cu"\n', keep="another-keep")
    assert became(other) == ["step"]
    assert b"elsewhere" not in (other / "another-keep" / "a.ptx").read_bytes()


def test_a_failure_is_not_kept(farm: Path) -> None:
    for _ in range(2):
        assert cicc(farm, "text", "broken.cu").returncode == 7
    assert became(farm) == ["miss", "miss"]
    assert lines(farm, "step")[0]["status"] == 7
    assert not (farm.parent / "units").exists()


def test_a_damaged_entry_is_made_again(farm: Path) -> None:
    cicc(farm, "text")
    (entry,) = (path for path in (farm.parent / "units").rglob("*") if path.is_file())
    entry.write_bytes(entry.read_bytes()[:-3])
    cicc(farm, "text")
    cicc(farm, "text")
    assert became(farm) == ["miss", "miss", "step"]


def test_ptxas_is_known_by_its_text(farm: Path) -> None:
    for folder, flag in (("one", "-O3"), ("two", "-O3"), ("two", "-O1")):
        (farm / folder).mkdir(exist_ok=True)
        (farm / folder / "a.ptx").write_text(".version 9.0\n")
        done = call(farm, "ptxas", "-arch=sm_90a", flag, f"{folder}/a.ptx", "-o", f"{folder}/a.cubin", **{UNIT: "a.cu"})
        assert done.returncode == 0
        assert (farm / folder / "a.cubin").read_text() == "ptxas-real-o.version 9.0\n"
    assert became(farm) == ["miss", "step", "miss"]
    assert {(line["source"], line["arch"]) for line in lines(farm)} == {("a.cu", "sm_90a")}


def test_steps_of_another_machine_get_placeholders_and_are_never_kept(farm: Path, tmp_path: Path) -> None:
    units = tmp_path / "units"
    part = {"archs": ["sm_100a"], "index": 1, "count": 1}
    configure(farm, units=str(units), part=part)
    state = tmp_path / "state"
    assert cicc(farm, "text", **{STATE: str(state)}).returncode == 0
    assert (farm / "keep" / "a.ptx").read_text() == "cicc-real-o", "made of an empty text"
    (farm / "a.ptx").write_text(".version 9.0\n.target sm_90a\n.func f() {}\n")
    ptxas = ("ptxas", "-arch=sm_90a", "a.ptx", "-o", "a.cubin")
    assert call(farm, *ptxas, **{STATE: str(state), UNIT: "a.cu"}).returncode == 0
    assert (farm / "a.cubin").read_text() == "ptxas-real-o.version 9.0\n.target sm_90a\n"
    assert became(farm) == ["placeholder", "placeholder"]
    assert state.read_text() == "placeholder\nplaceholder\n"
    assert not units.exists()
    configure(farm, units=str(units))
    cicc(farm, "text")
    assert became(farm)[-1] == "miss"
    assert "text" in (farm / "keep" / "a.ptx").read_text()


def test_every_step_asks_and_says_what_it_cost(farm: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    configure(farm, units=str(tmp_path / "units"), jobs=str(path))
    with job_server(path) as said:
        assert cicc(farm, "text").returncode == 0
        assert cicc(farm, "text").returncode == 0
        assert cicc(farm, "text", "broken.cu").returncode == 7
    ask = {"recipe": "thing", "step": "cicc", "source": "csrc/a.cu", "arch": "sm_90a"}
    assert [connection[0] for connection in said] == [{**ask, "cached": hit} for hit in (False, True, False)]
    assert said[0][1].keys() == {"seconds", "cpu_s", "peak_bytes", "status"}
    assert [connection[1]["status"] for connection in said if len(connection) > 1] == [0, 7]


@pytest.mark.parametrize("answer", [b"error: no such recipe\n", b""])
def test_nothing_runs_without_leave(farm: Path, tmp_path: Path, answer: bytes) -> None:
    path = tmp_path / "s"
    configure(farm, units=str(tmp_path / "units"), jobs=str(path))
    with job_server(path, answer):
        refused = cicc(farm, "text")
    gone = cicc(farm, "text")
    assert (refused.returncode, gone.returncode) == (NOT_ADMITTED, NOT_ADMITTED)
    assert b"did not admit cicc of csrc/a.cu" in refused.stderr
    assert b"cannot be reached" in gone.stderr
    assert calls(farm) == []
    assert all("error" in line for line in lines(farm))


def nvcc(root: Path, *more: str) -> int:
    (root / "src" / "a.cu").touch()
    (root / "src" / "a.o").write_text("object")
    (root / "src" / "a.d").write_text(f"a.o: {root}/src/a.h\n")
    done = call(root, "nvcc", "-c", "a.cu", "-o", "a.o", "-MD", "-MF", "a.d", *more, cwd=root / "src")
    return int(done.returncode)


def test_a_whole_object_comes_back_for_the_same_wheel_only(farm: Path, tmp_path: Path) -> None:
    units = str(tmp_path / "units")
    configure(farm, units=units, wheel_key="one")
    assert nvcc(farm) == 0
    other = make_farm(tmp_path / "elsewhere" / "x", units=units, wheel_key="one")
    assert nvcc(other) == 0
    assert (other / "src" / "a.o").read_text() == "object"
    assert (other / "src" / "a.d").read_text() == f"a.o: {other}/src/a.h\n"
    assert not calls(other)
    assert nvcc(other, "-DMORE") == 0
    (other / "src" / "a.cu").write_text("changed")
    assert nvcc(other) == 0
    configure(other, units=units, wheel_key="two")
    assert nvcc(other) == 0
    configure(other, units=units)
    assert nvcc(other) == 0
    assert [line["cache"] for line in lines(other, "compile")] == ["object", "off", "off", "off", "off"]
    assert len(calls(other)) == 4


def test_an_object_with_a_placeholder_is_not_kept(farm: Path, tmp_path: Path) -> None:
    units = tmp_path / "units"
    configure(farm, units=str(units), wheel_key="one", part={"archs": ["sm_100a"], "index": 1, "count": 1})
    real = farm / "cuda" / "bin" / "nvcc-real"
    real.write_text(f'#!/bin/sh\necho placeholder >> "${STATE}"\n')
    assert nvcc(farm) == 0
    assert lines(farm, "compile")[0]["cache"] == "placeholder"
    assert not units.exists()


def test_all_steps_of_a_whole_object_are_counted(farm: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    configure(farm, units=str(tmp_path / "units"), wheel_key="one", jobs=str(path))
    with job_server(path) as said:
        nvcc(farm)
        nvcc(farm)
    assert [(c[0]["step"], c[0]["arch"], c[0]["cached"]) for c in said] == [
        ("cudafe", "", True),
        ("cicc", "sm_90a", True),
        ("ptxas", "sm_90a", True),
        ("cicc", "sm_100a", True),
        ("ptxas", "sm_100a", True),
        ("host", "", True),
    ]


NUMBERS = st.integers(0, 2**32)
TEMPORARY = st.builds("tmpxft_{:08x}_{:08x}-{}_".format, NUMBERS, NUMBERS, NUMBERS)


@given(TEMPORARY, TEMPORARY)
def test_names_of_temporary_files_do_not_show(one: str, two: str) -> None:
    config = settings(Path("/b"))

    def words(mark: str, folder: str) -> list[str]:
        place = f"{folder}/{mark}a"
        return ["-m64", "--stub_file_name", f"{place}.stub.c", f"{place}.cpp1.ii", "-o", f"{place}.ptx"]

    assert normalised(words(one, "/tmp"), config) == normalised(words(two, "keep"), config)
    assert normalised(words(one, "/tmp"), config) != normalised([*words(one, "/tmp"), "-G"], config)


@given(st.permutations(["-m64", "-O3", "-lineinfo"]), st.permutations(["-m64", "-O3", "-lineinfo"]))
def test_the_order_of_flags_counts(one: list[str], two: list[str]) -> None:
    config = settings(Path("/b"))
    assert (normalised(one, config) == normalised(two, config)) == (one == two)


def test_values_of_flags() -> None:
    assert values(["-arch", "compute_90a", "-o", "x", "--gpu-name=sm_90a", "-m64", "y"]) == {
        "-arch": "compute_90a",
        "-o": "x",
        "--gpu-name": "sm_90a",
        "-m64": "y",
    }


@given(st.lists(st.sampled_from([b"/b/", b"/", b"b", b"\n", b"x /b/src/a.h", b"/b"]), max_size=12), st.integers(1, 9))
def test_a_text_in_pieces_is_cleaned_as_a_whole(words: list[bytes], size: int) -> None:
    config = settings(Path("/b"))
    text = b"".join(words)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert b"".join(clean_lines(pieces, config)) == clean(text, config)


def test_a_file_is_cleaned_in_place_and_only_when_needed(tmp_path: Path) -> None:
    config = settings(Path("/b"))
    file = tmp_path / "a.ptx"
    file.write_bytes(b'.file 1 "/b/src/a.cu"\n')
    digest = clean_file(str(file), config)
    assert file.read_bytes() == b'.file 1 "src/a.cu"\n'
    assert digest == hashlib.sha256(file.read_bytes()).hexdigest()
    before = file.stat()
    assert clean_file(str(file), config) == digest
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert [path.name for path in tmp_path.iterdir()] == ["a.ptx"]


def test_folders_are_hidden_and_come_back() -> None:
    here, there = settings(Path("/b/here")), settings(Path("/other"))
    text = b"a.o: /b/here/src/a.h /usr/include/x.h\n"
    assert reveal(hide(text, here), there) == b"a.o: /other/src/a.h /usr/include/x.h\n"


def test_a_program_is_measured() -> None:
    done = execute(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], capture=True)
    assert (done.status, done.out, done.err) == (3, b"out\n", b"err\n")
    assert done.peak_bytes > 1 << 19
    assert execute(["/bin/sh", "-c", "kill -9 $$"], capture=True).status == 137
    assert execute(["/does/not/exist"], capture=True).status == 127
    busy = execute(["/bin/sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"], env=dict(os.environ))
    assert busy.cpu_s > 0.01
    assert json.dumps(busy.numbers())


@pytest.mark.parametrize("word", ["-ffile-prefix-map={}=python", "-I{}/include", "-L{}", "--sysroot={},x", "{}"])
def test_a_word_is_the_same_wherever_python_lies(tmp_path: Path, word: str) -> None:
    here, there = (
        settings(tmp_path, prefixes=[[f"{tmp_path}/", ""], [f"{python}/", "python/"]]) for python in ("/p/3.12", "/q")
    )
    assert clean_text(word.format("/p/3.12"), here) == clean_text(word.format("/q"), there)
    assert clean_text("-I/p/3.12.1/include", here) == "-I/p/3.12.1/include"
    assert clean_text(f"-ffile-prefix-map={tmp_path}=.", here) == "-ffile-prefix-map=.=."
