"""build-manifest: what is in a binary is what its build was asked for.

Build systems drop architectures without a word: two spellings of one capability in a list leave one, a suffix that the
script does not know is cut off, a patch of setup.py filters. Orbit writes what it requested and found into the
environment's record; some projects keep the list they were built with beside their libraries. Both are compared with
the containers that are there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from orbit.audit.binary.coverage import arch_counts, container_archs, result_of
from orbit.audit.facts import Environment, SharedObject, join
from orbit.audit.known.policy import Policy
from orbit.core.findings import Finding, Severity

ID = "build-manifest"
TITLE = "every binary holds the architectures its build was asked for"
CAPABILITY = re.compile(r"^(\d+)\.(\d)([af]?)(\+PTX)?$")
LIST_FILE = "cpp_lib.json"
VARIABLE = "TORCH_CUDA_ARCH_LIST"


class Binary(msgspec.Struct):
    """Device code that a build left in one file."""

    file: str
    """Relative to site-packages."""
    coverage: dict[str, int] = {}
    """Number of containers by the images they hold, ``{"sm_100a+sm_90a": 3}``."""


class Manifest(msgspec.Struct):
    """One build, as ``share/orbit/environment.json`` states it."""

    dist: str
    requested: list[str] = []
    """``virtual:real`` pairs."""
    found: list[Binary] = []


class Distribution(msgspec.Struct):
    """One line of the record's list of distributions."""

    name: str = ""
    origin: str = ""


class Record(msgspec.Struct):
    """The parts of the environment's record that matter here."""

    kernels: list[Manifest] = []
    distributions: list[Distribution] = []


class LibraryList(msgspec.Struct):
    """``cpp_lib.json`` of torch extensions built like xformers: the variables of the build."""

    env: dict[str, str | None] = {}


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per file that differs from its manifest, per dropped architecture list, per build without one."""
    objects = {item.path: item for item in env.objects}
    record = _decode(env.texts.get(join(env.layout.home, "share/orbit/environment.json")), Record)
    if record is not None:
        for manifest in record.kernels:
            for binary in manifest.found:
                yield from _compare(env, manifest, binary, objects)
        stated = {manifest.dist for manifest in record.kernels}
        silent = sorted(d.name for d in record.distributions if d.origin == "wheelhouse" and d.name not in stated)
        if silent:
            yield Finding(
                rule=ID,
                severity=Severity.NOTE,
                subject="share/orbit/environment.json",
                message="does not say what its own builds were asked for: requested and found were not compared",
                evidence={"distributions": ", ".join(silent)},
                fix="make the environment anew (orbit env create)",
            )
    for path, text in sorted(env.texts.items()):
        if path.endswith(f"/{LIST_FILE}"):
            yield from _listed(env, policy, path, text)


def _decode[T](text: bytes | None, kind: type[T]) -> T | None:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, RecursionError):
        return None


def _compare(
    env: Environment, manifest: Manifest, binary: Binary, objects: Mapping[str, SharedObject]
) -> Iterator[Finding]:
    item = objects.get(join(env.layout.site, binary.file))
    requested = sorted(pair.rpartition(":")[2] for pair in manifest.requested)
    stated = Counter(binary.coverage)
    found: Counter[str] = Counter()
    if item is not None:
        found.update("+".join(sorted(container_archs(container))) for container in item.containers)
    lacking = sum(count for archs, count in found.items() if not set(requested) <= set(archs.split("+")))
    if item is None:
        message = "its build left device code in this file, and there is no such library"
    elif lacking:
        message = f"{lacking} of {sum(found.values())} containers lack an architecture that was requested"
    elif found != stated:
        message = "its containers are not those that its build left"
    else:
        return
    yield Finding(
        rule=ID,
        severity=Severity.ERROR,
        subject=binary.file,
        message=message,
        evidence={
            "distribution": manifest.dist,
            "requested": " ".join(requested),
            "manifest": _spell(stated),
            "found": _spell(found),
        },
        fix=f"build {manifest.dist} anew (orbit kernels build) and make the environment from that wheel",
    )


def _spell(counts: Counter[str]) -> str:
    return ", ".join(f"{archs or 'nothing'}: {count}" for archs, count in sorted(counts.items())) or "nothing"


def _listed(env: Environment, policy: Policy, path: str, text: bytes) -> Iterator[Finding]:
    """A list of capabilities beside the libraries of a package against everything in that package."""
    content = _decode(text, LibraryList)
    value = (content.env.get(VARIABLE) or "") if content else ""
    folder = f"{path.rpartition('/')[0]}/"
    found = set(arch_counts(c for item in env.objects if item.path.startswith(folder) for c in item.containers))
    dropped = [arch for arch in requested_archs(value) if arch not in found]
    if not found or not dropped:
        return
    capabilities = {target.capability for target in policy.profile.targets}
    matters = [arch for arch in dropped if any(result_of(frozenset((arch,)), c) == "sass" for c in capabilities)]
    yield Finding(
        rule=ID,
        severity=Severity.ERROR if matters else Severity.NOTE,
        subject=env.in_site(path),
        message=f"built with {VARIABLE}, but no container has {', '.join(dropped)}: the build dropped them",
        evidence={VARIABLE: value, "found": " ".join(sorted(found))},
        fix="build it with one spelling of each capability, and look at the -gencode options the build really passes",
    )


def requested_archs(value: str) -> list[str]:
    """Machine code architectures that a ``TORCH_CUDA_ARCH_LIST`` asks for: ``8.0;9.0a+PTX`` -> sm_80, sm_90a."""
    found = [CAPABILITY.match(token) for token in re.split(r"[;,\s]+", value)]
    return list(dict.fromkeys(f"sm_{match[1]}{match[2]}{match[3]}" for match in found if match))
