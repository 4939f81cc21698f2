"""The whole audit over one written artifact, and what it says above a note."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from orbit.audit.reports.report import TargetReport
from orbit.audit.run import Options, audit_target
from orbit.audit.targets import detect, profile_for
from orbit.core.console import Silent
from orbit.core.findings import Finding
from orbit.profile.model import load_profile
from tests.audit.support import TODAY
from tests.writers.elf import Export, write_elf
from tests.writers.environment import EnvironmentWriter
from tests.writers.fatbin import write_container, write_section
from tests.writers.images import docker_archive
from tests.writers.tiny_image import Members, file, folder, symlink

BOTH = ("sm_90a", "sm_100a")
"""Machine code for both GPUs that the tests serve."""
LINUX = "cp312-cp312-manylinux_2_36_x86_64"
SITE = "opt/orbit/lib/python3.12/site-packages"
HOST = write_elf(needed=["libc.so.6"])
"""A library without device code."""
LIBC = write_elf(soname="libc.so.6", exports=[Export("malloc", "GLIBC_2.2.5"), Export("open", "GLIBC_2.36")])


def audit(target: Path, *gpus: str, uid: int = 0) -> TargetReport:
    """The report that ``orbit audit TARGET --gpu 9.0 --gpu 10.0`` makes, without remembering anything."""
    profile = profile_for(load_profile("probe"), gpus or ("9.0", "10.0"))
    return audit_target(detect(str(target)), Options(profile, uid=uid, today=TODAY), Silent())


def fired(report: TargetReport) -> dict[tuple[str, str], str]:
    """Severity of everything above a note, by rule and subject."""
    found = [finding for finding in report.findings if finding.severity.value != "note"]
    return {(finding.rule, finding.subject): finding.severity.value for finding in found}


def only(report: TargetReport, rule: str, subject: str, severity: str = "error") -> Finding:
    """The one thing above a note that the audit says; fails with what it says instead."""
    assert fired(report) == {(rule, subject): severity}, [str(item) for item in report.findings]
    return next(item for item in report.findings if (item.rule, item.subject) == (rule, subject))


def device(*containers: Sequence[str], section: str = ".nv_fatbin", **parts: object) -> bytes:
    """A library whose containers hold these architectures."""
    boxes = [write_container(*archs) for archs in containers]
    return write_elf(sections=[(section, write_section(*boxes))], **parts)  # type: ignore[arg-type]


def add(env: EnvironmentWriter, name: str, files: Mapping[str, bytes], **parts: object) -> Path:
    """Install a distribution in ``env``, tagged as what it holds; returns its dist-info folder."""
    compiled = any(".so" in path for path in files)
    return env.add(name, files, tags=[LINUX if compiled else "py3-none-any"], **parts)  # type: ignore[arg-type]


def environment(root: Path, name: str = "env") -> EnvironmentWriter:
    """An environment of which the audit says nothing."""
    env = EnvironmentWriter(root / name)
    add(env, "good", {"good/__init__.py": b"answer = 42\n", "good/_c.so": HOST})
    return env


def image(
    root: Path,
    env: EnvironmentWriter | None = None,
    files: Mapping[str, bytes] | None = None,
    *,
    links: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
    extra: Members = (),
    **config: object,
) -> Path:
    """What ``docker save`` writes: a small system of which the audit says nothing, with ``env`` and ``files``."""
    env = env or environment(root, "inner")
    system = {
        "bin/sh": HOST,
        "usr/lib/x86_64-linux-gnu/libc.so.6": LIBC,
        "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n",
        "etc/group": b"root:x:0:\nann:x:1000:\n",
    }
    inside = {f"opt/orbit/{path.relative_to(env.prefix)}": path for path in sorted(env.prefix.rglob("*"))}
    system |= {name: path.read_bytes() for name, path in inside.items() if path.is_file() and not path.is_symlink()}
    targets = {name: str(path.readlink()) for name, path in inside.items() if path.is_symlink()}
    members = [folder("tmp", 0o1777), folder("var/tmp", 0o1777), folder("root"), folder("home/ann", 0o777)]
    members += [file(path, data, 0o755) for path, data in {**system, **(files or {})}.items()]
    members += [symlink(path, to) for path, to in {**targets, **(links or {})}.items()]
    values = {"PATH": "/opt/orbit/bin:/usr/bin:/bin", "NVIDIA_VISIBLE_DEVICES": "all", "PYTHONNOUSERSITE": "1"}
    values |= {
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        "HOME": "/tmp",
        "CUDA_CACHE_PATH": "/scratch/nv",
        **(variables or {}),
    }
    config = {"Env": [f"{name}={value}" for name, value in values.items()], **config}
    path = root / "image.tar"
    path.write_bytes(docker_archive([[*members, *extra]], **config))
    return path
