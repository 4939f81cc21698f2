"""wheel-tag: what tags promise, against what the files keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.audit.known.policy import Absent, Expectations
from orbit.core.findings import Finding, Severity
from tests.audit.support import judge, judge_wheels, make_policy
from tests.writers.elf import Export, Import, write_elf
from tests.writers.environment import EnvironmentWriter
from tests.writers.wheels import write_wheel

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
OWN = "x/_c.cpython-312-x86_64-linux-gnu.so"
X86, ARM = "x86_64", 183
PLAIN = write_elf(needed=["libc.so.6"])


def needs(version: str, library: str = "libc.so.6") -> bytes:
    return write_elf(needed=[library], imports=[Import("f", version, library)])


def found(
    tmp_path: Path,
    files: dict[str, bytes],
    *tags: str,
    pure: bool = False,
    file: str = "",
) -> list[Finding]:
    path = write_wheel(tmp_path, "x", files, tags=tags, pure=pure, file=file)
    findings = judge_wheels(path, "wheel-tag")
    assert {finding.subject for finding in findings} <= {path.name}
    return findings


@pytest.mark.parametrize(
    ("tag", "version", "library", "keeps"),
    [
        ("manylinux_2_17", "GLIBC_2.17", "libc.so.6", True),
        ("manylinux_2_17", "GLIBC_2.28", "libc.so.6", False),
        ("manylinux2014", "GLIBC_2.18", "libc.so.6", False),
        ("manylinux2014", "GLIBCXX_3.4.21", "libstdc++.so.6", False),
        ("manylinux_2_28", "GLIBCXX_3.4.21", "libstdc++.so.6", True),
        ("manylinux_2_28", "CXXABI_1.3.13", "libstdc++.so.6", False),
        ("manylinux2010", "GCC_4.8.0", "libgcc_s.so.1", False),
        ("manylinux_2_35", "GLIBC_ABI_DT_RELR", "libc.so.6", False),
    ],
)
def test_symbol_versions(tmp_path: Path, tag: str, version: str, library: str, keeps: bool) -> None:
    findings = found(tmp_path, {OWN: needs(version, library)}, f"cp312-cp312-{tag}_{X86}")
    if keeps:
        assert findings == []
    else:
        (finding,) = findings
        assert (finding.severity, finding.evidence["versions"], finding.evidence["files"]) == (ERROR, version, OWN)
        assert finding.evidence["its symbols fit"].startswith("manylinux_2_")


def test_the_oldest_of_several_tags_is_the_promise(tmp_path: Path) -> None:
    tags = (f"cp312-cp312-manylinux_2_17_{X86}", f"cp312-cp312-manylinux_2_28_{X86}")
    file = f"x-1.0-cp312-cp312-manylinux_2_28_{X86}.manylinux_2_17_{X86}.whl"
    assert len(found(tmp_path, {OWN: needs("GLIBC_2.28")}, *tags, file=file)) == 1


def test_a_version_of_a_library_that_the_wheel_brings(tmp_path: Path) -> None:
    own = write_elf(soname="libstdc++.so.6", exports=[Export("f", "GLIBCXX_3.4.32")])
    files = {OWN: needs("GLIBCXX_3.4.32", "libstdc++.so.6"), "x/libs/libstdc++.so.6": own}
    assert found(tmp_path, files, f"cp312-cp312-manylinux_2_28_{X86}") == []


def test_no_portability_claim(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, {OWN: needs("GLIBC_2.34")}, f"cp312-cp312-linux_{X86}")
    assert (finding.severity, finding.evidence["its symbols fit"]) == (NOTE, f"manylinux_2_34_{X86}")


def test_a_newer_glibc_than_the_base(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, {OWN: PLAIN}, f"cp312-cp312-manylinux_2_39_{X86}")
    assert finding.severity is ERROR
    assert "glibc 2.39, the base has 2.36: it cannot be installed" in finding.message


def test_a_newer_glibc_beside_an_older_one(tmp_path: Path) -> None:
    tags = (f"cp312-cp312-manylinux_2_28_{X86}", f"cp312-cp312-manylinux_2_39_{X86}")
    file = f"x-1.0-cp312-cp312-manylinux_2_28_{X86}.manylinux_2_39_{X86}.whl"
    assert found(tmp_path, {OWN: PLAIN}, *tags, file=file) == []


@pytest.mark.parametrize(
    ("tag", "name", "machine"),
    [
        (f"cp310-cp310-manylinux_2_28_{X86}", "_c.cpython-310-x86_64-linux-gnu.so", 62),
        ("cp312-cp312-manylinux_2_28_aarch64", "_c.cpython-312-aarch64-linux-gnu.so", ARM),
        (f"cp312-cp312-musllinux_1_2_{X86}", "_c.cpython-312-x86_64-linux-musl.so", 62),
    ],
)
def test_a_wheel_for_something_else(tmp_path: Path, tag: str, name: str, machine: int) -> None:
    (finding,) = found(tmp_path, {f"x/{name}": write_elf(machine=machine)}, tag)
    assert finding.severity is WARNING
    assert "installers refuse it" in finding.message


def test_compiled_files_for_any_platform(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, {"x/__init__.py": b"", "x/lib.so": PLAIN}, "py3-none-any", pure=True)
    assert (finding.severity, finding.evidence["files"], finding.evidence["Root-Is-Purelib"]) == (
        ERROR,
        "x/lib.so",
        "true",
    )


@pytest.mark.parametrize(
    "files",
    [
        {"x/__init__.py": b"", "x/notes.so.txt": b"text"},
        # builds for several machines: it picks its own at run time
        {"x/x86_64/lib.so": PLAIN, "x/aarch64/lib.so": write_elf(machine=ARM)},
    ],
)
def test_wheels_that_are_for_any_platform(tmp_path: Path, files: dict[str, bytes]) -> None:
    assert found(tmp_path, files, "py3-none-any", pure=True) == []


def test_purelib_with_compiled_files(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, {"x/lib.so": PLAIN}, f"py3-none-manylinux_2_28_{X86}", pure=True)
    assert finding.severity is NOTE


@pytest.mark.parametrize("abi", ["cp312-cp312", "cp39-abi3"])
def test_an_extension_that_was_never_built(tmp_path: Path, abi: str) -> None:
    (finding,) = found(tmp_path, {"x/__init__.py": b""}, f"{abi}-manylinux_2_28_{X86}")
    assert finding.severity is WARNING
    assert "not built" in finding.message


def test_headers_for_one_platform_need_no_compiled_file(tmp_path: Path) -> None:
    assert found(tmp_path, {"x/include/x.h": b""}, f"py3-none-manylinux_2_28_{X86}") == []


def test_files_for_another_machine(tmp_path: Path) -> None:
    tag = f"cp312-cp312-manylinux_2_28_{X86}"
    (finding,) = found(tmp_path, {OWN: write_elf(machine=ARM)}, tag)
    assert (finding.severity, finding.evidence["e_machine"]) == (ERROR, "183")
    (finding,) = found(tmp_path / "2", {OWN: PLAIN, "x/libdata.so": write_elf(machine=ARM)}, tag)
    assert finding.evidence["files"] == "x/libdata.so"


@pytest.mark.parametrize("where", ["x/stubs/liba.so", "x/aarch64-linux/liba.so", "x/arm64/liba.so", "x/other/_d.so"])
def test_files_that_are_meant_for_another_machine(tmp_path: Path, where: str) -> None:
    files = {OWN: PLAIN, "x/_d.so": PLAIN, where: write_elf(machine=ARM)}
    assert found(tmp_path, files, f"cp312-cp312-manylinux_2_28_{X86}") == []


def test_musl_and_glibc_do_not_mix(tmp_path: Path) -> None:
    musl = write_elf(needed=["libc.musl-x86_64.so.1"])
    (first,) = [
        f for f in found(tmp_path / "1", {OWN: musl}, f"cp312-cp312-manylinux_2_28_{X86}") if f.severity is ERROR
    ]
    assert "need musl" in first.message
    glibc = found(tmp_path / "2", {"x/_c.abi3.so": PLAIN}, f"cp312-abi3-musllinux_1_2_{X86}")
    assert [finding.message for finding in glibc if finding.severity is ERROR] == [
        f"tagged musllinux_1_2_{X86}, and its files need glibc"
    ]
    sound = found(tmp_path / "3", {"x/_c.abi3.so": musl}, f"cp312-abi3-musllinux_1_2_{X86}")
    assert not [finding for finding in sound if finding.severity is ERROR]


@pytest.mark.parametrize("tags", ["py3-none", "cp39-abi3"])
def test_modules_for_one_python_in_a_wheel_for_several(tmp_path: Path, tags: str) -> None:
    (finding,) = found(tmp_path, {OWN: PLAIN}, f"{tags}-manylinux_2_28_{X86}")
    assert (finding.severity, finding.evidence["files"]) == (ERROR, OWN)


@pytest.mark.parametrize(
    "others",
    [["x/_c.abi3.so"], ["x/_c.cpython-310-x86_64-linux-gnu.so"], ["x/_c.so"], ["x/_c.cpython-313-x86_64-linux-gnu.so"]],
)
def test_modules_for_each_python(tmp_path: Path, others: list[str]) -> None:
    files = {OWN: PLAIN} | dict.fromkeys(others, PLAIN)
    assert found(tmp_path, files, f"py3-none-manylinux_2_28_{X86}") == []


@pytest.mark.parametrize(
    ("soname", "reported"),
    [
        ("libgomp.so.1", "libgomp.so.1 (libgomp1)"),  # the base image has it, not every system
        ("libmlx5.so.1", "libmlx5.so.1 (ibverbs-providers)"),
        ("libcuda.so.1", ""),  # the driver's
        ("libexpat.so.1", ""),  # of every such system
        ("libmvec.so.1", ""),
        ("libnowhere.so.1", ""),  # a matter of needs-library
    ],
)
def test_libraries_from_outside(tmp_path: Path, soname: str, reported: str) -> None:
    content = write_elf(needed=["libc.so.6", soname])
    findings = found(tmp_path, {OWN: content}, f"cp312-cp312-manylinux_2_28_{X86}")
    assert [(finding.severity, finding.evidence["libraries"]) for finding in findings] == [(WARNING, reported)] * bool(
        reported
    )


def test_a_library_of_another_wheel_of_the_set(tmp_path: Path) -> None:
    tag = f"cp312-cp312-manylinux_2_28_{X86}"
    write_wheel(tmp_path, "x", {OWN: write_elf(needed=["libgomp.so.1"])}, tags=(tag,))
    write_wheel(tmp_path, "y", {"y/libgomp.so.1": write_elf(soname="libgomp.so.1")}, tags=(tag,))
    assert judge_wheels(tmp_path, "wheel-tag") == []


def test_an_optional_library(tmp_path: Path) -> None:
    path = write_wheel(
        tmp_path, "x", {"x/plugin.so": write_elf(needed=["libgomp.so.1"])}, tags=(f"py3-none-manylinux_2_28_{X86}",)
    )
    absent = Absent(files=("x/plug*.so",), sonames=("libgomp.so.*",), reason="an optional plug-in for OpenMP")
    assert len(judge_wheels(path, "wheel-tag")) == 1
    assert judge_wheels(path, "wheel-tag", make_policy(Expectations(schema=1, absent=(absent,)))) == []


def test_a_linux_tag_promises_no_libraries(tmp_path: Path) -> None:
    findings = found(tmp_path, {OWN: write_elf(needed=["libnowhere.so"])}, f"cp312-cp312-linux_{X86}")
    assert [finding.severity for finding in findings] == [NOTE]


def test_an_installed_distribution_gets_the_same_judgement(tmp_path: Path) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    env.add("x", {OWN: needs("GLIBC_2.28")}, tags=[f"cp312-cp312-manylinux_2_17_{X86}"])
    env.add("y", {"y/_c.so": PLAIN}, tags=[f"cp312-cp312-manylinux_2_39_{X86}"])
    env.add("z", {"z/_c.so": PLAIN}, tags=["py3-none-any"])
    env.add("plain", {"plain.py": b""})
    found = {finding.subject: finding for finding in judge(env.prefix, "wheel-tag")}
    assert {name: finding.severity for name, finding in found.items()} == {"x": NOTE, "y": ERROR, "z": WARNING}
    assert found["x"].evidence["versions"] == "GLIBC_2.28"


def test_an_environment_for_another_machine(tmp_path: Path) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    env.add("x", {"x/_c.so": write_elf(machine=ARM)}, tags=["cp312-cp312-manylinux_2_28_aarch64"])
    assert judge(env.prefix, "wheel-tag") == []
    env.add("y", {"y/__init__.py": b""}, tags=["py3-none-manylinux_2_28_x86_64"])
    (finding,) = judge(env.prefix, "wheel-tag")
    assert "on Linux aarch64" in finding.message


def test_the_second_owner_of_a_compiled_file_is_not_empty(tmp_path: Path) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    for name in ("nvidia-nccl-cu12", "nvidia-nccl-cu13"):
        env.add(name, {"nvidia/nccl/lib/libnccl.so.2": PLAIN}, tags=["cp312-cp312-manylinux_2_36_x86_64"])
    assert judge(env.prefix, "wheel-tag") == []
