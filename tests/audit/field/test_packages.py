"""Field reports 7 to 10: two owners of one file, hollow packages, files that only root can read, parts never built."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.audit.field.support import add, audit, environment, fired, image, only
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter
from tests.writers.tiny_image import file, folder
from tests.writers.wheels import write_wheel

# (public thread, two distributions, the path that both bring)
TWO_OWNERS = [
    ("NVIDIA/cutlass#3259", "dsl-libs-base", "dsl-libs-cu13", "dsl_packages/cutlass/base.py"),
    ("NVIDIA/cutlass#3227", "dsl", "dsl-libs", "dsl_packages/cutlass/__init__.py"),
    ("sgl-project/sglang#25743", "libs-cu12", "libs-cu13", "kernels/lib/libjit.so"),
    ("sibling: a top-level module", "one", "two", "helpers.py"),
    ("sibling: a shared data folder", "tok-a", "tok-b", "share_data/vocab.json"),
]


@pytest.mark.parametrize(("_thread", "first", "second", "path"), TWO_OWNERS)
def test_7_two_wheels_own_one_path(tmp_path: Path, _thread: str, first: str, second: str, path: str) -> None:
    env = environment(tmp_path)
    bodies = (write_elf(soname="liba.so"), write_elf(soname="libb.so")) if path.endswith(".so") else (b"1\n", b"2\n")
    for name, body in zip((first, second), bodies, strict=True):
        add(env, name, {path: body, f"{name.replace('-', '_')}_own.py": b""})
    finding = next(item for item in audit(env.prefix).findings if item.rule == "file-conflict")
    runs = path.endswith((".py", ".so"))
    assert (finding.subject, finding.severity) == (f"{first} + {second}", "error" if runs else "warning")
    assert finding.evidence["paths"] == path
    assert finding.evidence["on disk"] == f"1 from {second}"


@pytest.mark.parametrize(("_thread", "first", "second", "path"), TWO_OWNERS[:2])
def test_7_seen_before_anything_is_installed(tmp_path: Path, _thread: str, first: str, second: str, path: str) -> None:
    for name, body in ((first, b"1\n"), (second, b"2\n")):
        write_wheel(tmp_path / "wheels", name, {path: body})
    finding = only(audit(tmp_path / "wheels"), "file-conflict", f"{first} + {second}")
    assert finding.evidence["paths"] == path


def test_7_mixture_of_winners(tmp_path: Path) -> None:
    """Two installers at once: some files of each survive."""
    env = environment(tmp_path)
    paths = [f"pkg/m{number}.py" for number in range(6)]
    add(env, "a", dict.fromkeys(paths, b"a\n"))
    add(env, "b", dict.fromkeys(paths, b"b\n"))
    for path in paths[:2]:
        (env.site / path).write_bytes(b"a\n")
    finding = next(item for item in audit(env.prefix).findings if item.rule == "file-conflict")
    assert finding.evidence["on disk"] == "2 from a, 4 from b"


def test_7_near_misses(tmp_path: Path) -> None:
    env = environment(tmp_path)
    add(env, "a", {"space/a/__init__.py": b"a\n", "space/LICENSE": b"same\n"})
    add(env, "b", {"space/b/__init__.py": b"b\n", "space/LICENSE": b"same\n"})
    assert not [item for item in audit(env.prefix).findings if item.rule == "file-conflict"]


# --- 8: hollow


def linked(env: EnvironmentWriter, name: str, cache: Path) -> None:
    """Install a package as uv does with --link-mode symlink: files of the package are links into a cache."""
    add(env, name, {f"{name}/__init__.py": b"version = 1\n", f"{name}/core.py": b"x = 1\n"})
    for path in (env.site / name).iterdir():
        target = cache / name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, target)
        path.symlink_to(target)


@pytest.mark.parametrize(
    ("_thread", "cache", "name"),
    [
        ("astral-sh/uv#13270", ".cache/uv/archive-v0/x1", "torch_like"),
        ("astral-sh/uv#12003", "uv_cache/archive-v0/y2", "numpy_like"),
        ("bmaltais/kohya_ss#1562", "elsewhere", "other"),
    ],
)
def test_8_links_into_a_cache_that_was_cleaned(tmp_path: Path, _thread: str, cache: str, name: str) -> None:
    env = environment(tmp_path)
    linked(env, name, tmp_path / cache)
    shutil.rmtree(tmp_path / cache)
    found = fired(audit(env.prefix))
    assert found[("hollow-package", name.replace("_", "-"))] == "error"
    assert {rule for rule, _subject in found} == {"hollow-package", "dangling-link"}


def test_8_links_of_an_image_to_the_builders_cache(tmp_path: Path) -> None:
    env = environment(tmp_path)
    linked(env, "torch_like", tmp_path / "cache")
    found = fired(audit(image(tmp_path, env)))
    assert found[("hollow-package", "torch-like")] == "error"


@pytest.mark.parametrize("left", ["nothing", "a folder of caches"])
def test_8_files_that_are_gone(tmp_path: Path, left: str) -> None:
    """vladmandic/sdnext#3797: RECORD lists the package, the folder is empty; torch has no attribute __version__."""
    env = environment(tmp_path)
    add(env, "torch_like", {"torch_like/__init__.py": b"", "torch_like/nn/__init__.py": b""})
    shutil.rmtree(env.site / "torch_like/nn")
    (env.site / "torch_like/__init__.py").unlink()
    if left == "nothing":
        shutil.rmtree(env.site / "torch_like")
    else:
        (env.site / "torch_like/__pycache__").mkdir()
    assert only(audit(env.prefix), "hollow-package", "torch-like").message.startswith("all 2 files are gone")


def test_8_near_miss_namespace_and_sound_links(tmp_path: Path) -> None:
    env = environment(tmp_path)
    add(env, "google-like", {"space/part/__init__.py": b"", "space/part/x.py": b""})
    linked(env, "inside", env.prefix / "store")
    assert "hollow-package" not in {rule for rule, _subject in fired(audit(env.prefix))}


# --- 9: for another user


@pytest.mark.parametrize("mode", ["closed folder", "closed file"])
@pytest.mark.parametrize("name", ["torch_like", "plugin"])
def test_9_only_root_can_read_it(tmp_path: Path, mode: str, name: str) -> None:
    """nemo-platform#1056: built as root, run as uid 1000."""
    site = "opt/orbit/lib/python3.12/site-packages"
    env = environment(tmp_path)
    target = image(
        tmp_path,
        env,
        extra=[
            folder(f"{site}/{name}", 0o700 if mode == "closed folder" else 0o755),
            file(f"{site}/{name}/__init__.py", b"", 0o600),
        ],
    )
    found = fired(audit(target, uid=1000))
    rules = {rule for rule, subject in found if name in subject or subject.startswith(("uid", "opt"))}
    assert "unreadable" in rules, found
    assert "unreadable" not in {rule for rule, _subject in fired(audit(target, uid=0))}


# --- 10: optional parts


@pytest.mark.parametrize(
    ("_thread", "name", "files", "words"),
    [
        ("NVIDIA-NeMo/RL#3109", "megatron-core", {"megatron/core/datasets/helpers.cpp": b""}, "make"),
        ("NVIDIA/Megatron-LM#143", "megatron-core", {"megatron/core/datasets/Makefile": b""}, "make"),
        (
            "sibling: a build that packed only Python",
            "flash-attn",
            {"flash_attn/__init__.py": b""},
            "flash_attn_2_cuda",
        ),
        ("sibling: optional fused kernels", "apex", {"apex/amp/__init__.py": b""}, "fused"),
        ("sibling: causal-conv1d", "causal-conv1d", {"causal_conv1d/__init__.py": b""}, "causal_conv1d_cuda"),
        ("sibling: a wheel of 46 KB", "torch-memory-saver", {"torch_memory_saver/__init__.py": b""}, "hook library"),
    ],
)
@pytest.mark.parametrize("form", ["environment", "wheel"])
def test_10_extension_never_built(
    tmp_path: Path, form: str, _thread: str, name: str, files: dict[str, bytes], words: str
) -> None:
    if form == "wheel":
        target = write_wheel(tmp_path, name, files)
    else:
        env = environment(tmp_path)
        env.add(name, files)
        target = env.prefix
    finding = next(item for item in audit(target).findings if item.rule == "required-artifact")
    assert (finding.subject.partition(":")[0], finding.severity) == (name, "error")
    assert words in f"{finding.message} {finding.evidence}"


def test_10_near_miss_a_real_build(tmp_path: Path) -> None:
    env = environment(tmp_path)
    data = write_elf(hidden={"filler": bytes(30_000)})
    name = "megatron/core/datasets/helpers_cpp.cpython-312-x86_64-linux-gnu.so"
    add(env, "megatron-core", {name: data, "megatron/core/__init__.py": b""})
    assert not [item for item in audit(env.prefix).findings if item.rule == "required-artifact"]
