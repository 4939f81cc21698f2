"""Six sets of wheels that differ in every way a lock can change, for the tests of taking over."""

from __future__ import annotations

from pathlib import Path

from tests.profile.locks import lock_text

from .wheels import Built, House, write_wheel

CODE = b"import sys\ndef main():\n    print('ran', sys.prefix)\n"
SETS = b"def f(x):\n    return x in {'fp16', 'bf16'}\ndef g(x):\n    return x in {'fp16', 'bf16'}\n"
"""Its compiled form depends on what was compiled before it in its folder (see the compile worker)."""
WORLDS = ("base", "upgraded", "fewer", "more", "settled", "rebuilt", "empty")


def make_world(folder: Path, name: str) -> tuple[Path, House]:
    """A checkout whose lock is empty, and the built wheels of the world ``name``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "uv.lock").write_text(lock_text())
    return folder, House(wheels=_wheels(folder / "w", name))


def _wheels(folder: Path, name: str) -> list[Built]:
    if name == "empty":
        return []
    hello = {"hello/__init__.py": CODE, "hello/gone.py": b"X = 1\n", "hello/sub/deep.py": SETS}
    version = "1.0"
    if name == "upgraded":  # other files, another script
        hello = {"hello/__init__.py": CODE + b"X = 2\n", "hello/new.py": SETS, "hello/sub/deep.py": SETS}
        version = "2.0"
    elif name == "rebuilt":  # same version, other bytes
        hello = {**hello, "hello/__init__.py": CODE + b"Y = 1\n"}
    script = "hello2" if name == "upgraded" else "hello"
    whose = "aaa" if name != "settled" else "zzz"  # settled: both bring the same bytes
    found = [
        write_wheel(folder, "hello", version, hello, {script: "hello:main"}),
        write_wheel(folder, "aaa", "1", {"aaa.py": SETS, "shared.py": f"WHOSE = '{whose}'\n".encode()}),
        write_wheel(folder, "ns-one", "1", {"ns/__init__.py": b"", "ns/one.py": SETS}),
        write_wheel(
            folder,
            "tool",
            "1",
            {"tool/__init__.py": SETS, "tool.data": b"1"},
            {"tool": "tool:f"},
            {"tool/unlisted.py": SETS, "tool/empty/": b"", "tool/sub/unlisted.txt": b"?"},
        ),
    ]
    init = b"X = 1\n" if name == "more" else b""  # more: a shared file becomes contested
    found.append(write_wheel(folder, "ns-two", "1", {"ns/__init__.py": init, "ns/two.py": SETS}))
    if name != "fewer":  # fewer: nothing is contested, the folder of site-packages has other sources
        files = {"zzz.py": SETS, "shared.py": b"WHOSE = 'zzz'\n", "old.py": b"print 1\n"}
        found.append(write_wheel(folder, "zzz", "1", files))
    if name == "more":  # a third owner, and a script that two bring
        files = {"mmm.py": SETS, "shared.py": b"WHOSE = 'mmm'\n"}
        found.append(write_wheel(folder, "mmm", "1", files, {"tool": "mmm:g"}))
    return found
