"""The front of the host compiler: objects by content, everything else straight through.

A unit is known by its preprocessed text, as ccache does: the text, the flags that are left then, and the compiler. The
run that makes the text also writes the dependency file, so a hit needs nothing else. A whole object is known by the
source and the command line when the settings name the wheel it is for.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys

from .admission import NotAdmitted
from .cache import key_of
from .host_arguments import HostCall
from .log import append
from .macros import defines
from .measure import NOTHING, become, execute, stream
from .objects import fetch_object, keep_object, object_key
from .parts import archs_of, has_whole, is_ours
from .places import PROBE, clean, clean_text, inside, real_tool, unit_name
from .steps import NOT_ADMITTED, UNIT, Outcome, Step, run_placeholder, run_step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .config import Config

LENIENT = ("-Wl,-z,undefs", "-Wl,--unresolved-symbols=ignore-all")
"""For the linker in a part: what placeholders lack is missing on purpose."""
HOST_SIDE = ".cudafe1.cpp"
"""End of the name of the host side of a CUDA unit, made by cudafe++."""
DEVICE_TEXT = re.compile(r"(?:\.(compute_\w+))?\.cpp1\.ii$")
"""nvcc's name for a unit preprocessed for one architecture."""
HOST_TEXT = ".cpp4.ii"
ASSEMBLER_READS = (b".incbin", b".include")
"""Words in a text with which the assembler reads a file that the text does not show."""


def run_host(tool: str, arguments: Sequence[str], config: Config) -> int:
    """Compile, link or pass on; the status of the real compiler. ``tool`` is the name we were called by."""
    call = HostCall(arguments)
    real = real_tool(tool, config, os.getcwd())
    inner = os.environ.get(UNIT, "")
    if call.source and inner:
        return _compile(tool, call, config, inner, arguments).status
    if call.source:
        return _unit(tool, call, config, arguments)
    if call.links:
        source = inner or unit_name(call.output, config)
        lenient = LENIENT if config.get("part") and source != PROBE else ()
        return run_step(Step("link", source, "", [real, *arguments, *lenient]), config).status
    if inner and "-E" in call.words and not _text_is_needed(call.output, inner, config):
        return execute([real, "-E", "-x", "c++", "/dev/null", "-o", call.output]).status
    return become([real, *arguments])


def _unit(tool: str, call: HostCall, config: Config, arguments: Sequence[str]) -> int:
    """A C++ unit of its own: one line in the log, the whole object perhaps from the cache."""
    source = unit_name(call.source, config)
    outputs = {"object": call.output, **({"depfile": call.depfile} if call.depfile else {})}
    key = ""
    if call.cacheable and source != PROBE:
        key = object_key(tool, [clean_text(word, config) for word in call.words], call.source, config)
    try:
        if key and (size := fetch_object(key, outputs, config, [("host", source, "")])):
            return _note(call, source, Outcome("object", NOTHING), size, config)
    except NotAdmitted as error:
        sys.stderr.write(f"orbit shim: {error}\n")
        return NOT_ADMITTED
    outcome = _compile(tool, call, config, source, arguments)
    keeps = key and outcome.status == 0 and outcome.became in ("miss", "step")
    return _note(call, source, outcome, keep_object(key, outputs, config) if keeps else 0, config)


def _compile(tool: str, call: HostCall, config: Config, source: str, arguments: Sequence[str]) -> Outcome:
    real = real_tool(tool, config, os.getcwd())
    device_side = call.source.endswith(HOST_SIDE)
    if not (has_whole(config, source) if device_side else is_ours(config, source, "")):
        if call.depfile:
            with open(call.depfile, "w", encoding="utf-8") as file:
                file.write(f"{call.output}:\n")
        empty = [real, "-c", "-x", "c++", "/dev/null", "-o", call.output]
        return run_placeholder(Step("host", source, "", empty), config)
    key = _key(tool, real, call, config) if call.cacheable and source != PROBE else ""
    step = Step("host", source, "", [real, *arguments], key=key, outputs={"object": call.output})
    return run_step(step, config)


def _key(tool: str, real: str, call: HostCall, config: Config) -> str:
    """Hash of the preprocessed text, what else decides, and the compiler; writes the dependency file.

    Empty without a known compiler, when the preprocessor fails (the compiler will say why) and when the assembler
    reads a file of its own.
    """
    identity = config["identities"].get(tool)
    if not identity or not (config["units"] or config["shared"]):
        return ""
    digest = hashlib.sha256()
    rest = b""
    unseen = False

    def take(piece: bytes) -> None:
        nonlocal rest, unseen
        whole, newline, rest = (rest + piece).rpartition(b"\n")
        unseen = unseen or _reads_more(whole)
        digest.update(clean(whole + newline, config))

    if stream([real, *call.text_arguments()], take) or unseen or _reads_more(rest):
        return ""
    digest.update(clean(rest, config))
    words = json.dumps([clean_text(word, config) for word in call.key_arguments()])
    return key_of("host", tool, identity, inside(".", config), words, digest.hexdigest())


def _reads_more(text: bytes) -> bool:
    return any(word in text for word in ASSEMBLER_READS)


def _text_is_needed(output: str, source: str, config: Config) -> bool:
    """Whether any step of this machine reads the text that nvcc preprocesses into ``output``."""
    if output.endswith(HOST_TEXT):
        return has_whole(config, source)
    match = DEVICE_TEXT.search(output)
    if match is None:
        return True
    archs = archs_of(config, match[1]) if match[1] else [real for _, real in config["pairs"]]
    return not archs or any(is_ours(config, source, arch) for arch in archs)


def _note(call: HostCall, source: str, outcome: Outcome, size: int, config: Config) -> int:
    kind = "probe" if source == PROBE else "host"
    line = {
        "kind": kind,
        "sources": [inside(call.source, config)],
        "defines": defines([clean_text(word, config) for word in call.words]),
        "cache": outcome.became,
        "bytes": size,
    }
    append(config, {**line, **outcome.result.numbers()})
    return outcome.status
