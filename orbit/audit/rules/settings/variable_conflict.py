"""variable-conflict: what the variables say is true of the content.

A CUDA_HOME that is no toolkit, a library path with an empty entry (the current folder), a preload that is not there, a
PYTHONPATH in front of the lock's packages, the NCCL version of a base image whose NCCL is not the one that is loaded,
an architecture list without one of the targets: each is believed by some program.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from orbit.audit.binary.coverage import result_of
from orbit.audit.facts import Environment, Kind, printable
from orbit.audit.installed.tree import resolve
from orbit.audit.known.jit import release_of
from orbit.audit.known.policy import Policy
from orbit.audit.models.settings import (
    EXECUTE,
    LibraryVariable,
    PathVariable,
    Place,
    Setting,
    folders_of,
    load_settings,
    locate,
    may,
    settings_of,
)
from orbit.core.findings import Finding, Severity
from orbit.errors import InputError
from orbit.kernels.capabilities import compiles

ID = "variable-conflict"
TITLE = "the variables fit the content: CUDA_HOME, library and module paths, versions, architecture lists"
KINDS: frozenset[Kind] = frozenset(("environment", "image"))
SHOWN = 5
MAX_MODULE_FOLDERS = 16
NUMBER = re.compile(r"^v?(\d{1,6}(?:\.\d{1,6}){0,5})")
DOTTED = re.compile(r"^(\d{1,2})\.(\d)([af]?)(\+PTX)?$")
PLAIN = re.compile(r"^(?:sm_|compute_)?(\d{2,3})([af]?)(-real|-virtual)?$")
NAMED = {"hopper": "9.0", "blackwell": "10.0", "ampere": "8.0", "ada": "8.9", "volta": "7.0", "turing": "7.5"}


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per variable and contradiction."""
    settings = {name: one for name, one in settings_of(env).items() if one.is_known}
    yield from _toolkits(env, policy, settings)
    yield from _library_path(env, policy, settings)
    yield from _preload(env, policy, settings)
    yield from _module_path(env, policy, settings)
    for variable in load_settings().libraries:
        yield from _library_release(env, variable, settings)
    for paths in load_settings().paths:
        yield from _named_paths(env, policy, paths, settings)
    yield from _arch_lists(policy, settings)


def _problem(
    subject: str,
    message: str,
    fix: str,
    severity: Severity = Severity.WARNING,
    evidence: Mapping[str, str] | None = None,
    **more: str,
) -> Finding:
    seen = dict(evidence or {}) | more
    return Finding(rule=ID, severity=severity, subject=subject, message=message, evidence=seen, fix=fix)


# --- CUDA_HOME --------------------------------------------------------------------------------------------------------


def _toolkits(env: Environment, policy: Policy, settings: dict[str, Setting]) -> Iterator[Finding]:
    places: dict[str, Place] = {}
    for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR"):
        value = settings[name].value if name in settings else ""
        if not value:
            continue
        place = locate(env, policy, value)
        if place.how == "missing":
            fix = "point it to the toolkit that is inside, or remove it"
            yield _problem(name, "names a folder that is not there", fix, Severity.ERROR, value=value)
        elif place.how == "here":
            places[name] = place
            yield from _toolkit(env, policy, name, place, value)
    if len({place.path for place in places.values()}) > 1:
        yield _problem(
            " and ".join(places),
            "name different toolkits: packages differ in which of them they read first",
            "give them one value",
            evidence={name: settings[name].value for name in places},
        )


def _toolkit(env: Environment, policy: Policy, name: str, place: Place, value: str) -> Iterator[Finding]:
    nvcc = resolve(env.tree, f"{place.path}/bin/nvcc")
    if nvcc is None and resolve(env.tree, f"{place.path}/include/cuda.h") is None:
        message = "names a folder that is no CUDA toolkit: neither bin/nvcc nor include/cuda.h is in it"
        yield _problem(name, message, "point it to the folder that holds bin, include and lib64", value=value)
        return
    release = release_of(env, nvcc) if nvcc is not None else ""
    sonames = {item.dynamic.soname for item in env.objects if item.dynamic is not None}
    majors = sorted(name.rpartition(".")[2] for name in sonames if name.startswith("libcudart.so."))
    if release and majors and release.partition(".")[0] not in majors:
        yield _problem(
            name,
            f"is a toolkit of CUDA {release}, the run time inside is of {', '.join(majors)}: what it compiles asks for "
            "another libcudart",
            "install the compiler of the run time's release",
            Severity.ERROR,
            value=value,
        )
    elif release and release != policy.profile.cuda and policy.profile.cuda.partition(".")[0] in majors:
        yield _problem(
            name,
            f"is a toolkit of CUDA {release}, the profile {policy.profile.name} is for {policy.profile.cuda}",
            "use the compiler of the profile's release",
            Severity.NOTE,
            value=value,
        )


# --- LD_LIBRARY_PATH, LD_PRELOAD, PYTHONPATH --------------------------------------------------------------------------


def _library_path(env: Environment, policy: Policy, settings: dict[str, Setting]) -> Iterator[Finding]:
    name = "LD_LIBRARY_PATH"
    if name not in settings:
        return
    value = settings[name].value
    for problem, entries in _list_problems(env, policy, value).items():
        message, fix, severity = {
            "empty": (
                "has an empty entry, which is the current folder: libraries that lie there are loaded",
                "remove the colon at its beginning or end, or the double one",
                Severity.WARNING,
            ),
            "relative": ("has relative entries", "write absolute paths", Severity.WARNING),
            "missing": ("has entries that are not there", "remove them", Severity.NOTE),
            "file": ("has entries that are no folders", "name the folder of the library", Severity.WARNING),
            "open": (
                "has a folder that anybody may write: who puts a library there runs code as every user",
                "chmod o-w it",
                Severity.WARNING,
            ),
        }[problem]
        yield _problem(name, message, fix, severity, entries=", ".join(entries[:SHOWN]) or "''", value=value)
    stubs = [folder for folder in folders_of(value) if "stubs" in folder.split("/")]
    if stubs:
        yield _problem(
            name,
            "has a folder of stub libraries, which are for linking only: CUDA calls into them fail",
            "remove it; put it on LIBRARY_PATH while building",
            Severity.ERROR,
            entries=", ".join(stubs),
        )


def _list_problems(env: Environment, policy: Policy, value: str) -> dict[str, list[str]]:
    """Entries of a list of folders by what is wrong with them."""
    found: dict[str, list[str]] = defaultdict(list)
    for folder in folders_of(value):
        if not folder:
            found["empty"].append(folder)
        elif not folder.startswith("/"):
            found["relative"].append(folder)
        else:
            place = locate(env, policy, folder)
            fact = env.tree.entries.get(place.path) if place.how == "here" else None
            mounted = any(fnmatchcase(folder, pattern) for pattern in load_settings().mounted)
            if place.how == "missing" and not mounted:
                found["missing"].append(folder)
            elif fact is not None and not fact.is_folder:
                found["file"].append(folder)
            elif fact is not None and fact.mode & 0o002:
                found["open"].append(folder)
    return found


def _preload(env: Environment, policy: Policy, settings: dict[str, Setting]) -> Iterator[Finding]:
    name = "LD_PRELOAD"
    value = settings[name].value if name in settings else ""
    names = {item.path.rpartition("/")[2] for item in env.objects}
    names |= {item.dynamic.soname for item in env.objects if item.dynamic}
    missing = []
    for entry in re.split(r"[ :]+", value):
        if "/" in entry and "$" not in entry:
            if locate(env, policy, entry).how == "missing":
                missing.append(entry)
        elif entry and "$" not in entry and env.kind == "image" and entry not in names:
            missing.append(entry)
    if missing:
        yield _problem(
            name,
            "names libraries that are not there: every program prints an error and goes on without them",
            "remove it, or install what it names",
            missing=", ".join(missing[:SHOWN]),
        )


def _module_path(env: Environment, policy: Policy, settings: dict[str, Setting]) -> Iterator[Finding]:
    name = "PYTHONPATH"
    value = settings[name].value if name in settings else ""
    problems = _list_problems(env, policy, value)
    if problems["empty"] or problems["relative"]:
        message = (
            "has empty or relative entries, which mean the current folder: a file that lies there shadows packages"
        )
        yield _problem(name, message, "write absolute paths, without an empty entry", value=value)
    if problems["missing"]:
        yield _problem(
            name, "has entries that are not there", "remove them", Severity.NOTE, entries=", ".join(problems["missing"])
        )
    own = {site: _modules(env, site) for site in env.layout.sites}
    for folder in folders_of(value)[:MAX_MODULE_FOLDERS]:
        place = locate(env, policy, folder)
        if place.how != "here" or place.path in own:
            continue
        shadowed = sorted(_modules(env, place.path) & set().union(*own.values()))
        if shadowed:
            yield _problem(
                name,
                f"puts {folder} in front of the installed packages: {len(shadowed)} of them come from there",
                "remove it, or uninstall what is in it twice",
                Severity.WARNING,
                shadowed=", ".join(map(printable, shadowed[:SHOWN])) + (", ..." if len(shadowed) > SHOWN else ""),
            )


def _modules(env: Environment, folder: str) -> frozenset[str]:
    """Names that can be imported from a folder: modules, and packages with an ``__init__``."""
    lead = f"{folder}/" if folder else ""
    found = set()
    for path in env.tree.entries:
        if path.startswith(lead):
            first, _, rest = path[len(lead) :].partition("/")
            if rest == "__init__.py" or (not rest and first.endswith(".py")):
                found.add(first.removesuffix(".py"))
    return frozenset(found)


# --- what base images say of libraries, named paths, architecture lists -----------------------------------------------


def _library_release(env: Environment, variable: LibraryVariable, settings: dict[str, Setting]) -> Iterator[Finding]:
    name = next((name for name in variable.names if name in settings and NUMBER.match(settings[name].value)), "")
    match = NUMBER.match(settings[name].value) if name else None
    if match is None:
        return
    found: dict[str, str] = {}
    for item in env.objects:
        if (
            item.dynamic is not None
            and fnmatchcase(item.dynamic.soname, variable.soname)
            and "/stubs/" not in item.path
        ):
            release = item.release or _wheel_release(env, variable, env.owners.get(item.path, ""))
            if release:
                found[printable(env.in_site(item.path))] = release
    said = _numbers(match[1], variable.parts)
    other = {path: release for path, release in found.items() if _numbers(release, len(said)) != said[: len(said)]}
    if other:
        yield _problem(
            name,
            f"says {variable.library} {match[1]}, but {next(iter(other))} is {next(iter(other.values()))}: "
            "the base image's copy is not what is used, or there are two",
            "build on a base image without these libraries, or remove the variable and the second copy",
            value=settings[name].value,
            evidence=dict(list(other.items())[1:SHOWN]),
        )


def _wheel_release(env: Environment, variable: LibraryVariable, owner: str) -> str:
    if not any(fnmatchcase(owner, pattern) for pattern in variable.dists):
        return ""
    return next((dist.version for dist in env.dists if dist.name == owner), "")


def _numbers(release: str, parts: int) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,9}", release)[:parts])


def _named_paths(
    env: Environment, policy: Policy, paths: PathVariable, settings: dict[str, Setting]
) -> Iterator[Finding]:
    for name in paths.names:
        value = settings[name].value if name in settings else ""
        if not value.startswith("/"):
            continue
        place = locate(env, policy, value.split()[0] if paths.kind == "program" else value)
        fact = env.tree.entries.get(place.path) if place.how == "here" else None
        if place.how == "missing":
            problem = f"names a {paths.kind} that is not there"
        elif fact is not None and fact.is_folder != (paths.kind == "folder"):
            problem = f"names something that is no {paths.kind}"
        elif fact is not None and paths.kind == "program" and not may(fact, policy.uid, EXECUTE):
            problem = f"names a program that uid {policy.uid} may not execute"
        else:
            continue
        yield _problem(name, f"{problem}: {paths.why}", "correct or remove it", Severity.ERROR, value=value)


def _arch_lists(policy: Policy, settings: dict[str, Setting]) -> Iterator[Finding]:
    for name in load_settings().arch_lists:
        value = settings[name].value if name in settings else ""
        archs = parse_archs(value)
        if not archs:
            continue
        for target in policy.profile.targets:
            result = result_of(archs, target.capability)
            if result != "sass":
                what = "only as PTX" if result == "ptx-jit" else "not at all"
                yield _problem(
                    name,
                    f"covers {target.name} ({target.capability}) {what}: what is compiled at run time lacks it",
                    f"add {target.feature.removeprefix('sm_')}, or remove the variable",
                    value=value,
                    target=target.name,
                )
        gone = sorted(arch for arch in archs if arch.startswith("sm_") and not _compiled(arch, policy.profile.cuda))
        if gone:
            yield _problem(
                name,
                f"asks for {', '.join(gone)}, which CUDA {policy.profile.cuda} does not compile for: every build fails",
                "remove them from the list",
                value=value,
            )


def _compiled(arch: str, cuda: str) -> bool:
    try:
        return compiles(arch, cuda)
    except InputError:
        return False


def parse_archs(value: str) -> frozenset[str]:
    """Architectures of a list in any of the conventions: ``9.0a 10.0+PTX``, ``90a;100-real``, ``sm_90``, ``Hopper``.

    Empty when it is left to the build machine (``native``, ``all``) or a word is not understood.
    """
    found: set[str] = set()
    for word in re.split(r"[\s;,]+", value.strip()):
        plain = word.removesuffix("+PTX")
        name = NAMED.get(plain.lower(), plain) + ("+PTX" if word != plain else "")
        if dotted := DOTTED.match(name):
            arch = f"{dotted[1]}{dotted[2]}{dotted[3]}"
            found.add(f"sm_{arch}")
            found |= {f"compute_{arch}"} if dotted[4] else set()
        elif match := PLAIN.match(word):
            arch = f"{match[1]}{match[2]}"
            found |= {f"compute_{arch}"} if match[3] != "-real" else set()
            found |= {f"sm_{arch}"} if match[3] != "-virtual" else set()
        elif word:
            return frozenset()
    return frozenset(found)
