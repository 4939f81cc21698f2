"""unowned-file: everything in site-packages belongs to a distribution.

A package copied by hand is seen by no lock and no update. An extension module of an old build beside the one that is
owned may be the one that Python takes: of several forms of one module the first in the interpreter's order of suffixes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import msgspec

from orbit.audit.facts import Environment, join
from orbit.audit.known.policy import Policy, matches
from orbit.audit.rules.integrity.access import counted, is_system_site, some
from orbit.audit.rules.integrity.data import artifacts
from orbit.audit.rules.integrity.forms import Forms
from orbit.core.findings import Finding, Severity

ID = "unowned-file"
TITLE = "everything in site-packages belongs to a distribution"
CODE = (".py", ".so", ".pth")


class CondaMeta(msgspec.Struct):
    """What matters of ``conda-meta/<package>.json``."""

    files: list[str] = []


def check(env: Environment, _policy: Policy) -> Iterator[Finding]:
    """One finding per top-level name without an owner, per owned package with strays, per leftover of an installer."""
    forms: Forms | None = None
    for site in env.layout.sites:
        if is_system_site(env, site):
            continue
        unowned = unowned_files(env, site)
        for top, paths in sorted(unowned.items()):
            forms = forms or Forms(env)
            yield from _judge(env, site, top, paths, forms)


def unowned_files(env: Environment, site: str) -> dict[str, list[str]]:
    """Files of one site-packages folder that nobody owns, by top-level name; compiled files with a source left out."""
    lead = f"{site}/" if site else ""
    start = len(lead)
    conda = conda_owned(env)
    broken = {dist.name.replace("-", "_") for dist in env.dists if dist.problem}
    known = artifacts().unowned
    everybody = tuple(pattern for entry in known if not entry.dists for pattern in entry.files)
    present = {dist.name for dist in env.dists}
    everybody += tuple(pattern for entry in known if present & {*entry.dists} for pattern in entry.files)
    owners = env.owners
    entries = env.tree.entries
    found: dict[str, list[str]] = defaultdict(list)
    for path, fact in entries.items():
        if path in owners or fact.is_folder or not path.startswith(lead) or path in conda:
            continue
        name = path[start:]
        if name.endswith(".pyc") and (source := source_of(path)) and (source in entries or source in owners):
            continue
        top = name.partition("/")[0]
        if top.partition(".")[0].lower() in broken or matches(name, everybody):
            continue
        found[top].append(path)
    return found


def source_of(path: str) -> str:
    """The source file of a compiled one: ``pkg/__pycache__/a.cpython-312.pyc`` -> ``pkg/a.py``."""
    folder, _, name = path.rpartition("/")
    parent, _, last = folder.rpartition("/")
    if last == "__pycache__":
        return join(parent, f"{name.partition('.')[0]}.py")
    return f"{path[:-1]}"


def conda_owned(env: Environment) -> frozenset[str]:
    """Files that conda packages brought."""
    found: set[str] = set()
    for path, text in env.texts.items():
        folder, _, name = path.rpartition("/")
        if folder.rpartition("/")[2] == "conda-meta" and name.endswith(".json"):
            try:
                files = msgspec.json.decode(text, type=CondaMeta).files
            except (msgspec.DecodeError, RecursionError):
                continue
            home = folder.rpartition("/")[0]
            found.update(join(home, file) for file in files)
    return frozenset(found)


def _judge(env: Environment, site: str, top: str, paths: list[str], forms: Forms) -> Iterator[Finding]:
    whole = join(site, top)
    if top.startswith("~"):
        yield _finding(
            env,
            top,
            paths,
            severity=Severity.WARNING,
            message=f"left over from an interrupted pip: {counted(len(paths), 'file')}",
            fix="remove the folder",
        )
        return
    winners = [path for path in paths if forms.beaten_by(path)]
    if winners:
        beaten = forms.beaten_by(winners[0])
        yield _finding(
            env,
            env.in_site(winners[0]),
            winners,
            severity=Severity.ERROR,
            message=f"nobody's, and imported in place of {env.in_site(beaten)}: an old build shadows the installed one",
            fix="remove the file",
        )
    paths = [path for path in paths if path not in set(winners)]
    if not paths or all("/__pycache__/" in f"/{path}" for path in paths):
        return  # only compiled files: hollow-package's matter
    code = [path for path in paths if path.endswith(CODE)]
    is_owned = any(path.startswith(f"{whole}/") for path in env.owners)
    what = "file" if not code else "file, code among them" if len(paths) == 1 else "file"
    yield _finding(
        env,
        top,
        code or paths,
        severity=Severity.WARNING if code else Severity.NOTE,
        message=(
            f"{counted(len(paths), what)} that no distribution owns"
            if is_owned
            else f"no distribution owns it: {counted(len(paths), 'file')} that no lock and no update knows"
        ),
        fix="install it as a distribution, or remove it",
    )


def _finding(
    env: Environment, subject: str, paths: list[str], *, severity: Severity, message: str, fix: str
) -> Finding:
    return Finding(
        rule=ID, severity=severity, subject=subject, message=message, evidence={"paths": some(env, paths)}, fix=fix
    )
