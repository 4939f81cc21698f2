"""GPUs and the variables that name them: from made-up facts."""

from __future__ import annotations

from typing import Any

import pytest

from orbit.doctor.detect import DETECTORS
from orbit.doctor.facts import Devices, Facts

FOUR = Devices(on_bus=4, in_driver=4, nodes=4, control=True, module="580.65.06", libraries=("580.65.06",))


def seen(detector: str, devices: Devices = FOUR, **variables: str) -> list[str]:
    return [each.message for each in DETECTORS[detector](Facts(devices=devices, variables=variables))]


@pytest.mark.parametrize(
    ("detector", "devices", "variables", "word"),
    [
        ("no_driver", Devices(on_bus=8), {}, "8 NVIDIA devices"),
        ("no_driver", Devices(), {"NVIDIA_VISIBLE_DEVICES": "all"}, "NVIDIA_VISIBLE_DEVICES=all"),
        ("driver_halves_differ", Devices(module="580.95.05", libraries=("580.65.06",)), {}, "580.95.05"),
        ("gpu_missing", Devices(on_bus=8, in_driver=7, nodes=7, control=True), {}, "the driver has 7"),
        ("visible_devices_missing", FOUR, {"CUDA_VISIBLE_DEVICES": "0,1,7"}, "device 7"),
        ("visible_devices_missing", FOUR, {"CUDA_VISIBLE_DEVICES": "0,1,1"}, "twice"),
        ("slot_variable_overwritten", FOUR,
         {"_CONDOR_AssignedGPUs": "GPU-3f0c2b1a", "CUDA_VISIBLE_DEVICES": "0,1"}, "HTCondor assigned"),
        ("slot_variable_overwritten", FOUR, {"SLURM_JOB_GPUS": "2,3", "CUDA_VISIBLE_DEVICES": "0,1,2"}, "Slurm"),
        ("ray_override_set", FOUR, {"RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1"}, "every actor"),
    ],
)  # fmt: skip
def test_it_is_seen(detector: str, devices: Devices, variables: dict[str, Any], word: str) -> None:
    (message,) = seen(detector, devices, **variables)
    assert word in message


@pytest.mark.parametrize(
    ("detector", "devices", "variables"),
    [
        ("no_driver", FOUR, {"NVIDIA_VISIBLE_DEVICES": "all"}),
        ("no_driver", Devices(), {"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": ""}),
        ("driver_halves_differ", FOUR, {}),
        ("driver_halves_differ", Devices(module="580.65.06"), {}),
        ("gpu_missing", FOUR, {}),
        ("visible_devices_missing", FOUR, {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}),
        ("visible_devices_missing", FOUR, {"CUDA_VISIBLE_DEVICES": "GPU-3f0c2b1a,MIG-1"}),
        ("slot_variable_overwritten", FOUR,
         {"_CONDOR_AssignedGPUs": "GPU-b,GPU-a", "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}),
        ("slot_variable_overwritten", FOUR, {"SLURM_JOB_GPUS": "6,7", "CUDA_VISIBLE_DEVICES": "0,1"}),
        ("ray_override_set", FOUR, {"RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "0"}),
    ],
)  # fmt: skip
def test_its_near_miss_is_not(detector: str, devices: Devices, variables: dict[str, Any]) -> None:
    assert seen(detector, devices, **variables) == []
