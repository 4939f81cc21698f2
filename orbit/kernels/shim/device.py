"""The programs nvcc runs for device code, freed of this machine's paths and process numbers.

``cudafe++`` derives the names of internal functions from the source's absolute path and a process number, and ``ptxas``
gets line tables with absolute paths.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .config import Config
from .log import real_tool


def run_cudafe(arguments: Sequence[str], config: Config) -> int:
    """Run cudafe++ with names of internal functions and variables that depend on nothing of this machine.

    cudafe++ makes them from a "module id": hashes of the source's absolute path and of the working folder, at times
    the process number. It writes that id to a file for the later steps (``--gen_module_id_file``), which read it; so we
    write the file and let every step read.
    """
    root = str(config["root"]).rstrip("/") + "/"
    changed = list(arguments)
    source = id_file = ""
    for index, argument in enumerate(arguments[1:], start=1):
        if arguments[index - 1] == "--orig_src_path_name":
            source = argument.removeprefix(root)
            changed[index] = f"/{source}"
        elif arguments[index - 1] == "--module_id_file_name":
            id_file = argument
    if "--gen_module_id_file" in changed and id_file:
        changed.remove("--gen_module_id_file")
        Path(id_file).write_text(module_id(source, id_file), encoding="utf-8")
    return subprocess.call([real_tool("cudafe++", config, os.getcwd()), *changed])


def module_id(source: str, id_file: str) -> str:
    """A module id in cudafe++'s own form: ``_<hash>_<length>_<file name>_<hash>``.

    ``source`` is relative to the build's root. The folder of ``id_file`` carries the hash of the object's name, so one
    source compiled twice has two ids.
    """
    folder = os.path.basename(os.path.dirname(id_file))
    first, second = (hashlib.sha256(text.encode()).hexdigest()[:8] for text in (source, f"{source} {folder}"))
    name = re.sub(r"[^A-Za-z0-9]", "_", os.path.basename(source))
    return f"_{first}_{len(name)}_{name}_{second}"


def run_ptxas(arguments: Sequence[str], config: Config) -> int:
    """Run ptxas after taking the build's root out of the file names that the PTX text carries for line tables."""
    root = str(config["root"]).rstrip("/") + "/"
    for argument in arguments:
        path = Path(argument)
        if argument.endswith(".ptx") and path.is_file():
            text = path.read_bytes()
            if root.encode() in text:
                path.write_bytes(text.replace(root.encode(), b""))
    return subprocess.call([real_tool("ptxas", config, os.getcwd()), *arguments])
