"""image-user: the image starts, as the user it names and as any other.

Docker, Kubernetes, OpenShift, HTCondor, Slurm with pyxis and Apptainer differ in who runs a container, which home
folder it has, and whether the entry point is used. What the configuration names must be there, open to all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from orbit.audit.facts import Environment, Kind
from orbit.audit.known.policy import Policy
from orbit.audit.models.loader import native_machine
from orbit.audit.models.settings import (
    EXECUTE,
    READ,
    WRITE,
    Place,
    accounts,
    can_reach,
    configured_account,
    entry_file,
    find_program,
    folders_of,
    groups,
    home_folder,
    is_number,
    is_whole,
    locate,
    may,
    settings_of,
    value_of,
)
from orbit.core.findings import Finding, Severity

ID = "image-user"
TITLE = "the image starts as the user it names and as any other"
KINDS: frozenset[Kind] = frozenset(("image",))
MACHINES = {"amd64": 62, "arm64": 183, "ppc64le": 21, "s390x": 22, "riscv64": 243}
"""``e_machine`` by the architecture's name in an image's configuration (psABI supplements)."""
STICKY_FOR_ALL = 0o1777
SET_ID = 0o6000
SHOWN = 5
SHELL = re.compile(r"(^|/)(ba|da|a|z|k)?sh$")
COMPOUND = re.compile(r"[;&|\n]")
HANDS_ON = re.compile(r"(?:^|[\s;&|{(])(?:exec\s+[\"'$/A-Za-z-]|trap\s)")
"""A shell that becomes the program, or deals with signals itself."""


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """Findings about the user, the home folder, what is started, the working folder, /tmp, PATH and ld.so.preload."""
    if env.image is None:
        return
    yield from _user(env)
    yield from _home(env, policy)
    yield from _start(env, policy)
    yield from _signals(env)
    yield from _working_folder(env, policy)
    yield from _temporary(env)
    yield from _path(env, policy)
    yield from _preload(env)
    yield from _set_id(env)


def _problem(subject: str, message: str, fix: str, severity: Severity = Severity.ERROR, **evidence: str) -> Finding:
    return Finding(rule=ID, severity=severity, subject=subject, message=message, evidence=evidence, fix=fix)


# --- who --------------------------------------------------------------------------------------------------------------


def _user(env: Environment) -> Iterator[Finding]:
    assert env.image is not None
    user, _, group = env.image.user.partition(":")
    if user and not is_number(user) and configured_account(env) is None:
        fix = "create the user in the image, or name it by its number"
        yield _problem("USER", f"names {user}, whom /etc/passwd does not know: no container starts", fix)
    if group and not is_number(group) and group not in groups(env):
        fix = "create the group in the image, or name it by its number"
        yield _problem("USER", f"names the group {group}, which /etc/group does not know: no container starts", fix)
    settings = settings_of(env)
    named = any(one.uid == int(user) for one in accounts(env)) if is_number(user) else True
    if not named and not {"USER", "LOGNAME"} & settings.keys():
        yield _problem(
            "USER",
            f"is uid {user}, which has no name in /etc/passwd: getpass.getuser() fails, and torch calls it at import",
            "add a line to /etc/passwd, or set USER and LOGNAME",
            Severity.WARNING,
        )


def _home(env: Environment, policy: Policy) -> Iterator[Finding]:
    settings = settings_of(env)
    home, account = home_folder(env), configured_account(env)
    if "HOME" in settings and settings["HOME"].origin == "entry point":
        return
    baked = value_of(env, "HOME")
    # without HOME in the configuration the runtime takes it from the account of whoever runs the container
    uid = policy.uid if baked else (account.uid if account else 0)
    if uid == 0 or not home:
        return
    place = locate(env, policy, home)
    if place.how == "missing":
        problem = "does not exist"
    elif _may(env, place, uid, WRITE | EXECUTE):
        return
    else:
        problem = f"is not writable by uid {uid}"
    yield _problem(
        "HOME",
        f"{home} {problem}: programs that keep settings and caches there fail",
        "make it writable for everyone (0777), or let the entry point choose a writable one",
        Severity.WARNING,
        HOME=home,
    )


def _may(env: Environment, place: Place, uid: int, wanted: int) -> bool:
    return may(env.tree.entries[place.path], uid, wanted) and can_reach(env, place.path, uid)


# --- what is started --------------------------------------------------------------------------------------------------


def _start(env: Environment, policy: Policy) -> Iterator[Finding]:
    """The program of the entry point, or of the command when there is none."""
    assert env.image is not None
    label = "ENTRYPOINT" if env.image.entrypoint else "CMD"
    argv = env.image.entrypoint or env.image.command
    if not argv or not argv[0]:
        fix = "set one, or state that the command is always given"
        yield _problem(
            "ENTRYPOINT", "neither it nor CMD is set: a container starts only with a command", fix, Severity.NOTE
        )
        return
    yield from _program(env, policy, label, argv[0])


def _program(env: Environment, policy: Policy, label: str, program: str) -> Iterator[Finding]:
    assert env.image is not None
    if "/" in program and not program.startswith("/"):
        program = f"{env.image.working_dir.rstrip('/')}/{program}"
    path, closed = find_program(env, policy, program, policy.uid)
    if not path:
        if closed:
            mode = f"{env.tree.entries[closed].mode & 0o7777:04o}"
            yield _problem(label, f"{program} has mode {mode}: uid {policy.uid} may not execute it", "chmod a+rx it")
        else:
            yield _problem(label, f"{program} is not in the image: no container starts", "correct the path")
        return
    if not can_reach(env, path, policy.uid):
        yield _problem(
            label,
            f"{program} lies below a folder that uid {policy.uid} may not enter",
            "chmod a+x the folders above it",
        )
    yield from _format(env, policy, label, path)


def _format(env: Environment, policy: Policy, label: str, path: str) -> Iterator[Finding]:
    """Whether the kernel can start the file: a program for this machine, or a script with an interpreter."""
    assert env.image is not None
    item = next((item for item in env.objects if item.path == path), None)
    wanted = MACHINES.get(env.image.architecture)
    if item is not None:
        if wanted is not None and item.machine != wanted:
            fix = "build it for the image's architecture, or correct the architecture in the configuration"
            message = f"/{path} is no program for {env.image.architecture}: exec format error"
            yield _problem(label, message, fix, machine=str(item.machine), usual=str(native_machine(env)))
        return
    head = env.texts.get(path)
    if head is None or path in env.damaged:
        return
    first = head.partition(b"\n")[0]
    if not first.startswith(b"#!"):
        if env.tree.entries[path].size > 0 and not head.startswith(b"\x7fELF"):
            message = f"/{path} is neither a program nor a script with an interpreter line: exec format error"
            yield _problem(label, message, "begin it with #!/bin/sh", begins=repr(head[:16]))
        return
    if first.endswith(b"\r"):
        message = f"the first line of /{path} ends in a carriage return: its interpreter is not found"
        yield _problem(label, message, "save the script with Unix line ends")
        return
    yield from _interpreter(env, policy, label, path, first[2:].decode("utf-8", "replace").split())


def _interpreter(env: Environment, policy: Policy, label: str, path: str, words: list[str]) -> Iterator[Finding]:
    if not words:
        return
    missing = words[0]
    found, closed = find_program(env, policy, words[0], policy.uid)
    if found and words[0].endswith("/env"):
        plain = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        if not plain:
            return
        missing = plain[0]
        found, closed = find_program(env, policy, plain[0], policy.uid)
    if not found:
        what = "may not be executed" if closed else "is not in the image"
        fix = "install it, or name one that is there"
        yield _problem(label, f"the interpreter of /{path}, {missing}, {what}: no container starts", fix)


def _signals(env: Environment) -> Iterator[Finding]:
    """A shell that stays process 1: it neither ends at SIGTERM nor passes it on, and the program is killed later."""
    assert env.image is not None
    label = "ENTRYPOINT" if env.image.entrypoint else "CMD"
    argv = env.image.entrypoint or env.image.command
    if len(argv) > 2 and SHELL.search(argv[0]) and "-c" in argv[1:3]:
        text = argv[argv.index("-c") + 1] if argv[-1] != "-c" else ""
        where, stays = "its shell", COMPOUND.search(text.strip()) is not None
    else:
        path = entry_file(env)
        text = env.texts.get(path, b"").decode("utf-8", "replace") if is_whole(env, path) else ""
        first = text.partition("\n")[0].split()
        where, stays = f"/{path}", bool(first) and first[0].startswith("#!") and SHELL.search(first[-1]) is not None
    commands = re.sub(r"(?m)(^|\s)#.*$", "", text).strip()
    if stays and commands and not HANDS_ON.search(commands):
        yield _problem(
            label,
            f"{where} stays process 1 and passes no signal on: docker stop and an eviction wait, then kill everything",
            'start the last program with exec (exec "$@")',
            Severity.WARNING,
        )


# --- where ------------------------------------------------------------------------------------------------------------


def _working_folder(env: Environment, policy: Policy) -> Iterator[Finding]:
    assert env.image is not None
    folder = env.image.working_dir
    if not folder or folder == "/":
        return
    place = locate(env, policy, folder)
    if place.how == "missing":
        message = f"{folder} is not in the image: a read-only root, Apptainer and enroot cannot make it"
        yield _problem("WORKDIR", message, "create it in the image", Severity.WARNING)
    elif not env.tree.entries[place.path].is_folder:
        yield _problem("WORKDIR", f"{folder} is no folder: no container starts", "correct it")
    elif not _may(env, place, policy.uid, EXECUTE):
        mode = f"{env.tree.entries[place.path].mode & 0o7777:04o}"
        message = f"{folder} has mode {mode}: uid {policy.uid} may not enter it, and no container of that user starts"
        yield _problem("WORKDIR", message, "chmod a+rx it and the folders above it")


def _temporary(env: Environment) -> Iterator[Finding]:
    for folder, severity in (("tmp", Severity.ERROR), ("var/tmp", Severity.NOTE)):
        fact = env.tree.entries.get(folder)
        if folder in env.tree.links:
            continue
        if fact is None or not fact.is_folder:
            fix = f"mkdir -m 1777 /{folder}"
            message = "is not in the image: programs that make temporary files fail unless something is mounted there"
            yield _problem(f"/{folder}", message, fix, severity)
        elif fact.mode & 0o777 != 0o777:
            message = f"has mode {fact.mode & 0o7777:04o}: users other than its owner cannot make temporary files"
            yield _problem(f"/{folder}", message, f"chmod 1777 /{folder}", severity)
        elif fact.mode & STICKY_FOR_ALL != STICKY_FOR_ALL:
            message = f"has mode {fact.mode & 0o7777:04o}: every user can remove the files of others"
            yield _problem(f"/{folder}", message, f"chmod 1777 /{folder}", Severity.WARNING)


def _path(env: Environment, policy: Policy) -> Iterator[Finding]:
    closed, odd = [], []
    for folder in folders_of(value_of(env, "PATH")):
        place = locate(env, policy, folder)
        if not folder.startswith("/"):
            odd.append(folder)
        elif place.how == "here" and not _may(env, place, policy.uid, READ | EXECUTE):
            closed.append(folder)
    if closed:
        message = f"has folders that uid {policy.uid} may not enter: programs in them exist for their owner only"
        fix = "install programs where everybody can enter, such as /usr/local/bin"
        yield _problem("PATH", message, fix, folders=", ".join(closed))
    if odd:
        message = (
            "has empty or relative entries, which mean the current folder: a program that lies there is run instead"
        )
        yield _problem("PATH", message, "remove them", Severity.WARNING, PATH=value_of(env, "PATH"))


def _preload(env: Environment) -> Iterator[Finding]:
    text = env.texts.get("etc/ld.so.preload", b"").decode("utf-8", "replace")
    lines = [line.partition("#")[0] for line in text.splitlines()]
    libraries = [word for line in lines for word in line.replace(":", " ").split()]
    if libraries:
        yield _problem(
            "/etc/ld.so.preload",
            "loads libraries into every program of the image",
            "remove the file; set LD_PRELOAD for the program that needs it",
            Severity.WARNING,
            libraries=", ".join(libraries[:SHOWN]),
        )


def _set_id(env: Environment) -> Iterator[Finding]:
    """Programs of the environment that change the user: ineffective under no_new_privs, a risk elsewhere."""
    lead = f"{env.layout.home}/" if env.layout.home else f"{env.layout.site}/"
    found = sorted(
        path
        for path, fact in env.tree.entries.items()
        if fact.mode & SET_ID and fact.is_file and fact.mode & 0o111 and path.startswith(lead)
    )
    if found:
        yield _problem(
            env.in_site(found[0]),
            f"{len(found)} program{'s' if len(found) > 1 else ''} of the environment would run as another user",
            "chmod ug-s (set-uid, set-gid): Kubernetes, Apptainer and HTCondor ignore the bit, others obey it",
            Severity.WARNING,
            paths=", ".join(found[:SHOWN]),
        )
