"""Small environments and their archives, for the tests of archive, hydrate and materialize."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path

import zstandard

from orbit.core.console import Silent
from orbit.core.records import dump_json
from orbit.env.archive import Plan, plan_archive, write_archive_file
from orbit.env.archive_list import Line, Manifest, counts, heads, keyed, render_list
from orbit.env.hydrate import Hydrated, Options, hydrate
from orbit.env.record import RECORD_PATH, SCHEMA, Distribution, EnvironmentRecord
from orbit.image.blob import packer
from orbit.image.tar import Member, tar_chunks
from tests.image.world import environment_files, recorded, write_tree

PYTHON = b"""#!/bin/sh
echo "3.12.1 $(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)"
"""
"""Answers as an interpreter does when it is asked for its version and prefix."""
IDENTITY = "e" * 64
VERSIONS = {"nvidia-cublas": "13.4.1.1", "torch": "2.11.0", "other-thing": "1.0"}


def make_environment(
    prefix: Path, more: Mapping[str, bytes] | None = None, *, identity: str = IDENTITY, seed: int = 0
) -> Path:
    """An environment in miniature at ``prefix``, with a record that knows its distributions."""
    files = recorded(environment_files() | {"bin/python3.12": PYTHON} | dict(more or {}))
    write_tree(prefix, files, seed=seed)
    (prefix / "bin" / "python3").symlink_to("python3.12")
    (prefix / "cuda").mkdir()
    (prefix / "cuda" / "lib64").symlink_to("../lib/python3.12/site-packages/nvidia/cu13/lib")
    dists = [
        Distribution(name=name, version=version, origin="index", wheel=f"{name}.whl", sha256="0" * 64)
        for name, version in sorted(VERSIONS.items())
    ]
    record = EnvironmentRecord(
        schema=SCHEMA,
        identity=identity,
        profile="probe",
        lock="1" * 64,
        prefix="/opt/orbit",
        python="3.12.1",
        interpreter="2" * 64,
        system_libraries=(),
        distributions=tuple(dists),
        skipped=(),
        contested=(),
        uncompiled=(),
    )
    dump_json(prefix / RECORD_PATH, record)
    return prefix


def make_archive(folder: Path, more: Mapping[str, bytes] | None = None, *, identity: str = IDENTITY) -> Path:
    """The archive of such an environment, as a file in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = plan_archive(make_environment(folder / "made", more, identity=identity), None, progress=Silent())
    write_archive_file(plan, folder / "env.tar.zst", progress=Silent())
    return folder / "env.tar.zst"


def unpack(archive: Path, prefix: Path, *editables: Path, elsewhere: bool = False) -> Hydrated:
    """Hydrate a file."""
    with open(archive, "rb") as source:
        options = Options(elsewhere=elsewhere, editables=editables)
        return hydrate(source, str(archive), prefix, options, progress=Silent())


def packed(tar: bytes) -> io.BytesIO:
    """A tar stream as a compressed one."""
    return io.BytesIO(zstandard.ZstdCompressor().compress(tar))


def forged(manifest: Manifest, lines: list[Line], contents: Mapping[str, bytes]) -> io.BytesIO:
    """A whole archive with those lines, whatever they say, and a manifest that fits them."""
    listed = render_list(lines)
    return forged_raw(manifest, listed, lines, contents)


def forged_raw(manifest: Manifest, listed: bytes, lines: list[Line], contents: Mapping[str, bytes]) -> io.BytesIO:
    """The same with the bytes of the list given."""
    import hashlib

    import msgspec

    fitting = msgspec.structs.replace(
        manifest, list_bytes=len(listed), list_sha256=hashlib.sha256(listed).hexdigest(), **counts(lines)
    )
    members: list[Member] = list(heads(keyed(fitting), listed))
    for line in lines:
        member = line.member()
        if member.kind == "file":
            data = contents.get(line.path, bytes(line.size))
            member = Member(member.name, "file", member.mode, size=len(data), source=data)
        members.append(member)
    out = io.BytesIO()
    pack = packer("zstd", out)
    for chunk in tar_chunks(members):
        pack.write(chunk)
    pack.close()
    return io.BytesIO(out.getvalue())


def everything(folder: Path) -> dict[str, tuple[int, int, object]]:
    """Kind and mode, time, content or target of every path below ``folder``."""
    found: dict[str, tuple[int, int, object]] = {}
    for path in sorted(folder.rglob("*")):
        state = os.lstat(path)
        what = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (state.st_mode, state.st_mtime_ns, what)
    return found


def plan_of(folder: Path) -> Plan:
    """The plan of a fresh small environment."""
    return plan_archive(make_environment(folder), None, progress=Silent())
