"""The runner with real child processes and fake packages: broken ones must fail, each for its own reason."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from orbit.smoke.__main__ import exit_code, main
from orbit.smoke.model import Check, CheckResult, Context, SmokeList
from orbit.smoke.runner import Machine, run_list
from tests.source import ROOT

NO_GPU = Machine(has_driver=False, reason="no NVIDIA driver here")
PACKAGES = {
    "fake_good/__init__.py": "VALUE = 1\n",
    "fake_hollow/inner/data.txt": "left behind\n",
    "fake_driver/__init__.py": (
        "try:\n"
        "    raise ImportError('libcuda.so.1: cannot open shared object file: No such file or directory')\n"
        "except ImportError as error:\n"
        "    raise ImportError('Could not load any common_ops library!') from error\n"
    ),
    "fake_library/__init__.py": "raise ImportError('libfoo.so.3: cannot open shared object file')\n",
    "fake_crash/__init__.py": "import os\nprint('going down', flush=True)\nos.kill(os.getpid(), 11)\n",
    "fake_exit/__init__.py": "raise SystemExit(0)\n",
    "fake_hang/__init__.py": "import time\ntime.sleep(600)\n",
}


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    site = tmp_path / "site"
    for name, text in PACKAGES.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", f"{site}:{ROOT}")  # Orbit may be importable by it alone
    return site


def run_one(module: str, *, expect: str = "passed", timeout_s: float = 30, prefix: str = "") -> CheckResult:
    entry = Check(name=module, kind="import", expect=expect, timeout_s=timeout_s, parameters={"modules": [module]})
    (result,) = run_list(SmokeList(name="l", checks=(entry,)), Context(prefix=prefix), machine=NO_GPU)
    return result


def test_a_real_module_passes_and_is_told(packages: Path) -> None:
    result = run_one("fake_good", prefix=str(packages))
    assert result.result == "passed"
    assert result.facts["modules"] == ["fake_good"]
    assert result.seconds > 0


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("fake_hollow", "hollow namespace package"),
        ("fake_missing", "No module named"),
        ("fake_library", "libfoo.so.3"),
        ("fake_crash", "SIGSEGV"),
        ("fake_exit", "SystemExit"),
    ],
)
def test_broken_modules_fail(packages: Path, module: str, says: str) -> None:
    result = run_one(module)
    assert result.result == "failed"
    assert says in result.detail


def test_output_of_a_crash_is_kept(packages: Path) -> None:
    assert "going down" in run_one("fake_crash").tail


def test_a_module_from_elsewhere_fails(packages: Path, tmp_path: Path) -> None:
    result = run_one("fake_good", prefix=str(tmp_path / "other"))
    assert result.result == "failed"
    assert "outside" in result.detail


def test_a_driver_need_is_seen_through_a_vague_message(packages: Path) -> None:
    assert run_one("fake_driver", expect="needs-driver").result == "needs-driver"
    assert run_one("fake_driver").result == "failed"
    assert run_one("fake_good", expect="needs-driver").result == "failed"
    assert run_one("fake_library", expect="needs-driver").result == "failed"


def test_a_hang_ends_at_its_timeout(packages: Path) -> None:
    began = time.monotonic()
    result = run_one("fake_hang", timeout_s=1.5)
    assert result.result == "failed"
    assert "no end after" in result.detail
    assert time.monotonic() - began < 15


def test_a_check_that_needs_a_gpu_is_skipped_with_the_reason() -> None:
    entry = Check(name="d", kind="gpu-device", needs="gpu")
    (result,) = run_list(SmokeList(name="l", checks=(entry,)), Context(), machine=NO_GPU)
    assert (result.result, result.detail) == ("skipped", "no NVIDIA driver here")


def test_exit_codes() -> None:
    def made(*kinds: str) -> list[CheckResult]:
        return [CheckResult(check=kind, kind="import", result=kind, seconds=0) for kind in kinds]

    assert exit_code(made("passed", "needs-driver")) == 0
    assert exit_code(made("passed", "skipped")) == 3
    assert exit_code(made("failed", "skipped")) == 1
    assert exit_code([]) == 3


def test_command_line(packages: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "l.toml"
    path.write_text(
        'schema = 1\nname = "l"\n'
        '[[checks]]\nname = "good"\nkind = "import"\nparameters = {modules = ["fake_good"]}\n'
        '[[checks]]\nname = "bad"\nkind = "import"\nparameters = {modules = ["fake_hollow"]}\n'
    )
    out = tmp_path / "out.jsonl"
    assert main([str(path), "--json", "--out", str(out), "--only", "good"]) == 0
    assert json.loads(capfd.readouterr().out.strip())["result"] == "passed"
    assert main([str(path), "--out", str(out)]) == 1
    assert [json.loads(line)["result"] for line in out.read_text().splitlines()] == ["passed", "failed"]
    assert main([str(path), "--only", "nothing"]) == 2
    assert main([str(tmp_path / "absent.toml")]) == 2
    assert "no such file" in capfd.readouterr().err


def test_no_check_of_this_package_needs_more_than_the_standard_library_to_be_loaded(tmp_path: Path) -> None:
    from orbit.core.proc import run

    program = (
        "import sys\n"
        "from orbit.smoke.checks import KINDS, load_kind\n"
        "import orbit.smoke.__main__\n"
        "[load_kind(kind) for kind in KINDS]\n"
        "print(sorted({n.split('.')[0] for n in sys.modules} - set(sys.stdlib_module_names) - {'__main__', 'orbit'}))\n"
    )
    source = Path(__file__).resolve().parents[2]
    done = run(
        [sys.executable, "-S", "-c", program], doing="loading every kind", env=dict(os.environ, PYTHONPATH=str(source))
    )
    assert done.stdout.decode().strip() == "[]"
