"""The interpreter of an environment: a copy of the CPython that runs Orbit, made relocatable.

A uv-managed standalone build and a pyenv installation both serve. What is copied is data (``env/interpreter.toml``);
what comes out has no path of the machine it was found on, and is known by the hash of the result, so two machines with
the same build get the same interpreter.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import platform
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orbit.core import proc
from orbit.core.files import sha256_file, tree_hash
from orbit.core.paths import data_file
from orbit.core.records import Record, load_toml
from orbit.core.store import Entry, Store
from orbit.env import relocate
from orbit.errors import CheckFailed, InputError, MissingError

FORMAT = 1
"""Raised when the copy's shape changes."""
VERSION = "3.12"
NAMES = ("python3", "python")
"""Links beside the executable."""
RUN_PATHS = {"bin": "$ORIGIN/../lib", "lib": "$ORIGIN", "lib-dynload": "$ORIGIN/../.."}
"""Run path by the folder a file lies in."""
GET_ANOTHER = "run Orbit through ./orbitw, which gets a standalone CPython 3.12, or use one from uv or pyenv"
CONFIGURATION = re.compile(r"(^|/)(_sysconfigdata[^/]*\.py|config-[^/]*/.*|pkgconfig/[^/]*\.pc)$")
"""Files of a CPython that record where it was configured and built."""
NIX_ENTRY = re.compile(r"[0-9a-df-np-sv-z]{32}-.+")
"""What an entry of a Nix store is called, wherever the store is: a hash in Nix's alphabet, then a name."""
STANDARD_PREFIXES = frozenset({"/usr/local", "/install"})
"""Prefixes that say nothing about a machine: container images and standalone builds are configured with them."""
BUILD_STAND_IN = "/usr/src/python3.12"
"""Takes the place of the folder CPython was compiled in, in texts such as Makefile."""


class Rule(Record, frozen=True, kw_only=True):
    """A pattern of ``env/interpreter.toml`` and why it is there."""

    pattern: str
    reason: str


class Selection(Record, frozen=True, kw_only=True):
    """What of a CPython installation is copied."""

    schema: int
    keep: tuple[Rule, ...]
    drop: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """A CPython installation on this machine."""

    prefix: Path
    """Resolved prefix."""
    spellings: tuple[str, ...]
    """Every way its files may spell that prefix (as configured, as resolved)."""
    build_folders: tuple[str, ...]
    """Folders it was compiled in, as its own configuration names them."""
    version: str
    """Full version."""

    @property
    def telling(self) -> tuple[str, ...]:
        """Spellings of the prefix that must not be in a copy, because they tell where it was made."""
        return tuple(path for path in self.spellings if path not in STANDARD_PREFIXES)


def running() -> Source:
    """The CPython that runs this code (of a virtual environment: the one behind it)."""
    variables = sysconfig.get_config_vars()
    prefix = Path(sys.base_prefix).resolve()
    builds = {str(variables.get(name) or "") for name in ("abs_builddir", "abs_srcdir", "srcdir")}
    return Source(
        prefix=prefix,
        spellings=tuple(sorted({str(prefix), sys.base_prefix})),
        build_folders=tuple(sorted(path for path in builds if path.startswith("/") and not _inside(path, prefix))),
        version=platform.python_version(),
    )


def _inside(path: str, folder: Path) -> bool:
    return Path(path) == folder or folder in Path(path).parents


def load_selection() -> Selection:
    """Read ``env/interpreter.toml``."""
    return load_toml(data_file("env", "interpreter.toml"), Selection)


def check_source(source: Source, wanted: str) -> None:
    """Refuse an installation that is not the wanted version or cannot be made relocatable, saying why."""
    if not source.version.startswith(f"{wanted}."):
        raise InputError(
            f"the profile wants CPython {wanted}, Orbit runs on {source.version} ({source.prefix})", fix=GET_ANOTHER
        )
    if wanted != VERSION:
        raise InputError(f"profile: python = {wanted!r} is not supported", fix=f"use {VERSION!r}")
    library = source.prefix / "lib" / f"python{VERSION}"
    if source.prefix == Path("/usr") or (library / "dist-packages").exists():
        raise MissingError(
            f"{source.prefix}: the distribution's own Python cannot be copied (its parts are spread over the system)",
            fix=GET_ANOTHER,
        )
    if (source.prefix / "conda-meta").is_dir() or any(NIX_ENTRY.fullmatch(part) for part in source.prefix.parts):
        raise MissingError(
            f"{source.prefix}: a conda or Nix Python cannot be copied alone (it loads libraries of other packages)",
            fix=GET_ANOTHER,
        )
    for path in (source.prefix / "bin" / f"python{VERSION}", library / "os.py"):
        if not path.is_file():
            raise MissingError(f"{path}: not there, so {source.prefix} is no whole CPython", fix=GET_ANOTHER)


def selected_files(source: Source, selection: Selection) -> Iterator[str]:
    """Relative paths of the files to copy, sorted. Links inside the installation count as the file they lead to."""
    keep = _any([rule.pattern for rule in selection.keep])
    drop = _any([rule.pattern for rule in selection.drop])
    found: list[str] = []
    for top in ("bin", "lib", "include", "share"):
        for folder, folders, names in os.walk(source.prefix / top):
            folders[:] = [name for name in folders if name not in ("__pycache__", "site-packages")]
            base = os.path.relpath(folder, source.prefix)
            found.extend(f"{base}/{name}" for name in names)
    yield from (path for path in sorted(found) if keep.match(path) and not drop.match(path))


def _any(patterns: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns))


def obtain_interpreter(store: Store, source: Source, image_prefix: str) -> Entry:
    """The relocatable copy of ``source``; ``entry.path / "prefix"`` holds it.

    Outputs: ``tree`` (hash of the copy), ``version``, ``system_libraries`` (sonames it needs from the base).
    """
    selection = load_selection()
    files = list(selected_files(source, selection))
    digest = hashlib.sha256()
    for name in files:
        digest.update(f"{name}\0{sha256_file(source.prefix / name)}\0".encode())
    inputs = {
        "format": FORMAT,
        "source": digest.hexdigest(),
        "prefix": image_prefix,
        "found_at": list(source.telling),
    }
    return store.obtain("interpreter", inputs, lambda folder: _copy(source, files, folder / "prefix", image_prefix))


def _copy(source: Source, files: list[str], prefix: Path, image_prefix: str) -> dict[str, object]:
    for name in files:
        target = prefix / name
        target.parent.mkdir(parents=True, exist_ok=True)
        link = source.prefix / name
        if link.is_symlink() and "/" not in os.readlink(link):
            target.symlink_to(os.readlink(link))
            continue
        target.write_bytes(link.read_bytes())
        os.chmod(target, 0o755 if link.stat().st_mode & 0o111 else 0o644)
    for name in NAMES:
        (prefix / "bin" / name).symlink_to(f"python{VERSION}")
    make_relocatable(prefix, source, image_prefix)
    check_runs(prefix, source)
    libraries = system_libraries(prefix)
    return {"tree": tree_hash(prefix), "version": source.version, "system_libraries": list(libraries)}


def binaries(prefix: Path) -> list[Path]:
    """ELF files of the interpreter at ``prefix``, sorted; none of site-packages."""
    library = prefix / "lib" / f"python{VERSION}"
    places = [prefix / "bin" / f"python{VERSION}", *(prefix / "lib").glob("libpython*.so*")]
    places += (library / "lib-dynload").glob("*.so")
    return sorted(path for path in places if relocate.is_elf_file(path))


def make_relocatable(prefix: Path, source: Source, image_prefix: str) -> None:
    """Rewrite every place of the copy at ``prefix`` that names the installation it came from."""
    elves = binaries(prefix)
    run_paths = {path: entries for path, entries in relocate.run_paths(elves).items() if entries}
    _refuse_foreign_run_paths(run_paths, source)
    executable = prefix / "bin" / f"python{VERSION}"
    if any(name.startswith("libpython") for name in relocate.needed_libraries([executable])):
        run_paths.setdefault(executable, ())  # the original may find its library through the system's cache
    for folder, run_path in RUN_PATHS.items():
        relocate.set_run_path([path for path in run_paths if path.parent.name == folder], run_path)
    telling = [os.fsencode(path) for path in source.telling]
    for path in elves:
        before = path.read_bytes()
        data = relocate.drop_debug_sections(before, str(path.relative_to(prefix)))
        for old in telling:
            data = relocate.blank_path(data, old, os.fsencode(image_prefix))
        if data != before:
            path.write_bytes(data)
    texts = {os.fsencode(old): os.fsencode(image_prefix) for old in source.spellings}
    texts |= {os.fsencode(folder): BUILD_STAND_IN.encode() for folder in source.build_folders}
    for path in sorted(prefix.rglob("*")):
        if path.is_file() and not path.is_symlink() and CONFIGURATION.search(str(path.relative_to(prefix))):
            path.write_bytes(relocate.replace_text(path.read_bytes(), texts))
    left = list(relocate.find_paths(prefix, telling))
    if left:
        raise CheckFailed(f"the interpreter still names {source.prefix} in {'; '.join(left[:5])}", fix=GET_ANOTHER)


def _refuse_foreign_run_paths(run_paths: dict[Path, tuple[str, ...]], source: Source) -> None:
    for path, entries in run_paths.items():
        for entry in entries:
            if not entry.startswith("$ORIGIN") and not any(_inside(entry, Path(own)) for own in source.spellings):
                raise MissingError(
                    f"{source.prefix}: {path.name} loads libraries from {entry}, which would not be in the image",
                    fix=GET_ANOTHER,
                )


def check_runs(prefix: Path, source: Source) -> None:
    """Start the copy and compare what it says of itself with the original."""
    program = "import sys, sysconfig; print(sys.version.split()[0], sys.prefix, sysconfig.get_path('stdlib'))"
    executable = prefix / "bin" / f"python{VERSION}"
    out = proc.run([executable, "-I", "-S", "-B", "-c", program], doing="starting the copied interpreter").stdout
    wanted = f"{source.version} {prefix} {prefix}/lib/python{VERSION}"
    if out.decode().strip() != wanted:
        raise CheckFailed(
            f"the copied interpreter says {out.decode().strip()!r} instead of {wanted!r}", fix=GET_ANOTHER
        )


def system_libraries(prefix: Path) -> tuple[str, ...]:
    """Sonames that the interpreter at ``prefix`` and its extension modules need from the base of an image."""
    own = {path.name for path in (prefix / "lib").glob("*.so*")}
    return tuple(name for name in relocate.needed_libraries(binaries(prefix)) if name not in own)


def copy_interpreter(entry: Entry, prefix: Path) -> None:
    """Put the interpreter of ``entry`` into the new folder ``prefix``."""
    shutil.copytree(entry.path / "prefix", prefix, symlinks=True)
