"""A writer of installed environments: distributions with real metadata, and ways to break them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.writers.elf import write_elf


def record_digest(data: bytes) -> str:
    """sha256 in RECORD's spelling."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


class EnvironmentWriter:
    """Writes a prefix with ``lib/python3.12/site-packages``; every method may be called again."""

    def __init__(self, prefix: Path, python: str = "3.12") -> None:
        self.prefix = prefix
        self.site = prefix / "lib" / f"python{python}" / "site-packages"
        self.site.mkdir(parents=True)

    def add(
        self,
        name: str,
        files: Mapping[str, bytes],
        *,
        version: str = "1.0",
        tags: Sequence[str] = ("py3-none-any",),
        rows: Sequence[str] = (),
        headers: Sequence[str] = (),
    ) -> Path:
        """Install a distribution with ``files`` (paths relative to site-packages); ``rows`` are added to its RECORD.

        ``headers`` are further lines of METADATA.

        Returns the dist-info folder.
        """
        folder = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        wheel = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n" + "".join(f"Tag: {tag}\n" for tag in tags)
        lead = ("Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}")
        metadata = {"METADATA": "\n".join([*lead, *headers, ""]), "WHEEL": wheel}
        content = dict(files) | {f"{folder.name}/{key}": text.encode() for key, text in metadata.items()}
        lines = []
        for path, data in content.items():
            target = self.site / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            lines.append(f"{path},sha256={record_digest(data)},{len(data)}")
        record = "\n".join([*lines, *rows, f"{folder.name}/RECORD,,"]) + "\n"
        (folder / "RECORD").write_text(record, encoding="utf-8")
        return folder

    def add_library(self, path: str, *, dist: str | None = None, **parts: object) -> Path:
        """Install a distribution of one shared object; ``parts`` go to :func:`tests.writers.elf.write_elf`."""
        self.add(dist or Path(path).name.split(".")[0], {path: write_elf(**parts)})  # type: ignore[arg-type]
        return self.site / path


def write_sound_environment(prefix: Path) -> EnvironmentWriter:
    """A small environment with nothing wrong: one package, one extension module, one library."""
    env = EnvironmentWriter(prefix)
    env.add("good", {"good/__init__.py": b"answer = 42\n", "good/data.txt": b"text\n"})
    env.add(
        "native",
        {"native/__init__.py": b"", "native/_c.cpython-312-x86_64-linux-gnu.so": write_elf(needed=["libc.so.6"])},
        tags=["cp312-cp312-linux_x86_64"],
    )
    return env
