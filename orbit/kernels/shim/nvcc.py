"""The front of nvcc: the enforced command line, fixed temporary names, one line in the log per call.

Absolute paths below the build's root become relative ones and nvcc's temporary names lose their process number
(``--keep-dir``), so that results do not depend on the place they are built in. An object that was made for the same
wheel before is taken from the cache; else nvcc runs and its programs, which are fronts too, do what is missing.
"""

from __future__ import annotations

import hashlib
import os
import sys

from .admission import NotAdmitted
from .arguments import KEEP, Call, ShimError, enforce, parse, relocate
from .log import append
from .macros import defines
from .measure import NOTHING, become, execute
from .objects import fetch_object, keep_object, object_key
from .places import PROBE, clean_text, inside, is_probe, real_tool, unit_name
from .steps import NOT_ADMITTED, STATE, UNIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .config import Config
    from .measure import Result

COMPILER = ("-ccbin", "--compiler-bindir")


def run_nvcc(arguments: Sequence[str], config: Config) -> int:
    """Run the real compiler on the enforced command line; its status is ours."""
    environment = dict(os.environ)
    before = _words(environment.pop("NVCC_PREPEND_FLAGS", ""))
    after = _words(environment.pop("NVCC_APPEND_FLAGS", ""))
    here = os.getcwd()
    real = real_tool("nvcc", config, here)
    try:
        call = parse([*before, *arguments, *after])
        effective = enforce(call, config["pairs"], config["threads"])
    except ShimError as error:
        sys.stderr.write(f"orbit nvcc shim: {error}\n")
        append(config, {"error": str(error), "arguments": list(arguments), "status": 2})
        return 2
    if not call.compiles:
        become([real, *effective], environment)
    command = [*relocate(our_compiler(effective, config), config["root"], here), *config["flags"]]
    if call.is_dry or call.is_text:
        become([real, *command], environment)
    try:
        result, became, size = _unit(call, [real, *command], environment, config)
    except NotAdmitted as error:
        sys.stderr.write(f"orbit nvcc shim: {error}\n")
        append(config, {"error": str(error), "status": NOT_ADMITTED})
        return NOT_ADMITTED
    places = [inside(path, config) for path in call.sources or call.objects]
    probe = is_probe(places[0]) if call.sources else is_probe(inside(call.output or "a.out", config))
    append(
        config,
        {
            "kind": "probe" if probe else "compile" if call.sources else "link",
            "sources": places,
            "requested": list(call.requested),
            "effective": [argument.partition("=")[2] for argument in effective if argument.startswith("-gencode=")],
            "defines": defines([clean_text(word, config) for word in call.arguments]),
            "cache": became,
            "bytes": size,
            **result.numbers(),
        },
    )
    return result.status


def _unit(call: Call, command: list[str], environment: dict[str, str], config: Config) -> tuple[Result, str, int]:
    """Make what the call asks for; what it cost, what became of it (see :mod:`.log`), size of the object's entry."""
    source = unit_name(call.sources[0] if call.sources else call.output or "a.out", config)
    placeholder = _link_placeholder(call, source, config)
    if placeholder:
        return execute(placeholder), "placeholder", 0
    outputs = {"object": call.output, **({"depfile": call.depfile} if call.depfile else {})}
    key = ""
    if call.makes_one_object and source != PROBE:
        key = object_key("nvcc", [clean_text(word, config) for word in command], call.sources[0], config)
    if key and (size := fetch_object(key, outputs, config, _steps_of(source, config))):
        return NOTHING, "object", size
    keep = _keep_folder(call, config)
    state = os.path.join(environment.get("TMPDIR", "/tmp"), f"orbit-unit-{os.getpid()}")  # noqa: S108 - nvcc's own default
    if keep:
        _remove(keep)
        os.mkdir(keep)
    try:
        flags = ["--keep", f"--keep-dir={keep}"] if keep else []
        result = execute([*command, *flags], env={**environment, UNIT: source, STATE: state})
        became = _became(state)
    finally:
        if keep:
            _remove(keep)
        if os.path.exists(state):
            os.unlink(state)
    keeps = key and result.status == 0 and became in ("miss", "step", "off")
    return result, became, keep_object(key, outputs, config) if keeps else 0


def _steps_of(source: str, config: Config) -> list[tuple[str, str, str]]:
    """The steps of a CUDA unit, for the count."""
    device = [(step, source, real) for _, real in config["pairs"] for step in ("cicc", "ptxas")]
    return [("cudafe", source, ""), *device, ("host", source, "")]


def _link_placeholder(call: Call, source: str, config: Config) -> list[str]:
    """In a part, the command that stands for a link of device code (of placeholders nothing can be linked)."""
    if "part" not in config or call.sources or source == PROBE or not call.output:
        return []
    empty = [real_tool("gcc", config, os.getcwd()), "-x", "c++", "/dev/null", "-fPIC", "-o", call.output]
    if not call.flags.isdisjoint(("-dlink", "--device-link")):
        return [*empty, "-c"]
    return [*empty, "-shared"] if not call.flags.isdisjoint(("-shared", "--shared")) else []


def our_compiler(arguments: Sequence[str], config: Config) -> list[str]:
    """Arguments whose host compiler, where a path names it, is the front: by name, found on PATH."""
    names = {os.path.realpath(path): name for name, path in config["programs"].items()}
    changed = list(arguments)
    for index, argument in enumerate(arguments):
        name, joined, value = argument.partition("=")
        if name in COMPILER and joined and os.path.realpath(value) in names and "/" in value:
            changed[index] = f"{name}={os.path.basename(value)}"
        elif argument in COMPILER and index + 1 < len(arguments):
            value = arguments[index + 1]
            if "/" in value and os.path.realpath(value) in names:
                changed[index + 1] = os.path.basename(value)
    return changed


def _keep_folder(call: Call, config: Config) -> str:
    """Folder in which nvcc's temporary files get fixed names, this call's own; empty when the call keeps its own."""
    if not call.sources or not call.flags.isdisjoint(KEEP):
        return ""
    identity = (call.output or call.sources[0]).replace(config["root"], "")
    return f"nvcc-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"


def _became(state: str) -> str:
    try:
        with open(state, encoding="utf-8") as file:
            words = set(file.read().split())
    except FileNotFoundError:
        return "off"
    return next(word for word in ("placeholder", "miss", "off", "step") if word in words)


def _words(flags: str) -> list[str]:
    if not flags:
        return []
    import shlex  # noqa: PLC0415 - rare

    return shlex.split(flags)


def _remove(folder: str) -> None:
    import shutil  # noqa: PLC0415 - only when nvcc really runs

    shutil.rmtree(folder, ignore_errors=True)
