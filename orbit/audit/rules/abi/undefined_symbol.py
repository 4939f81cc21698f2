"""undefined-symbol: what an extension wants of torch, NCCL, cuDNN, ... without a version is there.

Most symbols carry no version, so the loader takes them from wherever it finds them, and says ``undefined symbol`` when
it finds none: an extension built for another torch. For families of symbols that one product alone defines
(``kernels/expectations/symbols.toml``) the product's libraries of the target are asked, and what else the file needs.

Packages that ship one file for each release of torch and open the right one (``..._torch24.so``, ``..._torch28.so``)
are sound as long as one of these files is.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from orbit.audit.facts import Environment, SharedObject
from orbit.audit.files.objects import families_defined_by, names_of
from orbit.audit.known.knowledge import SymbolFamily, symbol_family, symbols
from orbit.audit.known.policy import Policy
from orbit.audit.models.copies import site_of
from orbit.audit.models.loader import Loader, loader_of
from orbit.core.findings import Finding, Severity

ID = "undefined-symbol"
TITLE = "what extensions want of torch, NCCL and cuDNN is defined there"
SHOWN = 3
NEW_STRING = "cxx11"
"""Part of every mangled name with a std::string of the C++11 ABI (``__cxx11``, ``B5cxx11``)."""
PASSED_OVER = re.compile(r"[ST][0-9A-Z]*_|L[a-z]n?\d+E")
"""Substitutions, template parameters and literals of a mangled name: their digits are no lengths."""
LENGTH = re.compile(r"\d{1,6}")
"""The length in front of an identifier."""
VARIANT = re.compile(r"(?<=torch)[-_.]?\d+(?:[._]\d+)*|(?<=cu)\d+|(?<=cuda)\d+")
"""What tells apart files of which a package opens one: a release of torch or CUDA in the name."""


@dataclass(frozen=True, slots=True)
class Open:
    """Symbols of one family that one object wants and nobody defines."""

    item: SharedObject
    family: SymbolFamily
    names: tuple[str, ...]
    providers: tuple[str, ...]
    """The libraries that were asked."""

    def of_abi(self, new: bool) -> tuple[str, ...]:
        """Those that were compiled with the new, or the old, std::string."""
        return tuple(name for name in self.names if (NEW_STRING in name if new else is_old_string(name)))


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per object and family; what the ABI of std::string explains is left to cxx11-abi."""
    for found in open_symbols(env, policy):
        if not contradicting(env, found):
            yield _finding(env, found)


def is_old_string(name: str) -> bool:
    """Whether a mangled name holds std::string of the ABI before C++11."""
    if "Ss" not in name or NEW_STRING in name or not name.startswith("_Z"):
        return False
    rest, at = "", 2
    while at < len(name):
        if length := LENGTH.match(name, at):
            at = length.end() + int(length[0])
            rest += " "
        elif passed := PASSED_OVER.match(name, at):
            at = passed.end()
        else:
            rest += name[at]
            at += 1
    return "Ss" in rest


def contradicting(env: Environment, found: Open) -> tuple[str, ...]:
    """Open symbols with a std::string of the ABI that their provider does not have: the cause of all the others."""
    if not found.family.cxx11_probe:
        return ()
    new = has_new_strings(env, found.family)
    return () if new is None else found.of_abi(not new)


def has_new_strings(env: Environment, family: SymbolFamily) -> bool | None:
    """Whether the family's libraries have the C++11 std::string; None when nothing that was read of them shows it."""
    for item in env.objects:
        if family.cxx11_probe in names_of(item):
            names = [export.name for export in env.exports.get(item.path, ())]
            if any(NEW_STRING in name for name in names):
                return True
            if any(is_old_string(name) for name in names):
                return False
    return None


def open_symbols(env: Environment, policy: Policy) -> tuple[Open, ...]:
    """Every symbol of a family that nothing defines, by object; computed once for the rules that ask."""
    known = env.derived.get("open symbols")
    if known is None:
        known = env.derived["open symbols"] = tuple(_open_symbols(env, loader_of(env, policy)))
    assert isinstance(known, tuple)
    return known


def _open_symbols(env: Environment, loader: Loader) -> Iterator[Open]:
    defined = _Defined(env, loader)
    found: list[Open] = []
    sound = set()
    for item in env.objects:
        if item.machine != loader.machine or item.dynamic is None:
            continue
        wanted: dict[str, list[str]] = defaultdict(list)
        for symbol in item.dynamic.undefined:
            if family := symbol_family(symbol):
                wanted[family].append(symbol)
        lacking = [missing for name in wanted if (missing := defined.lacking(item, name, wanted[name])) is not None]
        if lacking:
            found += lacking
        elif wanted:
            sound.add(_variant(item.path))
    for missing in found:
        if _variant(missing.item.path) not in sound:
            yield missing


def _variant(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/{VARIANT.sub('#', name)}"


class _Defined:
    """What the libraries of each family define, by site-packages."""

    def __init__(self, env: Environment, loader: Loader) -> None:
        self.env = env
        self.loader = loader
        self.families: Mapping[str, SymbolFamily] = {family.name: family for family in symbols().families}
        self.providers: dict[str, list[str]] = defaultdict(list)
        for item in env.objects:
            if item.machine == loader.machine and item.dynamic is not None and "/stubs/" not in f"/{item.path}":
                for family in families_defined_by(item):
                    self.providers[family].append(item.path)
        self._names: dict[tuple[str, ...], frozenset[str]] = {}

    def lacking(self, item: SharedObject, name: str, wanted: list[str]) -> Open | None:
        """Those of ``wanted`` that nobody defines; None when all are defined, or nobody can be asked."""
        assert item.dynamic is not None
        family = self.families[name]
        asked = self._asked(item, name)
        if not asked or asked == (item.path,):
            return None
        defined = self._defined_by(asked)
        missing = [symbol for symbol in wanted if symbol not in defined]
        if missing:
            elsewhere = self._defined_by(tuple(sorted(self.loader.closure(item))))
            missing = [symbol for symbol in missing if symbol not in elsewhere]
        return Open(item, family, tuple(missing), asked) if missing else None

    def _asked(self, item: SharedObject, family: str) -> tuple[str, ...]:
        """The family's libraries in the object's site-packages; those of no site-packages where it has none."""
        paths = self.providers.get(family, ())
        site = site_of(self.env, item.path)
        own = tuple(path for path in paths if site_of(self.env, path) == site)
        return own or tuple(path for path in paths if not site_of(self.env, path))

    def _defined_by(self, paths: tuple[str, ...]) -> frozenset[str]:
        if paths not in self._names:
            tables = (self.env.exports.get(path, frozenset()) for path in paths)
            self._names[paths] = frozenset(export.name for table in tables for export in table)
        return self._names[paths]


def _finding(env: Environment, found: Open) -> Finding:
    owner = env.owners.get(found.item.path, "")
    version = next((f" {dist.version}" for dist in env.dists if dist.name == owner), "")
    count = f"{len(found.names)} symbol{'s' if len(found.names) > 1 else ''}"
    return Finding(
        rule=ID,
        severity=Severity.ERROR,
        subject=env.in_site(found.item.path),
        message=f"wants {count} of {provider_of(env, found)} that it does not define: loading it fails",
        evidence={
            "symbols": ", ".join(found.names[:SHOWN]),
            "distribution": f"{owner}{version}",
            "asked": ", ".join(path.rpartition("/")[2] for path in found.providers[:5]),
        },
        fix=f"build {owner or 'it'} from source in this environment, or lock a build made for this {found.family.name}",
    )


def provider_of(env: Environment, found: Open) -> str:
    """The product with its release: ``torch 2.11.0``; without one when no distribution of the target brings it."""
    dist = next((dist for dist in env.dists if fnmatchcase(dist.name, found.family.dist)), None)
    return f"{found.family.name} {dist.version}" if dist else found.family.name
