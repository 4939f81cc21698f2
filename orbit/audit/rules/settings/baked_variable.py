"""baked-variable: nothing that belongs to one machine, one run or one debugging session is fixed in an image.

Also what the NVIDIA container toolkit reads: which devices and which parts of the driver a container gets. The list of
variables is data, ``kernels/expectations/settings.toml``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from orbit.audit.facts import Environment, Kind
from orbit.audit.known.jit import installed
from orbit.audit.known.policy import Policy
from orbit.audit.models.settings import Baked, Setting, load_settings, settings_of
from orbit.core.findings import Finding, Severity

ID = "baked-variable"
TITLE = "no variable fixes what belongs to one machine, one run or one debugging session"
KINDS: frozenset[Kind] = frozenset(("environment", "image"))
NEEDED_CAPABILITIES = {
    "compute": (Severity.ERROR, "libcuda is not mounted: CUDA finds no driver"),
    "utility": (Severity.WARNING, "nvidia-smi and NVML are not mounted: SGLang, Ray and the checks cannot ask the GPU"),
}
REQUIREMENT = re.compile(r"cuda>=(\d{1,4})\.(\d{1,4})")


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per variable."""
    settings = {name: one for name, one in settings_of(env).items() if one.is_known}
    for item in load_settings().baked:
        if not item.dists or installed(env, item.dists):
            yield from _baked(item, settings)
    if env.kind == "image":
        yield from _toolkit_variables(env, policy, settings)
        yield from _user_site(env, settings)


def _baked(item: Baked, settings: dict[str, Setting]) -> Iterator[Finding]:
    """Variables of one entry whose value is one it warns of."""
    for name in item.names:
        if name not in settings or not _hits(item, settings[name].value):
            continue
        setting = settings[name]
        shown = re.sub(r"://[^/@\s]*@", "://...@", setting.value)
        yield Finding(
            rule=ID,
            severity=item.severity,
            subject=name,
            message=item.why,
            evidence={"value": shown, "set by": setting.origin},
            fix=item.fix,
        )


def _hits(item: Baked, value: str) -> bool:
    value = value.strip()
    if item.unless and re.fullmatch(item.unless, value, re.IGNORECASE):
        return False
    return re.fullmatch(item.values, value, re.IGNORECASE) is not None if item.values else value != ""


def _toolkit_variables(env: Environment, policy: Policy, settings: dict[str, Setting]) -> Iterator[Finding]:
    """NVIDIA_VISIBLE_DEVICES, NVIDIA_DRIVER_CAPABILITIES and NVIDIA_REQUIRE_CUDA."""
    if not any(item.containers for item in env.objects):
        return
    devices = settings.get("NVIDIA_VISIBLE_DEVICES")
    if devices is not None and devices.value != "all":
        hidden = devices.value in ("", "void", "none")
        yield Finding(
            rule=ID,
            severity=Severity.ERROR if hidden else Severity.WARNING,
            subject="NVIDIA_VISIBLE_DEVICES",
            message="gives a container no GPU" if hidden else "chooses devices of one machine",
            evidence={"value": devices.value},
            fix="set it to all; who starts the container chooses",
        )
    capabilities = settings.get("NVIDIA_DRIVER_CAPABILITIES")
    if capabilities is not None:
        given = set(re.split(r"[\s,]+", capabilities.value.strip()))
        for name, (severity, effect) in NEEDED_CAPABILITIES.items():
            # an empty value means the default, which has both
            if given - {""} and not given & {name, "all"}:
                yield Finding(
                    rule=ID,
                    severity=severity,
                    subject="NVIDIA_DRIVER_CAPABILITIES",
                    message=f"lacks {name}: {effect}",
                    evidence={"value": capabilities.value},
                    fix="set it to compute,utility",
                )
    elif devices is None:
        yield Finding(
            rule=ID,
            severity=Severity.NOTE,
            subject="NVIDIA_VISIBLE_DEVICES",
            message="neither it nor NVIDIA_DRIVER_CAPABILITIES is set: a runtime that goes by them mounts no driver",
            fix="set NVIDIA_VISIBLE_DEVICES=all and NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        )
    required = [
        (int(major), int(minor)) for major, minor in REQUIREMENT.findall(_value(settings, "NVIDIA_REQUIRE_CUDA"))
    ]
    major, _, minor = policy.profile.cuda.partition(".")
    if required and max(required)[0] < int(major):
        yield Finding(
            rule=ID,
            severity=Severity.WARNING,
            subject="NVIDIA_REQUIRE_CUDA",
            message=(
                f"asks for a driver of CUDA {'.'.join(map(str, max(required)))}, the content needs {major}.{minor}: a "
                "driver that is too old passes the check and fails at the first kernel"
            ),
            evidence={"value": _value(settings, "NVIDIA_REQUIRE_CUDA")[:200]},
            fix=f"set NVIDIA_REQUIRE_CUDA=cuda>={major}.{minor}, or remove it",
        )


def _value(settings: dict[str, Setting], name: str) -> str:
    return settings[name].value if name in settings else ""


def _user_site(env: Environment, settings: dict[str, Setting]) -> Iterator[Finding]:
    """Apptainer, enroot and many clusters mount the home folder: ~/.local then comes before site-packages."""
    if env.dists and not _value(settings, "PYTHONNOUSERSITE"):
        yield Finding(
            rule=ID,
            severity=Severity.NOTE,
            subject="PYTHONNOUSERSITE",
            message="is not set: where the home folder is mounted, packages in ~/.local shadow those of the image",
            fix="set PYTHONNOUSERSITE=1",
        )
