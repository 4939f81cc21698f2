"""The rules of the house, checked on the source as text: rooms and arrows, budgets, words, mirrors, docs.

A list of exceptions below may only shrink: an entry that is no longer needed fails too.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from orbit.cli import build_parser
from orbit.profile.model import load_profile, profile_names
from orbit.release.gate.documents import (
    bad_command,
    bad_count,
    bad_link,
    code_of,
    commands,
    headings,
    links,
    read_counts,
    unknown_command,
)
from tests.source import (
    ROOT,
    Function,
    files,
    functions,
    has_logic,
    imports,
    module_name,
    python_files,
    rule_ids,
    toml,
    tree,
)

# Room of orbit/ -> what it may import of the other rooms: a whole room, or one module of it. What is not here may not.
STAGES = {"profile", "kernels", "env", "audit", "image", "smoke", "qualify", "release", "launch", "doctor"}
ARROWS: dict[str, set[str]] = {
    "errors": set(),
    "core": {"errors"},
    "profile": {"errors", "core"},
    "audit": {
        "errors",
        "core",
        "profile",
        "kernels.capabilities",
        "env.activate",
        "image.oci",
        "image.damage",
        "image.docker",
    },
    "kernels": {
        "errors",
        "core",
        "profile",
        "env.cuda_home",
        # wheels are read and judged by the same readers and rules, before they are kept and when they are compared
        "audit",
    },
    "env": {
        "errors",
        "core",
        "profile",
        "kernels.build",
        "kernels.manifest",
        "audit.binary.elf",
        "audit.binary.dynamic",
        "audit.facts",
        "audit.installed.dists",
        "audit.installed.hashing",
        "audit.installed.tree",
        # an archive is written by the writers of the image's layers, and holds what the image has below its prefix
        "image.blob",
        "image.content",
        "image.layers",
        "image.own",
        "image.tar",
    },
    "image": {
        "errors",
        "core",
        "profile",
        "env",
        "kernels.build",
        # which device code a GPU can use
        "kernels.capabilities",
        "kernels.manifest",
        # sources that lie ready for a machine without network, and the comparison of two files to the cause
        "kernels.sources",
        "kernels.wheels",
        "kernels.wheels.binaries",
        "kernels.wheels.causes",
        "kernels.wheels.compare",
        # what is in an image is read by the readers of the audit
        "audit",
        "smoke",
    },
    "smoke": {"errors", "core"},
    # a record is made with an environment's own Python and variables
    "qualify": {"errors", "core", "env.activate"},
    # on a cluster: a node is asked what its environment is and what its GPUs can load; a manifest is judged by rules
    "launch": {"errors", "core", "profile", "env", "audit", "image", "smoke"},
    # a broken machine is asked what every other room can ask
    "doctor": {"errors", "core", *STAGES},
    "release": {"errors", "core", *STAGES},
    "ship": {"errors", "core", *STAGES},
    "cli": {"errors", "core", "ship", *STAGES},
    "__main__": {"cli"},
}
# Room of orbit/audit/ -> the rooms it may import: formats, facts of a file, facts of a target, what is known and what
# follows from it, rules, reports; a reader never knows a rule, a rule never reads a file.
AUDIT_ARROWS: dict[str, set[str]] = {
    "facts": {"binary"},
    "binary": set(),
    "known": {"binary", "facts"},
    "files": {"binary", "facts", "known"},
    "installed": {"binary", "facts", "files", "known"},
    "archives": {"binary", "facts", "files", "installed", "known"},
    "images": {"binary", "facts", "files", "installed"},
    "models": {"facts", "files", "installed", "known"},
    "deep": {"archives", "binary", "facts", "images", "known", "reports.report", "targets"},
    "rules": {"archives", "binary", "deep", "facts", "files", "installed", "known", "models"},
    "evaluate": {"facts", "known", "rules"},
    "reports": {"binary", "facts", "known", "models", "rules"},
    "locks": {"archives", "evaluate", "facts", "files", "images", "installed", "known", "reports", "rules"},
    "targets": set(),
    "run": {
        "archives", "deep", "evaluate", "facts", "images", "installed", "known", "locks", "reports", "rules", "targets",
    },
}  # fmt: skip
# What runs where the stack is installed, rooms and parts of rooms: only they may import it.
LOWER_FLOOR = (
    "smoke", "qualify.stack", "launch.fingerprint.stack", "launch.preflight.stack", "launch.ray.stack",
)  # fmt: skip

FILE_LINES, FUNCTION_LINES = 600, 100
LONG_FILES: set[str] = set()
LONG_FUNCTIONS: set[str] = set()

TOP_FOLDERS = {"ci", "containers", "docs", "env", "kernels", "nix", "orbit", "tests"}

# Modules with logic and no test module of their own, each with the test that covers it.
UNMIRRORED: dict[str, str] = {}

# Distributions whose module has another name.
MODULES = {"pyyaml": "yaml"}

# Modules that stand for an extra of the same name, and import it when it is used.
EXTRAS = {"orbit/release/attest/sigstore_library.py": {"sigstore"}}

# The one way to run a program is orbit.core.proc; these are programs of their own that cannot use it.
SUBPROCESS = {
    "orbit/core/proc.py": "the one way",
    "orbit/core/guard.py": "starts the guard that the one way stands on",
}

# Commands that pages may name before they exist.
PLANNED_COMMANDS: set[str] = set()

# Split, so that this file does not contain them. Fixtures that need a home folder use that of ann.
FORBIDDEN = {
    "a path of a build machine": r"(?<![\w.}])/(?:wo" + r"rk|ro" + r"ot|ho" + r"me/(?!ann/)\w+)/[\w.]",
    "the host of a package registry": "|".join(
        re.escape(host)
        for host in ("py" + "pi.org", "python" + "hosted.org", "deb.deb" + "ian.org", "security.deb" + "ian.org",
                     "registry.npm" + "js.org", "npm" + "js.com", "crates" + ".io", "proxy.go" + "lang.org")
    ),
    "how the project is made": "|".join(
        (r"\bsub" + r"agents?\b", r"\b(?:AI|LLM|coding)[ -]ag" + r"ents?\b", r"\bwork" + r"place\b",
         r"\bAI[ -]gen" + r"erated", "(?i:Cl" + "aude|Anth" + "ropic|Chat" + "GPT|Co" + "pilot)", r"\bas an AI\b",
         r"\bthis (?:chat|ses" + r"sion)\b")
    ),
}  # fmt: skip


def check_none(found: Iterable[str]) -> None:
    """Fail with every violation, one a line."""
    lines = list(dict.fromkeys(found))
    assert not lines, "\n" + "\n".join(lines)


def only_shrinks(exceptions: Iterable[str], needed: Iterable[str]) -> list[str]:
    """Exceptions that are no longer needed."""
    return [f"{name}: no longer needs its exception" for name in sorted(set(exceptions) - set(needed))]


# --- (a) rooms and arrows ---------------------------------------------------------------------------------------------


def room(module: str) -> str:
    """The room of an absolute module name: ``orbit.core.files`` -> ``core``."""
    return f"{module}.__init__".split(".")[1]


def reversed_arrows(name: str, arrows: dict[str, set[str]]) -> Iterator[str]:
    here = room(module_name(name))
    if here == "__init__":
        return
    if here not in arrows:
        yield f"{name}: room {here!r} has no row in ARROWS"
        return
    for line, target in imports(name):
        there = room(target)
        if not target.startswith("orbit.") or there in (here, "__init__"):
            continue
        if there not in arrows[here] and target.removeprefix("orbit.") not in arrows[here]:
            yield f"{name}:{line}: {here} may not import {target}"


def test_arrows_point_one_way() -> None:
    names = python_files("orbit")
    assert len(names) >= 20
    check_none(line for name in names for line in reversed_arrows(name, ARROWS))


def inner(module: str) -> str:
    """The room of a module of the audit: ``orbit.audit.files.scan`` -> ``files``."""
    return f"{module}.".split(".")[2]


def test_arrows_inside_the_audit_point_one_way() -> None:
    names = [name for name in python_files("orbit") if name.startswith("orbit/audit/") and inner(module_name(name))]
    assert len(names) >= 100
    found = [
        f"{name}:{line}: {inner(module_name(name))} may not import {target}"
        for name in names
        for line, target in imports(name)
        if target.startswith("orbit.audit.")
        and inner(target) != inner(module_name(name))
        and not AUDIT_ARROWS[inner(module_name(name))] & {inner(target), target.removeprefix("orbit.audit.")}
    ]
    check_none(found)


def test_a_reversed_arrow_would_be_seen() -> None:
    assert list(reversed_arrows("orbit/core/store.py", {"core": set()}))
    assert list(reversed_arrows("orbit/core/store.py", {}))


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    graph = {
        module_name(name): {target for _line, target in imports(name, top_level=True) if target.startswith("orbit.")}
        for name in python_files("orbit")
    }
    done: set[str] = set()

    def circle(module: str, path: tuple[str, ...]) -> tuple[str, ...]:
        if module in path:
            return (*path[path.index(module) :], module)
        if module in done:
            return ()
        for target in sorted(graph.get(module, ())):
            if found := circle(target, (*path, module)):
                return found
        done.add(module)
        return ()

    assert len(graph) >= 20
    check_none(" -> ".join(found) for module in sorted(graph) if (found := circle(module, ())))


def test_the_upper_floor_imports_its_own_dependencies_and_nothing_of_the_stack() -> None:
    declared = {re.split(r"[<>=!~ \[]", need)[0] for need in toml("pyproject.toml")["project"]["dependencies"]}
    allowed = {MODULES.get(name, name) for name in declared} | set(sys.stdlib_module_names) | {"orbit"}
    lower = tuple(f"orbit.{place}." for place in LOWER_FLOOR)
    upper = [name for name in python_files("orbit") if not f"{module_name(name)}.".startswith(lower)]
    check_none(
        f"{name}:{line}: imports {target}, which the upper floor does not depend on"
        for name in upper
        for line, target in imports(name)
        if target.split(".")[0] not in allowed | EXTRAS.get(name, set())
    )
    extras = toml("pyproject.toml")["project"]["optional-dependencies"]
    assert all(extra in extras for some in EXTRAS.values() for extra in some)


def test_programs_are_started_in_one_way() -> None:
    users = {name for name in python_files("orbit") for _line, target in imports(name) if target == "subprocess"}
    shells = re.compile(r"shell=True|os\.system\(|os\.popen\(")
    found = [f"{name}: starts programs beside orbit.core.proc" for name in sorted(users - set(SUBPROCESS))]
    found += [f"{name}: uses a shell" for name in python_files("orbit") if shells.search((ROOT / name).read_text())]
    check_none(found + only_shrinks(SUBPROCESS, users))


# --- (b) data ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folder", "at_least"),
    [("env/profiles", 2), ("kernels/recipes", 5), ("kernels/expectations", 2), ("containers/smoke", 4),
     ("env", 4), ("kernels", 8), ("containers", 5)],
)  # fmt: skip
def test_every_data_file_parses(folder: str, at_least: int) -> None:
    names = [name for name in files() if name.startswith(f"{folder}/") and name.endswith(".toml")]
    assert len(names) >= at_least
    assert [name for name in names if not toml(name)] == []


def test_every_profile_loads() -> None:
    found = {name.removesuffix(".toml").split("/")[-1] for name in files() if re.match(r"env/profiles/[^/]+$", name)}
    assert found == set(profile_names())
    assert [load_profile(name).name for name in profile_names()] == list(profile_names())


# --- (c) budgets ------------------------------------------------------------------------------------------------------


def length(node: Function) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_files_are_short() -> None:
    written = [name for name in files() if Path(name).suffix in {".py", ".sh", ".nix", ".cu", ".toml", ".md"}]
    lines = {name: len((ROOT / name).read_text().splitlines()) for name in [*written, "orbitw"]}
    assert len(lines) >= 60
    long = {name for name, count in lines.items() if count > FILE_LINES}
    found = [f"{name}: {lines[name]} lines, at most {FILE_LINES}" for name in sorted(long - LONG_FILES)]
    check_none(found + only_shrinks(LONG_FILES, long))


def test_functions_are_short() -> None:
    long = {
        f"{name}:{node.name}": length(node)
        for name in python_files()
        for node in functions(name)
        if length(node) > FUNCTION_LINES
    }
    found = [f"{key}: {long[key]} lines, at most {FUNCTION_LINES}" for key in sorted(long) if key not in LONG_FUNCTIONS]
    check_none(found + only_shrinks(LONG_FUNCTIONS, long))


# --- (d) words --------------------------------------------------------------------------------------------------------


def forbidden_words(name: str, text: str) -> Iterator[str]:
    for kind, pattern in FORBIDDEN.items():
        for match in re.finditer(pattern, text):
            yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {kind}: {match[0]!r}"


def test_the_project_speaks_of_itself_alone() -> None:
    found: list[str] = []
    for name in files():
        if Path(name).name != "uv.lock":  # uv keeps its URLs there
            found += forbidden_words(name, (ROOT / name).read_bytes().decode("utf-8", errors="replace"))
    check_none(found)


@pytest.mark.parametrize(
    "text",
    ["see /wo" + "rk/main/x", "/ro" + "ot/.cache", "/ho" + "me/bob/orbit", "https://files.python" + "hosted.org/p",
     "made by Cl" + "aude", "one sub" + "agent each"],
)  # fmt: skip
def test_forbidden_words_would_be_seen(text: str) -> None:
    assert len(list(forbidden_words("a", text))) == 1


def test_legitimate_words_pass() -> None:
    text = "scope='session', a sandbox for rewards, $HOME/work/x, agents, /opt/orbit, ./work/x, /home/ann/x"
    assert list(forbidden_words("a", text)) == []


def test_sources_are_ascii() -> None:
    written = [name for name in files() if Path(name).suffix in {".py", ".sh", ".nix", ".cu", ".h", ".toml", ".md"}]
    check_none(name for name in written if not (ROOT / name).read_bytes().isascii())


# --- (e) every folder says what it is, every module has its tests -----------------------------------------------------


def test_each_top_level_folder_has_a_readme() -> None:
    folders = {name.split("/")[0] for name in files() if "/" in name and not name.startswith(".")}
    assert folders == TOP_FOLDERS
    check_none(f"{f}/README.md is missing" for f in sorted(folders) if f"{f}/README.md" not in files())


def is_mirrored(name: str) -> bool:
    """Whether ``orbit/<room>/<module>.py`` has ``tests/<room>/test_<module>.py``.

    A nested package (one small rule per module) may group its tests: some test of ``tests/<room>/<package>/`` names it.
    """
    folder, _, module = name.removeprefix("orbit/").removesuffix(".py").rpartition("/")
    if mirror(name) in files():
        return True
    grouped = [test for test in python_files("tests") if test.startswith(f"tests/{folder}/test_")]
    words = re.compile(rf"\b({module}|{module.replace('_', '-')})\b")
    return "/" in folder and any(words.search((ROOT / test).read_text()) for test in grouped)


def mirror(name: str) -> str:
    """The test module of a module."""
    folder, _, module = name.removeprefix("orbit/").rpartition("/")
    return f"tests/{folder}/test_{module}" if folder else f"tests/test_{module}"


def test_each_module_with_logic_has_a_test_module() -> None:
    modules = [n for n in python_files("orbit") if Path(n).name not in ("__init__.py", "__main__.py") and has_logic(n)]
    assert len(modules) >= 15
    bare = {name for name in modules if not is_mirrored(name)}
    found = [f"{name}: no {mirror(name)}" for name in sorted(bare - set(UNMIRRORED))]
    found += [f"{test}: is not there (covers {name})" for name, test in UNMIRRORED.items() if test not in files()]
    check_none(found + only_shrinks(UNMIRRORED, bare))


def test_each_test_folder_is_a_package() -> None:
    """Else two test modules of one name in two rooms cannot be collected together."""
    folders = {str(Path(name).parent) for name in python_files("tests") if Path(name).name.startswith("test_")}
    check_none(f"{f}/__init__.py is missing" for f in sorted(folders) if f"{f}/__init__.py" not in files())


# --- (f) pages --------------------------------------------------------------------------------------------------------

PAGES = ("README.md", "docs/")


def pages() -> list[str]:
    return [name for name in files() if name.endswith(".md") and name.startswith(PAGES)]


def test_relative_links_resolve() -> None:
    named = [(name, target) for name in files() if name.endswith(".md") for target in links((ROOT / name).read_text())]
    assert len(named) >= 10
    check_none(f"{name}: {problem}" for name, target in named if (problem := bad_link(ROOT, name, target)))


def test_commands_on_pages_exist() -> None:
    parser = build_parser()
    shown = [(name, line) for name in pages() for line in commands((ROOT / name).read_text())]
    planned = [line for _, line in shown if line.split()[0] in PLANNED_COMMANDS]
    check_none(
        f"{name}: {problem}" for name, line in shown if line not in planned and (problem := bad_command(parser, line))
    )
    assert "ship" in {line.split()[0] for _, line in shown}
    assert [command for command in PLANNED_COMMANDS if not unknown_command(parser, [command])] == []


def test_numbers_that_follow_from_data_are_the_datas() -> None:
    counts = read_counts(ROOT)
    assert counts
    check_none(f"{count.page}: {problem}" for count in counts if (problem := bad_count(ROOT, count)))


def test_each_command_has_a_page() -> None:
    text = "\n".join(code_of((ROOT / name).read_text()) for name in pages())
    choices = build_parser()._subparsers
    assert choices is not None
    commands = list(choices._group_actions[0].choices or ())
    assert len(commands) >= 6
    check_none(c for c in commands if not re.search(rf"(orbit|orbitw) {c}\b", text))


def test_each_rule_is_documented_once_and_each_page_has_its_rule() -> None:
    ids = rule_ids()
    assert len(ids) >= 10
    sections = [
        s for s in headings(ROOT / "docs" / "rules.md") if re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+|expectation", s)
    ]
    own = [Path(name).stem for name in files() if re.fullmatch(r"docs/rules/[a-z0-9-]+\.md", name)]
    documented = Counter([*sections, *own])
    found = [f"{where}: rule {rule!r} is not documented" for rule, where in sorted(ids.items()) if not documented[rule]]
    found += [f"{rule}: documented {count} times" for rule, count in sorted(documented.items()) if count > 1]
    found += [f"{rule}: documented, but there is no such rule" for rule in sorted(set(documented) - set(ids))]
    check_none(found)


# --- (g) no test without a question -----------------------------------------------------------------------------------

ASKS = re.compile(r"(^|\.)(raises|fail|warns|skip|check\w*|assert\w*|must\w*|expect\w*)$")


def asks(node: ast.AST) -> bool:
    """Whether a test can fail by its own words: assert, pytest.raises, or a function called check..., assert..."""
    return any(
        isinstance(part, ast.Assert) or (isinstance(part, ast.Call) and ASKS.search(ast.unparse(part.func)) is not None)
        for part in ast.walk(node)
    )


def test_no_test_is_without_assertion() -> None:
    tests = [
        (name, node)
        for name in python_files("tests")
        if Path(name).name.startswith("test_")
        for node in functions(name)
        if node.name.startswith("test_")
    ]
    assert len(tests) >= 150
    check_none(f"{name}:{node.lineno}: {node.name} asserts nothing" for name, node in tests if not asks(node))


def test_a_test_without_assertion_would_be_seen() -> None:
    assert not asks(ast.parse("def test_x():\n    work()\n    print('fine')"))
    assert asks(ast.parse("def test_x():\n    check_entry(work())"))


def test_this_file_reads_code_and_runs_none_of_it() -> None:
    called = {ast.unparse(node.func) for node in ast.walk(tree("tests/source.py")) if isinstance(node, ast.Call)}
    assert called.isdisjoint({"exec", "eval", "importlib.import_module", "__import__"})
