"""GPUs: is there a driver, is it new enough, does the fabric work, are there as many as asked for, are they sound."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from orbit.core.amounts import format_seconds
from orbit.launch.preflight.coverage import Coverage, judge_coverage
from orbit.launch.preflight.driver import NOT_READY
from orbit.launch.preflight.gpu_facts import Card, Driver
from orbit.launch.preflight.model import Check, Demand
from orbit.launch.preflight.rules import DriverNeed, Rules
from orbit.launch.preflight.say import failed, passed, size, skipped, warned
from orbit.launch.preflight.visible import judge_visible

GIVE = "docker: --gpus all; Kubernetes: nvidia.com/gpu and the runtimeClass; Slurm: --gres; Apptainer: --nv"
SUFFIX = re.compile(r"\.so\.(\d+(?:\.\d+)+)$")
SAYS = {
    34: "a stub for the linker is loaded in the place of libcuda (CUDA_ERROR_STUB_LIBRARY)",
    100: "no device can be used (CUDA_ERROR_NO_DEVICE)",
    101: "a device ordinal is not valid (CUDA_ERROR_INVALID_DEVICE)",
    46: "a device is not available, perhaps another process has it alone (CUDA_ERROR_DEVICE_UNAVAILABLE)",
    999: "unknown error (CUDA_ERROR_UNKNOWN)",
    3: "it could not be initialised (CUDA_ERROR_NOT_INITIALIZED)",
    304: "the operating system refused a call, often for a missing device file (CUDA_ERROR_OPERATING_SYSTEM)",
}
EXCLUSIVE = 3
"""NVML_COMPUTEMODE_EXCLUSIVE_PROCESS of nvml.h."""
MISMATCH = 18
"""NVML_ERROR_LIB_RM_VERSION_MISMATCH."""


def judge_gpus(
    driver: Driver, coverage: Coverage, demand: Demand, rules: Rules, env: Mapping[str, str]
) -> Iterator[Check]:
    """``driver``, ``cuda-library``, ``fabric``, ``visible-devices``, ``gpus``, ``gpu-coverage`` and ``gpu-health``."""
    if not demand.gpus and (driver.missing or driver.problem or not driver.devices):
        told = driver.missing or driver.problem or SAYS.get(driver.status, "no device")
        yield skipped("driver", f"no GPU is asked for, and none can be used here ({told})")
        return
    yield _driver(driver, coverage, rules)
    yield _library(driver)
    yield _fabric(driver, rules)
    yield judge_visible(env, [card.uuid for card in driver.cards], demand.gpus)
    yield _count(driver, demand)
    yield judge_coverage(coverage, driver.devices)
    yield _health(driver, rules)


def number(release: str) -> tuple[int, ...]:
    """``580.65.06`` as something that can be compared."""
    return tuple(int(part) for part in release.split(".") if part.isdigit())


def _driver(driver: Driver, coverage: Coverage, rules: Rules) -> Check:
    name, need = "driver", rules.need_of(coverage.cuda) if coverage.cuda else None
    found = {"release": driver.release, "module": driver.module, "cuda": driver.cuda}
    if driver.problem:
        fix = "look at dmesg on the node; reset or reboot it, or take another node"
        return failed(name, driver.problem, fix, **found)
    if driver.missing:
        text, fix = "there is no NVIDIA driver in this container", f"was the GPU asked for? {GIVE}"
        if driver.module or driver.files:
            there = driver.module or "device files are here"
            text = f"the host has an NVIDIA driver ({there}), its library is not in this container"
            fix = f"NVIDIA_DRIVER_CAPABILITIES must hold compute and utility; {GIVE}"
        return failed(name, text, fix, **found)
    if need is not None and (old := _too_old(driver, coverage.cuda, need, found)):
        return old
    if driver.status not in (0, NOT_READY, 803, 804):
        text = f"the driver {driver.release} does not start: {SAYS.get(driver.status, f'CUDA error {driver.status}')}"
        return failed(name, text, f"nvidia-smi and dmesg on the node say more; {GIVE}", status=driver.status, **found)
    against = f", new enough for CUDA {coverage.cuda}" if need is not None and driver.release else ""
    return passed(name, f"driver {driver.release or 'of unknown release'}{against}", **found)


def _too_old(driver: Driver, cuda: str, need: DriverNeed, found: dict[str, str]) -> Check | None:
    """What the driver's release is too old for; None when it is not, or not known."""
    if not driver.release:
        return None
    if number(driver.release) < number(need.runs):
        text = f"the driver is {driver.release}, CUDA {cuda} of the image needs {need.runs} or newer"
        fix = "install a newer driver on the node, or use an image of an older CUDA release (cu128 needs 525)"
        return failed("driver", text, fix, **found)
    if number(driver.release) < number(need.whole):
        text = f"the driver is {driver.release}, and CUDA {cuda} of the image is whole from {need.whole} on"
        return warned("driver", text, "kernels that are PTX only do not load: install a newer driver", **found)
    return None


def _library(driver: Driver) -> Check:
    """A libcuda that is not the driver's own: errors 803 and 804, or a newer one that this hardware does not allow."""
    name, path = "cuda-library", driver.library
    match = SUFFIX.search(path)
    release = match[1] if match else ""
    stray = "compat" in PurePosixPath(path).parts or bool(release and driver.module and release != driver.module)
    own = driver.module or driver.release or "of unknown release"
    told = f"libcuda is {path or 'of an unknown place'}"
    fix = "take it out of LD_LIBRARY_PATH and of the image: the host's own must be the only one"
    if driver.missing or driver.problem:
        return skipped(name, "there is no driver to compare with")
    if driver.status == 803:
        text = f"{told}, of another release than the driver ({own}; CUDA error 803)"
        return failed(name, text, f"{fix}; or the driver was updated: reload it on the node", path=path)
    if driver.status == 804:
        text = f"{told}, made for newer drivers than {own}, which this GPU does not allow (CUDA error 804)"
        return failed(name, text, fix, path=path)
    if stray:
        return warned(name, f"{told}, not the driver's own ({own})", fix, path=path)
    return passed(name, told, path=path)


def _fabric(driver: Driver, rules: Rules) -> Check:
    name = "fabric"
    if driver.status == NOT_READY:
        text = (
            f"NVSwitch fabric not ready after {format_seconds(driver.waited_s)} (CUDA error {NOT_READY}): host service "
            "missing, or its version differs from the driver's"
        )
        fix = "on the node: systemctl status nvidia-fabricmanager; its version must be the driver's to the last digit"
        return failed(name, text, fix, waited_s=round(driver.waited_s), limit_s=rules.times.fabric_s)
    if driver.missing or driver.problem or driver.status:
        return skipped(name, "the driver does not work")
    return passed(name, "CUDA starts: no fabric is waited for")


def _count(driver: Driver, demand: Demand) -> Check:
    name, here = "gpus", len(driver.devices)
    found = {"cuda": here, "container": len(driver.cards), "names": ", ".join(sorted({d.name for d in driver.devices}))}
    if driver.missing or driver.problem or driver.status:
        return failed(name, f"no GPU can be used, {demand.gpus} are needed", "see driver and fabric above", **found)
    lost = [card for card in driver.cards if card.status]
    if here < demand.gpus:
        why = f"; {len(driver.cards)} are in the container" if len(driver.cards) != here else ""
        gone = f"; GPU {lost[0].index} does not answer (NVML error {lost[0].status})" if lost else ""
        text = f"{here} GPUs can be used, {demand.gpus} are needed{why}{gone}"
        return failed(
            name, text, f"ask the scheduler for {demand.gpus}: {GIVE}; a dead one: take another node", **found
        )
    if len({device.name for device in driver.devices}) > 1:
        text = f"the GPUs are not alike: {found['names']}"
        return warned(name, text, "the slowest one sets the pace; ask for one kind", **found)
    return passed(name, f"{here} GPUs can be used, {demand.gpus} are needed ({found['names']})", **found)


def _health(driver: Driver, rules: Rules) -> Check:
    name = "gpu-health"
    cards = [card for card in driver.cards if not card.status]
    if not cards:
        return skipped(name, "the management library says nothing of the GPUs")
    bad = [(card, what, fix) for card in driver.cards for what, fix in _broken(card)]
    if bad:
        card, what, fix = bad[0]
        return failed(name, f"GPU {card.index} ({card.uuid[:12]}): {what}", fix, **_told(cards))
    known = {row.number: row.text for row in rules.xids}
    seen = [(device, xid) for device, xid in driver.xids if xid in known]
    odd = [(card, what, fix) for card in cards for what, fix in _odd(card, cards, rules)]
    if seen:
        device, xid = seen[-1]
        text = f"the kernel's log has Xid {xid} of {device}: {known[xid]}"
        return warned(name, text, "somebody should look at this node (nvidia-smi -q, dcgmi diag -r 3)", **_told(cards))
    if odd:
        card, what, fix = odd[0]
        more = f" ({len(odd)} such remarks)" if len(odd) > 1 else ""
        return warned(name, f"GPU {card.index}: {what}{more}", fix, **_told(cards))
    return passed(name, f"{len(cards)} GPUs without uncorrected memory errors", **_told(cards))


def _broken(card: Card) -> Iterator[tuple[str, str]]:
    another = "take another node, and tell its administrator"
    if card.status:
        lib = card.status == MISMATCH
        yield f"does not answer (NVML error {card.status})", "reload the driver: its parts differ" if lib else another
    if card.ecc:
        yield f"{card.ecc} memory errors that could not be corrected, since the driver was loaded", another
    if card.rows_failed:
        yield "a broken row of memory could not be replaced", another
    if card.rows_pending or card.pages_pending:
        yield "a broken row of memory will be replaced at the next reset", "reset it: nvidia-smi -r, or reboot the node"


def _odd(card: Card, cards: list[Card], rules: Rules) -> Iterator[tuple[str, str]]:
    most = rules.limits.memory_used_percent
    if card.total and 100 * card.used > most * card.total:
        share = f"{size(card.used)} of {size(card.total)} are in use before this job has begun"
        yield share, "nvidia-smi on the node shows who: another job, or one that did not end"
    if card.slowed:
        hot = f" at {card.temperature} C" if card.temperature is not None else ""
        yield f"it is slowed down by heat or power{hot}", "look at its cooling and power supply"
    if card.compute_mode == EXCLUSIVE:
        yield "one process at a time may use it", "nvidia-smi -c DEFAULT on the node: trainer and engine share a GPU"
    if card.mig:
        yield "it is cut into slices (MIG)", "peer access and IPC do not work between slices: ask for whole GPUs"
    most_links = max((other.links or 0) for other in cards)
    if card.links is not None and card.links < most_links:
        yield (
            f"{card.links} NVLinks are up, another GPU here has {most_links}",
            "nvidia-smi nvlink -s; take another node",
        )


def _told(cards: list[Card]) -> dict[str, str]:
    facts = ("ecc", "rows_pending", "rows_failed", "temperature", "links", "used")
    return {
        f"gpu{card.index}": " ".join(f"{key}={getattr(card, key)}" for key in facts if getattr(card, key) is not None)
        for card in cards
    }
