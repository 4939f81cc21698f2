"""Wheels as if they were installed: where files go, what is read of them, how sets are made."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from orbit.audit.archives import wheels
from orbit.audit.archives.wheels import profile_sets, read_manifest, read_wheels
from orbit.audit.facts import Environment
from orbit.audit.files import scan
from orbit.core.console import Silent
from orbit.errors import InputError
from orbit.profile.model import load_profile
from tests.writers.elf import Export, Import, write_elf
from tests.writers.environment import record_digest
from tests.writers.fatbin import Entry as Code
from tests.writers.fatbin import write_container
from tests.writers.wheels import Entry, write_wheel

SITE = "lib/python3.12/site-packages"
NATIVE = ("cp312-cp312-manylinux_2_28_x86_64",)


def read(*paths: Path) -> Environment:
    return read_wheels(paths, load_profile("probe"), Silent())


def kinds(env: Environment) -> list[str]:
    return [disorder.kind for dist in env.dists for disorder in dist.disorders]


def test_members_go_where_an_installer_puts_them(tmp_path: Path) -> None:
    data = "demo-1.0.data"
    files = {
        "demo/__init__.py": b"",
        "demo/_c.abi3.so": write_elf(needed=["libc.so.6"]),
        f"{data}/purelib/demo/p.py": b"p",
        f"{data}/platlib/demo/q.py": b"q",
        f"{data}/scripts/tool": b"#!python\n",
        f"{data}/headers/demo.h": b"h",
        f"{data}/data/share/demo/x.txt": b"x",
    }
    wheel = write_wheel(tmp_path, "demo", files, tags=NATIVE, extra=[Entry("demo/sub/", mode=0o040755)])
    env = read(wheel)
    assert (env.kind, env.layout.site, env.layout.python) == ("wheels", SITE, (3, 12))
    assert kinds(env) == []
    placed = {path for path, fact in env.tree.entries.items() if fact.is_file and ".dist-info/" not in path}
    assert placed == {
        f"{SITE}/demo/__init__.py", f"{SITE}/demo/_c.abi3.so", f"{SITE}/demo/p.py", f"{SITE}/demo/q.py", "bin/tool",
        "include/site/python3.12/demo/demo.h", "share/demo/x.txt",
    }  # fmt: skip
    assert env.tree.entries[f"{SITE}/demo"].is_folder
    assert [item.path for item in env.objects] == [f"{SITE}/demo/_c.abi3.so"]
    (dist,) = env.dists
    assert (dist.name, dist.version, dist.tags, dist.pure) == ("demo", "1.0", NATIVE, False)
    assert (dist.folder, dist.wheel_file) == (f"{SITE}/demo-1.0.dist-info", wheel.name)
    assert {row.path for row in dist.rows} >= placed
    assert env.digests["bin/tool"] == record_digest(b"#!python\n")
    assert env.owners["share/demo/x.txt"] == "demo"
    assert env.texts["bin/tool"] == b"#!python\n"


def test_the_executable_bit_is_kept_and_nothing_else_of_the_mode(tmp_path: Path) -> None:
    extra = [Entry("demo/tool", b"x", mode=0o100711), Entry("demo/closed", b"x", mode=0o100600)]
    env = read(write_wheel(tmp_path, "demo", {}, extra=extra))
    assert [env.tree.entries[f"{SITE}/demo/{name}"].mode for name in ("tool", "closed")] == [0o100755, 0o100644]


@pytest.mark.parametrize("deflate", [False, True])
def test_device_code_and_symbols_of_a_member(tmp_path: Path, deflate: bool) -> None:
    code = write_container(Code("sm_90a", os.urandom(300_000)), "sm_100a", "compute_90")
    library = write_elf(
        soname="libp.so.1", exports=[Export("f", "V1")], sections=[(".nv_fatbin", code), (".nv_fatbin", code)]
    )
    user = write_elf(needed=["libp.so.1"], imports=[Import("f", "V1", "libp.so.1")])
    env = read(
        write_wheel(tmp_path, "demo", {"demo/libp.so.1": library, "demo/u.so": user}, tags=NATIVE, deflate=deflate)
    )
    found = {item.path.rpartition("/")[2]: item for item in env.objects}
    assert [[image.arch for image in box.images] for box in found["libp.so.1"].containers] == [
        ["sm_90a", "sm_100a", "compute_90"]
    ] * 2
    assert env.exports == {f"{SITE}/demo/libp.so.1": frozenset({("f", "V1")})}
    assert found["u.so"].dynamic is not None
    assert found["u.so"].dynamic.imports[0].name == "f"


def test_a_library_too_large_to_hold_is_read_as_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "WHOLE_BYTES", 100_000)
    code = write_container(Code("sm_90a", os.urandom(3 << 20)), "sm_100a")
    library = write_elf(soname="libp.so.1", needed=["libq.so.1"], sections=[(".nv_fatbin", code)])
    env = read(write_wheel(tmp_path, "demo", {"demo/libp.so.1": library}, tags=NATIVE))
    (item,) = env.objects
    assert [image.arch for image in item.containers[0].images] == ["sm_90a", "sm_100a"]
    assert item.dynamic is not None
    assert item.dynamic.needed == ("libq.so.1",)
    assert env.digests[item.path] == record_digest(library)


def test_digests_of_another_algorithm(tmp_path: Path) -> None:
    digest = base64.urlsafe_b64encode(hashlib.sha512(b"a").digest()).rstrip(b"=").decode()
    rows = [f"demo/a.txt,sha512={digest},1", f"demo/b.txt,md5={'0' * 22},1"]
    files = {"demo/a.txt": b"a", "demo/b.txt": b"b"}
    env = read(write_wheel(tmp_path, "demo", files, unlisted=list(files), rows=rows))
    assert env.digests[f"{SITE}/demo/a.txt"] == digest
    assert f"{SITE}/demo/b.txt" not in env.digests
    assert kinds(env) == ["unhashed"]


def test_damaged_members(tmp_path: Path) -> None:
    extra = [
        Entry("demo/_c.so", write_elf()[:200]),
        Entry("demo/empty.so", b""),
        Entry("demo/cut.so", b"x" * 500, crc=1),
        Entry("demo/text.py", b"x" * 500, crc=1),
    ]
    env = read(write_wheel(tmp_path, "demo", {"demo/__init__.py": b""}, tags=NATIVE, extra=extra))
    assert sorted(path.rpartition("/")[2] for path in env.damaged) == ["_c.so", "cut.so", "empty.so"]
    assert {item.kind: item.names for item in env.dists[0].disorders}["damaged"] == ("demo/text.py",)


def test_two_wheels_with_one_path(tmp_path: Path) -> None:
    one = write_wheel(tmp_path, "alpha", {"shared/x.py": b"one", "alpha.py": b""})
    two = write_wheel(tmp_path, "beta", {"shared/x.py": b"two"})
    env = read(one, two)
    assert [dist.name for dist in env.dists] == ["alpha", "beta"]
    assert env.digests[f"{SITE}/shared/x.py"] == record_digest(b"two")
    assert env.owners[f"{SITE}/shared/x.py"] == "alpha"
    assert kinds(env) == []


def test_a_lost_file_is_still_compared_with_its_own_record(tmp_path: Path) -> None:
    row = f"shared/x.py,sha256={record_digest(b'something else')},3"
    one = write_wheel(tmp_path, "alpha", {"shared/x.py": b"one"}, unlisted=["shared/x.py"], rows=[row])
    env = read(one, write_wheel(tmp_path, "beta", {"shared/x.py": b"two"}))
    assert [(item.kind, item.names) for item in env.dists[0].disorders] == [("differs", (f"{SITE}/shared/x.py",))]


def test_a_folder_of_several_versions(tmp_path: Path) -> None:
    for version in ("1.9", "1.10"):
        write_wheel(tmp_path, "alpha", {"alpha.py": version.encode()}, version=version)
    write_wheel(tmp_path, "beta", {"beta.py": b""})
    env = read(tmp_path)
    assert [(dist.name, dist.version) for dist in env.dists] == [("alpha", "1.10"), ("beta", "1.0")]
    assert [(item.kind, item.names) for item in env.dists[0].disorders] == [("beside", ("alpha-1.9-py3-none-any.whl",))]
    first, second = profile_sets([tmp_path], load_profile("probe"))
    assert (len(first.paths), len(second.paths)) == (2, 1)
    assert [dist.version for dist in read(*second.paths).dists] == ["1.9"]


@pytest.mark.parametrize(
    ("tags", "python"),
    [
        (["cp310-cp310-linux_x86_64"], (3, 10)),
        (["cp39-abi3-linux_x86_64"], (3, 12)),
        (["py3-none-any"], (3, 12)),
        (["cp312-cp312-linux_x86_64"], (3, 12)),
    ],
)
def test_a_wheel_for_another_python_is_seen_as_installed_there(
    tmp_path: Path, tags: Sequence[str], python: tuple[int, int]
) -> None:
    assert read(write_wheel(tmp_path, "demo", {"demo.py": b""}, tags=tags)).layout.python == python


def test_a_file_that_is_no_wheel(tmp_path: Path) -> None:
    bad = tmp_path / "bad-1-py3-none-any.whl"
    bad.write_bytes(b"no archive, only text" * 9)
    with pytest.raises(InputError, match="no end record") as caught:
        read(bad)
    assert caught.value.fix
    env = read(bad, write_wheel(tmp_path, "good", {"good.py": b""}))
    assert [dist.name for dist in env.dists] == ["good"]
    assert "no end record" in env.damaged[bad.name]
    for wrong in ([], [tmp_path / "nowhere.whl"]):
        with pytest.raises(InputError):
            read(*wrong)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no wheel in it"):
        read(tmp_path / "empty")


def test_hostile_members_change_nothing_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    extra = [
        Entry("../escape.py", b"x"),
        Entry(f"{tmp_path}/escape.py", b"x"),
        Entry("demo/link", b"/etc/passwd", mode=0o120777),
        Entry("demo/bomb.so", bytes(1 << 20), deflate=True, size=300 << 20),
        Entry("demo/secret", b"x", flags=1),
        Entry(b"demo/\xff\xfe", b"x", flags=0x800),
    ]
    env = read(write_wheel(tmp_path / "in", "demo", {"demo/__init__.py": b""}, extra=extra))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "in"]
    assert list(home.iterdir()) == []
    assert set(kinds(env)) == {"unsafe", "link", "bomb", "encrypted", "unlisted"}
    assert f"{SITE}/demo/\udcff\udcfe" in env.tree.entries
    assert not any("escape" in path or "bomb" in path for path in env.tree.entries)


def test_texts_that_would_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "MAX_KEPT_BYTES", 10_000)
    files = {f"{number}.pth": bytes(3000) for number in range(9)}
    env = read(write_wheel(tmp_path, "demo", files))
    assert 0 < sum(map(len, env.texts.values())) <= 10_000
    assert "bomb" in kinds(env)


def test_a_name_that_is_a_file_and_a_folder(tmp_path: Path) -> None:
    env = read(
        write_wheel(tmp_path, "demo", {}, extra=[Entry("demo", b"x"), Entry("demo/x/y", b"y"), Entry("demo/x", b"z")])
    )
    assert env.tree.entries[f"{SITE}/demo/x"].is_folder
    assert "collision" in kinds(env)


def test_the_build_manifest_beside_a_wheel(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "demo", {"demo.py": b""})
    assert read_manifest(wheel) is None
    (tmp_path / "manifest.json").write_text(json.dumps({"wheel": "another.whl"}))
    assert read_manifest(wheel) is None
    mine = json.dumps({"wheel": wheel.name}).encode()
    (tmp_path / "manifest.json").write_bytes(mine)
    assert read(wheel).texts[f"{wheel.name}.manifest.json"] == mine
    (tmp_path / f"{wheel.name}.manifest.json").write_bytes(b"not even JSON")
    assert read_manifest(wheel) == b"not even JSON"
