"""The host's apt, asked as a tool: which archives it uses, what is in them today, and fetching from them.

Reading an archive happens in a folder of its own with a configuration of its own: nothing of the host's packages,
preferences or keys enters, only how it reaches the network (proxies, credentials). Signatures are apt's to check.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from orbit.core import proc, tools
from orbit.core.files import read_file
from orbit.errors import CommandFailed, InputError, MissingError, OrbitError
from orbit.image.base.control import paragraphs
from orbit.image.base.definition import ARCHITECTURE, BaseDefinition

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
HELPER = "/usr/lib/apt/apt-helper"
UPDATE_TIMEOUT_S = 900.0
FETCH_TIMEOUT_S = 1800.0
OS_RELEASE = Path("/etc/os-release")
RELEASE_MAX_BYTES = 4 << 20
UNSIGNED = (
    "is not signed",
    "BADSIG",
    "NO_PUBKEY",
    "EXPKEYSIG",
    "REVKEYSIG",
    "Clearsigned file isn't valid",
    "Hash Sum mismatch",
    "unexpected size",
    "is expired",
    "is not valid yet",
    "couldn't be verified",
    "Unable to find expected entry",
    "Signed file isn't valid",
)
"""What apt says of an archive that is not what Debian signed, or not what it signed lately."""
UNREACHABLE = ("Failed to fetch", "does not have a Release file", "resolv")
INSTALL_APT = "apt-get install apt (Debian or Ubuntu), or make the lock on a machine that has it"


@dataclass(frozen=True, slots=True)
class Repository:
    """One suite at one address."""

    url: str
    """Ends with a slash."""
    suite: str


def acquire_options() -> list[str]:
    """Options of every apt command that fetches: the certificates the host's variables name, and no other user."""
    bundle = proc.ca_bundle()
    options = ["-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=2"]
    return [*options, "-o", f"Acquire::https::CAInfo={bundle}"] if bundle else options


def host_repositories(definition: BaseDefinition) -> tuple[Repository, ...]:
    """Where the host's apt would take the definition's suites from; empty when it knows no such archive.

    A host of another Debian release uses the same archives, so its own code name stands for the definition's.
    """
    done = proc.run(
        [_apt("apt-get"), "indextargets", "--format", "$(REPO_URI)\t$(RELEASE)", "Created-By: Packages"],
        doing="asking apt for its archives",
        check=False,
    )
    own = _host_codename()
    found: dict[Repository, None] = {}
    for line in done.stdout.decode(errors="replace").splitlines():
        url, _, release = line.partition("\t")
        suite = release
        if own and (release == own or release.startswith(f"{own}-")):
            suite = definition.suite + release.removeprefix(own)
        if suite in definition.suites:
            found[Repository(url=f"{url.rstrip('/')}/", suite=suite)] = None
    return tuple(found)


def host_name() -> str:
    """What this machine's system calls itself; empty when it does not say."""
    return _release().get("PRETTY_NAME", "")


def _host_codename() -> str:
    """The code name of a host that is Debian itself, else empty."""
    said = _release()
    return said.get("VERSION_CODENAME", "") if said.get("ID") == "debian" else ""


def _release() -> dict[str, str]:
    """What os-release(5) says."""
    try:
        text = read_file(OS_RELEASE, RELEASE_MAX_BYTES).decode(errors="replace")
    except (FileNotFoundError, InputError):
        return {}
    return {key: value.strip("\"'") for key, _, value in (line.partition("=") for line in text.splitlines())}


def download(files: Sequence[tuple[str, Path]]) -> str:
    """Fetch (address, target) pairs with the host's own configuration; a partial target is continued.

    Returns what apt said when something could not be had, else an empty string. What arrived is not verified.
    """
    argv = [_helper(), *acquire_options(), "download-file"]
    for url, target in files:
        argv += [url, str(target)]
    done = proc.run(argv, doing="fetching packages with apt", timeout_s=FETCH_TIMEOUT_S, check=False)
    return "" if done.returncode == 0 else done.stderr.decode(errors="replace")


def _helper() -> str:
    if not Path(HELPER).is_file():
        raise MissingError(f"{HELPER}: not there", fix=INSTALL_APT)
    return HELPER


def _apt(name: str) -> str:
    try:
        return str(tools.find(name))
    except MissingError as error:
        raise MissingError(error.what, fix=INSTALL_APT) from None


class Archive:
    """What some repositories hold, read by apt in a folder of its own."""

    def __init__(self, folder: Path, definition: BaseDefinition, *, keyring: Path, expired: bool = False) -> None:
        self.folder = folder
        self.definition = definition
        self.keyring = keyring
        self._configuration(expired=expired)

    def _configuration(self, *, expired: bool) -> None:
        here = self.folder
        for name in ("lists/partial", "state", "cache/archives/partial", "empty"):
            (here / name).mkdir(parents=True, exist_ok=True)
        (here / "status").touch()
        # usrmerge would bring 50 MB of Perl; usr-is-merged says the same of a root file system that was made merged
        (here / "preferences").write_text("Package: usrmerge\nPin: release *\nPin-Priority: -1\n", encoding="utf-8")
        settings = {
            "Dir::Etc::main": "/dev/null",
            "Dir::Etc::parts": f"{here}/empty",
            "Dir::Etc::sourcelist": f"{here}/sources.list",
            "Dir::Etc::sourceparts": f"{here}/empty",
            "Dir::Etc::preferences": f"{here}/preferences",
            "Dir::Etc::preferencesparts": f"{here}/empty",
            "Dir::Etc::trusted": "/dev/null",
            "Dir::Etc::trustedparts": f"{here}/empty",
            "Dir::State": f"{here}/state",
            "Dir::State::lists": f"{here}/lists",
            "Dir::State::status": f"{here}/status",
            "Dir::Cache": f"{here}/cache",
            "Dir::Log": f"{here}/state",
            "APT::Architecture": ARCHITECTURE,
            "APT::Architectures": ARCHITECTURE,
            "APT::Install-Recommends": "false",
            "APT::Get::AllowUnauthenticated": "false",
            "APT::Update::Error-Mode": "any",
            "Acquire::AllowInsecureRepositories": "false",
            "Acquire::AllowDowngradeToInsecureRepositories": "false",
            "Acquire::Check-Valid-Until": "false" if expired else "true",
            "Acquire::Languages": "none",
        }
        lines = "".join(f'{name} "{value}";\n' for name, value in settings.items())
        (here / "apt.conf").write_text(lines + _network_settings(), encoding="utf-8")

    def _run(self, argv: list[str], *, doing: str) -> str:
        done = proc.run(
            [_apt(argv[0]), *acquire_options(), *argv[1:]],
            doing=doing,
            env={"APT_CONFIG": str(self.folder / "apt.conf")},
            timeout_s=UPDATE_TIMEOUT_S,
        )
        return done.stdout.decode(errors="replace")

    def update(self, repositories: Sequence[Repository]) -> None:
        """Fetch the signed indexes of these repositories.

        Raises :class:`InputError` for one whose signature or hashes are wrong or too old, :class:`MissingError` for one
        that cannot be reached, or when the keys are not here.
        """
        if not self.keyring.is_file():
            raise MissingError(
                f"{self.keyring}: no such file, so no signature could be checked",
                fix="install the package debian-archive-keyring",
            )
        components = " ".join(self.definition.components)
        lines = [f"deb [signed-by={self.keyring}] {each.url} {each.suite} {components}\n" for each in repositories]
        (self.folder / "sources.list").write_text("".join(lines), encoding="utf-8")
        try:
            self._run(["apt-get", "update"], doing="reading the archive's indexes")
        except CommandFailed as error:
            raise _explain(error) from None

    def choose(self, names: Sequence[str]) -> dict[str, str]:
        """Version by name of everything apt would install for ``names`` on an empty system.

        Raises :class:`InputError` when a name is unknown or the packages contradict each other.
        """
        try:
            text = self._run(["apt-get", "install", "--simulate", "--yes", *names], doing="choosing packages")
        except CommandFailed as error:
            said = [line for line in error.tail.splitlines() if line.strip()]
            raise InputError(
                "\n".join([f"{self.definition.suite}: these packages cannot be installed together", *said]),
                fix="correct `packages` in the base's definition",
            ) from None
        pattern = re.compile(r"Inst (?P<name>[^ :]+)(?::\S+)? \((?P<version>[^ ]+) .*")
        return {match["name"]: match["version"] for line in text.splitlines() if (match := pattern.fullmatch(line))}

    def indexes(self) -> Iterator[tuple[str, Path]]:
        """(suite, file) of every index of packages."""
        text = self._run(
            ["apt-get", "indextargets", "--format", "$(RELEASE)\t$(FILENAME)", "Created-By: Packages"],
            doing="listing the archive's indexes",
        )
        for line in text.splitlines():
            suite, _, name = line.partition("\t")
            if Path(name).is_file():  # an empty index is no file
                yield suite, Path(name)

    def release(self, suite: str) -> dict[str, str]:
        """The fields of a suite's signed Release file."""
        for kind in ("InRelease", "Release"):
            for path in sorted((self.folder / "lists").glob(f"*_dists_{suite}_{kind}")):
                text = read_file(path, RELEASE_MAX_BYTES).decode(errors="replace")
                body = text.partition("\n\n")[2] if text.startswith("-----BEGIN PGP SIGNED") else text
                return next(paragraphs(body.splitlines()), {})
        raise InputError(f"{suite}: apt has no Release file of it", fix="name another mirror in ORBIT_DEBIAN")


def _network_settings() -> str:
    """The host's proxies and credentials, as configuration text; empty where the host has none."""
    done = proc.run(
        [_apt("apt-config"), "dump", "--format", '%f "%v";%n', "Acquire::http", "Acquire::https"],
        doing="asking apt how it reaches the network",
        check=False,
    )
    lines = [line for line in done.stdout.decode(errors="replace").splitlines() if re.match(r"Acquire::https?::", line)]
    lines += ['Dir::Etc::netrc "/etc/apt/auth.conf";', 'Dir::Etc::netrcparts "/etc/apt/auth.conf.d";']
    return "".join(f"{line}\n" for line in lines)


def _explain(error: CommandFailed) -> OrbitError:
    lines = [line for line in error.tail.splitlines() if line.startswith(("E:", "W:"))]
    said = "\n".join(f"  | {line}" for line in lines)
    if any(sign in error.tail for sign in UNSIGNED):
        return InputError(
            f"the archive is not what Debian signed; nothing of it was used\n{said}",
            fix="an old copy (a snapshot) needs --accept-expired; anything else: do not use this mirror, name another "
            "one in ORBIT_DEBIAN",
        )
    if error.status == 124 or any(sign in error.tail for sign in UNREACHABLE):
        return MissingError(
            f"the archive cannot be read\n{said}",
            fix="check network, proxy variables and SSL_CERT_FILE, or name a mirror in ORBIT_DEBIAN",
        )
    return error
