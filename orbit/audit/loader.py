"""Which file the dynamic loader would pick for a soname. Pure: works on the listed tree, never opens anything.

The order is glibc's (``ld.so(8)``): DT_RPATH of the object when it has no DT_RUNPATH, LD_LIBRARY_PATH of the image,
DT_RUNPATH, then the system. A soname that these do not find may still be satisfied by a library that the process has
loaded already: torch and transformer-engine open the CUDA libraries of the pip wheels through ctypes before anything
that needs them. So a soname with one provider in the environment resolves to it, and is recorded as ``preloaded``. A
provider is a file of that name or a file whose own DT_SONAME it is, for either satisfies the need once it is loaded;
copies of one library under several names in one folder (a wheel holds no links) count once.

A needed name with a slash in it is a path: the loader opens it and searches nowhere.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from orbit.audit.facts import Environment, SharedObject, join
from orbit.audit.policy import Policy
from orbit.audit.tree import resolve

type How = Literal["loader", "preloaded", "ambiguous", "base", "driver", "missing"]


@dataclass(frozen=True, slots=True)
class Resolution:
    """What one NEEDED entry becomes."""

    how: How
    """``loader``: by run paths. ``preloaded``: the only provider in the environment. ``ambiguous``: several providers,
    none on a run path. ``base``: the base image's. ``driver``: the GPU driver's. ``missing``: nobody's."""
    paths: tuple[str, ...]
    """The provider; several when ambiguous; none when it is not in the environment."""


class Loader:
    """Resolves sonames for the objects of one environment."""

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
        # a virtual environment or a bare site-packages folder runs in an interpreter that is not part of it
        outside = env.layout.base_interpreter or not env.layout.site
        self._python = "libpython{}.{}.so.1.0".format(*env.layout.python) if outside else None
        self._cache: dict[tuple[str, tuple[str, ...], tuple[str, ...], str], Resolution] = {}

    def needed(self, item: SharedObject) -> Iterator[tuple[str, Resolution]]:
        """Every NEEDED soname of an object with its resolution."""
        if item.dynamic is not None:
            for soname in item.dynamic.needed:
                yield soname, self.resolve(item, soname)

    def resolve(self, item: SharedObject, soname: str) -> Resolution:
        """Where ``soname`` comes from when ``item`` asks for it."""
        assert item.dynamic is not None
        folder = item.path.rpartition("/")[0]
        rpath = () if item.dynamic.runpath else item.dynamic.rpath
        key = (folder, rpath, item.dynamic.runpath, soname)
        if key not in self._cache:
            self._cache[key] = self._resolve(folder, rpath, item.dynamic.runpath, soname)
        return self._cache[key]

    def _resolve(self, folder: str, rpath: tuple[str, ...], runpath: tuple[str, ...], soname: str) -> Resolution:
        if "/" in soname:
            found = self._at(folder, soname, "")
            return Resolution("loader", (found,)) if found is not None else Resolution("missing", ())
        for where in (*rpath, *self.policy.library_path, *runpath):
            if (found := self._at(folder, where, soname)) is not None:
                return Resolution("loader", (found,))
        if self.policy.system.is_driver(soname):
            return Resolution("driver", ())
        if self.policy.system.find(soname) is not None or soname == self._python:
            return Resolution("base", ())
        providers = self._providers(soname)
        if len(providers) == 1:
            return Resolution("preloaded", providers)
        return Resolution("ambiguous" if providers else "missing", providers)

    def _providers(self, soname: str) -> tuple[str, ...]:
        """What satisfies ``soname`` once it is loaded; of copies in one folder the one that has the name."""
        by_folder: dict[str, str] = {}
        for path in (*sorted(self._by_name.get(soname, ())), *sorted(self._by_soname.get(soname, ()))):
            by_folder.setdefault(path.rpartition("/")[0], path)
        return tuple(sorted(by_folder.values()))

    def _at(self, folder: str, where: str, name: str) -> str | None:
        """The object of the right machine that ``name`` in the run path entry ``where`` leads to, or None."""
        path = self._inside(folder, where)
        found = resolve(self.env.tree, join(path, name)) if path is not None else None
        usable = found is not None and found in self.objects and self.objects[found].machine == self.machine
        return found if usable else None

    def _inside(self, folder: str, where: str) -> str | None:
        """A run path entry as a path relative to the prefix (``..`` left to :func:`resolve`); None when outside."""
        for token in ("$ORIGIN", "${ORIGIN}"):
            if where == token or where.startswith(f"{token}/"):
                return f"{folder}/{where[len(token) :]}"
        home = self.policy.profile.image.prefix
        if where == home or where.startswith(f"{home}/"):
            return where[len(home) :]
        return None

    def closure(self, item: SharedObject) -> set[str]:
        """Paths of everything in the environment that ``item`` pulls in, directly or not."""
        seen: set[str] = set()
        pending = [item]
        while pending:
            for _soname, resolution in self.needed(pending.pop()):
                for path in resolution.paths:
                    if path not in seen:
                        seen.add(path)
                        pending.append(self.objects[path])
        return seen


def native_machine(env: Environment) -> int:
    """``e_machine`` of the environment: that of most of its objects (a few wheels carry stubs for other machines)."""
    counts = Counter(item.machine for item in env.objects)
    return counts.most_common(1)[0][0] if counts else 0
