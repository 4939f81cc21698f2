"""The kinds of check, by the name a smoke list uses. A kind is a function (parameters, context) -> facts that raises
:class:`~orbit.smoke.model.CheckError` (or whatever the thing under test raises) when the answer is no."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from orbit.errors import InputError
from orbit.smoke.model import NEEDS_DRIVER, Context, SmokeList

Kind = Callable[[Mapping[str, Any], Context], dict[str, Any]]

KINDS = {
    "import": "orbit.smoke.kinds.imports:check_imports",
    "versions": "orbit.smoke.kinds.versions:check_versions",
    "command": "orbit.smoke.kinds.command:check_command",
    "identity": "orbit.smoke.kinds.identity:check_identity",
    "tree": "orbit.smoke.kinds.tree:check_tree",
    "caches": "orbit.smoke.kinds.tree:check_caches",
    "contract": "orbit.smoke.kinds.contract:check_contract",
    "shared-memory": "orbit.smoke.kinds.node:check_shared_memory",
    "limits": "orbit.smoke.kinds.node:check_limits",
    "state": "orbit.smoke.kinds.node:check_state",
    "loopback": "orbit.smoke.kinds.node:check_loopback",
    "memory-handles": "orbit.smoke.kinds.node:check_memory_handles",
    "interfaces": "orbit.smoke.kinds.node:check_interfaces",
    "visible-devices": "orbit.smoke.kinds.node:check_visible_devices",
    "audit": "orbit.smoke.kinds.audited:check_audit",
    "compile": "orbit.smoke.kinds.compiler:check_compiler",
    "torch-cpu": "orbit.smoke.kinds.torch_cpu:check_torch_cpu",
    "ray": "orbit.smoke.kinds.ray_cluster:check_ray",
    "megatron-cpu": "orbit.smoke.kinds.megatron_cpu:check_megatron_cpu",
    "probe-cpu": "orbit.smoke.kinds.probe:check_probe_cpu",
    "probe-gpu": "orbit.smoke.kinds.probe:check_probe_gpu",
    "gpu-device": "orbit.smoke.kinds.gpu:check_device",
    "gpu-matmul": "orbit.smoke.kinds.gpu:check_matmul",
    "gpu-te-linear": "orbit.smoke.kinds.gpu_kernels:check_te_linear",
    "gpu-causal-conv1d": "orbit.smoke.kinds.gpu_kernels:check_causal_conv1d",
    "gpu-sgl-kernel": "orbit.smoke.kinds.gpu_kernels:check_sgl_kernel",
    "orbit-kernels-cpu": "orbit.smoke.kinds.gpu_orbit_kernels:check_token_logprob_cpu",
    "gpu-token-logprob": "orbit.smoke.kinds.gpu_orbit_kernels:check_token_logprob",
    "gpu-block-rotation": "orbit.smoke.kinds.gpu_orbit_kernels:check_block_rotation",
    "gpu-all-reduce": "orbit.smoke.kinds.all_reduce:check_all_reduce",
    "gpu-triton": "orbit.smoke.kinds.gpu_triton:check_triton",
}
"""Each kind's function as ``module:name``; its module is imported only in the process that runs the check."""


def load_kind(kind: str) -> Kind:
    """The function of ``kind``."""
    module, _, name = KINDS[kind].partition(":")
    function: Kind = getattr(importlib.import_module(module), name)
    return function


def require_known_kinds(smoke: SmokeList, where: str) -> None:
    """Raise :class:`InputError` for a check whose kind this version does not have.

    An import that is expected to need the driver names one module: with several, the first failure would hide others.
    """
    for check in smoke.checks:
        if check.kind not in KINDS:
            raise InputError(
                f"{where}: check {check.name}: kind = {check.kind!r}", fix=f"known kinds: {', '.join(sorted(KINDS))}"
            )
        if check.kind == "import" and check.expect == NEEDS_DRIVER and len(check.parameters.get("modules", ())) != 1:
            raise InputError(
                f"{where}: check {check.name}: expects {NEEDS_DRIVER} of not just one module",
                fix="give each such module a check of its own",
            )
