"""Field reports 11 to 13: extensions for another torch, another libc, another C++ library."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit.field.support import HOST, add, audit, environment, fired, image, only
from tests.writers.elf import Export, Import, write_elf
from tests.writers.environment import EnvironmentWriter
from tests.writers.wheels import write_wheel

NEW_STRING = "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
OLD_STRING = "_ZN3c105ErrorC2ENS_14SourceLocationESs"


def with_torch(tmp_path: Path, *names: str) -> EnvironmentWriter:
    """An environment with the core library of a torch that exports ``names``."""
    env = environment(tmp_path)
    exports = [Export(name) for name in (NEW_STRING, "_ZN2at4_ops10empty_like4callE", *names)]
    files = {
        "core/lib/libc10.so": write_elf(soname="libc10.so", exports=exports),
        "core/lib/libtorch_cpu.so": write_elf(soname="libtorch_cpu.so", needed=["libc10.so"], runpath="$ORIGIN"),
    }
    add(env, "torch-core", files)
    return env


def extension(*names: str, needed: str = "libtorch_cpu.so") -> bytes:
    return write_elf(needed=[needed], runpath="$ORIGIN/../core/lib", imports=[Import(name) for name in names])


@pytest.mark.parametrize(
    ("_thread", "path", "symbol"),
    [
        ("Dao-AILab/flash-attention#1832", "fa/flash_attn_2_cuda.so", "_ZN3c104cuda9SetDeviceEa"),
        ("Dao-AILab/flash-attention#1717", "fa/flash_attn_2_cuda.so", "_ZNK3c1010TensorImpl15incref_pyobjectEv"),
        ("Dao-AILab/flash-attention#853", "fa/ops.so", "_ZN2at4_ops5zeros4callEN3c108ArrayRefINS2_6SymIntEEE"),
        ("huggingface/open-r1#684", "vision/_C.so", "_ZN5torch8autograd13_wrap_outputsE"),
        ("sibling: type information", "xf/_C.so", "_ZTIN3c1019SomeRemovedInterfaceE"),
        ("sibling: the stable C interface", "st/_C.so", "aoti_torch_something_new"),
    ],
)
def test_11_symbol_of_another_torch(tmp_path: Path, _thread: str, path: str, symbol: str) -> None:
    env = with_torch(tmp_path)
    add(env, path.partition("/")[0], {path: extension(symbol, NEW_STRING)})
    finding = only(audit(env.prefix), "undefined-symbol", path)
    assert finding.evidence["symbols"] == symbol


@pytest.mark.parametrize("symbol", [OLD_STRING, "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"])
def test_11_old_string(tmp_path: Path, symbol: str) -> None:
    """Dao-AILab/flash-attention#1644: one cause, not one finding for each symbol."""
    env = with_torch(tmp_path)
    add(env, "fa", {"fa/flash_attn_2_cuda.so": extension(symbol, OLD_STRING)})
    finding = only(audit(env.prefix), "cxx11-abi", "fa/flash_attn_2_cuda.so")
    assert "old std::string" in finding.message


def test_11_near_misses(tmp_path: Path) -> None:
    env = with_torch(tmp_path, "_ZN3c104cuda9SetDeviceEab")
    good = extension(NEW_STRING, "_ZN3c104cuda9SetDeviceEab", "_ZN5mylib3runEv", "_ZN2atom3runEv")
    weak = write_elf(needed=["libc10.so"], runpath="$ORIGIN/../core/lib", imports=[Import("_ZN3c104goneEv", weak=True)])
    add(env, "fa", {"fa/good.so": good, "fa/weak.so": weak})
    assert fired(audit(env.prefix)) == {}


# --- 12: glibc


def libc_user(version: str, symbol: str = "fn", library: str = "libc.so.6") -> bytes:
    return write_elf(needed=[library], imports=[Import(symbol, version, library)])


@pytest.mark.parametrize(
    ("_thread", "path", "version", "library"),
    [
        ("Dao-AILab/flash-attention#1708", "fa/flash_attn_2_cuda.so", "GLIBC_2.38", "libc.so.6"),
        ("Dao-AILab/flash-attention#2225", "fa/_C.so", "GLIBC_2.39", "libc.so.6"),
        ("sibling: the mathematics library", "m/_m.so", "GLIBC_2.41", "libm.so.6"),
    ],
)
def test_12_glibc_of_the_builder(tmp_path: Path, _thread: str, path: str, version: str, library: str) -> None:
    env = environment(tmp_path)
    add(env, path.partition("/")[0], {path: libc_user(version, library=library)})
    report = audit(env.prefix)
    (finding,) = (item for item in report.findings if item.rule == "symbol-version")
    assert finding.severity == "error"
    assert version in f"{finding.subject} {finding.message} {finding.evidence}"
    assert {rule for rule, _subject in fired(report)} <= {"symbol-version", "wheel-tag"}


@pytest.mark.parametrize("version", ["GLIBC_2.38", "GLIBC_2.37"])
def test_12_the_image_says_which_glibc_it_has(tmp_path: Path, version: str) -> None:
    """Judged by the libc of the image, which has 2.36, not by that of the machine that looks."""
    env = environment(tmp_path)
    add(env, "fa", {"fa/_C.so": libc_user(version)})
    assert ("symbol-version", "error") in {
        (rule, level) for (rule, _subject), level in fired(audit(image(tmp_path, env))).items()
    }
    libc = write_elf(soname="libc.so.6", exports=[Export("malloc", "GLIBC_2.2.5"), Export("fn", version)])
    newer = image(tmp_path, env, {"usr/lib/x86_64-linux-gnu/libc.so.6": libc})
    assert "symbol-version" not in {rule for rule, _subject in fired(audit(newer))}


@pytest.mark.parametrize(
    ("_thread", "tag", "version"),
    [
        ("Dao-AILab/flash-attention#1762", "cp312-cp312-manylinux_2_28_x86_64", "GLIBC_2.32"),
        ("mjun0812/flash-attention-prebuild-wheels#38", "cp312-cp312-manylinux2014_x86_64", "GLIBC_2.34"),
        ("sibling: the oldest tag", "cp312-cp312-manylinux1_x86_64", "GLIBC_2.14"),
    ],
)
def test_12_tag_that_promises_an_older_system(tmp_path: Path, _thread: str, tag: str, version: str) -> None:
    path = write_wheel(tmp_path, "fa", {"fa/_C.so": libc_user(version)}, tags=[tag])
    finding = next(item for item in audit(path).findings if item.rule == "wheel-tag")
    assert version in str(finding.evidence)
    kept = write_wheel(tmp_path, "kept", {"kept/_C.so": libc_user("GLIBC_2.5")}, tags=[tag])
    assert [item for item in audit(kept).findings if item.rule == "wheel-tag"] == []


def test_12_no_portability_claim(tmp_path: Path) -> None:
    path = write_wheel(tmp_path, "fa", {"fa/_C.so": HOST}, tags=["cp312-cp312-linux_x86_64"])
    (finding,) = (item for item in audit(path).findings if item.rule == "wheel-tag")
    assert "no portability claim" in finding.message
    assert finding.severity == "note"


# --- 13: libstdc++


def stdcpp(*versions: str) -> bytes:
    return write_elf(soname="libstdc++.so.6", exports=[Export(f"f{i}", item) for i, item in enumerate(versions)])


@pytest.mark.parametrize(
    ("_thread", "version"),
    [
        ("kvcache-ai/ktransformers#524", "GLIBCXX_3.4.31"),
        ("unitreerobotics/unitree_rl_lab#106", "CXXABI_1.3.15"),
        ("microsoft/LightGBM#5106", "GLIBCXX_3.4.32"),
    ],
)
def test_13_newer_cpp_library(tmp_path: Path, _thread: str, version: str) -> None:
    env = environment(tmp_path)
    data = write_elf(needed=["libstdc++.so.6"], imports=[Import("fn", version, "libstdc++.so.6")])
    add(env, "user", {"user/_c.so": data})
    (finding,) = (item for item in audit(env.prefix).findings if item.rule == "symbol-version")
    assert finding.severity == "error"
    assert version in f"{finding.subject} {finding.message} {finding.evidence}"


@pytest.mark.parametrize("how", ["run path", "variable"])
def test_13_an_older_copy_is_found_first(tmp_path: Path, how: str) -> None:
    """The system's library would do; a copy that the environment brings stands in front of it."""
    env = environment(tmp_path)
    path = "$ORIGIN/../old" if how == "run path" else ""
    new = Import("f1", "GLIBCXX_3.4.30", "libstdc++.so.6")
    add(env, "user", {"user/_c.so": write_elf(needed=["libstdc++.so.6"], runpath=path, imports=[new])})
    add(env, "old", {"old/libstdc++.so.6": stdcpp("GLIBCXX_3.4.19")})
    system = {"usr/lib/x86_64-linux-gnu/libstdc++.so.6": stdcpp("GLIBCXX_3.4.19", "GLIBCXX_3.4.30")}
    site = "/opt/orbit/lib/python3.12/site-packages/old"
    variables = {"LD_LIBRARY_PATH": site} if how == "variable" else {}
    found = fired(audit(image(tmp_path, env, system, variables=variables)))
    assert ("symbol-version", "error") in {(rule, level) for (rule, _subject), level in found.items()}
    sound = environment(tmp_path, "sound")
    add(sound, "user", {"user/_c.so": write_elf(needed=["libstdc++.so.6"], imports=[new])})
    assert fired(audit(image(tmp_path, sound, system))) == {}


def test_13_near_miss_own_library_with_the_version(tmp_path: Path) -> None:
    env = environment(tmp_path)
    new = Import("f0", "GLIBCXX_3.4.33", "libstdc++.so.6")
    data = write_elf(needed=["libstdc++.so.6"], runpath="$ORIGIN/../user.libs", imports=[new])
    add(env, "user", {"user/_c.so": data, "user.libs/libstdc++.so.6": stdcpp("GLIBCXX_3.4.33")})
    assert "symbol-version" not in {rule for rule, _subject in fired(audit(env.prefix))}
