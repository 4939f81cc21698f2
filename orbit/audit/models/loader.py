"""Which file the dynamic loader would pick for a soname. Pure: works on the listed tree, never opens anything.

The order is that of ``ld.so(8)`` and glibc's ``_dl_map_object``: unless the object has a DT_RUNPATH, its own DT_RPATH,
those of the libraries that pulled it in, and the interpreter's; then LD_LIBRARY_PATH; then DT_RUNPATH, which is not
handed down; then, where the target is a whole root file system, ld.so.cache (without one the folders of ld.so.conf) and
the default folders. Elsewhere the base image's and the driver's libraries are known by name.

A soname that all of this does not find may still be satisfied by a library that the process has loaded already: torch
and transformer-engine open the CUDA libraries of the pip wheels through ctypes before anything that needs them. So a
soname with one provider resolves to it, and is recorded as ``preloaded``. A provider is a file of that name or a file
whose own DT_SONAME it is, for either satisfies the need once it is loaded; copies of one library under several names in
one folder (a wheel holds no links) count once.

A needed name with a slash in it is a path: the loader opens it and searches nowhere.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from packaging.utils import canonicalize_name

from orbit.audit.facts import Environment, SharedObject, join
from orbit.audit.installed.tree import resolve
from orbit.audit.known.policy import Policy
from orbit.audit.models import ld_conf

type How = Literal["loader", "preloaded", "ambiguous", "base", "driver", "outside", "missing"]

TOKEN = re.compile(r"\$(?:(ORIGIN|LIB|PLATFORM)(?![A-Za-z0-9_])|\{(ORIGIN|LIB|PLATFORM)\})")
"""Dynamic string tokens of run paths."""
PLATFORM = "x86_64"
MAX_INHERITED = 64
"""Run path entries that one library can be handed down; real chains have a dozen."""
REQUIREMENT = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)")


class Entry(NamedTuple):
    """One element of a DT_RPATH with the folder that ``$ORIGIN`` means in it."""

    folder: str
    text: str
    how: str = "rpath"
    """``rpath`` or ``inherited rpath``."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What one NEEDED entry becomes."""

    how: How
    """``loader``: by the loader's search. ``preloaded``: the only provider in the target. ``ambiguous``: several
    providers, none found by a search. ``base``: the base image's. ``driver``: the GPU driver's. ``outside``: of wheels,
    what a distribution that they require can bring. ``missing``: nobody's."""
    paths: tuple[str, ...]
    """The provider; several when ambiguous; none when it is not in the target."""
    by: str = field(default="", compare=False)
    """What found it: ``path``, ``rpath``, ``inherited rpath``, ``LD_LIBRARY_PATH``, ``runpath``, ``ld.so.cache``,
    ``ld.so.conf``, ``default folder``; empty unless ``how`` is ``loader``."""


MISSING = Resolution("missing", ())
OUTSIDE = Resolution("outside", ())


class Loader:
    """Resolves sonames for the objects of one target."""

    def __init__(self, env: Environment, policy: Policy) -> None:
        self.env = env
        self.policy = policy
        self.machine = native_machine(env)
        self.objects: Mapping[str, SharedObject] = {item.path: item for item in env.objects}
        self._by_name: dict[str, list[str]] = defaultdict(list)
        self._by_soname: dict[str, list[str]] = defaultdict(list)
        for item in env.objects:
            if item.dynamic is None or item.machine != self.machine or "/stubs/" in item.path:
                continue
            name = item.path.rpartition("/")[2]
            self._by_name[name].append(item.path)
            if item.dynamic.soname and item.dynamic.soname != name:
                self._by_soname[item.dynamic.soname].append(item.path)
        major, minor = env.layout.python
        borrowed = env.layout.base_interpreter or not env.layout.site  # a bare site-packages folder has none either
        self._python = f"libpython{major}.{minor}.so.1.0" if borrowed and not env.tree.rooted else ""
        self._has_hwcaps = any(path.endswith("/glibc-hwcaps") for path in env.tree.entries)
        debian = not env.tree.rooted or "usr/lib/x86_64-linux-gnu" in env.tree.entries  # as the base image is
        self._lib = "lib/x86_64-linux-gnu" if debian else "lib64"
        self.library_path = library_path(env, policy)
        self._system = _System.of(env, self.machine) if env.tree.rooted else None
        self._folders: dict[tuple[str, str], str | None] = {}
        self._cache: dict[tuple[str, tuple[Entry, ...], tuple[str, ...], str], Resolution] = {}
        self._inherited: dict[str, tuple[Entry, ...]] = {}
        self._program: tuple[Entry, ...] = ()
        self._program = self._program_entries()
        self._hand_down()

    def needed(self, item: SharedObject) -> Iterator[tuple[str, Resolution]]:
        """Every NEEDED soname of ``item`` with what it becomes."""
        if item.dynamic is not None:
            for soname in item.dynamic.needed:
                yield soname, self.resolve(item, soname)

    def resolve(self, item: SharedObject, soname: str) -> Resolution:
        """What ``soname`` becomes when ``item`` needs it, or opens it by name."""
        assert item.dynamic is not None
        folder = item.path.rpartition("/")[0]
        key = (folder, self.rpath_of(item), item.dynamic.runpath, soname)
        if key not in self._cache:
            self._cache[key] = self._search(*key) or self._otherwise(soname)
        found = self._cache[key]
        return OUTSIDE if found is MISSING and self._is_required_from_outside(item) else found

    def rpath_of(self, item: SharedObject) -> tuple[Entry, ...]:
        """DT_RPATH entries in force when ``item`` needs something: its own, those handed down, the interpreter's."""
        if item.dynamic is None or item.dynamic.runpath:
            return ()
        folder = item.path.rpartition("/")[0]
        own = tuple(Entry(folder, text) for text in item.dynamic.rpath)
        return (*own, *self._inherited.get(item.path, ()), *self._program)

    def find(self, item: SharedObject, soname: str) -> Resolution:
        """What the loader's search alone finds, without what may be loaded already; ``missing`` when nothing."""
        assert item.dynamic is not None
        folder = item.path.rpartition("/")[0]
        return self._search(folder, self.rpath_of(item), item.dynamic.runpath, soname) or MISSING

    def has(self, folder: str, where: str, soname: str) -> bool:
        """Whether the run path element ``where`` of an object in ``folder`` leads to a usable library of that name."""
        return self._at(folder, where, soname) is not None

    def finds(self, soname: str) -> bool:
        """Whether LD_LIBRARY_PATH and the system lead to it, for whoever opens it by name."""
        return self._search("", (), (), soname) is not None

    def search_folders(self) -> Iterator[tuple[str, str]]:
        """(folder of the tree, what names it) for every folder that any process looks through, in the loader's order.

        With a cache those of ld.so.conf count all the same: ldconfig reads them whenever it runs, and the container
        toolkit runs it when a container starts.
        """
        groups: list[tuple[str, Sequence[str]]] = [("LD_LIBRARY_PATH", self.library_path)]
        if self.env.tree.rooted:
            configured = tuple(item.folder for item in ld_conf.configured_folders(self.env.texts))
            groups += [("ld.so.conf", configured), ("default folder", ld_conf.DEFAULT_FOLDERS)]
        seen = set()
        for name, folders in groups:
            for where in folders:
                inside = self.folder_of("", where)
                if inside is not None and inside not in seen:
                    seen.add(inside)
                    yield inside, name

    def providers(self, soname: str) -> tuple[str, ...]:
        """What satisfies ``soname`` once it is loaded; of copies in one folder the one that has the name."""
        by_folder: dict[str, str] = {}
        for path in (*sorted(self._by_name.get(soname, ())), *sorted(self._by_soname.get(soname, ()))):
            by_folder.setdefault(path.rpartition("/")[0], path)
        return tuple(sorted(by_folder.values()))

    def closure(self, item: SharedObject) -> set[str]:
        """Paths of everything in the target that ``item`` pulls in, directly or not."""
        seen: set[str] = set()
        pending = [item]
        while pending:
            for _soname, resolution in self.needed(pending.pop()):
                for path in resolution.paths:
                    if path not in seen:
                        seen.add(path)
                        pending.append(self.objects[path])
        return seen

    def folder_of(self, folder: str, where: str) -> str | None:
        """The folder in the tree that a run path entry of an object in ``folder`` means, links followed; or None."""
        key = (folder, where)
        if key not in self._folders:
            inside = self.inside(self.expand(folder, where))
            self._folders[key] = None if inside is None else resolve(self.env.tree, inside)
        return self._folders[key]

    def expand(self, folder: str, where: str) -> str:
        """A run path entry with its tokens replaced; ``$ORIGIN`` becomes a path relative to the root, behind ``//``."""
        if "$" not in where:
            return where
        values = {"ORIGIN": f"//{folder}", "LIB": self._lib, "PLATFORM": PLATFORM}
        return TOKEN.sub(lambda match: values[match[1] or match[2]], where)

    def inside(self, path: str) -> str | None:
        """An expanded entry as a path relative to the root (``..`` left to the tree); None when it leads outside."""
        if path.startswith("//"):
            return path[2:]
        if not path.startswith("/"):
            return None
        if self.env.tree.rooted:
            return path[1:]
        home = self.policy.profile.image.prefix
        if path == home or path.startswith(f"{home}/"):
            return join(self.env.layout.home, path[len(home) + 1 :])
        root = next((root for root in self.env.tree.roots if path == root or path.startswith(f"{root}/")), None)
        return None if root is None else path[len(root) + 1 :]

    def _otherwise(self, soname: str) -> Resolution:
        """What a soname becomes that no search finds."""
        if "/" in soname or not soname:
            return MISSING
        if self.policy.system.is_driver(soname):
            return Resolution("driver", ())
        if not self.env.tree.rooted and (self.policy.system.find(soname) is not None or soname == self._python):
            return Resolution("base", ())
        providers = self.providers(soname)
        if not providers:
            return MISSING
        return Resolution("preloaded" if len(providers) == 1 else "ambiguous", providers)

    def _search(
        self, folder: str, rpath: tuple[Entry, ...], runpath: tuple[str, ...], soname: str
    ) -> Resolution | None:
        if not soname:
            return None
        if "/" in soname:
            inside = self.inside(self.expand(folder, soname))
            found = self._usable(inside) if inside is not None else None
            return None if found is None else Resolution("loader", (found,), "path")
        for entry in rpath:
            if (found := self._at(entry.folder, entry.text, soname)) is not None:
                return Resolution("loader", (found,), entry.how)
        for where in self.library_path:
            if (found := self._at("", where, soname)) is not None:
                return Resolution("loader", (found,), "LD_LIBRARY_PATH")
        for where in runpath:
            if (found := self._at(folder, where, soname)) is not None:
                return Resolution("loader", (found,), "runpath")
        return self._search_system(soname) if self._system is not None else None

    def _search_system(self, soname: str) -> Resolution | None:
        assert self._system is not None
        cached = self._system.cache.get(soname)
        if cached is not None and (found := self._usable(cached[1:])) is not None:
            return Resolution("loader", (found,), "ld.so.cache")
        for name, folders in (("ld.so.conf", self._system.configured), ("default folder", ld_conf.DEFAULT_FOLDERS)):
            for where in folders:
                if (found := self._at("", where, soname)) is not None:
                    return Resolution("loader", (found,), name)
        return None

    def _at(self, folder: str, where: str, name: str) -> str | None:
        """The object of the right machine that ``name`` in the run path entry ``where`` leads to, or None."""
        inside = self.folder_of(folder, where)
        if inside is None:
            return None
        if self._has_hwcaps:
            for level in ld_conf.HWCAPS:
                if (found := self._usable(join(inside, "glibc-hwcaps", level, name))) is not None:
                    return found
        return self._usable(join(inside, name))

    def _usable(self, path: str) -> str | None:
        """The object of the right machine at ``path`` of the tree, links followed."""
        found = path if path in self.objects else resolve(self.env.tree, path)
        usable = found is not None and found in self.objects and self.objects[found].machine == self.machine
        return found if usable else None

    def _program_entries(self) -> tuple[Entry, ...]:
        """DT_RPATH of the interpreter: the main program of every process that imports something."""
        major, minor = self.env.layout.python
        path = resolve(self.env.tree, join(self.env.layout.home, f"bin/python{major}.{minor}"))
        item = self.objects.get(path) if path is not None else None
        if item is None or item.dynamic is None or item.dynamic.runpath:
            return ()
        return tuple(Entry(item.path.rpartition("/")[0], text, "inherited rpath") for text in item.dynamic.rpath)

    def _hand_down(self) -> None:
        """Give every library the DT_RPATH entries of what pulls it in; one that finds more hands more down in turn."""
        pending = [item for item in self.env.objects if item.machine == self.machine and self._down(item)]
        while pending:
            item = pending.pop()
            down = self._down(item)
            for _soname, resolution in self.needed(item):
                child = self.objects[resolution.paths[0]] if resolution.how == "loader" else None
                if child is None or child.dynamic is None or child is item:
                    continue
                had = self._inherited.get(child.path, ())
                new = tuple(entry for entry in down if entry not in had)
                if new and len(had) + len(new) <= MAX_INHERITED:
                    self._inherited[child.path] = (*had, *new)
                    pending.append(child)

    def _down(self, item: SharedObject) -> tuple[Entry, ...]:
        """What ``item`` hands down: its own DT_RPATH when it is in force, and what it was handed itself."""
        if item.dynamic is None:
            return ()
        folder = item.path.rpartition("/")[0]
        texts = () if item.dynamic.runpath else item.dynamic.rpath
        own = tuple(Entry(folder, text, "inherited rpath") for text in texts)
        return (*own, *self._inherited.get(item.path, ()))

    def _is_required_from_outside(self, item: SharedObject) -> bool:
        """Whether ``item`` lies in wheels and its distribution requires one that is not among them."""
        if self.env.kind != "wheels":
            return False
        owner = self.env.owners.get(item.path, "")
        here = {canonicalize_name(dist.name) for dist in self.env.dists}
        for dist in self.env.dists:
            if dist.name == owner and any(name not in here for name in required_names(dist.requires)):
                return True
        return False


@dataclass(frozen=True, slots=True)
class _System:
    """What a root file system's loader knows without being told."""

    cache: Mapping[str, str]
    """Absolute path by soname."""
    configured: tuple[str, ...]
    """Folders of ld.so.conf; used where there is no cache."""

    @classmethod
    def of(cls, env: Environment, machine: int) -> _System:
        data = env.texts.get(ld_conf.CACHE)
        if data is not None:
            try:
                return cls(ld_conf.lookup_table(ld_conf.read_cache(data, machine)), ())
            except ld_conf.MalformedCache:
                pass  # the loader does without a cache that it cannot read; rule run-path says so
        return cls({}, tuple(item.folder for item in ld_conf.configured_folders(env.texts)))


def loader_of(env: Environment, policy: Policy) -> Loader:
    """The loader of a target, made once for all rules."""
    known = env.derived.get("loader")
    if isinstance(known, Loader) and known.policy is policy:
        return known
    made = Loader(env, policy)
    env.derived["loader"] = made
    return made


def library_path(env: Environment, policy: Policy) -> tuple[str, ...]:
    """LD_LIBRARY_PATH of a process in the target: an image says it, elsewhere the activation contract and profile do.

    An empty element means the working directory and stays in the list. Wheels are judged without the variable.
    """
    if env.kind == "wheels":
        return ()
    if env.kind == "environment":
        return policy.library_path
    value = env.variables.get("LD_LIBRARY_PATH", "")
    return tuple(re.split("[:;]", value)) if value else ()


def required_names(requires: Sequence[str]) -> Iterator[str]:
    """Normalised names that ``Requires-Dist`` lines ask for without an extra."""
    for line in requires:
        requirement, _, marker = line.partition(";")
        match = REQUIREMENT.match(requirement)
        if match and "extra" not in marker:
            yield canonicalize_name(match[1])


def native_machine(env: Environment) -> int:
    """``e_machine`` of the target: that of most of its objects (a few wheels carry stubs for other machines)."""
    counts = Counter(item.machine for item in env.objects)
    return counts.most_common(1)[0][0] if counts else 0
