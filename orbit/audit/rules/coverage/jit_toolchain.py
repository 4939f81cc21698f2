"""jit-toolchain: what compiles at run time finds its compiler, new enough for every target, with its headers.

Packages such as Triton, DeepGEMM and flashinfer ship few cubins or none: their coverage is that of the compiler they
start. ``kernels/expectations/jit.toml`` says what each of them needs; nothing is executed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from orbit.audit.facts import Environment, Kind, SharedObject, join
from orbit.audit.installed.tree import resolve
from orbit.audit.known.jit import Need, User, installed, load_jit, release_of
from orbit.audit.known.policy import Policy
from orbit.audit.models.settings import EXECUTE, READ, can_reach, find_program, locate, may, search_path, value_of
from orbit.core.findings import Finding, Severity
from orbit.errors import InputError
from orbit.kernels.capabilities import compiles, first_cuda
from orbit.profile.model import GpuTarget

ID = "jit-toolchain"
TITLE = "what compiles at run time finds a compiler for every target, headers and libraries"
KINDS: frozenset[Kind] = frozenset(("environment", "image"))
CUDA_VARIABLES = ("CUDA_HOME", "CUDA_PATH")
DEFAULT_CUDA = "/usr/local/cuda"


@dataclass(frozen=True, slots=True)
class Toolkit:
    """The CUDA_HOME that packages use."""

    value: str
    """As the variable has it; empty when nothing names one."""
    path: str
    """Relative to the tree's root, links followed; empty when it is not in the target."""


@dataclass(frozen=True, slots=True)
class Lack:
    """What is wrong with one need."""

    problem: Literal["missing", "closed", "old", "no toolkit"]
    subject: str
    detail: str
    """A sentence without its subject."""
    places: str
    """Where it was looked for."""
    severity: Severity
    fix: str = ""


def find_toolkit(env: Environment, policy: Policy) -> Toolkit:
    """CUDA_HOME, else CUDA_PATH, else the folder of the nvcc in PATH, else in an image /usr/local/cuda."""
    for name in CUDA_VARIABLES:
        if value := value_of(env, name):
            place = locate(env, policy, value)
            return Toolkit(value, place.path)
    for folder in search_path(env, policy):
        place = locate(env, policy, f"{folder.rstrip('/')}/nvcc")
        parent = locate(env, policy, folder.rstrip("/").rpartition("/")[0] or "/")
        if place.how == "here" and parent.how == "here":
            return Toolkit(f"{folder}/nvcc", parent.path)
    if env.tree.rooted and (place := locate(env, policy, DEFAULT_CUDA)).how == "here":
        return Toolkit(DEFAULT_CUDA, place.path)
    return Toolkit("", "")


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per thing that is missing, closed or too old, with all that need it; then what does not fit."""
    toolkit = find_toolkit(env, policy)
    lacks: dict[tuple[str, str], list[tuple[Lack, User]]] = defaultdict(list)
    for user in load_jit().users:
        if installed(env, user.dists, user.versions):
            for need in user.needs:
                lack = judge(env, policy, toolkit, need)
                if lack is not None:
                    lacks[lack.problem, lack.subject].append((lack, user))
    for found in lacks.values():
        yield _finding(env, found)
    if toolkit.path:
        yield from _chain(env, toolkit)
    yield from _nvrtc(env, policy)


def judge(env: Environment, policy: Policy, toolkit: Toolkit, need: Need) -> Lack | None:
    """What is wrong with one need in this target, or None."""
    targets = [target for target in policy.profile.targets if _concerns(need, target)]
    if (need.image_only and env.kind != "image") or not targets:
        return None
    outside, paths = _find(env, policy, toolkit, need)
    if outside:
        return None
    if not paths and need.cuda and not (toolkit.value or need.programs):
        # a host may bring one
        severity = need.severity if env.kind == "image" else Severity.WARNING
        return Lack("no toolkit", "CUDA_HOME", "is not set, and no nvcc is in PATH", ", ".join(need.cuda), severity)
    if not paths:
        severity = Severity.WARNING if need.programs and env.kind != "image" else need.severity
        return Lack("missing", need.what, "cannot be found", _places(need, toolkit), severity, need.fix)
    return _unusable(env, policy, need, paths[0]) or _too_old(env, need, paths[0], targets)


def _unusable(env: Environment, policy: Policy, need: Need, path: str) -> Lack | None:
    wanted = (EXECUTE | READ) if need.runs else READ
    if may(env.tree.entries[path], policy.uid, wanted) and can_reach(env, path, policy.uid):
        return None
    mode = f"{env.tree.entries[path].mode & 0o7777:04o}"
    verb = "execute" if need.runs else "read"
    return Lack(
        "closed", env.in_site(path), f"has mode {mode}: uid {policy.uid} may not {verb} it", path, Severity.ERROR
    )


def _too_old(env: Environment, need: Need, path: str, targets: list[GpuTarget]) -> Lack | None:
    release = release_of(env, path) if need.compiles else ""
    old = [target for target in targets if release and not _knows(need, target, release)]
    if not old:
        return None
    names = ", ".join(f"{_arch(need, target)} ({target.name}) {_range(need, target)}" for target in old)
    return Lack("old", env.in_site(path), f"is of CUDA {release} and cannot compile for {names}", path, Severity.ERROR)


def _concerns(need: Need, target: GpuTarget) -> bool:
    capability = _pair(target.capability)
    return (not need.since or capability >= _pair(need.since)) and (not need.below or capability < _pair(need.below))


def _pair(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor)


def _arch(need: Need, target: GpuTarget) -> str:
    return target.feature if need.compiles == "feature" else target.sass


def _knows(need: Need, target: GpuTarget, release: str) -> bool:
    try:
        return compiles(_arch(need, target), release)
    except InputError:  # an architecture the table does not know: nothing can be said
        return True


def _range(need: Need, target: GpuTarget) -> str:
    return f"which CUDA has from {first_cuda(_arch(need, target))} on"


def _find(env: Environment, policy: Policy, toolkit: Toolkit, need: Need) -> tuple[bool, tuple[str, ...]]:
    """(it lies where an environment cannot look; files in the tree, in the order in which they would be taken)."""
    value = value_of(env, need.variable).strip() if need.variable else ""
    if value:
        if need.runs and not value.startswith("/"):
            # a compiler may have arguments
            path, closed = find_program(env, policy, value.split()[0], policy.uid)
            return False, tuple(one for one in (path, closed) if one)
        place = locate(env, policy, value)
        return place.how == "outside", (place.path,) if place.how == "here" else ()
    found = [resolve(env.tree, join(site, name)) for name in need.site for site in env.layout.sites]
    if toolkit.path:
        found += [resolve(env.tree, f"{toolkit.path}/{name}") for name in need.cuda]
    for name in need.programs:
        path, closed = find_program(env, policy, name, policy.uid)
        found.append(path or closed or None)
    found += [resolve(env.tree, name) for name in need.root]
    found += [item.path for soname in need.sonames for item in _libraries(env, soname)]
    found += [resolve(env.tree, folder + name) for name in need.python for folder in _includes(env)]
    files = tuple(path for path in found if path is not None and _is_file(env, path))
    elsewhere = bool(need.cuda and toolkit.value) and locate(env, policy, toolkit.value).how == "outside"
    outside = not files and (elsewhere or (bool(need.python) and _borrows(env)))
    return outside, files


def _is_file(env: Environment, path: str) -> bool:
    fact = env.tree.entries.get(path)
    return fact is not None and fact.is_file


def _borrows(env: Environment) -> bool:
    """Whether the interpreter's own files are not part of the target."""
    return bool(env.layout.base_interpreter) or not env.layout.site


def _includes(env: Environment) -> tuple[str, ...]:
    version = "{}.{}".format(*env.layout.python)
    own = f"{env.layout.home}/" if env.layout.home else ""
    system = ("usr/", "usr/local/") if env.tree.rooted else ()
    return tuple(f"{folder}include/python{version}/" for folder in (own, *system))


def _libraries(env: Environment, soname: str) -> list[SharedObject]:
    return [
        item
        for item in env.objects
        if item.dynamic is not None
        and (item.dynamic.soname == soname or item.path.rpartition("/")[2] == soname)
        and "/stubs/" not in item.path
    ]


def _places(need: Need, toolkit: Toolkit) -> str:
    home = toolkit.value or "CUDA_HOME"
    places = [*need.site, *(f"{home}/{name}" for name in need.cuda), *(f"{name} in PATH" for name in need.programs)]
    return ", ".join([*places, *need.sonames, *(f"/{name}" for name in need.root), *need.python])


ORDER = (Severity.ERROR, Severity.WARNING, Severity.NOTE)
FIXES = {
    "missing": "install the distribution that brings it, or the package of the base system",
    "closed": "chmod a+rx it",
    "old": "use a release of that package, or a compiler, that is new enough for every target",
    "no toolkit": "install the CUDA compiler (nvidia-cuda-nvcc and its companions) and set CUDA_HOME",
}


def _weight(env: Environment, lack: Lack, user: User) -> Severity:
    """How much a lack weighs for one user."""
    if user.optional:
        return Severity.NOTE
    if user.ahead and installed(env, user.ahead):
        return max(lack.severity, Severity.WARNING, key=ORDER.index)
    return lack.severity


def _finding(env: Environment, found: list[tuple[Lack, User]]) -> Finding:
    """What one thing that is amiss means to all that need it."""
    lack = found[0][0]
    names = list(dict.fromkeys(user.name for _lack, user in found))
    who = ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]
    return Finding(
        rule=ID,
        severity=min((_weight(env, one, user) for one, user in found), key=ORDER.index),
        subject=lack.subject,
        message=f"{lack.detail}: {who} compile{'' if len(names) > 1 else 's'} with it at run time",
        evidence={"looked for": lack.places, "why": found[0][1].why},
        fix=lack.fix or FIXES[lack.problem],
    )


def _chain(env: Environment, toolkit: Toolkit) -> Iterator[Finding]:
    """The tools of one toolkit that call each other are all there and of one release."""
    paths = {name: resolve(env.tree, f"{toolkit.path}/{name}") for name in load_jit().chain}
    missing = [name for name, path in paths.items() if path is None]
    if missing and paths["bin/nvcc"] is not None:
        yield Finding(
            rule=ID,
            severity=Severity.ERROR,
            subject=toolkit.value,
            message=f"has nvcc without {', '.join(missing)}, which nvcc starts: nothing can be compiled with it",
            fix="install nvidia-cuda-nvcc, nvidia-cuda-crt and nvidia-nvvm of one release",
        )
    stated = {name: release_of(env, path) for name, path in paths.items() if path is not None}
    releases = {name: release for name, release in stated.items() if release}
    if len(set(releases.values())) > 1:
        yield Finding(
            rule=ID,
            severity=Severity.ERROR,
            subject=toolkit.value,
            message="its tools are of different CUDA releases: they do not understand each other's options and formats",
            evidence=releases,
            fix="install nvidia-cuda-nvcc, nvidia-cuda-crt and nvidia-nvvm of one release",
        )


def _nvrtc(env: Environment, policy: Policy) -> Iterator[Finding]:
    """NVRTC loads its builtins by name, of its own release, and must know every target."""
    found = [
        item for item in env.objects if item.dynamic is not None and item.dynamic.soname.startswith("libnvrtc.so.")
    ]
    fine = [item for item in found if not _unknown_to(env, policy, item)]
    for item in found:
        unknown = _unknown_to(env, policy, item)
        release = release_of(env, item.path)
        if unknown:
            yield Finding(
                rule=ID,
                severity=Severity.WARNING if fine else Severity.ERROR,
                subject=env.in_site(item.path),
                message=f"NVRTC of CUDA {release} cannot compile for {', '.join(unknown)}",
                evidence={"release": release} | ({"another": env.in_site(fine[0].path)} if fine else {}),
                fix="install NVRTC of the profile's CUDA release, and remove what brings the old one",
            )
        soname = item.dynamic.soname if item.dynamic else ""
        builtins = f"libnvrtc-builtins.so.{release or soname.removeprefix('libnvrtc.so.').partition('.')[0]}"
        folder = item.path.rpartition("/")[0]
        names = [other.path.rpartition("/")[2] for other in env.objects if other.path.rpartition("/")[0] == folder]
        if not any(name == builtins or name.startswith(f"{builtins}.") for name in names):
            yield Finding(
                rule=ID,
                severity=Severity.ERROR,
                subject=env.in_site(item.path),
                message=f"{builtins} is not beside it: NVRTC opens it by that name and fails without",
                evidence={"there": ", ".join(sorted(name for name in names if "nvrtc-builtins" in name)) or "none"},
                fix="install NVRTC again, whole and of one release",
            )


def _unknown_to(env: Environment, policy: Policy, item: SharedObject) -> list[str]:
    release = release_of(env, item.path)
    need = Need(what="NVRTC", sonames=("libnvrtc.so",), compiles="feature")
    return [
        f"{target.feature} ({target.name})"
        for target in policy.profile.targets
        if release and not _knows(need, target, release)
    ]
