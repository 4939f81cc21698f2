"""What variables and configuration of a target mean: where a path leads, what the entry point sets, who runs it.

Pure functions over facts. What is known about single variables is data, ``kernels/expectations/settings.toml``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from orbit.audit.facts import Environment, FileFact
from orbit.audit.installed.tree import resolve
from orbit.audit.known.policy import Policy
from orbit.core.findings import Severity
from orbit.core.paths import data_file
from orbit.core.records import Record, load_toml
from orbit.errors import InputError

READ, WRITE, EXECUTE = 4, 2, 1
MAX_DIGITS = 10
"""Of a user or group number, which has 32 bits."""
MAX_ENTRIES = 256
"""Of a list of folders; what comes later is not looked at."""
MAX_SOURCED = 16
"""Scripts followed from one entry point."""
ASSIGNMENT = re.compile(
    rb"(?:^|[;&|{\s])(?:export\s+|set\s+-gx\s+|declare\s+-x\s+|:\s+\"?\$\{)?([A-Za-z_]\w*)(?::?=)"
    rb"(\"[^\"\n]*\"|'[^'\n]*'|[^\s;&|}\"']*)"
)
SOURCED = re.compile(rb"(?:^|[;&|\s])(?:\.|source)\s+[\"']?([^\s\"';]+)", re.MULTILINE)
COMMENT = re.compile(rb"^[ \t]*#.*$", re.MULTILINE)
REFERENCE = re.compile(r"\$\{?\w+|`|\$\(")
"""A part of a value that only a shell can fill in."""


class Baked(Record, frozen=True, kw_only=True):
    """A variable that must not be fixed for every machine and every run."""

    names: tuple[str, ...]
    values: str = ""
    """Regular expression over the whole value, letter case ignored; empty: any value that is not empty."""
    severity: Severity
    why: str
    fix: str
    dists: tuple[str, ...] = ()
    """Only where one of these distributions is installed; none: always."""
    unless: str = ""
    """Regular expression over the whole value: what is fine."""


class LibraryVariable(Record, frozen=True, kw_only=True):
    """A variable of base images that states the release of a library."""

    names: tuple[str, ...]
    soname: str
    """Shell pattern over the sonames of that library."""
    library: str
    parts: int
    """How many numbers of the release must agree."""
    dists: tuple[str, ...]
    """Wheels that bring it, as shell patterns, for files that do not state a release."""


class PathVariable(Record, frozen=True, kw_only=True):
    """A variable that names a file or folder which must be there."""

    names: tuple[str, ...]
    kind: Literal["file", "folder", "program"]
    why: str


class Settings(Record, frozen=True, kw_only=True):
    """The whole of ``kernels/expectations/settings.toml``."""

    schema: int
    network: tuple[str, ...]
    """Beginnings of paths that are usually network file systems."""
    mounted: tuple[str, ...]
    """Folders that a container runtime mounts: absent from an image by design (shell patterns)."""
    arch_lists: tuple[str, ...]
    """Variables that hold a list of GPU architectures."""
    public: tuple[str, ...]
    """Names that look like secrets and are none (shell patterns)."""
    secret_names: str
    """Regular expression over a variable's or label's name."""
    secret_values: dict[str, str]
    """Regular expressions over a value, by what they are."""
    secret_files: tuple[str, ...]
    """Ends of paths of files that hold credentials (shell patterns)."""
    baked: tuple[Baked, ...]
    libraries: tuple[LibraryVariable, ...]
    paths: tuple[PathVariable, ...]


@functools.cache
def load_settings() -> Settings:
    """Read and check ``settings.toml``. Raises :class:`InputError` naming the key."""
    path = data_file("kernels", "expectations", "settings.toml")
    found = load_toml(path, Settings)
    if found.schema != 1:
        raise InputError(f"{path}: schema {found.schema} is not known", fix="this version of orbit reads schema 1")
    expressions = {"secret_names": found.secret_names} | {
        f"secret_values.{name}": value for name, value in found.secret_values.items()
    }
    for item in found.baked:
        expressions |= {f"baked {item.names[0]}: values": item.values, f"baked {item.names[0]}: unless": item.unless}
    for where, expression in expressions.items():
        try:
            re.compile(expression)
        except re.error as error:
            raise InputError(f"{path}: {where}: {error}", fix="write a regular expression") from None
    return found


class Setting(NamedTuple):
    """The value of one variable and who sets it."""

    value: str
    origin: str
    """``Env``, ``activation`` or ``entry point``."""

    @property
    def is_known(self) -> bool:
        """Whether the value is the whole truth: a script may compute it."""
        return self.origin != "entry point" or REFERENCE.search(self.value) is None


@dataclass(frozen=True, slots=True)
class Place:
    """Where an absolute path of a setting leads in a target."""

    path: str
    """Relative to the tree's root, links followed; empty when it is not in the tree."""
    how: Literal["here", "missing", "outside"]
    """``outside``: an environment cannot say, it is part of the system around it."""


def settings_of(env: Environment) -> dict[str, Setting]:
    """Every variable a process has: the image's or the contract's, then what the entry point's scripts set."""
    origin = "Env" if env.kind == "image" else "activation"
    found = {name: Setting(value, origin) for name, value in env.variables.items()}
    for name, value in entry_assignments(env):
        found[name] = Setting(value, "entry point")
    return found


def value_of(env: Environment, name: str) -> str:
    """The value of a variable as configured, empty when it is not set."""
    return env.variables.get(name, "")


def home_prefix(env: Environment, policy: Policy) -> tuple[str, ...]:
    """Absolute paths by which the environment's own folder is known."""
    if env.tree.rooted:
        return (f"/{env.layout.home}",) if env.layout.home else ()
    return tuple(dict.fromkeys((policy.profile.image.prefix, str(env.layout.prefix))))


def locate(env: Environment, policy: Policy, path: str) -> Place:
    """Where the absolute ``path`` leads."""
    if not path.startswith("/"):
        return Place("", "missing")
    if env.tree.rooted:
        inside: str | None = path
    else:
        inside = next(
            (path[len(home) :] for home in home_prefix(env, policy) if path == home or path.startswith(f"{home}/")),
            None,
        )
    if inside is None:
        return Place("", "outside")
    found = resolve(env.tree, inside)
    return Place("", "missing") if found is None else Place(found, "here")


def find_program(env: Environment, policy: Policy, name: str, uid: int) -> tuple[str, str]:
    """(path of the first file called ``name`` in PATH that ``uid`` may execute; path of one that it may not, or empty).

    Without a PATH the environment's ``bin`` is searched. A name with a slash is looked up as it is.
    """
    if "/" in name:
        places = [locate(env, policy, name)]
    else:
        folders = search_path(env, policy)
        places = [locate(env, policy, f"{folder.rstrip('/')}/{name}") for folder in folders]
    closed = ""
    for place in places:
        fact = env.tree.entries.get(place.path) if place.how == "here" else None
        if fact is None or not fact.is_file:
            continue
        if may(fact, uid, EXECUTE):
            return place.path, ""
        closed = closed or place.path
    return "", closed


def search_path(env: Environment, policy: Policy) -> tuple[str, ...]:
    """The folders of PATH; without one those an activated environment puts in front."""
    value = value_of(env, "PATH")
    if value:
        return tuple(folder for folder in folders_of(value) if folder)
    own = home_prefix(env, policy)
    return tuple(f"{folder}/{part}" for folder in own[:1] for part in ("bin", "cuda/bin"))


def may(fact: FileFact, uid: int, wanted: int, gid: int | None = None) -> bool:
    """Whether the mode bits grant ``wanted`` to ``uid``; root may everything but execute a file nobody may execute."""
    if uid == 0:
        return not (wanted & EXECUTE and fact.is_file and not fact.mode & 0o111)
    shift = 6 if fact.uid == uid else 3 if fact.gid == (uid if gid is None else gid) else 0
    return fact.mode >> shift & wanted == wanted


def can_reach(env: Environment, path: str, uid: int) -> bool:
    """Whether ``uid`` may enter every folder above ``path`` (relative, links followed)."""
    parts = path.split("/")[:-1]
    folders = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
    return all(may(fact, uid, EXECUTE) for folder in folders if (fact := env.tree.entries.get(folder)) is not None)


class Account(NamedTuple):
    """One line of ``/etc/passwd``."""

    name: str
    uid: int
    gid: int
    home: str


def is_number(text: str) -> bool:
    """Whether ``text`` is a user or group number."""
    return text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS


def accounts(env: Environment) -> tuple[Account, ...]:
    """The accounts of an image; lines that are not accounts are passed over."""
    found = []
    for line in env.texts.get("etc/passwd", b"").decode("utf-8", "replace").splitlines():
        fields = line.split(":")
        if len(fields) >= 6 and is_number(fields[2]) and is_number(fields[3]):
            found.append(Account(fields[0], int(fields[2]), int(fields[3]), fields[5]))
    return tuple(found)


def groups(env: Environment) -> frozenset[str]:
    """Names of the groups of an image."""
    lines = env.texts.get("etc/group", b"").decode("utf-8", "replace").splitlines()
    return frozenset(line.split(":")[0] for line in lines if ":" in line)


def configured_account(env: Environment) -> Account | None:
    """Who the image's USER is; None when it names somebody ``/etc/passwd`` does not know."""
    user = env.image.user.partition(":")[0] if env.image else ""
    known = accounts(env)
    if is_number(user):
        return next((one for one in known if one.uid == int(user)), Account("", int(user), int(user), ""))
    if not user:
        return next((one for one in known if one.uid == 0), Account("root", 0, 0, ""))
    return next((one for one in known if one.name == user), None)


def home_folder(env: Environment) -> str:
    """HOME of a process in the image as it is configured: the variable, else the account's; empty when unknown."""
    if value := value_of(env, "HOME"):
        return value
    account = configured_account(env)
    return account.home if account else ""


def entry_file(env: Environment) -> str:
    """Path of the file that the image's entry point, or its command, starts; empty when that is not there."""
    argv = (env.image.entrypoint or env.image.command) if env.image else ()
    found = resolve(env.tree, argv[0]) if argv and argv[0].startswith("/") else None
    return found or ""


def is_whole(env: Environment, path: str) -> bool:
    """Whether the whole text of a file is known: of scripts in ``bin`` only the beginning is kept."""
    text, fact = env.texts.get(path), env.tree.entries.get(path)
    return text is not None and fact is not None and len(text) >= fact.size


def entry_is_unread(env: Environment) -> bool:
    """Whether the entry point is a file of which nothing tells what it sets: a script whose text was not kept."""
    path = entry_file(env)
    if not path or is_whole(env, path) or env.texts.get(path, b"").startswith(b"\x7fELF"):
        return False
    return all(item.path != path for item in env.objects)


def entry_assignments(env: Environment) -> Iterator[tuple[str, str]]:
    """Variables that the entry point's script and those it reads set, in order, with the text of the value.

    This does not run a shell: an assignment that is never reached counts too, so it says what *may* be set. Scripts it
    reads are found by their name, for the folder is often a variable.
    """
    pending = [entry_file(env)]
    seen: set[str] = set()
    while pending and len(seen) < MAX_SOURCED:
        path = pending.pop(0)
        if path in seen or path not in env.texts:
            continue
        seen.add(path)
        text = COMMENT.sub(b"", env.texts[path])
        for name, value in ASSIGNMENT.findall(text):
            yield name.decode(), value.decode("utf-8", "replace").strip("\"'")
        names = {found[1].decode("utf-8", "replace").rpartition("/")[2] for found in SOURCED.finditer(text)}
        pending.extend(sorted(other for other in env.texts if other.rpartition("/")[2] in names))


def folders_of(value: str) -> tuple[str, ...]:
    """The entries of a colon-separated list, empty ones included (they mean the current folder)."""
    return tuple(value.split(":", MAX_ENTRIES)[:MAX_ENTRIES]) if value else ()
