"""Set run paths of every ELF file below a folder, and refuse what nobody brings: nixpkgs' autoPatchelf in small.

    python auto_patchelf.py FOLDER --ignore PATTERN... --append RUNPATH... --libs FOLDER...

The interpreter of programs stays the machine's, for what is built with the stand-in runs on this machine alone.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MAGIC = b"\x7fELF\x02\x01"
"""A 64-bit little-endian ELF file, as all of x86-64."""
MACHINE_OFFSET, X86_64 = 18, 62
TYPE_OFFSET, EXECUTABLE, SHARED = 16, 2, 3


def elf_files(folder: Path) -> Iterator[Path]:
    """Programs and shared objects of this machine's architecture, not links to them."""
    for place, _folders, names in os.walk(folder):
        for path in (Path(place) / name for name in names):
            if path.is_symlink() or not path.is_file():
                continue
            with open(path, "rb") as file:
                head = file.read(20)
            kind = int.from_bytes(head[TYPE_OFFSET : TYPE_OFFSET + 2], "little")
            machine = int.from_bytes(head[MACHINE_OFFSET : MACHINE_OFFSET + 2], "little")
            if head.startswith(MAGIC) and machine == X86_64 and kind in (EXECUTABLE, SHARED):
                yield path


def needed(path: Path) -> list[str]:
    """What the loader is asked for; nothing for a statically linked program."""
    done = subprocess.run(["patchelf", "--print-needed", path], capture_output=True, text=True, check=False)
    return done.stdout.split() if done.returncode == 0 else []


def loader_knows() -> set[str]:
    """Names in the cache of this machine's loader."""
    ldconfig = "/sbin/ldconfig"
    shown = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False).stdout
    return {line.split()[0] for line in shown.splitlines() if " => " in line}


def plan(
    folder: Path, libs: list[Path], ignore: list[str], known: set[str]
) -> tuple[dict[Path, list[Path]], list[tuple[Path, str]]]:
    """Run paths by file, own folders first; and what nobody brings, as (file, soname)."""
    files = list(elf_files(folder))
    places: dict[str, Path] = {}
    for path in files:
        places.setdefault(path.name, path.parent)
    for lib in libs:
        for entry in sorted(lib.iterdir()) if lib.is_dir() else ():
            places.setdefault(entry.name, lib)
    run_paths: dict[Path, list[Path]] = {}
    missing: list[tuple[Path, str]] = []
    for path in files:
        found: list[Path] = []
        for soname in needed(path):
            if soname in places and (soname not in known or places[soname].is_relative_to(folder)):
                found.append(places[soname])
            elif soname not in known and not any(fnmatch.fnmatch(soname, pattern) for pattern in ignore):
                missing.append((path, soname))
        run_paths[path] = list(dict.fromkeys(found))
    return run_paths, missing


def main(argv: list[str]) -> int:
    """Patch, or say what is missing and fail."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ignore", nargs="*", default=[])
    parser.add_argument("--append", nargs="*", default=[])
    parser.add_argument("--libs", nargs="*", type=Path, default=[])
    args = parser.parse_args(argv)
    run_paths, missing = plan(args.folder, args.libs, args.ignore, loader_knows())
    for path, soname in missing:
        sys.stderr.write(f"error: auto-patchelf: {soname}, wanted by {path}, is nowhere\n")
    if missing:
        return 1
    for path, found in run_paths.items():
        if found:
            words = ":".join([*(str(place) for place in found), *args.append])
            subprocess.run(["patchelf", "--set-rpath", words, path], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
