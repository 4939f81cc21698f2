"""Make this machine's own Python, torch and CUDA toolkit the build environment of a scratch store.

For a machine that has them but reaches no package index (most GPU machines of a cluster are such), so that the builds
themselves can be tried there with `orbit kernels build`::

    python tests/gpu/plant_environment.py --cuda /usr/local/cuda [--group torch-build] [--beside FOLDER]

`--beside` is a folder of installed packages that go before the machine's own (setuptools, ninja, ...). The store says
afterwards that the lock's packages are in there, which is not true: use a store of its own (`ORBIT_CACHE`), and throw
it away with everything that was built in it.
"""

from __future__ import annotations

import argparse
import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

from orbit.core.paths import checkout_root
from orbit.core.store import open_store
from orbit.kernels.buildenv import KIND, SITE, environment_inputs, interpreter
from orbit.profile.lock import read_lock


def plant(env: Path, folders: list[Path], cuda: Path) -> None:
    """A virtual environment of links: packages of ``folders``, the first of a name wins, and the toolkit."""
    (env / "bin").mkdir(parents=True)
    (env / "bin" / "python").symlink_to(interpreter())
    (env / "pyvenv.cfg").write_text(f"home = {interpreter().parent}\ninclude-system-site-packages = false\n")
    site = env / SITE
    site.mkdir(parents=True)
    for folder in folders:
        for entry in sorted(folder.iterdir()):
            if entry.name not in ("nvidia", "bin") and not (site / entry.name).exists():
                (site / entry.name).symlink_to(entry)
        for program in sorted((folder / "bin").iterdir()) if (folder / "bin").is_dir() else ():
            if not (env / "bin" / program.name).exists():
                (env / "bin" / program.name).symlink_to(program)
    toolkit = site / "nvidia" / "cu13"
    toolkit.mkdir(parents=True)
    for name in ("bin", "include", "nvvm"):
        (toolkit / name).symlink_to(cuda / name)
    (toolkit / "lib").symlink_to(next(cuda / name for name in ("lib64", "lib") if (cuda / name).is_dir()))


def main() -> int:
    """Plant it, once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuda", type=Path, default=Path("/usr/local/cuda"))
    parser.add_argument("--group", default="torch-build")
    parser.add_argument("--beside", type=Path, action="append", default=[])
    args = parser.parse_args()
    if "ORBIT_CACHE" not in os.environ:
        parser.error("set ORBIT_CACHE to a folder that you will throw away")
    folders = [*args.beside, Path(sysconfig.get_path("purelib"))]

    def work(folder: Path) -> dict[str, Any]:
        plant(folder / "env", [each.absolute() for each in folders], args.cuda.resolve())
        return {"planted": True}

    lock = read_lock(checkout_root() / "uv.lock")
    entry = open_store().obtain(KIND, environment_inputs(args.group, lock), work)
    print(entry.path / "env")
    return 0


if __name__ == "__main__":
    sys.exit(main())
