"""The programs nvcc runs for device code: ``cudafe++``, ``cicc`` and ``ptxas``, as steps that are cached by content.

They are freed of this machine's paths and process numbers first. ``cudafe++`` and ``cicc`` derive the names of internal
functions from the source's absolute path and a process number, both write absolute paths into line tables, and
``ptxas`` copies those. What each reads and writes is what ``nvcc --dryrun`` of CUDA 13.0 shows.
"""

from __future__ import annotations

import hashlib
import json
import os
import re

from .cache import key_of
from .measure import execute
from .parts import archs_of, empty_module, has_whole, is_ours
from .places import PROBE, clean_file, clean_text, inside, real_tool, short, unit_name, write_beside
from .steps import UNIT, Step, run_placeholder, run_step, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .config import Config

CICC_OUTPUTS = ("-o", "--gen_c_file_name", "--stub_file_name")
"""``--gen_device_file_name`` is left out: half as large as the PTX, and no program reads it."""
CUDAFE_OUTPUTS = ("--gen_c_file_name",)
PTXAS_OUTPUTS = ("-o", "--output-file")
OTHER_FILES = ("--gen_device_file_name", "--include_file_name", "--module_id_file_name")
FILE_FLAGS = frozenset((*CICC_OUTPUTS, *PTXAS_OUTPUTS, *OTHER_FILES))
"""Flags whose value is a file of nvcc's own: its folder and its temporary name mean nothing."""


def run_cudafe(arguments: Sequence[str], config: Config) -> int:
    """Run cudafe++ with names of internal functions and variables that depend on nothing of this machine."""
    changed, id_file = front_end(arguments, config)
    source = _source(values(arguments).get("--orig_src_path_name", ""), config)
    outputs = {flag: path for flag, path in values(changed).items() if flag in CUDAFE_OUTPUTS}
    inputs = [argument for argument in changed if argument.endswith(".ii") and os.path.isfile(argument)]
    if inputs and outputs and not has_whole(config, source):
        # nobody will compile the host side of this unit here: a later step only wants the file to be there
        for path in outputs.values():
            write_beside(path, b"")
        tell("placeholder")
        return 0
    key = _key("cudafe++", changed, (*inputs, id_file), config) if inputs and outputs else ""
    argv = [real_tool("cudafe++", config, os.getcwd()), *changed]
    return run_step(Step("cudafe", source, "", argv, key=key, outputs=outputs, texts=True), config).status


def run_cicc(arguments: Sequence[str], config: Config) -> int:
    """Run cicc, the compiler from preprocessed CUDA to PTX, on text that holds no path of this machine."""
    changed, id_file = front_end(arguments, config)
    given = values(changed)
    inputs = [argument for argument in changed if argument.endswith(".ii") and os.path.isfile(argument)]
    real = real_tool("cicc", config, os.getcwd())
    if len(inputs) != 1 or "-o" not in given:
        return execute([real, *changed]).status
    source = _source(values(arguments).get("--orig_src_path_name", inputs[0]), config)
    virtual = given.get("-arch", "")
    archs = archs_of(config, virtual) or [virtual]
    outputs = {flag: path for flag, path in given.items() if flag in CICC_OUTPUTS}
    if not any(is_ours(config, source, arch) for arch in archs):
        empty = f"{inputs[0]}.empty.ii"
        write_beside(empty, b"")
        argv = [real, *(empty if argument == inputs[0] else argument for argument in changed)]
        return run_placeholder(Step("cicc", source, archs[0], argv), config).status
    key = _key("cicc", changed, (*inputs, id_file), config)
    step = Step("cicc", source, archs[0], [real, *changed], key=key, outputs=outputs, texts=True)
    return run_step(step, config).status


def run_ptxas(arguments: Sequence[str], config: Config) -> int:
    """Run ptxas on PTX text without the build's folder in the file names of its line tables."""
    inputs = [argument for argument in arguments if argument.endswith(".ptx") and os.path.isfile(argument)]
    given = values(arguments)
    outputs = {flag: path for flag, path in given.items() if flag in PTXAS_OUTPUTS}
    real = real_tool("ptxas", config, os.getcwd())
    for path in inputs:
        clean_file(path, config)
    if len(inputs) != 1 or not outputs:
        return execute([real, *arguments]).status
    source = os.environ.get(UNIT) or _source(inputs[0], config)
    arch = given.get("-arch") or given.get("--gpu-name", "")
    if not is_ours(config, source, arch):
        empty = f"{inputs[0]}.empty.ptx"
        with open(inputs[0], "rb") as file:
            write_beside(empty, empty_module(file.read()))
        argv = [real, *(empty if argument == inputs[0] else argument for argument in arguments)]
        return run_placeholder(Step("ptxas", source, arch, argv), config).status
    key = _key("ptxas", arguments, inputs, config)
    return run_step(Step("ptxas", source, arch, [real, *arguments], key=key, outputs=outputs), config).status


def run_nvlink(arguments: Sequence[str], config: Config) -> int:
    """Run nvlink, the linker of relocatable device code, measured; its results are not cached."""
    real = real_tool("nvlink", config, os.getcwd())
    given = values(arguments)
    if "-o" not in given:
        return execute([real, *arguments]).status
    source = _source(given["-o"], config)
    arch = given.get("--arch") or given.get("-arch", "")
    return run_step(Step("link", source, arch, [real, *arguments]), config).status


def front_end(arguments: Sequence[str], config: Config) -> tuple[list[str], str]:
    """Arguments of cudafe++ or cicc without this machine's paths, and the file with the module id.

    Names of internal functions come from a "module id": hashes of the source's absolute path and of the working folder,
    at times the process number. The first of the programs writes it to a file (``--gen_module_id_file``) and the others
    read it; so we write the file and let every program read.
    """
    root = config["root"].rstrip("/") + "/"
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
        with open(id_file, "w", encoding="utf-8") as file:
            file.write(module_id(source, id_file))
    return changed, id_file


def module_id(source: str, id_file: str) -> str:
    """A module id in cudafe++'s own form: ``_<hash>_<length>_<file name>_<hash>``.

    ``source`` is relative to the build's root. The folder of ``id_file`` carries the hash of the object's name, so one
    source compiled twice has two ids.
    """
    folder = os.path.basename(os.path.dirname(id_file))
    first, second = (hashlib.sha256(text.encode()).hexdigest()[:8] for text in (source, f"{source} {folder}"))
    name = re.sub(r"[^A-Za-z0-9]", "_", os.path.basename(source))
    return f"_{first}_{len(name)}_{name}_{second}"


def values(arguments: Sequence[str]) -> dict[str, str]:
    """Flags with their value: of the next argument, or behind ``=``."""
    given = {}
    for index, argument in enumerate(arguments):
        name, joined, value = argument.partition("=")
        if argument.startswith("-"):
            given[name] = value if joined else arguments[index + 1] if index + 1 < len(arguments) else ""
    return given


def normalised(arguments: Sequence[str], config: Config) -> list[str]:
    """Arguments as they enter a key: files of nvcc's own by their short names, no path of this machine."""
    shown = []
    before = ""
    for argument in arguments:
        own = before in FILE_FLAGS or argument.endswith((".ii", ".ptx"))
        shown.append(short(argument) if own else clean_text(argument, config))
        before = argument
    return shown


def _key(tool: str, arguments: Sequence[str], inputs: Sequence[str], config: Config) -> str:
    """Hash of everything a step depends on: the program, its arguments, its inputs, its place in the build.

    Cleans the inputs in place.
    """
    digests = [clean_file(path, config) for path in inputs if path]
    identity = config["identities"].get(tool, "")
    if not identity or any("-trace" in argument or "options-file" in argument for argument in arguments):
        return ""
    words = json.dumps(normalised(arguments, config))
    return key_of(tool, identity, inside(".", config), words, *digests)


def _source(path: str, config: Config) -> str:
    """The unit a step belongs to; where nvcc's front is not above us, the file it reads."""
    return os.environ.get(UNIT) or (unit_name(path, config) if path else PROBE)
