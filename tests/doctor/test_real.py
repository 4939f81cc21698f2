"""Errors made for real, by the very programs that print them; what is not installed here is skipped with the reason."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from orbit.cli import main
from orbit.core.tools import uv
from orbit.doctor.run import explain

LIMIT_S = 120
PYTHON: dict[str, str] = {
    "socket-path-too-long": "import socket; socket.socket(socket.AF_UNIX).bind('/tmp/' + 'x' * 120)",
    "user-without-name": "import pwd; pwd.getpwuid(4_000_000_001)",
    "two-cudas-mixed": "import ctypes; ctypes.CDLL('libcudart.so.12')",
    "no-driver": "import ctypes; ctypes.CDLL('libcuda.so.1')",
    "disk-full": "open('/dev/full', 'wb', buffering=0).write(b'x')",
    "open-files-too-few": """
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
[os.open('/', 0) for _ in range(30)]
""",
    "port-taken": "import socket as s; a = s.create_server(('127.0.0.1', 0)); s.create_server(a.getsockname())",
    "nobody-listens": """
import socket
bound = socket.socket()
bound.bind(('127.0.0.1', 0))
socket.create_connection(bound.getsockname())
""",
    "foreign-auth-key": """
import threading
from multiprocessing.connection import Client, Listener
listener = Listener(('127.0.0.1', 0), authkey=b'a')
threading.Thread(target=Client, args=(listener.address,), kwargs={'authkey': b'b'}).start()
listener.accept()
""",
}
"""What fails in Python, by what it must be explained as."""
RAY: dict[str, str] = {
    "ray-versions-differ": """
from ray._private.utils import check_version_info
check_version_info({'ray_version': '2.55.1', 'python_version': '3.12.99'}, 'node 10.0.0.5')
""",
    "socket-path-too-long": """
from ray._private import utils
check = next(getattr(utils, name) for name in dir(utils) if name.startswith('validate_socket_file'))
check('/tmp/' + 'x' * 120)
""",
    "object-store-larger-than-shm": """
from ray._private.services import determine_plasma_store_config
determine_plasma_store_config(1 << 50, '/tmp', None, False)
""",
    "more-gpus-than-visible": """
import os
from ray._private.resource_and_label_spec import ResourceAndLabelSpec
os.environ['CUDA_VISIBLE_DEVICES'] = '0,1'
ResourceAndLabelSpec(num_cpus=1, num_gpus=8, memory=1 << 30, object_store_memory=1 << 27).resolve(is_head=True)
""",
}
"""What fails in Ray, by what it must be explained as."""
ONE_BY_ONE = """
import sys, traceback
for program in sys.argv[1:]:
    try:
        exec(program, {})
    except Exception:
        traceback.print_exc()
    sys.stderr.write(chr(0))
sys.exit(1)
"""
"""Importing Ray takes seconds: all programs in one process, a NUL behind the output of each."""
BACKEND = """
import shutil
def build_wheel(folder, config_settings=None, metadata_directory=None):
    shutil.copy("{wheel}", folder)
    return "{wheel}".rpartition("/")[2]
"""


def said(*argv: str, cwd: Path | None = None, **env: str) -> str:
    """What a program that must fail prints."""
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=LIMIT_S, cwd=cwd, check=False, env={**os.environ, **env}
    )
    assert done.returncode != 0, done.stdout
    return done.stdout + done.stderr


@pytest.mark.parametrize("symptom", sorted(PYTHON))
def test_what_python_and_the_kernel_print(symptom: str) -> None:
    if symptom == "no-driver" and shutil.which("nvidia-smi"):
        pytest.skip("this machine has a driver")
    assert explain(said(sys.executable, "-c", PYTHON[symptom])).causes[0].symptom == symptom


def test_what_ray_prints() -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("ray is not installed here")
    texts = said(sys.executable, "-c", ONE_BY_ONE, *RAY.values()).split(chr(0))
    found = {wanted: [c.symptom for c in explain(text).causes][:1] for wanted, text in zip(RAY, texts, strict=False)}
    assert found == {wanted: [wanted] for wanted in RAY}


def project(folder: Path, name: str, version: str = "1.0") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "{name}"\nversion = "{version}"\nrequires-python = ">=3.12"\n'
    )
    return folder


def test_what_uv_prints_of_a_lock_that_is_out_of_date(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", "demo")
    offline = ("--offline", "--python", sys.executable)
    subprocess.run([uv(), "lock", *offline], cwd=folder, check=True, capture_output=True, timeout=LIMIT_S)
    project(folder, "demo", "2.0")
    text = said(str(uv()), "sync", "--locked", *offline, cwd=folder)
    assert explain(text).causes[0].symptom == "lock-out-of-date"


def wheel(folder: Path, name: str) -> Path:
    """A wheel with one module and one function."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}/__init__.py": "__version__ = '1.0'\n",
        f"{name}/inner.py": "x = 1\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in files.items():
            archive.writestr(member, content)
        archive.writestr(f"{info}/RECORD", "".join(f"{member},,\n" for member in [*files, f"{info}/RECORD"]))
    return path


def test_what_uv_prints_of_a_package_with_another_name(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", "sglang-kernel")
    with (folder / "pyproject.toml").open("a") as file:
        file.write('[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n')
    (folder / "backend.py").write_text(BACKEND.format(wheel=wheel(tmp_path, "sglang_kernel")))
    target = ("--offline", "--python", sys.executable, "--target", str(tmp_path / "t"))
    text = said(str(uv()), "pip", "install", *target, f"sgl-kernel @ {folder.as_uri()}")
    assert explain(text).causes[0].symptom == "kernel-package-renamed"


def test_an_environment_of_links_whose_cache_is_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As it happens: uv by symbolic links, the cache removed; the import works and has nothing in it."""
    env, cache = tmp_path / "env", tmp_path / "cache"
    variables = {**os.environ, "UV_CACHE_DIR": str(cache), "UV_LINK_MODE": "symlink"}
    for argv in (
        [uv(), "venv", "--offline", "--python", sys.executable, env],
        [uv(), "pip", "install", "--offline", "--no-deps", "--python", env / "bin/python", wheel(tmp_path, "demopkg")],
    ):
        subprocess.run(argv, check=True, capture_output=True, timeout=LIMIT_S, env=variables, cwd=tmp_path)
    python = str(env / "bin/python")
    assert subprocess.run([python, "-c", "import demopkg; demopkg.__version__"], check=False).returncode == 0
    shutil.rmtree(cache)
    assert "has no attribute '__version__'" in said(python, "-c", "import demopkg; demopkg.__version__")
    assert main(["doctor", "--prefix", str(env)]) == 1
    out = capsys.readouterr().out
    assert "The environment is a shell of links into a cache that is gone" in out
    assert "demopkg/__init__.py" in out


@pytest.mark.parametrize(
    ("argv", "symptom"),
    [
        (("docker", "-H", "unix:///nonexistent/docker.sock", "ps"), "docker-not-there"),
        (("kubectl", "--server=http://127.0.0.1:1", "get", "pods"), "kubernetes-not-reached"),
    ],
)
def test_what_clients_print(argv: tuple[str, ...], symptom: str) -> None:
    if shutil.which(argv[0]) is None:
        pytest.skip(f"{argv[0]} is not installed here")
    assert explain(said(*argv)).causes[0].symptom == symptom


def test_what_sbatch_prints_without_a_cluster(tmp_path: Path) -> None:
    if shutil.which("sbatch") is None:
        pytest.skip("sbatch is not installed here")
    conf = tmp_path / "slurm.conf"
    conf.write_text(
        "ClusterName=none\nSlurmctldHost=localhost\nSlurmctldPort=1\nMessageTimeout=2\nAuthType=auth/none\n"
    )
    text = said("sbatch", "--test-only", "--wrap", "true", SLURM_CONF=str(conf))
    assert explain(text).causes[0].symptom == "slurm-not-reached"
