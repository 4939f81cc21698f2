"""git, run so that neither the user's settings nor the repository can change what comes out or start a program.

Every call has its own configuration file and no other, no prompt, no hook, no replaced objects, no lazy fetching, and
one allowed protocol. What is read is verified again by :mod:`orbit.kernels.sources.tree`, object by object, so that
git is trusted to find bytes and never to vouch for them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from orbit.core.proc import ca_bundle, run
from orbit.core.tools import find
from orbit.errors import CommandFailed, InputError, RefusedError
from orbit.kernels.sources.places import Place

CONFIG = """\
[core]
\thooksPath = /dev/null
\tautocrlf = false
[protocol]
\tversion = 2
[transfer]
\tfsckObjects = true
[fetch]
\tunpackLimit = 1
\trecurseSubmodules = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
[credential]
\thelper =
[http]
\tlowSpeedLimit = 1000
\tlowSpeedTime = 60
[safe]
\tdirectory = *
"""
"""``safe.directory``: mirrors are often another user's; only upload-pack and cat-file ever run in one."""
CONFIG_NAME = "orbit.gitconfig"
REF = "refs/heads/pinned"
"""The branch under which our own repositories and bundles hold the one commit."""
TIMEOUT_S = 3600.0
BATCH_BYTES = 64 << 20
"""About how much of objects is held at once."""
OBJECT_BYTES = 1 << 30
"""Largest object that is read; those of the sources at hand are below 10 MB."""


@dataclass(frozen=True, slots=True)
class Size:
    """What git says of an object before it is read."""

    kind: str
    size: int


def git(
    repository: Path,
    *args: str,
    doing: str,
    protocol: str = "none",
    stdin: bytes | Iterable[bytes] | None = None,
    within: Path | None = None,
) -> bytes:
    """Run git on one of our own bare repositories, or with its settings inside another repository ``within``.

    Returns its standard output. Raises :class:`MissingError` without git, :class:`CommandFailed` when it fails.
    """
    repository = repository.absolute()
    within = within and within.resolve()
    env = {
        "HOME": str(repository),
        "GIT_CONFIG_GLOBAL": str(repository / CONFIG_NAME),
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": protocol,
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
    }
    if within is None:
        env["GIT_DIR"] = str(repository)
    else:
        env["GIT_CEILING_DIRECTORIES"] = str(within.parent)
    bundle = ca_bundle()
    if bundle is not None:
        env["GIT_SSL_CAINFO"] = str(bundle)
    argv = [str(find("git")), *args]
    return run(argv, doing=doing, env=env, cwd=within, stdin=stdin, timeout_s=TIMEOUT_S).stdout


def init_bare(repository: Path) -> None:
    """A new empty repository of ours."""
    repository.mkdir(parents=True)
    (repository / CONFIG_NAME).write_text(CONFIG, encoding="ascii")
    doing = "make a git repository in the store"
    git(repository, "init", "--quiet", "--bare", "--template=", "--object-format=sha1", doing=doing)


def fetch_commit(repository: Path, origin: str, commit: str, *, protocol: str) -> None:
    """Fetch one commit without its history into ``repository``, never by the name of a branch or tag.

    ``protocol`` is ``https`` or ``file``. Raises :class:`CommandFailed` with what git said.
    """
    git(
        repository,
        *("fetch", "--quiet", "--depth", "1", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"),
        *("--", origin, f"{commit}:{REF}"),
        doing=f"fetch commit {commit} from {origin}",
        protocol=protocol,
    )


def has_commit(repository: Path, place: Path | None, commit: str) -> bool:
    """Whether the repository at ``place`` (None: ours) holds the commit. ``repository`` is ours, for its settings.

    Raises :class:`InputError` for a folder that git cannot read as a repository.
    """
    doing = f"look for commit {commit}"
    try:
        said = git(repository, "cat-file", "--batch-check", doing=doing, within=place, stdin=f"{commit}\n".encode())
    except CommandFailed as error:
        raise damaged(Place(place or repository, bundle=False), error) from None
    return said.startswith(f"{commit} commit ".encode())


def unbundle(repository: Path, place: Place, commit: str) -> bool:
    """Put all objects of a bundle into ``repository``; whether the commit is among them.

    Raises :class:`InputError` for a file that is no bundle, needs commits it does not hold, or is damaged.
    """
    offset = bundle_offset(place.path)
    try:
        git(
            repository,
            *("index-pack", "--stdin"),
            doing=f"read the bundle {place.path}",
            stdin=_pieces(place.path, offset),
        )
    except CommandFailed as error:
        raise damaged(place, error) from None
    return has_commit(repository, None, commit)


def bundle_offset(path: Path) -> int:
    """Where the pack begins in a bundle (formats 2 and 3, "gitformat-bundle" in git's documentation)."""
    with open(path, "rb") as file:
        if file.readline(64) not in (b"# v2 git bundle\n", b"# v3 git bundle\n"):
            raise InputError(f"{path}: not a git bundle", fix="make it with `git bundle create`")
        while (line := file.readline(4096)) != b"\n":
            if not line.endswith(b"\n"):
                raise InputError(f"{path}: the bundle ends inside its header", fix="copy it again, whole")
            if line.startswith((b"-", b"@filter")):
                raise InputError(
                    f"{path}: the bundle counts on objects that are not in it",
                    fix="make it of a whole branch, without `--not`, a range or a filter",
                )
        return file.tell()


def damaged(place: Place, error: CommandFailed) -> Exception:
    """The failure of git on what ``ORBIT_SOURCES`` holds; a full disk stays what it is."""
    if error.code is RefusedError.code:
        return error
    said = "\n".join(f"  | {line}" for line in error.tail.splitlines()[-6:])
    what = "bundle" if place.bundle else "repository"
    return InputError(
        f"{place.path}: the {what} is damaged or incomplete\n{said}", fix="copy or make it again, or take it away"
    )


def object_sizes(repository: Path, names: Sequence[str]) -> dict[str, Size]:
    """Kind and size by name; kind ``missing`` for what is not there."""
    asked = "".join(f"{name}\n" for name in names).encode()
    said = git(repository, "cat-file", "--batch-check", doing="look for git objects", stdin=asked)
    found = {}
    for name, line in zip(names, said.decode().splitlines(), strict=True):
        words = line.split()
        found[name] = Size(words[1], int(words[2])) if len(words) == 3 else Size("missing", 0)
    return found


def read_objects(repository: Path, sizes: dict[str, Size], kind: str) -> Iterator[tuple[str, bytes]]:
    """Objects by name, a few at a time, each verified: its bytes have the hash that is its name.

    Raises :class:`InputError` for one that is missing, too large, of another kind, or not what its name says.
    """
    batch: list[str] = []
    held = 0
    for name, size in sizes.items():
        if size.kind != kind or size.size > OBJECT_BYTES:
            raise InputError(
                f"{repository}: object {name} is {size.kind} of {size.size} bytes where a {kind} is expected",
                fix="the commit or tree in the recipe is wrong, or the repository lacks objects",
            )
        if batch and held + size.size > BATCH_BYTES:
            yield from _read(repository, batch, sizes)
            batch, held = [], 0
        batch.append(name)
        held += size.size
    if batch:
        yield from _read(repository, batch, sizes)


def _read(repository: Path, names: Sequence[str], sizes: dict[str, Size]) -> Iterator[tuple[str, bytes]]:
    asked = "".join(f"{name}\n" for name in names).encode()
    said = memoryview(git(repository, "cat-file", "--batch", doing="read git objects", stdin=asked))
    at = 0
    for name in names:
        size = sizes[name]
        header = f"{name} {size.kind} {size.size}\n".encode()
        start = at + len(header)
        data = bytes(said[start : start + size.size])
        if bytes(said[at:start]) != header or object_name(size.kind, data) != name:
            raise InputError(
                f"{repository}: object {name} is not what its name says",
                fix="the copy is damaged: delete that entry of the store and run again",
            )
        yield name, data
        at = start + size.size + 1


def object_name(kind: str, data: bytes) -> str:
    """Name of a git object: the SHA-1 of its kind, size and content."""
    return hashlib.sha1(f"{kind} {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest()


def _pieces(path: Path, offset: int) -> Iterator[bytes]:
    with open(path, "rb") as file:
        file.seek(offset)
        while piece := file.read(1 << 20):
            yield piece
