"""A small image in the shape of Orbit's: a base of Debian packages, an environment with its record, Orbit's layer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orbit.core.console import Silent
from orbit.release.sbom.inventory import take_inventory
from orbit.release.sbom.model import Component, Inventory
from tests.writers.elf import write_elf
from tests.writers.tiny_image import file, symlink, write_image

HOME = "opt/orbit"
SITE = f"{HOME}/lib/python3.12/site-packages"
MIT = b"Permission is hereby granted, free of charge\n"
STATUS = """\
Package: libfoo1
Status: install ok installed
Architecture: amd64
Multi-Arch: same
Source: foo (1.0-2)
Version: 1:1.0-2+b1
Provides: foo-abi-1
Depends: libbar2 (>= 2~), nowhere | virtual-thing
Description: a library
 that does nothing

Package: libbar2
Status: install ok installed
Architecture: amd64
Version: 2.0-1
Provides: virtual-thing
Description: another one

Package: left
Status: deinstall ok config-files
Architecture: all
Version: 9
"""
COPYRIGHT = b"""\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
Copyright: somebody
License: GPL-2+ or Expat

Files: debian/*
Copyright: somebody else
License: Odd-License

License: Expat
 The words of it.
"""
BASE_TOML = b'keep = ["usr/share/doc/*/copyright"]\ndrop = ["usr/share/doc/*", "usr/lib/lib?san*"]\n'
RECIPE = b'schema = 1\nname = "own-kernels"\ndist = "own-kernels"\n'

type Files = dict[str, bytes]


def metadata(name: str, version: str, *lines: str) -> bytes:
    return "\n".join(["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", *lines, "", "Text."]).encode()


def dist(name: str, version: str, files: Files, *lines: str, texts: Files | None = None, site: str = SITE) -> Files:
    """An installed distribution: paths of ``files`` are relative to site-packages, of ``texts`` to its licences."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    found = dict(files) | {
        f"{info}/METADATA": metadata(name, version, *lines),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\n",
    }
    found |= {f"{info}/licenses/{path}": data for path, data in (texts or {}).items()}
    found[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*found, f"{info}/RECORD"]).encode()
    return {f"{site}/{path}": data for path, data in found.items()}


def base_files() -> Files:
    return {
        "etc/os-release": b'ID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\nPRETTY_NAME="Debian 12"\n',
        "var/lib/dpkg/status": STATUS.encode(),
        "var/lib/dpkg/info/libfoo1:amd64.list": b"/.\n/usr\n/usr/lib\n/usr/lib/libfoo.so.1\n/usr/share/doc/libfoo1\n"
        b"/usr/share/doc/libfoo1/copyright\n/usr/share/doc/libfoo1/changelog.gz\n",
        "var/lib/dpkg/info/libbar2.list": b"/.\n/lib/libbar.so.2\n",
        "usr/lib/libfoo.so.1": b"foo",
        "usr/lib/libbar.so.2": b"bar",
        "usr/share/doc/libfoo1/copyright": COPYRIGHT,
    }


def environment_files() -> Files:
    found: Files = {
        f"{HOME}/lib/python3.12/os.py": b"# the standard library\n",
        f"{HOME}/lib/python3.12/LICENSE.txt": b"the terms of it\n",
    }
    found |= dist(
        "numeric",
        "2.0",
        {"numeric/__init__.py": b"", "numeric.libs/libgraft-0a1b2c3d.so.62.4.0": write_elf(soname="libgraft.so.62")},
        "License-Expression: MIT",
        "License-File: LICENSE",
        "Requires-Dist: own-kernels[fast]>=1; python_version >= '3.8'",
        "Requires-Dist: odd-one; sys_platform == 'win32'",
        "Requires-Dist: not-here",
        texts={"LICENSE": MIT},
    )
    found |= dist(
        "own-kernels",
        "1.5",
        {"own_kernels/libown.so": write_elf()},
        "License: Apache-2.0",
        "Provides-Extra: fast",
        "Requires-Dist: odd-one; extra == 'fast'",
    )
    found |= dist("odd-one", "0.1", {"odd.py": b""}, "License: BSD", "License-File: COPYING")
    found |= dist("inner", "3.0", {}, "License: MIT", site=f"{SITE}/numeric/_vendor")
    rows = f"{SITE}/numeric-2.0.dist-info/RECORD"
    found[rows] += b"".join(
        f"{path.removeprefix(SITE + '/')},,\n".encode() for path in sorted(found) if "/_vendor/" in path
    )
    return found


def record(**changes: Any) -> dict[str, Any]:
    """The environment record as Orbit writes it."""
    whole = {
        "schema": 1,
        "identity": "e" * 64,
        "profile": "small",
        "lock": "f" * 64,
        "prefix": "/opt/orbit",
        "python": "3.12.1",
        "interpreter": "a" * 64,
        "system_libraries": [],
        "distributions": [
            {"name": name, "version": version, "origin": origin, "wheel": f"{name}.whl", "sha256": digit * 64}
            for name, version, origin, digit in (
                ("numeric", "2.0", "index", "1"),
                ("odd-one", "0.1", "index", "2"),
                ("own-kernels", "1.5", "wheelhouse", "3"),
            )
        ],
        "skipped": [],
        "contested": [],
        "uncompiled": [],
        "kernels": [
            {
                "dist": "own-kernels",
                "version": "1.5",
                "requested": ["compute_90a:sm_90a"],
                "found": [
                    {
                        "file": "own_kernels/libown.so",
                        "coverage": {"sm_90a": 1},
                        "images": {"sm_90a": 1},
                        "glibc": "2.34",
                    }
                ],
            }
        ],
    }
    return whole | changes


def own_files() -> Files:
    found = dist(
        "orbit",
        "0.1.0",
        {
            "orbit/__init__.py": b"",
            "orbit/_data/containers/base.toml": BASE_TOML,
            "orbit/_data/kernels/recipes/own-kernels.toml": RECIPE,
        },
        "License-Expression: Apache-2.0",
        "Provides-Extra: stack",
        "Requires-Dist: numeric; extra == 'stack'",
    )
    return found | {f"{HOME}/share/orbit/environment.json": json.dumps(record()).encode()}


def make(folder: Path, change: Callable[[Files], object] | None = None, **config: Any) -> Path:
    """The image, after ``change`` was applied to all its files."""
    parts = [base_files(), environment_files(), own_files()]
    if change is not None:
        whole: Files = {**parts[0], **parts[1], **parts[2]}
        change(whole)
        parts = [whole]
    layers = [[file(path, data) for path, data in sorted(part.items())] for part in parts]
    layers[0].insert(0, symlink("lib", "usr/lib"))
    labels = {"org.opencontainers.image.title": "orbit/small", "org.opencontainers.image.version": "0.1.0"}
    return write_image(folder, layers, config={"Labels": labels} | config)


def taken(layout: Path) -> Inventory:
    return take_inventory(str(layout), cache=None, progress=Silent())


def one(inventory: Inventory, name: str, kind: str = "") -> Component:
    (found,) = [item for item in inventory.components if item.name == name and kind in ("", item.kind)]
    return found


def rules(inventory: Inventory) -> list[tuple[str, str]]:
    return [(finding.rule, finding.subject) for finding in inventory.findings if finding.fatal]
