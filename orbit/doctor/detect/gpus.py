"""What variables say of GPUs, against what the kernel shows."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.doctor.detect.seen import Seen, likely, possible
from orbit.doctor.facts import Facts

NONE = frozenset({"", "-1", "none", "void", "NoDevFiles"})


def no_driver(facts: Facts) -> Iterator[Seen]:
    """GPUs are there or were promised, and the driver is not."""
    if facts.devices.control:
        return
    promised = [
        name for name in ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES") if facts.variables.get(name, "") not in NONE
    ]
    if facts.devices.on_bus:
        yield Seen(f"{facts.devices.on_bus} NVIDIA devices are on the bus, and there is no /dev/nvidiactl here")
    elif promised:
        name = promised[0]
        yield likely(f"{name}={facts.variables[name]}, and there is no /dev/nvidiactl here")


def driver_halves_differ(facts: Facts) -> Iterator[Seen]:
    """Module and library of two releases."""
    module, libraries = facts.devices.module, facts.devices.libraries
    if module and libraries and module not in libraries:
        yield Seen(f"the kernel's module is {module}, the library is {', '.join(libraries)}")


def gpu_missing(facts: Facts) -> Iterator[Seen]:
    """The bus has more devices than the driver took."""
    devices = facts.devices
    if devices.in_driver and devices.on_bus > devices.in_driver:
        yield likely(f"{devices.on_bus} NVIDIA devices are on the bus, the driver has {devices.in_driver}")


def visible_devices_missing(facts: Facts) -> Iterator[Seen]:
    """CUDA_VISIBLE_DEVICES names what is not there, or one twice: CUDA ends its list at such a name."""
    names = _names(facts.variables.get("CUDA_VISIBLE_DEVICES", ""))
    nodes = facts.devices.nodes
    beyond = [name for name in names if name.isdecimal() and int(name) >= nodes]
    if nodes and beyond:
        yield Seen(f"CUDA_VISIBLE_DEVICES names device {beyond[0]}, and there are {nodes}: none behind it is used")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        yield Seen(f"CUDA_VISIBLE_DEVICES names {twice[0]} twice: CUDA shows no device at all")


def slot_variable_overwritten(facts: Facts) -> Iterator[Seen]:
    """The batch system assigned other devices than the variable names."""
    variables = facts.variables
    visible = _names(variables.get("CUDA_VISIBLE_DEVICES", ""))
    condor = _names(variables.get("_CONDOR_AssignedGPUs", ""))
    if condor and visible and set(visible) != set(condor):
        yield Seen(f"HTCondor assigned {', '.join(condor)}; CUDA_VISIBLE_DEVICES={','.join(visible)}")
    slurm = _names(variables.get("SLURM_STEP_GPUS", "") or variables.get("SLURM_JOB_GPUS", ""))
    if slurm and len(visible) > len(slurm):
        yield Seen(f"Slurm assigned {len(slurm)} GPUs; CUDA_VISIBLE_DEVICES={','.join(visible)} names {len(visible)}")


def ray_override_set(facts: Facts) -> Iterator[Seen]:
    """Ray leaves CUDA_VISIBLE_DEVICES alone."""
    name = "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"
    value = facts.variables.get(name, "")
    if value not in ("", "0", "false", "False"):
        yield possible(f"{name}={value}: every actor sees every GPU, unless the job hands them out itself")


def _names(value: str) -> list[str]:
    return [name.strip() for name in value.split(",") if name.strip() and name.strip() not in NONE]
