"""The front door and hostile input: the audit ends in time, within its memory, with a status that means something.

Every call is a process of its own that may take 2 GB of address space and 20 seconds (``tests/audit/hostile.py``). What
is large is marked ``integration``.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import html.parser
import json
import os
import random
import shutil
import socket
import threading
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from tests.audit.hostile import Ended, audit
from tests.writers.elf import Export, Import, write_elf
from tests.writers.environment import EnvironmentWriter, write_sound_environment
from tests.writers.fatbin import write_container, write_section
from tests.writers.images import docker_archive, header, python_layer
from tests.writers.tiny_image import file, folder, other, rewrite, symlink, write_image
from tests.writers.wheels import Entry, wheel_entries, zip_bytes

NAMES = ("]]><script>alert(1)<!--", "a\nb\r\x1b[31m", "\udcff\udcfe", "\u202egnp", "{x} %s $HOME", "'\"`&amp;", "\x07")
LIBRARY = write_elf(
    soname="libx.so",
    needed=["libc.so.6"],
    runpath="$ORIGIN",
    imports=[Import("f", "V1", "libp.so.1")],
    exports=[Export("a", "V1")],
    sections=[(".nv_fatbin", write_section(write_container("sm_90a", "compute_90")))],
)
INFO = "lib/python3.12/site-packages/good-1.0.dist-info"
TEXTS = (
    "share/orbit/environment.json", "share/orbit/libraries.json", "conda-meta/a.json", f"{INFO}/direct_url.json",
    f"{INFO}/METADATA", f"{INFO}/RECORD", f"{INFO}/WHEEL", "pyvenv.cfg", "bin/tool",
    "lib/python3.12/site-packages/x/cpp_lib.json", "lib/python3.12/site-packages/a.pth",
    "lib/python3.12/site-packages/__editable___x_finder.py",
)  # fmt: skip
BOMBS = {
    "deep objects": b'{"a":' * 100_000,
    "deep lists": b"MAPPING = " + b"[" * 100_000,
    "endless number": b'{"a": ' + b"9" * 100_000 + b"}",
    "wrong types": b'{"files": {"a": 1}, "distributions": [1], "url": [], "dir_info": 3, "lock": 1, "identity": 3}',
    "folded lines": b"Name: a\n" + b" x\n" * 300_000,
    "endless version": b"Name: a\nVersion: " + b"9" * 5000 + b"\nRequires-Python: >=" + b"9" * 5000 + b"\n",
    "quotes": b'"' * 300_000,
    "zeros": bytes(100_000),
    "bytes": bytes(range(256)) * 400,
}


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def hostile_environment(prefix: Path) -> EnvironmentWriter:
    """Special files, circles of links, names that break formats, cut and bent libraries."""
    env = write_sound_environment(prefix)
    for name in ("lib.so", "x.pth", "good-1.0.dist-info/top_level.txt", "good-1.0.dist-info/direct_url.json"):
        os.mkfifo(env.site / name)
    with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(env.site):
        server.bind("sock.so")
    for name, target in (
        ("zero.so", "/dev/zero"),
        ("loop", "loop"),
        ("a", "b"),
        ("b", "a"),
        ("root", "/"),
        ("self", "."),
    ):
        (env.site / name).symlink_to(target)
    (env.site / "deep.so").symlink_to("self/" * 800 + "x")
    chooser = random.Random(1)
    for number, name in enumerate(NAMES):
        data = bytearray(LIBRARY)
        for _ in range(3):
            at = chooser.randrange(len(data) - 8)
            data[at : at + 8] = chooser.choice([0, 2**63, 2**64 - 1, 2**31]).to_bytes(8, "little")
        (env.site / f"{name}.so").write_bytes(data)
        (env.site / f"cut{name}.so").write_bytes(LIBRARY[: number * 150])
        (env.site / f"{name}.pth").write_text(f"import {name}\n/x/{name}\n", encoding="utf-8", errors="surrogateescape")
    if os.geteuid() == 0:
        os.mknod(env.site / "device.so", 0o60666, os.makedev(7, 200))
    return env


class Page(html.parser.HTMLParser):
    """The names of the elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, _attributes: object) -> None:
        self.tags.append(tag)


def test_an_environment_full_of_traps_in_every_format(tmp_path: Path, cache: Path) -> None:
    prefix = hostile_environment(tmp_path / "env").prefix
    before = sorted(os.listdir(prefix.parent))
    ended = {form: audit(prefix, "--format", form, cache=cache) for form in ("json", "sarif", "junit", "html", "text")}
    assert {item.status for item in ended.values()} == {1}
    report = json.loads(ended["json"].out)["reports"][0]
    assert sum(item["rule"] == "damaged-binary" for item in report["findings"]) >= len(NAMES)
    assert len(json.loads(ended["sarif"].out)["runs"][0]["results"]) >= len(NAMES)
    assert ET.fromstring(ended["junit"].out).tag == "testsuites"
    sound = audit(write_sound_environment(tmp_path / "sound").prefix, "--format", "html", cache=cache)
    scripts = [Page(item.out.decode()).tags.count("script") for item in (ended["html"], sound)]
    assert scripts[0] == scripts[1], "a name became code"
    assert not any(char in ended["text"].said for char in "\x1b\x07\r\u202e")
    assert sorted({*os.listdir(prefix.parent)} - {"cache", "sound"}) == before
    assert max(item.peak_bytes for item in ended.values()) < 500 << 20


@pytest.mark.parametrize("bomb", BOMBS)
def test_small_files_with_anything_in_them(bomb: str, tmp_path: Path, cache: Path) -> None:
    env = write_sound_environment(tmp_path / "env")
    for name in TEXTS:
        (env.prefix / name).parent.mkdir(parents=True, exist_ok=True)
        (env.prefix / name).write_bytes(BOMBS[bomb])
    ended = audit(env.prefix, cache=cache)
    assert ended.status == 1
    assert ended.peak_bytes < 500 << 20


def cut_targets(where: Path) -> list[Path]:
    """Wheels and archives that end too early."""
    wheel = zip_bytes(wheel_entries("demo", {"demo/__init__.py": b"", "demo/_c.so": LIBRARY}))
    archive = docker_archive([python_layer()])
    found = []
    for number in range(12):
        paths = where / f"d{number}-1.0-py3-none-any.whl", where / f"t{number}.tar", where / f"z{number}.tar.gz"
        paths[0].write_bytes(wheel[: number * len(wheel) // 12])
        paths[1].write_bytes(archive[: number * len(archive) // 14])
        paths[2].write_bytes(gzip.compress(archive)[: number * 100])
        found += paths
    return found


def test_targets_that_end_too_early_are_unread_and_keep_nobody_else(tmp_path: Path, cache: Path) -> None:
    targets = cut_targets(tmp_path)
    sound = write_sound_environment(tmp_path / "env").prefix
    ended = audit(*targets, sound, "--format", "json", cache=cache)
    found = json.loads(ended.out)
    assert ended.status == 2
    assert found["reports"][-1]["target"] == str(sound)
    assert len(found["unread"]) + len(found["reports"]) == len(targets) + 1
    assert len(found["unread"]) >= 24
    assert all(item["reason"] for item in found["unread"])


def as_option(name: str) -> Callable[[Path, Path], list[str | Path]]:
    return lambda prefix, trap: [prefix, name, trap]


@pytest.mark.parametrize(
    "arguments",
    [
        lambda _prefix, trap: [trap],
        lambda _prefix, trap: ["diff", trap, trap],
        as_option("--expectations"),
        as_option("--lock"),
    ],
    ids=["target", "diff", "expectations", "lock"],
)
def test_a_pipe_where_a_file_should_be(
    arguments: Callable[[Path, Path], list[str | Path]], tmp_path: Path, cache: Path
) -> None:
    trap = tmp_path / "trap.json"
    os.mkfifo(trap)
    ended = audit(*arguments(write_sound_environment(tmp_path / "env").prefix, trap), cache=cache)
    assert ended.status == 2
    assert "fix:" in ended.said


@pytest.mark.parametrize("text", ["a = " + "[" * 50_000, "schema = " + "9" * 5000, "\0", "schema = 1\nwaivers = 3"])
def test_hostile_toml(text: str, tmp_path: Path, cache: Path) -> None:
    (tmp_path / "uv.lock").write_text(text)
    prefix = write_sound_environment(tmp_path / "env").prefix
    for arguments in (
        [tmp_path / "uv.lock", "--offline"],
        [prefix, "--lock", tmp_path / "uv.lock"],
        [prefix, "--expectations", tmp_path / "uv.lock"],
    ):
        assert audit(*arguments, cache=cache).status == 2


def test_members_that_lie_or_lead_out(tmp_path: Path, cache: Path) -> None:
    entries = [
        *wheel_entries("demo", {"demo/__init__.py": b""}),
        Entry("demo/a.so", method=8, raw=zlib.compress(bytes(1 << 20))[2:-4], size=5),
        Entry("demo/b.so", method=8, raw=b"\0", size=2**63, zip64=True),
        Entry("demo/c.so", b"x", offset=2**63, zip64=True),
        Entry(b"demo/\xff\xfe\n]]>.so", LIBRARY),
        *[Entry(name, b"x") for name in ("../../out", "/out", "demo/../../out")],
        *[Entry(f"demo/{mode:o}", b"/etc", mode=mode) for mode in (0o120777, 0o010666, 0o020666, 0o060666)],
    ]
    wheel = tmp_path / "demo-1.0-py3-none-any.whl"
    wheel.write_bytes(zip_bytes(entries))
    links = [symlink("opt/l", "/"), file("opt/l/opt/l/x"), symlink("a", "b"), symlink("b", "a"), file("a/x")]
    odd = [other("dev/x", b"3"), other("pipe", b"6"), other("h", b"1", "nope"), file("../../out"), file("/out")]
    chain = [symlink(f"s{number}", f"s{number + 1}/s{number + 1}") for number in range(60)]
    layout = write_image(tmp_path / "image", [[*links, *odd, *chain, file("s0/x"), *python_layer()]])
    for deep in ([], ["--deep"]):
        ended = audit(wheel, layout, "--format", "json", *deep, cache=cache)
        assert ended.status == 1
        assert len(json.loads(ended.out)["reports"]) == 2
    assert not any(path.name == "out" for path in [*tmp_path.rglob("*"), *tmp_path.parent.iterdir()])


def deflated_zeros(size: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush()


def one_layer(layout: Path, packed: bytes, codec: str) -> Path:
    """An image whose only layer holds these bytes."""
    write_image(layout, [python_layer()])
    digest = hashlib.sha256(packed).hexdigest()
    (layout / "blobs/sha256" / digest).write_bytes(packed)

    def change(manifest: dict[str, list[dict[str, object]]]) -> None:
        kind = f"application/vnd.oci.image.layer.v1.tar+{codec}"
        manifest["layers"] = [{"mediaType": kind, "digest": f"sha256:{digest}", "size": len(packed)}]

    rewrite(layout, manifest=change)
    return layout


@pytest.mark.integration
@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_layer_of_a_hundred_gigabytes_of_zeros(codec: str, tmp_path: Path, cache: Path) -> None:
    pack = gzip.compress if codec == "gzip" else zstandard.compress
    head = header(b"opt/big", b"\x80" + bytes(3) + (100 << 30).to_bytes(8, "big"))
    packed = pack(head) + pack(bytes(1 << 28)) * 400
    ended = audit(one_layer(tmp_path / "image", packed, codec), cache=cache)
    assert (ended.status, "times as many" in ended.said) == (2, True)


@pytest.mark.integration
def test_a_wheel_of_zip_bombs(tmp_path: Path, cache: Path) -> None:
    raw = deflated_zeros(1 << 30)
    entries = [Entry(f"demo/{number}.so", method=8, raw=raw, size=1 << 30) for number in range(20)]
    wheel = tmp_path / "demo-1.0-py3-none-any.whl"
    wheel.write_bytes(zip_bytes([*wheel_entries("demo", {"demo/__init__.py": b""}), *entries]))
    assert audit(wheel, cache=cache).status == 1


@pytest.mark.integration
def test_a_terabyte_of_holes(tmp_path: Path, cache: Path) -> None:
    env = write_sound_environment(tmp_path / "env")
    rows = ["lib.so,sha256=" + "a" * 43 + f",{1 << 40}", "other.so,sha256=" + "a" * 43 + ","]
    env.add("holes", {"lib.so": LIBRARY, "other.so": LIBRARY}, rows=rows)
    for name in ("lib.so", "other.so", "good-1.0.dist-info/METADATA"):
        os.truncate(env.site / name, 1 << 40)
    assert audit(env.prefix, cache=cache).status == 1
    for name in ("x-1.0-py3-none-any.whl", "x.tar", "uv.lock", "x.tar.gz", "x.json"):
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, 1 << 40)
        arguments = ["diff", tmp_path / name, tmp_path / name] if name.endswith("json") else [tmp_path / name]
        ended = audit(*arguments, cache=cache)
        assert (ended.status, ended.peak_bytes < 200 << 20) == (2, True), name


@pytest.mark.integration
def test_two_hundred_thousand_files_and_names_longer_than_the_kernel_takes(tmp_path: Path, cache: Path) -> None:
    env = write_sound_environment(tmp_path / "env")
    for number in range(200_000):
        where = env.site / "tiny" / str(number % 200)
        where.mkdir(parents=True, exist_ok=True)
        os.close(os.open(where / str(number), os.O_CREAT | os.O_WRONLY))
    handle = os.open(env.site, os.O_RDONLY)
    for _ in range(200):
        os.mkdir("d" * 40, dir_fd=handle)
        below = os.open("d" * 40, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.close(handle)
    ended = audit(env.prefix, cache=cache, timeout_s=60)
    assert ended.status == 1
    assert ended.peak_bytes < 500 << 20
    shutil.rmtree(env.site / ("d" * 40))


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("RECORD", b"".join(b"big/%d.py,sha256=%s,12\n" % (number, b"a" * 43) for number in range(60_000))),
        ("RECORD", b"x" * (100 << 20)),
        ("RECORD", b'"a\nb",,\n"x""y",sha256=1,1\n"' + b"z" * 3_000_000 + b'",,\n\0,,\n..,,\n'),
        ("METADATA", b"Name: big\n" + b"".join(b"Requires-Dist: a%d>=1\n" % number for number in range(1_000_000))),
        ("METADATA", b"Name: big\n" + b"Requires-Dist: good[x]>=1\nProvides-Extra: x\n" * 80_000),
        ("METADATA", b"Name: big\n" + b"Requires-Dist: a; " + b" or ".join([b"os_name=='x'"] * 200_000)),
    ],
    ids=["long", "100 MB", "quotes", "10^6 requirements", "itself", "marker"],
)
def test_large_metadata(name: str, content: bytes, tmp_path: Path, cache: Path) -> None:
    env = write_sound_environment(tmp_path / "env")
    (env.site / "good-1.0.dist-info" / name).write_bytes(content)
    assert audit(env.prefix, cache=cache).peak_bytes < 1 << 30


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["many", "circle", "versions"])
def test_large_locks(kind: str, tmp_path: Path, cache: Path) -> None:
    rows = []
    for number in range(30_000):
        name, version = ("p", f"{number}.0") if kind == "versions" else (f"p{number}", "1.0")
        source = f'editable = "p{number}"' if kind == "circle" else 'registry = "https://host/simple"'
        more = f'dependencies = [{{ name = "p{(number + 1) % 30_000}" }}]\n' if kind == "circle" else ""
        rows.append(f'[[package]]\nname = "{name}"\nversion = "{version}"\nsource = {{ {source} }}\n{more}')
    (tmp_path / "uv.lock").write_text('version = 1\nrequires-python = ">=3.12"\n' + "".join(rows))
    ended = audit(tmp_path / "uv.lock", "--offline", cache=cache, timeout_s=60)
    assert ended.status in (0, 1)
    assert ended.peak_bytes < 1 << 30


def swapping(names: list[Path], aside: Path, stop: threading.Event) -> None:
    """Put links, pipes, cut files and others in the place of files, over and over."""
    chooser = random.Random(2)
    aside.mkdir()
    while not stop.is_set():
        victim, new = chooser.choice(names), aside / "new"
        new.unlink(missing_ok=True)
        kind = chooser.randrange(5)
        if kind == 0:
            new.symlink_to(chooser.choice(["/dev/zero", victim.name]))
        elif kind == 1:
            os.mkfifo(new)
        elif kind == 2:
            if victim.is_file() and not victim.is_symlink():
                os.truncate(victim, chooser.randrange(3000))
            continue
        else:
            new.write_bytes(LIBRARY[: chooser.randrange(len(LIBRARY))])
        os.replace(new, victim)


@pytest.mark.integration
@pytest.mark.parametrize("deep", [False, True])
def test_files_that_change_their_kind_meanwhile(deep: bool, tmp_path: Path, cache: Path) -> None:
    env = write_sound_environment(tmp_path / "env")
    large = write_elf(soname="x", sections=[("big", bytes(200_000)), (".nv_fatbin", write_container("sm_90a"))])
    env.add("racing", {f"racing/{number}.so": large for number in range(60)})
    names = [env.site / f"racing/{number}.so" for number in range(60)]
    names += [env.site / f"good-1.0.dist-info/{name}" for name in ("METADATA", "RECORD", "WHEEL")]
    stop = threading.Event()
    thread = threading.Thread(target=swapping, args=(names, tmp_path / "aside", stop))
    thread.start()
    try:
        ended: list[Ended] = [audit(env.prefix, *(["--deep"] if deep else []), cache=cache) for _ in range(4)]
    finally:
        stop.set()
        thread.join()
    assert {item.status for item in ended} <= {0, 1, 2}


def test_folders_that_layers_replace_over_and_over(tmp_path: Path, cache: Path) -> None:
    parts = [part for n in range(300) for part in (folder("opt/f"), file(f"opt/f/{n}"), symlink("opt/f", "g"))]
    ended = audit(write_image(tmp_path / "image", [[*parts, *python_layer()]]), cache=cache)
    assert (ended.status, "over and over" in ended.said) == (2, True)
