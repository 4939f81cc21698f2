"""path-file: code and folders that nobody knows; the lines that everybody has are silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.findings import Severity
from tests.audit.support import judge
from tests.writers.environment import EnvironmentWriter, write_sound_environment

RULE = "path-file"
DISTUTILS = (
    "import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os.environ.get(var, 'local') == 'local'; "
    "enabled and __import__('_distutils_hack').add_shim(); "
)
CUTLASS = (
    "import sys, os, nvidia_cutlass_dsl; "
    "sys.path.insert(0, os.path.join(nvidia_cutlass_dsl.__path__[0], 'dsl_packages'))"
)
NAMESPACE = (
    "import sys, types, os;has_mfs = sys.version_info > (3, 5);"
    "p = os.path.join(sys._getframe(1).f_locals['sitedir'], *('google',));"
    "importlib = has_mfs and __import__('importlib.util');has_mfs and __import__('importlib.machinery');"
    "m = sys.modules.get('google');mp = (m or []) and m.__dict__.setdefault('__path__',[]);"
    "(p not in mp) and mp.append(p)"
)


COVERAGE = (
    'import sys; exec(\'import os\\n\\nif os.getenv("COVERAGE_PROCESS_START") or os.getenv("COVERAGE_PROCESS_CONFIG"):'
    '\\n try:\\n  import coverage\\n except:\\n  pass\\n else:\\n  coverage.process_startup(slug="pth")\')'
)


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return write_sound_environment(tmp_path / "e")


@pytest.mark.parametrize(
    ("name", "line", "severity"),
    [
        ("init.pth", "import subprocess; subprocess.Popen(['x'])", Severity.ERROR),
        ("init.pth", "import base64;exec(base64.b64decode('cGFzcw=='))", Severity.ERROR),
        ("init.pth", "import os; os.system('x')", Severity.ERROR),
        ("patch.pth", "import tool_patch", Severity.WARNING),
        ("distutils-precedence.pth", DISTUTILS + "import socket", Severity.ERROR),
        ("google-nspkg.pth", NAMESPACE.replace("m = ", "exec('x');m = "), Severity.ERROR),
        ("other.pth", DISTUTILS, Severity.WARNING),
        ("a1_coverage.pth", COVERAGE.replace("import coverage", "import os"), Severity.ERROR),
        ("_numba_cuda_redirector.pth", "import _numba_cuda_redirector, socket", Severity.ERROR),
    ],
)
def test_unknown_code(env: EnvironmentWriter, name: str, line: str, severity: Severity) -> None:
    env.add("owner", {name: f"{line}\n".encode()})
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.severity, finding.evidence["owner"]) == (name, severity, "owner")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("distutils-precedence.pth", DISTUTILS),
        ("nvidia_cutlass_dsl_packages.pth", CUTLASS),
        ("google-nspkg.pth", NAMESPACE),
        ("_virtualenv.pth", "import _virtualenv"),
        ("a1_coverage.pth", COVERAGE),
        ("_numba_cuda_redirector.pth", "import _numba_cuda_redirector"),
        ("__editable__.tool-1.0.pth", "import __editable___tool_1_0_finder; __editable___tool_1_0_finder.install()"),
        ("inside.pth", "good"),
        ("comment.pth", "# import subprocess"),
        ("importer.pth", "importer"),
    ],
)
def test_known_lines(env: EnvironmentWriter, name: str, line: str) -> None:
    (env.site / "importer").mkdir()
    (env.site / name).write_text(f"{line}\n")
    assert judge(env.prefix, RULE) == []


def test_folders_outside_and_gone(env: EnvironmentWriter, tmp_path: Path) -> None:
    (tmp_path / "checkout").mkdir()
    (env.site / "a.pth").write_text(f"{tmp_path}/checkout\n")
    (env.site / "b.pth").write_text("../nothing\n")
    found = {finding.subject: finding.message for finding in judge(env.prefix, RULE)}
    assert found == {
        "a.pth": "adds folders outside of the target",
        "b.pth": "adds folders to the import path that are not there",
    }


def test_an_editable_install_is_the_other_rules_matter(env: EnvironmentWriter, tmp_path: Path) -> None:
    info = f'{{"url": "file://{tmp_path}/gone", "dir_info": {{"editable": true}}}}'.encode()
    files = {"_tool.pth": f"{tmp_path}/gone/src\n".encode(), "_tool_editable.pth": b"import _tool_editable\n"}
    env.add("tool", {"tool-1.0.dist-info/direct_url.json": info, **files})
    assert judge(env.prefix, RULE) == []
