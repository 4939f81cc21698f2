"""What orbit-probe says: which device code this GPU loads, or, without a driver, just that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orbit.smoke.kinds.device import describe, target_of
from orbit.smoke.model import CheckError, Context


def check_probe_cpu(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """The library holds machine code for every target and nothing else, and a probe tells what this machine lacks.

    Without a driver this raises orbit-probe's own error, which names ``libcuda.so.1``.
    """
    del parameters
    import orbit_probe

    check_images(orbit_probe.images(), context)
    result = orbit_probe.probe(0)
    return {"summary": f"{result.name} loads {result.arch} ({result.mode})"}


def check_images(images: tuple[str, ...], context: Context) -> None:
    """Raise :class:`CheckError` unless the library's device code is exactly the targets'."""
    wanted = sorted(target.feature for target in context.targets)
    if sorted(images) != wanted:
        raise CheckError(f"the library holds {', '.join(images) or 'no device code'} instead of {', '.join(wanted)}")


def check_probe_gpu(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """The device loaded its own variant as machine code, and the instruction only it has gave the exact result."""
    del parameters
    import orbit_probe

    check_images(orbit_probe.images(), context)
    seen = describe()
    result = orbit_probe.probe(0)
    judge_probe(result, seen["capability"], target_of(seen["capability"], context).feature)
    facts = {name: getattr(result, name) for name in ("arch", "mode", "instruction", "values_checked", "max_abs_error")}
    return {"summary": f"{seen['device']} ran {result.instruction} of {result.arch}, {result.mode}, exact", **facts}


def judge_probe(result: Any, capability: str, feature: str) -> None:
    """Raise :class:`CheckError` unless the result is that of shipped machine code for ``feature``, run and exact."""
    if result.capability != capability:
        raise CheckError(f"orbit-probe sees capability {result.capability}, the driver says {capability}")
    if result.arch != feature:
        raise CheckError(f"the device loaded {result.arch}, its own variant is {feature}")
    if result.mode != "sass":
        raise CheckError(f"{result.arch} was made by the driver at run time ({result.mode}), not shipped")
    if result.instruction == "none":
        raise CheckError(f"no instruction that only {feature} has was run")
    if result.values_checked <= 0 or result.max_abs_error != 0.0:
        raise CheckError(f"{result.values_checked} values checked, largest error {result.max_abs_error:g} instead of 0")
