"""Readers of text: metadata, the small files that rules read, locks, expectations, saved reports and kernels."""

from __future__ import annotations

import atexit
import functools
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import zstandard

from orbit.audit.deep.baseline import Baseline, diff_baselines, read_baseline, write_baseline
from orbit.audit.facts import Environment, FileFact, Layout, SharedObject, Tree
from orbit.audit.images.image_layout import image_layout
from orbit.audit.images.image_source import FolderArchive, read_image_ref
from orbit.audit.installed.dists import owners_of, read_dist
from orbit.audit.installed.environment import identity_of
from orbit.audit.installed.tree import find_layout
from orbit.audit.known.policy import Policy, load_expectations, load_policy
from orbit.audit.locks.lock_formats import read_listed
from orbit.audit.locks.lock_rules import generic_findings
from orbit.audit.locks.lock_wheels import lock_environment, one_of_each
from orbit.audit.models.requirements import parse
from orbit.audit.reports.report import load_reports
from orbit.audit.rules import RULES
from orbit.profile.model import load_profile
from orbit.profile.platform import marker_holds
from tests.audit.written_reports import call, full_report
from tests.fuzz.base import Reader
from tests.writers.tiny_image import file, write_image

HOME = "opt/orbit"
SITE = f"{HOME}/lib/python3.12/site-packages"
INFO = f"{SITE}/a-1.dist-info"
FILES = (
    f"{HOME}/pyvenv.cfg", f"{HOME}/share/orbit/environment.json", f"{HOME}/share/orbit/activate.sh",
    f"{HOME}/conda-meta/python-3.12.1-0.json", f"{SITE}/a.pth", f"{SITE}/b.egg-link",
    f"{SITE}/__editable___a_finder.py", f"{INFO}/METADATA", f"{INFO}/WHEEL", f"{INFO}/RECORD",
    f"{INFO}/direct_url.json", f"{INFO}/top_level.txt", f"{INFO}/entry_points.txt",
    f"{SITE}/b.egg-info/installed-files.txt", f"{SITE}/b.egg-info/top_level.txt", f"{SITE}/x/cpp_lib.json",
    "entrypoint.sh", "docker-entrypoint.sh", "etc/ld.so.cache", "etc/ld.so.conf", "etc/ld.so.conf.d/a.conf",
    "etc/ld.so.preload", "etc/passwd", "etc/group", "etc/os-release", "etc/environment",
    "usr/local/cuda/version.json", f"{HOME}/bin/tool", f"{HOME}/bin/python3", "usr/bin/x",
    f"{HOME}/share/orbit/libraries.json", f"{SITE}/cmake.manifest.json",
)  # fmt: skip
"""A path for every kind of small file that somebody reads."""


@functools.cache
def folder() -> Path:
    """A folder to put files into; gone when the process ends."""
    made = tempfile.TemporaryDirectory(prefix="orbit-fuzz-text-")
    atexit.register(made.cleanup)
    return Path(made.name)


@functools.cache
def policy() -> Policy:
    """What the probe profile expects."""
    return load_policy(load_profile("probe"))


def written(name: str, data: bytes) -> Path:
    """A file that holds ``data``."""
    path = folder() / name
    path.write_bytes(data)
    return path


def read_metadata(data: bytes) -> None:
    """A distribution whose files all hold the same bytes."""
    read_dist("lib/python3.12/site-packages/a-1.dist-info", lambda _path: data)


def metadata_seeds() -> Iterable[bytes]:
    """RECORD, METADATA, WHEEL and direct_url.json."""
    yield b'a/b.py,sha256=abc,12\n"a,b",,\n../../../bin/x,md5=1,\n/etc/passwd,,3\n'
    yield b"Name: a\nVersion: 1\nRequires-Dist: b>=1; extra == 'c'\n folded\nSummary: s\n\nbody\n"
    yield b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    yield b'{"url": "file:///x", "dir_info": {"editable": true}}'


def environment_of(data: bytes) -> Environment:
    """An image in which every small file holds the same bytes, and variables too as far as they can."""
    texts = dict.fromkeys(FILES, data)
    folders = {"/".join(path.split("/")[:depth]) for path in FILES for depth in range(path.count("/") + 1)}
    entries = {path: FileFact(0o40755, 0, 0, 0, (0, 0, 0, 0)) for path in sorted(folders)}
    entries |= {path: FileFact(0o100755, 0, 0, len(data), (0, 0, 0, 0)) for path in FILES}
    link = data[:200].decode("utf-8", "surrogateescape").replace("\0", "") or "x"
    entries[f"{HOME}/bin/python"] = FileFact(0o120777, 0, 0, len(link), (0, 0, 0, 0))
    tree = Tree(entries, {f"{HOME}/bin/python": link}, (), (), rooted=True)
    dist = read_dist(INFO, texts.get)
    value = link[:100]
    names = (
        "LD_LIBRARY_PATH",
        "PATH",
        "NVIDIA_REQUIRE_CUDA",
        "TORCH_CUDA_ARCH_LIST",
        "HOME",
        "PYTHONPATH",
        "LD_PRELOAD",
    )
    return Environment(
        layout=Layout(Path("/"), SITE, (3, 12), "", (), home=HOME),
        tree=tree,
        dists=(dist,),
        objects=(SharedObject(f"{SITE}/a/_c.so", 62, (), None),),
        exports={},
        damaged={},
        num_remembered=0,
        digests={row.path: row.digest for row in dist.rows},
        owners=owners_of((dist,)),
        kind="image",
        variables=dict.fromkeys(names, value),
        texts=texts,
    )


def read_rules(data: bytes) -> None:
    """Every rule over an image whose small files all hold the same bytes."""
    env = environment_of(data)
    identity_of(env.texts)
    image_layout(env.tree, env.objects, env.variables, env.texts, "3.12")
    for rule in RULES.values():
        list(rule.check(env, policy()))


def rules_seeds() -> Iterable[bytes]:
    """One of each kind of small file."""
    yield from metadata_seeds()
    yield b"home = /usr/bin\nversion = 3.12.1\ninclude-system-site-packages = true\n"
    yield b"import sys; sys.path.insert(0, '/x')\n../src\n/opt/y\n# note\n"
    yield b"MAPPING: dict[str, str] = {'a': '/src/a', 'b': '/src/b'}\nNAMESPACES = {}\n"
    yield (
        b'{"schema": "x", "identity": "ab12", "profile": "probe", "lock": "'
        + b"0" * 64
        + b'", "distributions": '
        + (b'[{"name": "a", "version": "1"}], "skipped": [{"what": "b", "reason": "c"}], "files": ["lib/x", "bin/y"]}')
    )
    yield b"#!/opt/orbit/bin/python3.11 -s\nexport LD_LIBRARY_PATH=/usr/local/cuda/compat:$LD_LIBRARY_PATH\nA=1\n"
    yield b"root:x:0:0:root:/root:/bin/sh\nme:x:1000:1000::/home/me:\n"
    yield b"include /etc/ld.so.conf.d/*.conf\n/usr/local/cuda/compat\n"
    yield b'{"cuda": {"name": "CUDA SDK", "version": "13.0.2"}, "cuda_nvcc": {"version": "13.0.88"}}'
    yield b"[console_scripts]\ntool = a.cli:main [x]\n[other]\nx=y\n"


def read_requirement(data: bytes) -> None:
    """A requirement and a marker."""
    text = data.decode("utf-8", "replace")
    parse(text)
    marker_holds(text.partition(";")[2] or text, Path("x"))


def requirement_seeds() -> Iterable[bytes]:
    """Requirements as METADATA has them; a marker must hold or not."""
    yield b"a[b,c]>=1.0,!=2.*; python_version < '3.13' and (sys_platform == 'linux' or extra == 'x')"
    yield b"a @ https://host/a.whl ; platform_machine in 'x86_64 aarch64'"
    yield b"x ; python_full_version >= '3.12.0rc1'"


def lock_reader(name: str) -> Callable[[bytes], None]:
    """A reader of locks that are called ``name``: what they list, judged."""

    def read(data: bytes) -> None:
        profile = load_profile("probe")
        listed = read_listed(written(name, data), profile.extras)
        list(generic_findings(listed, profile))
        chosen, _others = one_of_each(listed.packages)
        lock_environment(chosen, {}, profile)

    return read


DIGEST = "0123456789abcdef" * 4


def uv_seeds() -> Iterable[bytes]:
    """A lock with forks, extras, sources of every kind, and overrides."""
    yield f"""version = 1
revision = 3
requires-python = ">=3.12, <3.13"
[manifest]
overrides = [{{ name = "b", specifier = "==1.0" }}]
[[package]]
name = "a"
version = "1.0"
source = {{ editable = "." }}
dependencies = [{{ name = "b", extra = ["x"], marker = "sys_platform == 'linux'" }}]
[package.optional-dependencies]
stack = [{{ name = "c", version = "2.0", source = {{ git = "https://host/c?rev=1#abc" }} }}]
[package.metadata]
requires-dist = [{{ name = "b", specifier = ">=1" }}]
[[package]]
name = "b"
version = "1.0"
source = {{ registry = "https://host/simple" }}
resolution-markers = ["python_version < '3.13'"]
sdist = {{ url = "https://host/b-1.0.tar.gz", hash = "sha256:{DIGEST}", size = 3 }}
wheels = [{{ url = "https://host/b-1.0-py3-none-any.whl", hash = "sha256:{DIGEST}", size = 3 }}]
[[package]]
name = "c"
version = "2.0"
source = {{ git = "https://host/c?rev=1#abc" }}
""".encode()
    yield b'version = 1\nrequires-python = ">=3.12"\npackage = []\n'


def pylock_seeds() -> Iterable[bytes]:
    """Packages of every kind of source."""
    yield f"""lock-version = "1.0"
created-by = "x"
[[packages]]
name = "a"
version = "1.0"
marker = "sys_platform == 'linux'"
wheels = [{{ url = "https://host/a-1.0-py3-none-any.whl", hashes = {{ sha256 = "{DIGEST}" }}, size = 3 }}]
[[packages]]
name = "b"
vcs = {{ type = "git", url = "https://host/b", commit-id = "abc" }}
[[packages]]
name = "c"
archive = {{ path = "c-1.zip", hashes = {{ sha256 = "{DIGEST}" }} }}
[[packages]]
name = "d"
directory = {{ path = "." }}
""".encode()
    yield b'lock-version = "1.0"\npackages = []\n'


def requirements_seeds() -> Iterable[bytes]:
    """Lines of every kind."""
    yield f"--index-url https://host/simple\na==1.0 --hash=sha256:{DIGEST} \\\n  --hash=sha512:00\nb>=2 # x\n".encode()
    yield b"c @ git+https://host/c@abc ; python_version<'4'\nd @ https://host/d.whl\ne===1.*\n-r other.txt\n"


def read_expected(data: bytes) -> None:
    """A file of expectations."""
    load_expectations(written("expectations.toml", data), load_profile("probe"))


def expected_seeds() -> Iterable[bytes]:
    """Waivers and gaps."""
    reason = "known upstream, one two three four"
    yield (
        f'schema = 1\n[[waivers]]\nrule = "arch-coverage"\nsubject = "a/*"\nreason = "{reason}"\nexpires = 2027-06-01\n'
    ).encode()
    gap = 'file = "a.so"\ntarget = "h100"\nresult = "none"\ncontainers = 2'
    yield f'schema = 1\n[[gaps]]\n{gap}\nreason = "{reason}"\n'.encode()


def read_report(data: bytes) -> None:
    """A saved report."""
    load_reports(written("report.json", data))


def report_seeds() -> Iterable[bytes]:
    """A report of one call, and of one target."""
    yield msgspec.json.encode(call(full_report()))
    yield msgspec.json.encode(full_report())


def read_kernels(data: bytes) -> None:
    """Kernels of an earlier build, packed or not."""
    packed = data if data.startswith(b"\x28\xb5\x2f\xfd") else zstandard.compress(data)
    found = read_baseline(written("kernels", packed))
    diff_baselines(found, Baseline(files={}))


def kernels_seeds() -> Iterable[bytes]:
    """Two builds."""
    one = Baseline(files={"a.so": {"_Z1kv": {"sm_90a": 128}}}, stubs={"a.so": {"_Z1kv": {"sm_90a": "empty"}}})
    yield msgspec.json.encode(one)
    write_baseline(folder() / "one", one)
    yield (folder() / "one").read_bytes()


@functools.cache
def image_folder() -> tuple[Path, bytes]:
    """An image layout of one small layer, and its index."""
    layout = write_image(folder() / "layout", [[file("x", b"x")]])
    return layout, (layout / "index.json").read_bytes()


def read_index(data: bytes) -> None:
    """The index of an image layout."""
    layout, _index = image_folder()
    (layout / "index.json").write_bytes(data)
    read_image_ref(FolderArchive(layout), "x", "amd64")


def index_seeds() -> Iterable[bytes]:
    """A layout's own index, and one that names its image."""
    _layout, first = image_folder()
    yield first
    yield first.replace(b"}]}", b', "annotations": {"org.opencontainers.image.ref.name": "a:b"}}]}')


def read_venv(data: bytes) -> None:
    """The pyvenv.cfg of an environment on disk."""
    prefix = folder() / "venv"
    (prefix / "lib" / "python3.12" / "site-packages").mkdir(parents=True, exist_ok=True)
    (prefix / "pyvenv.cfg").write_bytes(data)
    find_layout(prefix, "3.12")


def venv_seeds() -> Iterable[bytes]:
    """Files of venv and uv."""
    yield b"home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.12.1\n"
    yield b"HOME=/opt/python/bin\nuv = 0.9\nversion_info = 3.12.1\n"


READERS = {
    "metadata": Reader(read_metadata, metadata_seeds),
    "rule-texts": Reader(read_rules, rules_seeds),
    "requirement": Reader(read_requirement, requirement_seeds),
    "uv-lock": Reader(lock_reader("uv.lock"), uv_seeds),
    "pylock": Reader(lock_reader("pylock.toml"), pylock_seeds),
    "requirements": Reader(lock_reader("requirements.txt"), requirements_seeds),
    "expectations": Reader(read_expected, expected_seeds),
    "report": Reader(read_report, report_seeds),
    "baseline": Reader(read_kernels, kernels_seeds),
    "image-index": Reader(read_index, index_seeds),
    "pyvenv": Reader(read_venv, venv_seeds),
}
