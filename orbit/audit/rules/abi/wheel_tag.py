"""wheel-tag: the tags of a wheel promise no more than its compiled files keep.

Installers believe the tag. One that promises an older glibc, another machine or any Python puts files where they cannot
be loaded; one that promises a newer glibc than the base has is refused everywhere people need it.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from orbit.audit.archives.wheel_names import MACHINE, installable, read_name, read_tags
from orbit.audit.binary.dynamic import VersionNeed
from orbit.audit.facts import Distribution, Environment, SharedObject
from orbit.audit.known.policies import Promise, above, host_glibc, load_policies, lowest_floor, promise_of
from orbit.audit.known.policy import Policy
from orbit.audit.models.loader import native_machine
from orbit.audit.rules.abi.foreign_extension import PLATFORMS, TAGGED, is_importable
from orbit.audit.rules.loading import needs_library
from orbit.core.findings import Finding, Severity

ID = "wheel-tag"
TITLE = "the tags of a wheel promise no more than its files keep"
SHOWN = 5
REBUILD = "build it where the tag says, or give it the tag its files keep (auditwheel repair, wheel tags)"
STUBS = frozenset({"stubs", "stub"})
MACHINE_WORDS = (
    "aarch64",
    "arm64",
    "sbsa",
    "armv7",
    "x86_64",
    "amd64",
    "x64",
    "i686",
    "i386",
    "ppc64le",
    "s390x",
    "riscv64",
)
"""In the path of a file that is meant for that machine, whatever the wheel's is."""


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """The findings of one distribution after the other."""
    owned: dict[str, list[SharedObject]] = defaultdict(list)
    compiled = {item.path for item in env.objects}
    for item in env.objects:
        owned[env.owners.get(item.path, "")].append(item)
    for dist in env.dists:
        tags = tags_of(dist)
        promises = [found for tag in sorted(tags) if (found := promise_of(tag.rpartition("-")[2])) is not None]
        objects = owned.get(dist.name, [])
        yield from _installable(env, policy, dist, tags, promises)
        if not objects:
            if not any(row.path in compiled for row in dist.rows):  # another distribution may own the same files
                yield from _empty(env, dist, tags)
            continue
        yield from _any(env, dist, promises, objects)
        yield from _purelib(env, dist, promises)
        yield from _linux(dist, promises, objects)
        yield from _glibc(env, policy, dist, promises, objects)
        yield from _musl(env, dist, promises, objects)
        yield from _machine(env, dist, promises, objects)
        yield from _suffix(env, dist, tags, objects)


def tags_of(dist: Distribution) -> frozenset[str]:
    """The single tags that installers see: those of the file name, for an installed distribution those of WHEEL."""
    name = read_name(dist.wheel_file) if dist.wheel_file else None
    return frozenset(map(str, name.tags)) if name and name.tags else frozenset(read_tags(dist.tags))


def _weight(env: Environment) -> Severity:
    """A wheel goes where its tag leads; what is installed is where it is."""
    return Severity.ERROR if env.kind == "wheels" else Severity.NOTE


def _finding(severity: Severity, dist: Distribution, message: str, evidence: Mapping[str, str], fix: str) -> Finding:
    subject = dist.wheel_file or dist.name
    return Finding(rule=ID, severity=severity, subject=subject, message=message, evidence=dict(evidence), fix=fix)


def _files(env: Environment, objects: Sequence[SharedObject]) -> str:
    rest = f" and {len(objects) - SHOWN} more" if len(objects) > SHOWN else ""
    return ", ".join(env.in_site(item.path) for item in objects[:SHOWN]) + rest


def _installable(
    env: Environment, policy: Policy, dist: Distribution, tags: frozenset[str], promises: Sequence[Promise]
) -> Iterator[Finding]:
    """Whether an installer on the profile's system would take it."""
    if not tags or dist.site != env.layout.site:
        return
    base = host_glibc(env, policy.system)
    wanted = policy.profile.python if env.kind == "wheels" else "{}.{}".format(*env.layout.python)
    machine = machine_of(env)
    if tags & _accepted(wanted, machine, base):
        return
    newer = [item for item in promises if item.family == "glibc" and item.release[1] > base]
    if newer and tags & _accepted(wanted, machine, max(item.release[1] for item in newer)):
        least = min(item.release[1] for item in newer)
        yield _finding(
            Severity.ERROR,
            dist,
            f"its tag asks for glibc 2.{least}, the base has 2.{base}: it cannot be installed there",
            {"tags": " ".join(sorted(tags))},
            "use a wheel built for an older system, or a newer base image",
        )
        return
    yield _finding(
        Severity.WARNING if env.kind == "wheels" else Severity.NOTE,
        dist,
        f"none of its tags fits Python {wanted} on Linux {machine} with glibc 2.{base}: installers refuse it there",
        {"tags": " ".join(sorted(tags)[:SHOWN])},
        "use a wheel for this interpreter and system"
        if env.kind == "wheels"
        else "the tags in WHEEL are not those "
        "of the file it came in, or it was put there by hand: report it, or build the wheel again",
    )


def machine_of(env: Environment) -> str:
    """The machine that the target is for: of wheels the profiles', of an environment that of most of its objects."""
    names = {code: name for name, code in load_policies().machines.items()}
    return MACHINE if env.kind == "wheels" else names.get(native_machine(env), MACHINE)


@functools.cache
def _accepted(python: str, machine: str, glibc: int) -> frozenset[str]:
    major, _, minor = python.partition(".")
    return frozenset(map(str, installable((int(major), int(minor)), machine, glibc)))


def _empty(env: Environment, dist: Distribution, tags: frozenset[str]) -> Iterator[Finding]:
    """Tagged as compiled for one interpreter, and nothing compiled in it: the extension was left out of the build."""
    abis = {tag.split("-")[1] for tag in tags if tag.count("-") == 2}
    rows = any(not row.path.startswith(f"{dist.folder}/") for row in dist.rows)
    unread = any(env.owners.get(path) == dist.name for path in env.damaged)
    if rows and not unread and abis and all(abi.startswith(("cp", "abi3")) for abi in abis):
        yield _finding(
            Severity.WARNING,
            dist,
            "its tags say that it was compiled, and no file in it is: its extension modules were not built",
            {"tags": " ".join(sorted(tags)[:SHOWN])},
            "look in the build log for the extension that was skipped, and build it again",
        )


def _any(
    env: Environment, dist: Distribution, promises: Sequence[Promise], objects: Sequence[SharedObject]
) -> Iterator[Finding]:
    """Compiled files in a wheel for every platform. One with builds for several machines picks its own at run time."""
    if any(item.family == "any" for item in promises) and len({item.machine for item in objects}) == 1:
        yield _finding(
            Severity.ERROR if env.kind == "wheels" else Severity.WARNING,
            dist,
            f"tagged for any platform, and it holds {len(objects)} compiled file{'s' if len(objects) > 1 else ''}",
            {"files": _files(env, objects), "Root-Is-Purelib": str(dist.pure).lower() if dist.pure is not None else ""},
            "give the wheel a platform tag: the build must know that it has extension modules",
        )


def _purelib(env: Environment, dist: Distribution, promises: Sequence[Promise]) -> Iterator[Finding]:
    if env.kind == "wheels" and dist.pure and not any(item.family == "any" for item in promises):
        yield _finding(
            Severity.NOTE,
            dist,
            "Root-Is-Purelib: true with compiled files in it: where lib64 is apart they land beside the wrong packages",
            {},
            "let the build know that it has extension modules",
        )


def _linux(dist: Distribution, promises: Sequence[Promise], objects: Sequence[SharedObject]) -> Iterator[Finding]:
    plain = [item for item in promises if item.family == "linux"]
    if plain and not any(item.family in ("glibc", "musl") for item in promises):
        native = _of_machine(objects, plain[0].machine)
        floor = lowest_floor(needs_of(native), plain[0].machine)
        yield _finding(
            Severity.NOTE,
            dist,
            f"tagged {plain[0].tag}: no portability claim, it is for the system it was built on",
            {"its symbols fit": f"manylinux_2_{floor}_{plain[0].machine}" if floor else "no listed glibc"},
            "give it the manylinux tag its files keep (auditwheel repair) before it goes to other machines",
        )


def _of_machine(objects: Sequence[SharedObject], machine: str) -> list[SharedObject]:
    code = load_policies().machines.get(machine)
    return [item for item in objects if item.machine == code]


def _own_names(objects: Sequence[SharedObject]) -> set[str]:
    """What files of the wheel itself satisfy."""
    names = {item.path.rpartition("/")[2] for item in objects}
    return names | {item.dynamic.soname for item in objects if item.dynamic}


def needs_of(objects: Sequence[SharedObject]) -> list[VersionNeed]:
    """Version needs of the files of one wheel that the system has to satisfy: not those of its own libraries."""
    own = _own_names(objects)
    return [need for item in objects if item.dynamic for need in item.dynamic.needs if need.library not in own]


def _glibc(
    env: Environment, policy: Policy, dist: Distribution, promises: Sequence[Promise], objects: Sequence[SharedObject]
) -> Iterator[Finding]:
    """Symbol versions and libraries beyond the oldest glibc that the tags name."""
    named = [item for item in promises if item.family == "glibc"]
    if not named:
        return
    promise = min(named, key=lambda item: item.release)
    native = _of_machine(objects, promise.machine)
    own = _own_names(native)
    beyond: dict[str, list[SharedObject]] = defaultdict(list)
    for item in native:
        needs = [need for need in item.dynamic.needs if need.library not in own] if item.dynamic else []
        for need in above(needs, promise.release[1], promise.machine):
            beyond[need.version].append(item)
    if beyond:
        files = {item.path: item for items in beyond.values() for item in items}
        floor = lowest_floor(needs_of(native), promise.machine)
        yield _finding(
            _weight(env),
            dist,
            f"tagged {promise.tag}, and its files need symbol versions that systems with glibc "
            f"2.{promise.release[1]} need not have",
            {
                "versions": ", ".join(sorted(beyond)),
                "files": _files(env, [files[path] for path in sorted(files)]),
                "its symbols fit": f"manylinux_2_{floor}_{promise.machine}" if floor else "no listed glibc",
            },
            REBUILD,
        )
    musl = [item for item in native if item.dynamic and any("musl" in soname for soname in item.dynamic.needed)]
    if musl:
        yield _finding(
            Severity.ERROR,
            dist,
            f"tagged {promise.tag}, and its files need musl",
            {"files": _files(env, musl)},
            REBUILD,
        )
    elif env.kind == "wheels":
        yield from _external(env, policy, dist, promise, native)


def _external(
    env: Environment, policy: Policy, dist: Distribution, promise: Promise, native: Sequence[SharedObject]
) -> Iterator[Finding]:
    """Libraries that the base image has, and not every system of the tag. Those that nobody has: needs-library."""
    here = _own_names(env.objects)
    outside: dict[str, list[SharedObject]] = defaultdict(list)
    for item in native:
        for soname in item.dynamic.needed if item.dynamic else ():
            optional = needs_library.declared(policy, env.in_site(item.path), soname, env.kind)
            if not optional and soname not in here and not load_policies().allows(promise, soname):
                outside[soname].append(item)
    packages = {soname: library.package for soname in outside if (library := policy.system.find(soname)) is not None}
    if packages:
        files = {item.path: item for soname in packages for item in outside[soname]}
        yield _finding(
            Severity.WARNING,
            dist,
            f"tagged {promise.tag}, and it needs libraries that the base image has and other systems need not have",
            {
                "libraries": ", ".join(f"{soname} ({package})" for soname, package in sorted(packages.items())),
                "files": _files(env, [files[path] for path in sorted(files)]),
            },
            "put them into the wheel (auditwheel repair), or say in its description that the system must have them",
        )


def _musl(
    env: Environment, dist: Distribution, promises: Sequence[Promise], objects: Sequence[SharedObject]
) -> Iterator[Finding]:
    named = [item for item in promises if item.family == "musl"]
    if not named or any(item.family == "glibc" for item in promises):
        return
    wrong = [
        item for item in _of_machine(objects, named[0].machine) if item.dynamic and "libc.so.6" in item.dynamic.needed
    ]
    if wrong:
        yield _finding(
            Severity.ERROR,
            dist,
            f"tagged {named[0].tag}, and its files need glibc",
            {"files": _files(env, wrong)},
            REBUILD,
        )


def _machine(
    env: Environment, dist: Distribution, promises: Sequence[Promise], objects: Sequence[SharedObject]
) -> Iterator[Finding]:
    """Files for another machine than every tag's, that are not meant for it: no native file of that name, no word."""
    codes = {load_policies().machines.get(item.machine, -1) for item in promises if item.machine}
    if not codes or any(item.family == "any" for item in promises):
        return
    native = {item.path.rpartition("/")[2] for item in objects if item.machine in codes}
    foreign = [item for item in objects if item.machine not in codes]
    wrong = [item for item in foreign if not native or not _is_meant(item.path, native)]
    if wrong:
        yield _finding(
            Severity.ERROR if not native or env.kind == "wheels" else Severity.WARNING,
            dist,
            f"tagged for {' and '.join(sorted({item.machine for item in promises if item.machine}))}, and "
            f"{len(wrong)} of its {len(objects)} compiled files are for another machine",
            {"files": _files(env, wrong), "e_machine": ", ".join(sorted({str(item.machine) for item in wrong}))},
            "build it again for that machine: the files came from another build",
        )


def _is_meant(path: str, native: set[str]) -> bool:
    folder, _, name = path.rpartition("/")
    words = folder.lower().split("/")
    return name in native or any(word in STUBS or any(part in word for part in MACHINE_WORDS) for word in words)


def _suffix(
    env: Environment, dist: Distribution, tags: frozenset[str], objects: Sequence[SharedObject]
) -> Iterator[Finding]:
    """Modules for one interpreter in a wheel for several. What cannot be imported here: foreign-extension."""
    if not any(tag.split("-")[0].startswith("py3") or "-abi3-" in tag for tag in tags):
        return
    pythons: dict[str, set[str]] = defaultdict(set)
    modules: list[SharedObject] = []
    plain = {item.path for item in objects}
    for item in objects:
        folder, _, name = item.path.rpartition("/")
        match = TAGGED.match(name)
        if match is None:
            continue
        stem = f"{folder}/{match['stem']}"
        pythons[stem].add(match["abi"].split("-")[1])
        if (
            is_importable(name, env.layout.python, PLATFORMS.get(item.machine, ""))
            and not {f"{stem}.abi3.so", f"{stem}.so"} & plain
        ):
            modules.append(item)
    wrong = [item for item in modules if len(pythons[_stem(item.path)]) == 1]
    if wrong:
        yield _finding(
            _weight(env),
            dist,
            f"tagged for several Pythons, and {len(wrong)} of its extension modules are for one only",
            {"files": _files(env, wrong), "tags": " ".join(sorted(tags)[:SHOWN])},
            "tag the wheel for that interpreter and build one for each, or build the modules for the stable ABI",
        )


def _stem(path: str) -> str:
    folder, _, name = path.rpartition("/")
    match = TAGGED.match(name)
    return f"{folder}/{match['stem']}" if match else path
