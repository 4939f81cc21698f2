"""Symptoms of what is installed: versions, names, sources, links, files that are not there."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from orbit.audit.known.policy import Policy
from orbit.core.findings import Finding
from orbit.profile.lock import Lock, Package, Source
from tests.audit.field.support import device
from tests.audit.field.symptoms import Case, Judge, check
from tests.audit.support import judge, make_policy
from tests.writers.elf import Export, Import, write_elf
from tests.writers.environment import EnvironmentWriter

OLD, NEW = "0123456789012345678901234567890123456789", "51845dc4acca94507ab184b007c8fcfd656b191f"
REPOSITORY = "https://host.invalid/engine.git"


def installed(rule: str, *dists: tuple[str, str, Sequence[str]], policy: Policy | None = None) -> Judge:
    """Findings of a rule about (name, version, requirements)."""

    def run(folder: Path) -> list[Finding]:
        env = EnvironmentWriter(folder)
        for name, version, requires in dists:
            headers = [f"Requires-Dist: {line}" for line in requires]
            env.add(name, {f"{name.replace('-', '_')}/__init__.py": b""}, version=version, headers=headers)
        return judge(env.prefix, rule, policy)

    return run


def holds(rule: str, files: Mapping[str, Mapping[str, bytes]], **versions: str) -> Judge:
    """Findings of a rule about distributions (name to files)."""

    def run(folder: Path) -> list[Finding]:
        env = EnvironmentWriter(folder)
        for name, content in files.items():
            env.add(name, content, version=versions.get(name.replace("-", "_"), "1.0"))
        return judge(env.prefix, rule)

    return run


def needs(name: str, version: str, *requires: str) -> tuple[str, str, Sequence[str]]:
    return name, version, requires


def package(name: str, version: str, commit: str = "") -> Package:
    source = Source(kind="git", url=f"{REPOSITORY}#{commit}") if commit else Source(kind="registry", url="https://i")
    return Package(name=name, version=version, source=source)


def locked(*packages: Package) -> Policy:
    lock = Lock(path=Path("uv.lock"), sha256="a", requires_python=">=3.12", packages=packages)
    return replace(make_policy(), lock=lock)


def of_commit(commit: str) -> Judge:
    """An engine installed from a repository, where the lock names the commit with the fixes."""

    def run(folder: Path) -> list[Finding]:
        env = EnvironmentWriter(folder)
        url = {"url": REPOSITORY, "vcs_info": {"vcs": "git", "commit_id": commit}}
        content = {"sglang/__init__.py": b"", "sglang-0.5.16.dist-info/direct_url.json": json.dumps(url).encode()}
        env.add("sglang", content, version="0.5.16")
        return judge(env.prefix, "source-drift", locked(package("sglang", "0.5.16", NEW)))

    return run


def megatron(*, direct_url: bool) -> Judge:
    """megatron-core, of which the lock names a commit, with and without a word about where it came from."""

    def run(folder: Path) -> list[Finding]:
        env = EnvironmentWriter(folder)
        url = {"url": REPOSITORY, "vcs_info": {"vcs": "git", "commit_id": NEW}}
        content = {"megatron/core/__init__.py": b""}
        if direct_url:
            content["megatron_core-0.18.0rc0.dist-info/direct_url.json"] = json.dumps(url).encode()
        env.add("megatron-core", content, version="0.18.0rc0")
        return judge(env.prefix, "source-drift", locked(package("megatron-core", "0.18.0rc0", NEW)))

    return run


def torch_extension(symbol: str) -> Judge:
    torch = {"torch/lib/libc10.so": write_elf(soname="libc10.so", exports=[Export("_ZN3c104cuda9SetDeviceEab")])}
    user = {"ext/_c.so": write_elf(needed=["libc10.so"], imports=[Import(symbol)])}
    return holds("undefined-symbol", {"torch": torch, "flash-attn": user}, torch="2.11.0")


def nccl_user(symbol: str) -> Judge:
    nccl = {"nvidia/nccl/lib/libnccl.so.2": write_elf(soname="libnccl.so.2", exports=[Export("ncclCommInitRank")])}
    user = {"deep_ep_cpp.so": write_elf(needed=["libnccl.so.2"], imports=[Import(symbol)])}
    return holds("undefined-symbol", {"nvidia-nccl-cu13": nccl, "deep-ep": user}, nvidia_nccl_cu13="2.28.9")


def linked(target: Callable[[Path], Path | str]) -> Judge:
    """A package whose files are links."""

    def run(folder: Path) -> list[Finding]:
        env = EnvironmentWriter(folder / "env")
        env.add("torch", {"torch/__init__.py": b"x = 1\n"})
        (env.site / "torch/__init__.py").unlink()
        (folder / "cache").mkdir()
        (folder / "cache/there.py").write_bytes(b"x = 1\n")
        (env.site / "torch/real.py").write_bytes(b"x = 1\n")
        (env.site / "torch/__init__.py").symlink_to(target(folder))
        return judge(env.prefix, "dangling-link")

    return run


def hollow(*, gone: bool) -> Judge:
    def run(folder: Path) -> list[Finding]:
        env = EnvironmentWriter(folder)
        env.add("torch", {"torch/__init__.py": b"x = 1\n", "torch/nn/__init__.py": b"y = 1\n"})
        if gone:
            (env.site / "torch/__init__.py").unlink()
        return judge(env.prefix, "hollow-package")

    return run


def editable(checkout: str) -> Judge:
    """An editable install of the folder ``one``; its .pth file leads to ``checkout``."""

    def run(folder: Path) -> list[Finding]:
        env = EnvironmentWriter(folder / "env")
        for name in ("one", "two"):
            (folder / "env" / name / "orbit").mkdir(parents=True)
        info = {"url": f"file://{folder}/env/one", "dir_info": {"editable": True}}
        content = {"orbit.pth": f"{folder}/env/{checkout}\n", "orbit-1.0.dist-info/direct_url.json": json.dumps(info)}
        env.add("orbit", {name: text.encode() for name, text in content.items()})
        # that the lock cannot speak for a checkout is said of both: only the wrong place is looked for
        return [item for item in judge(env.prefix, "editable") if "no RECORD says" not in item.message]

    return run


MEMORY_SAVER = {f"torch_memory_saver_hook_mode_{mode}.abi3.so": bytes(60_000) for mode in ("preload", "torch")}
TRAINING = {"megatron/core/__init__.py": b"", "megatron/training/checkpointing.py": b""}
HELPERS = {"megatron/core/datasets/helpers_cpp.cpython-312-x86_64-linux-gnu.so": bytes(30_000)}
POST = {"megatron/post_training/checkpointing.py": b""}
MODELOPT = {"modelopt/__init__.py": b""}

CASES = [
    Case(
        "1", "family",
        installed("family", needs("sgl-kernel", "0.3.21"), needs("sglang-kernel", "0.4.5")),
        installed("family", needs("sgl-kernel-extras", "0.3.21"), needs("sglang-kernel", "0.4.5")),
        "before and after its renaming",
    ),
    Case(
        "1", "requirement",
        installed("requirement", needs("sglang", "0.5.16", "sglang-kernel==0.4.5"), needs("sgl-kernel", "0.4.5")),
        installed("requirement", needs("sglang", "0.5.16", "SGLang_Kernel==0.4.5"), needs("sglang-kernel", "0.4.5")),
        "sglang-kernel",
    ),
    Case(
        "2 12 15", "requirement",
        installed("requirement", needs("sglang", "0.5.16", "sglang-kernel==0.4.5"), needs("sglang-kernel", "0.3.21")),
        installed("requirement", needs("sglang", "0.5.16", "sglang-kernel==0.4.5"),
                  needs("sglang-kernel", "0.4.5+cu130")),
        "sglang-kernel",
    ),
    Case(
        "3", "requirement",
        installed("requirement", needs("orbit", "0.2.1", "sglang>=0.5.16"), needs("sglang", "0.5.9")),
        installed("requirement", needs("orbit", "0.2.1", "sglang>=0.5.16"), needs("sglang", "0.5.16.post1")),
        "sglang",
    ),
    Case(
        "13", "requirement",
        installed("requirement", needs("sglang", "0.5.9", "cuda-python<13"), needs("cuda-python", "13.2.0")),
        installed("requirement", needs("flashinfer", "0.6.14", "cuda-python>=13; extra == 'nvep'"),
                  needs("sglang", "0.5.9", "cuda-python<13"), needs("cuda-python", "12.9.2")),
        "cuda-python",
    ),
    Case(
        "22", "requirement",
        installed("requirement", needs("scipy", "1.17.0", "numpy<2.7,>=2.0"), needs("numpy", "1.26.4")),
        installed("requirement", needs("scipy", "1.13.1", "numpy<2.3,>=1.22.4"), needs("numpy", "1.26.4")),
        "numpy",
    ),
    Case(
        "4", "arch-coverage",
        holds("arch-coverage", {"ext": {"ext/_c.so": device(["sm_100a"], ["sm_90a", "sm_100a"])}}),
        holds("arch-coverage", {"ext": {"ext/_c.so": device(["sm_90a", "sm_100a"], ["sm_90", "sm_100f"])}}),
        "h100",
    ),
    Case(
        "54", "arch-coverage",
        holds("arch-coverage", {"flash-attn-3": {"flash_attn_3/_C.abi3.so": device(["sm_90a"], ["sm_90a"])}}),
        holds("arch-coverage", {"flash-attn-3": {"flash_attn_3/_C.abi3.so": device(["sm_90a", "sm_100"])}}),
        "b200",
    ),
    Case("9 23", "undefined-symbol", torch_extension("_ZN3c104cuda9SetDeviceEa"),
         torch_extension("_ZN3c104cuda9SetDeviceEab"), "_ZN3c104cuda9SetDeviceEa"),
    Case("14", "undefined-symbol", nccl_user("ncclCommWindowRegister"), nccl_user("ncclCommInitRank"), "NCCL"),
    Case(
        "14", "lock-drift",
        installed("lock-drift", needs("nvidia-nccl-cu13", "2.28.9"),
                  policy=locked(package("nvidia-nccl-cu13", "2.30.4"))),
        installed("lock-drift", needs("nvidia-nccl-cu13", "2.30.4+local"),
                  policy=locked(package("nvidia-nccl-cu13", "2.30.4"))),
        "2.28.9 (not 2.30.4)",
    ),
    Case(
        "23", "family",
        installed("family", needs("torch", "2.11.0"), needs("torchvision", "0.28.0")),
        installed("family", needs("torch", "2.11.0+cu130"), needs("torchvision", "0.26.0")),
        "torchvision",
    ),
    Case(
        "11", "required-artifact",
        holds("required-artifact", {"torch-memory-saver": {"torch_memory_saver/__init__.py": b""}}),
        holds("required-artifact", {"torch-memory-saver": MEMORY_SAVER | {"torch_memory_saver/__init__.py": b""}}),
        "torch_memory_saver_hook_mode",
    ),
    Case(
        "44", "required-artifact",
        holds("required-artifact", {"megatron-core": TRAINING | HELPERS, "nvidia-modelopt": MODELOPT}),
        holds("required-artifact", {"megatron-core": TRAINING | HELPERS | POST, "nvidia-modelopt": MODELOPT}),
        "post_training",
    ),
    Case(
        "44", "required-artifact",
        holds("required-artifact", {"megatron-core": TRAINING | HELPERS, "nvidia-modelopt": MODELOPT}),
        holds("required-artifact", {"megatron-core": {"megatron/core/__init__.py": b"", **HELPERS},
                                    "nvidia-modelopt": MODELOPT}),
        "full fine-tuning dies",
    ),
    Case(
        "44", "required-artifact",
        holds("required-artifact", {"megatron-core": TRAINING | HELPERS, "nvidia-modelopt": MODELOPT}),
        holds("required-artifact", {"megatron-core": TRAINING | HELPERS}),
        "post_training",
    ),
    Case(
        "18", "look-alike",
        holds("look-alike", {"emerging-optimizers": {"emerging_optimizers.py": b""}}, emerging_optimizers="999.9.9"),
        installed("look-alike", needs("emerging-optimizers", "0.3.0")),
        "emerging-optimizers",
    ),
    Case("19 24", "dangling-link", linked(lambda folder: folder / "cache/gone.py"), linked(lambda _folder: "real.py"),
         "torch/__init__.py"),
    Case("26", "dangling-link", linked(lambda _folder: "/node/.cache/uv/archive-v0/x/torch/__init__.py"),
         linked(lambda _folder: "../torch/real.py"), "archive-v0"),
    Case("24", "hollow-package", hollow(gone=True), hollow(gone=False), "torch"),
    Case("21", "source-drift", megatron(direct_url=False), megatron(direct_url=True), "says nothing of a repository"),
    Case("45", "editable", editable("two"), editable("one"), "two"),
    Case("49 50 51 63 64", "source-drift", of_commit(OLD), of_commit(NEW), OLD[:12]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.numbers}-{case.rule}")
def test_seen_and_not_seen_where_it_is_not(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)
