"""The tags a wheel can keep: computed from its binaries, with the policy and the readers of the audit's tag rules.

A platform tag speaks of the system: glibc, libstdc++, libgcc, zlib. It says nothing of libraries that other wheels
bring (torch, the CUDA libraries) or that come with the GPU's driver; those are for Requires-Dist and the lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from orbit.audit.archives.wheel_names import read_tags
from orbit.audit.binary.dynamic import VersionNeed
from orbit.audit.facts import Environment, Layout, SharedObject
from orbit.audit.files.objects import needed_exports, read_objects
from orbit.audit.files.texts import read_text
from orbit.audit.installed.dists import read_dist
from orbit.audit.installed.tree import read_tree
from orbit.audit.known.policies import VERSION, above, load_policies, lowest_floor, number, promise_of
from orbit.audit.rules.abi.foreign_extension import PLATFORMS, TAGGED, is_importable
from orbit.audit.rules.abi.stable_abi import used_of
from orbit.audit.rules.abi.wheel_tag import needs_of
from orbit.errors import InputError
from orbit.kernels.wheels.archive import dist_info, file_names

OLDEST = 17
"""glibc 2.17 (manylinux2014): no Python that the profiles use has wheels for older systems."""
SHOWN = 4


@dataclass(frozen=True, slots=True)
class Platform:
    """The oldest system that has what a set of binaries asks of it."""

    tag: str
    """``manylinux_2_34_x86_64``; ``linux_x86_64`` when no listed glibc release has it all; empty without binaries."""
    decides: tuple[str, ...]
    """The needs that no older system has, ``GLIBC_2.34 (pkg/_c.so)``; what no listed system has for ``linux_``."""


@dataclass(frozen=True, slots=True)
class Retagged:
    """What became of a wheel's tags."""

    was: tuple[str, ...]
    tags: tuple[str, ...]
    reasons: tuple[str, ...]
    """Why a tag is another one now; for the platform, what decides it."""


def facts_of(folder: Path, python: tuple[int, int]) -> Environment:
    """An unpacked wheel as the audit's rules see one. Damaged binaries are in ``damaged``."""
    tree = read_tree(folder)
    objects, damaged = read_objects(folder, tree)
    exports, without = needed_exports(folder, objects)
    dist = read_dist(dist_info(folder), lambda path: read_text(folder, path))
    return Environment(
        layout=Layout(folder, "", python, ""),
        tree=tree,
        dists=(dist,),
        objects=objects,
        exports=exports,
        damaged=damaged | without,
        num_remembered=0,
        digests={},
        owners=dict.fromkeys(file_names(folder), dist.name),
        kind="wheels",
    )


def platform_of(objects: Sequence[SharedObject]) -> Platform:
    """The platform tag that ``objects`` can keep together. Raises :class:`InputError` for several machines at once."""
    if not objects:
        return Platform("", ())
    policies = load_policies()
    names = {code: name for name, code in policies.machines.items()}
    machines = sorted({names.get(item.machine, f"e_machine {item.machine}") for item in objects})
    if len(machines) > 1:
        raise InputError(f"binaries for several machines in one wheel: {', '.join(machines)}", fix="build one for each")
    machine = machines[0]
    needs = needs_of(objects)
    floor = lowest_floor(needs, machine)
    if floor is None:
        newest = policies.floors[-1].glibc
        return Platform(f"linux_{machine}", _named(above(needs, newest, machine), objects))
    glibc = max(floor, OLDEST)
    older = max((item.glibc for item in policies.floors if item.glibc < floor), default=0)
    decides = above(needs, older, machine) if glibc == floor and older else iter(())
    return Platform(f"manylinux_2_{glibc}_{machine}", _named(decides, objects))


def _named(needs: Iterable[VersionNeed], objects: Sequence[SharedObject]) -> tuple[str, ...]:
    """The newest need of each symbol family, with the first file that has it."""
    newest: dict[str, tuple[tuple[int, ...], VersionNeed]] = {}
    for need in needs:
        match = VERSION.match(need.version)
        family, release = (match[1], number(match[2])) if match else (need.version, ())
        newest[family] = max(newest.get(family, (release, need)), (release, need), key=lambda item: item[0])
    return tuple(
        f"{need.version} ({next(item.path for item in objects if item.dynamic and need in item.dynamic.needs)})"
        for _release, need in (newest[family] for family in sorted(newest))
    )


def glibc_need(item: SharedObject) -> str:
    """The newest glibc version that one binary asks for (``2.34``); empty when it asks for none."""
    found = [
        number(match[2])
        for need in (item.dynamic.needs if item.dynamic else ())
        if not need.weak and (match := VERSION.match(need.version)) and match[1] == "GLIBC"
    ]
    return ".".join(map(str, max(found))) if found else ""


def true_tags(env: Environment, tags: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(``tags`` with the parts that are not true replaced, the reasons). Pure.

    The platform becomes :func:`platform_of`, unless it names another C library. ``abi3`` stays when every module keeps
    to the stable ABI of its floor, ``py3`` when no module is for one interpreter; else the tag becomes that of the
    interpreter of ``env``.
    """
    platform = platform_of(env.objects)
    why = _interpreter_claims(env)
    own = "cp{}{}".format(*env.layout.python)
    made: dict[str, None] = {}
    reasons: dict[str, None] = {}
    for tag in tags:
        python, abi, system = tag.split("-")
        claim = "abi3" if abi == "abi3" else "py3" if python.startswith("py") and env.objects else ""
        if claim in why:
            python = abi = own
            reasons[why[claim]] = None
        promise = promise_of(system)
        if platform.tag and promise is not None and promise.family != "musl":
            system = platform.tag
        made["-".join((python, abi, system))] = None
    if platform.decides:
        reasons[f"{platform.tag}: {', '.join(platform.decides[:SHOWN])}"] = None
    return tuple(made), tuple(reasons)


def _interpreter_claims(env: Environment) -> dict[str, str]:
    """Why a claim about interpreters (``abi3``, ``py3``) does not hold, by claim."""
    found: dict[str, str] = {}
    for used in used_of(env).values():
        if symbols := sorted({*used.unstable, *used.later}):
            found["abi3"] = f"not abi3: {', '.join(symbols[:SHOWN])} not in the stable ABI of 3.{used.floor}"
    plain = {item.path for item in env.objects}
    for item in env.objects:
        folder, _, name = item.path.rpartition("/")
        match = TAGGED.match(name)
        # one for another interpreter serves none of those that the wheel can be for: rule foreign-extension says so
        if match is None or not is_importable(name, env.layout.python, PLATFORMS.get(item.machine, "")):
            continue
        if not {f"{folder}/{match['stem']}.abi3.so", f"{folder}/{match['stem']}.so"} & plain:
            found.setdefault("abi3", f"not abi3: {item.path} is for {match['abi']} only")
            found.setdefault("py3", f"not for every Python: {item.path} is for {match['abi']} only")
    return found


def retag(folder: Path, python: tuple[int, int]) -> Retagged:
    """Give an unpacked wheel the tags that its binaries keep, in WHEEL; :func:`wheel_name` gives the file name to it.

    ``python`` is the CPython it was built with. Raises :class:`InputError` for a WHEEL without a usable Tag, and for
    binaries that cannot be read.
    """
    env = facts_of(folder, python)
    if env.damaged:
        raise InputError("; ".join(env.damaged.values()), fix="build it again")
    was = tuple(sorted(read_tags(env.dists[0].tags)))
    if not was or any(tag.count("-") != 2 for tag in was):
        raise InputError(f"{env.dists[0].folder}/WHEEL: no usable Tag", fix="see WHEEL in the build's output")
    tags, reasons = true_tags(env, was)
    path = folder / env.dists[0].folder / "WHEEL"
    kept = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("Tag:")]
    if env.objects:
        kept = ["Root-Is-Purelib: false" if line.startswith("Root-Is-Purelib:") else line for line in kept]
    path.write_text("\n".join([*kept, *(f"Tag: {tag}" for tag in sorted(tags)), ""]), encoding="utf-8")
    return Retagged(was, tuple(sorted(tags)), reasons)


def wheel_name(folder: Path) -> str:
    """The file name that goes with name, version and tags of an unpacked wheel.

    Raises :class:`InputError` when its tags are not the product of one set each of interpreters, ABIs and platforms.
    """
    info = dist_info(folder)
    dist = read_dist(info, lambda path: read_text(folder, path))
    tags = read_tags(dist.tags)
    parts = [".".join(sorted({tag.split("-")[place] for tag in tags})) for place in range(3)] if tags else []
    if not parts or read_tags(["-".join(parts)]) != tags:
        raise InputError(f"{info}: its tags fit no file name: {', '.join(sorted(tags)) or 'none'}", fix="see WHEEL")
    return f"{info.removesuffix('.dist-info')}-{'-'.join(parts)}.whl"
