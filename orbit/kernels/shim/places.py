"""Where things are in a build, and texts without that: paths of this machine exchanged for names that are the same
everywhere."""

from __future__ import annotations

import hashlib
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .config import Config

CONFIG_NAME = "orbit-shim.json"
"""File with the settings of a build, in CUDA_HOME/bin beside the copied package."""
SOURCE = "src/"
"""The package's sources, below the build's folder."""
PROBE = "probe"
"""What a unit is called that is no part of the package."""
PIECE_BYTES = 1 << 22
BARE = r"(?=[=:,;]|$)"
"""What follows a folder that is named as a whole: ``/opt/python`` is not in ``/opt/python3``."""
TEMPORARY = re.compile(r"tmpxft_[0-9a-f]+_[0-9a-f]+-\d+_")
"""nvcc's names of temporary files without ``--keep``: process and counter in front of the real name."""


def real_tool(name: str, config: Config, here: str) -> str:
    """Path of the real program, relative when ``here`` is inside the build (nvcc puts its own path into results)."""
    if name in config["programs"]:
        return config["programs"][name]
    folder = os.path.join(os.path.dirname(config["bin"]), "nvvm", "bin") if name == "cicc" else config["bin"]
    path = os.path.join(folder, f"{name}-real")
    return os.path.relpath(path, here) if (here + "/").startswith(config["root"] + "/") else path


def inside(path: str, config: Config) -> str:
    """``path`` relative to the build's folder; unchanged when it is elsewhere."""
    whole = os.path.normpath(os.path.join(os.getcwd(), path))
    prefix = config["root"].rstrip("/") + "/"
    return whole.removeprefix(prefix) if whole.startswith(prefix) else "" if whole + "/" == prefix else whole


def unit_name(path: str, config: Config) -> str:
    """A source as people know it, ``csrc/x.cu``; :data:`PROBE` for what build scripts try their compiler with."""
    place = inside(path, config)
    return PROBE if is_probe(place) else place.removeprefix(SOURCE)


def is_probe(place: str) -> bool:
    """Whether a source (relative to the build's folder) only tests a compiler: outside the sources, or cmake's own."""
    return not place.startswith(SOURCE) or "/CMakeFiles/" in place


def clean(data: bytes, config: Config) -> bytes:
    """``data`` with this machine's folders exchanged, see ``Config.prefixes``."""
    for path, replacement in config["prefixes"]:
        data = data.replace(path.encode(), replacement.encode())
    return data


def clean_text(text: str, config: Config) -> str:
    """The same for one word of a command line, where a folder also stands without a slash behind, as in
    ``-ffile-prefix-map=/b=.``; the build's own folder becomes ``.``"""
    for path, replacement in config["prefixes"]:
        text = text.replace(path, replacement)
        if path[:-1] in text:
            text = re.sub(re.escape(path[:-1]) + BARE, replacement[:-1] or ".", text)
    return text.replace(config["root"], ".")


def clean_lines(pieces: Iterable[bytes], config: Config) -> Iterator[bytes]:
    """The same for a text that comes in pieces: texts of hundreds of megabytes are never in memory as a whole."""
    rest = b""
    for piece in pieces:
        whole, newline, rest = (rest + piece).rpartition(b"\n")
        yield clean(whole + newline, config)
    yield clean(rest, config)


def clean_file(path: str, config: Config) -> str:
    """Clean a text file in place; sha256 of what it is now. It is written only when something changed."""
    before, after = hashlib.sha256(), hashlib.sha256()
    for piece in clean_lines(_pieces(path, before), config):
        after.update(piece)
    if before.digest() != after.digest():
        beside = f"{path}.{os.getpid()}.tmp"
        with open(beside, "wb") as file:
            file.writelines(clean_lines(_pieces(path), config))
        os.replace(beside, path)
    return after.hexdigest()


def _pieces(path: str, digest: hashlib._Hash | None = None) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while piece := file.read(PIECE_BYTES):
            if digest:
                digest.update(piece)
            yield piece


def hide(data: bytes, config: Config) -> bytes:
    """``data`` with this machine's folders as tokens that :func:`reveal` turns into those of another."""
    for number, (path, _) in enumerate(config["prefixes"]):
        data = data.replace(path.encode(), b"@orbit-%d@/" % number)
    return data


def reveal(data: bytes, config: Config) -> bytes:
    """The inverse of :func:`hide`."""
    for number, (path, _) in enumerate(config["prefixes"]):
        data = data.replace(b"@orbit-%d@/" % number, path.encode())
    return data


def short(path: str) -> str:
    """A file's name without its folder and without nvcc's temporary marks: the same in every run."""
    return TEMPORARY.sub("", os.path.basename(path))


def write_beside(path: str, data: bytes) -> None:
    """Replace a file whole: a killed program leaves the old one or the new one, never a half."""
    beside = f"{path}.{os.getpid()}.tmp"
    with open(beside, "wb") as file:
        file.write(data)
    os.replace(beside, path)
