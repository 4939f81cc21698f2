"""The base: its definition, what is dropped, and (integration) that two runs agree and hold nothing of the host."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.paths import data_root
from orbit.core.store import Store
from orbit.errors import CheckFailed, CommandFailed, InputError, MissingError
from orbit.image import base
from orbit.image.base import (
    BaseDefinition,
    Member,
    installed_packages,
    load_base,
    make_base,
    mmdebstrap_argv,
    read_root,
)
from orbit.image.tar import with_parents

STATUS = b"""Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9
Description: the C library
 Status: a line of the description

Package: gone
Status: deinstall ok config-files
Version: 1

Package: gcc
Status: install ok installed
Architecture: amd64
Version: 4:12.2
"""

DEFINITION = BaseDefinition(
    schema=1,
    distribution="debian",
    suite="bookworm",
    variant="minbase",
    packages=("gcc",),
    keep=("usr/share/doc/*/copyright",),
    drop=("dev/*", "etc/hostname", "usr/share/doc/*", "var/log/*"),
)


def raw_tar(path: Path) -> Path:
    def add(
        name: str, data: bytes = b"", *, mode: int = 0o644, kind: bytes = tarfile.REGTYPE, target: str = ""
    ) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.type, info.linkname = len(data), mode, kind, target
        info.uid = info.gid = 42
        info.mtime = 1_700_000_000
        archive.addfile(info, io.BytesIO(data))

    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        add("./", mode=0o755, kind=tarfile.DIRTYPE)
        add("./dev/null", kind=tarfile.CHRTYPE)
        add("./etc/hostname", b"builder")
        add("./etc/shadow", b"root:*:", mode=0o640)
        add("./root", mode=0o700, kind=tarfile.DIRTYPE)
        add("./usr/bin/su", b"su", mode=0o4755)
        add("./usr/bin/perl5", b"perl", mode=0o755)
        add("./usr/bin/perl", kind=tarfile.LNKTYPE, target="./usr/bin/perl5", mode=0o755)
        add("./bin", kind=tarfile.SYMTYPE, target="usr/bin")
        add("./usr/share/doc/gcc/copyright", b"GPL")
        add("./usr/share/doc/gcc/README", b"long")
        add("./var/lib/dpkg/status", STATUS)
        add("./var/log/dpkg.log", b"today")
        add("./var/tmp", mode=0o1777, kind=tarfile.DIRTYPE)
    return path


def test_what_belongs_to_the_host_is_dropped_and_all_is_readable(tmp_path: Path) -> None:
    members = {member.name: member for member in with_parents(read_root(raw_tar(tmp_path / "raw"), DEFINITION))}
    assert {"dev/null", "etc/hostname", "usr/share/doc/gcc/README", "var/log/dpkg.log"}.isdisjoint(members)
    assert {"dev", "proc", "sys", "run", "tmp", "usr/share/doc/gcc/copyright"} <= set(members)
    assert {name: member.mode for name, member in members.items() if name in ("etc/shadow", "root", "usr/bin/su")} == {
        "etc/shadow": 0o644,
        "root": 0o755,
        "usr/bin/su": 0o755,
    }
    assert {name for name, member in members.items() if member.mode & 0o1000} == {"tmp", "var/tmp"}
    assert members["usr/bin/perl"].target == "usr/bin/perl5"
    assert list(members)[-1] == "usr/bin/perl"


def test_packages_are_read_from_dpkgs_own_database(tmp_path: Path) -> None:
    packages = installed_packages(with_parents(read_root(raw_tar(tmp_path / "raw"), DEFINITION)))
    assert [(package.name, package.version) for package in packages] == [("gcc", "4:12.2"), ("libc6", "2.36-9")]


def test_without_a_database_nobody_would_know_what_is_inside() -> None:
    with pytest.raises(CheckFailed, match="no dpkg database"):
        installed_packages([Member("etc", "dir", 0o755)])


def make(store: Store, monkeypatch: pytest.MonkeyPatch) -> base.Base:
    def fake(argv: list[str], **_rest: object) -> None:
        raw_tar(Path(argv[-1]))

    monkeypatch.setattr(base.proc, "run", fake)
    monkeypatch.setattr(base.tools, "find", lambda name: Path("/usr/bin") / name)
    monkeypatch.setattr(base, "load_base", lambda _name: DEFINITION)
    return make_base("base", store, progress=Silent())


def test_the_base_is_kept_by_its_definition(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first = make(store, monkeypatch)
    second = make(store, monkeypatch)
    assert (first.reused, second.reused) == (False, True)
    assert (first.sha256, first.packages) == (second.sha256, second.packages)
    assert [path.name for path in first.tar.parent.parent.iterdir() if path.name.startswith("raw")] == []


def test_the_shipped_definition_names_no_host_and_is_whole() -> None:
    definition = load_base("base")
    assert {"ca-certificates", "gcc", "g++", "libc6-dev", "libssl3"} <= set(definition.packages)
    text = (data_root() / "containers" / "base.toml").read_text()
    assert not re.search(r"https?:|\.(org|com|net)\b", text)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('schema = 2\ndistribution = "debian"\nsuite = "x"\nvariant = "minbase"\npackages = ["a"]', "schema 2"),
        ('schema = 1\ndistribution = "other"\nsuite = "x"\nvariant = "minbase"\npackages = ["a"]', "distribution"),
        ('schema = 1\ndistribution = "debian"\nsuite = "x"\nvariant = "minbase"\npackages = []', "packages is empty"),
        ('schema = 1\nmirror = "x"', "mirror"),
    ],
)
def test_a_wrong_definition_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, match: str
) -> None:
    (tmp_path / "base.toml").write_text(text)
    monkeypatch.setattr(base, "data_file", lambda *parts: tmp_path / parts[-1])
    with pytest.raises(InputError, match=match):
        load_base("base")


def test_without_mmdebstrap_the_error_says_how_to_get_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(MissingError, match="mmdebstrap") as caught:
        make_base("base", store, progress=Silent())
    assert "apt-get install mmdebstrap" in caught.value.fix


def test_an_archive_that_does_not_answer_is_said_so(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "mmdebstrap"
    program.write_text("#!/bin/sh\necho 'E: Temporary failure resolving' >&2\nexit 25\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(CommandFailed, match="Temporary failure") as caught:
        make_base("base", store, progress=Silent())
    assert "archive must be reachable" in caught.value.fix
    assert list((store.root / "tmp").iterdir()) == []


def test_the_command_names_no_mirror_and_no_host_configuration() -> None:
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is not installed")
    argv = mmdebstrap_argv(DEFINITION, Path("out.tar"))
    assert argv[-2:] == ["bookworm", "out.tar"]
    assert not any("://" in word for word in argv)


@pytest.fixture(scope="module")
def real_base(tmp_path_factory: pytest.TempPathFactory) -> base.Base:
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is not installed")
    store = Store(tmp_path_factory.mktemp("store"))
    try:
        return make_base("base", store, progress=Silent())
    except CommandFailed as error:
        pytest.skip(f"the base cannot be made here: {error.what}")


@pytest.mark.integration
@pytest.mark.network
def test_two_runs_give_the_same_bytes(real_base: base.Base, tmp_path: Path) -> None:
    again = make_base("base", Store(tmp_path / "other"), progress=Silent())
    assert again.packages == real_base.packages
    assert again.sha256 == real_base.sha256


@pytest.mark.integration
@pytest.mark.network
def test_no_certificate_of_the_host_is_inside(real_base: base.Base, tmp_path: Path) -> None:
    """The host's bundle minus Debian's own certificates: none of the rest may be in the base."""
    bundle = next((Path(p) for p in (os.environ.get("SSL_CERT_FILE"), "/etc/ssl/certs/ca-certificates.crt") if p), None)
    if bundle is None or not bundle.is_file():
        pytest.skip("the host has no certificate bundle")
    with tarfile.open(real_base.tar) as archive:
        handle = archive.extractfile("etc/ssl/certs/ca-certificates.crt")
        assert handle is not None
        inside = certificates(handle.read())
        assert [name for name in archive.getnames() if name.startswith("usr/local/share/ca-certificates/")] == []
    assert len(inside) > 100
    debian = tmp_path / "debian"
    shipped = subprocess.run(
        ["sh", "-c", f"cat /usr/share/ca-certificates/*/*.crt > {debian} 2>/dev/null"], check=False
    )
    extra = certificates(bundle.read_bytes()) - (
        certificates(debian.read_bytes()) if shipped.returncode == 0 else set()
    )
    if not extra:
        pytest.skip("the host trusts nothing that Debian does not")
    raw = real_base.tar.read_bytes()
    assert extra.isdisjoint(inside)
    for certificate in extra:
        assert certificate.splitlines()[1] not in raw


def certificates(data: bytes) -> set[bytes]:
    return set(re.findall(rb"-----BEGIN CERTIFICATE-----\n.*?-----END CERTIFICATE-----", data, re.DOTALL))


@pytest.mark.integration
@pytest.mark.network
def test_the_real_base_is_readable_by_all_and_names_no_host(real_base: base.Base) -> None:
    host = os.uname().nodename.encode()
    with tarfile.open(real_base.tar) as archive:
        for info in archive:
            assert (info.uid, info.gid, info.mtime) == (0, 0, base.EPOCH_S)
            assert info.issym() or info.mode & 0o444 == 0o444
            assert not info.mode & 0o6000
            assert not info.isdev()
        names = set(archive.getnames())
    assert {"etc/hostname", "etc/resolv.conf"}.isdisjoint(names)
    assert {"usr/bin/gcc", "usr/bin/g++", "etc/ssl/certs/ca-certificates.crt", "bin", "lib64"} <= names
    assert "usr/bin/usrmerge" not in names
    if len(host) > 6:
        assert host not in real_base.tar.read_bytes()


@pytest.mark.integration
@pytest.mark.network
def test_no_link_of_the_real_base_leads_nowhere(real_base: base.Base) -> None:
    with tarfile.open(real_base.tar) as archive:
        links = {info.name: info.linkname for info in archive if info.issym()}
        names = set(archive.getnames())

    def real(path: str, depth: int = 0) -> str:
        """The path with every link in it followed, as in a root file system."""
        assert depth < 40, path
        here = ""
        for part in path.strip("/").split("/"):
            here = os.path.normpath(f"{here}/{part}").strip("/") if part != ".." else os.path.dirname(here)
            if here in links:
                target = links[here]
                here = real(target if target.startswith("/") else f"{os.path.dirname(here)}/{target}", depth + 1)
        return here

    nowhere = {name for name in links if (place := real(name)) not in names and not place.startswith(("proc/", "dev/"))}
    assert nowhere == set()


def test_as_root_the_mounts_of_a_killed_run_end_with_it() -> None:
    """A mount made behind ``own_mounts`` is not seen outside, whatever happens to the program."""
    if os.geteuid() != 0:
        assert base.own_mounts() == []
        return
    mark = f"orbit-test-{os.getpid()}"
    script = f"mkdir -p /tmp/{mark} && mount -t tmpfs {mark} /tmp/{mark} && grep -c {mark} /proc/self/mounts"
    done = subprocess.run([*base.own_mounts(), "sh", "-c", script], capture_output=True, text=True, check=False)
    os.rmdir(f"/tmp/{mark}")
    assert done.stdout.strip() == "1", done.stderr
    assert mark not in Path("/proc/self/mounts").read_text()
