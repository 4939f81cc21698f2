"""All devices under load for a while: the same product again and again, which must have the same bits each time."""

from __future__ import annotations

import threading
import time
from typing import Any

import torch

from orbit.launch.preflight.driver import sample_devices

SIDE = {"cuda": 8192, "cpu": 256}
BATCH = 8
"""Products between two comparisons."""
SAMPLE_S = 1.0


class Load:
    """One device."""

    def __init__(self, device: Any, seconds: float) -> None:
        self.device = device
        self.seconds = seconds
        self.products = 0
        self.wrong = 0
        self.error = ""
        self.spent = 0.0
        self.thread = threading.Thread(target=self._work, name=f"load {device}")

    def _work(self) -> None:
        try:
            self._multiply()
        except Exception as error:  # noqa: BLE001 - it is what the test found
            self.error = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"

    def _multiply(self) -> None:
        side = SIDE[self.device.type]
        generator = torch.Generator(self.device).manual_seed(3)
        kind = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        left, right = (torch.randn(side, side, device=self.device, generator=generator).to(kind) for _ in range(2))
        first = left @ right
        out = torch.empty_like(first)
        began = time.monotonic()
        while (spent := time.monotonic() - began) < self.seconds:
            for _ in range(BATCH):
                torch.matmul(left, right, out=out)
            self.products += BATCH
            self.wrong += int((out != first).sum())  # waits for the device
        self.spent = spent


def burn_in(where: list[Any], seconds: float) -> dict[str, Any]:
    """Load all devices. Raises :class:`RuntimeError` when one computes something else than before, or fails.

    Rates, temperatures, clocks and power are told, not judged.
    """
    loads = [Load(device, seconds) for device in where]
    for each in loads:
        each.thread.start()
    samples: list[dict[str, int]] = []
    while any(each.thread.is_alive() for each in loads):
        if where[0].type == "cuda":
            samples += sample_devices()
        loads[0].thread.join(SAMPLE_S)
    for each in loads:
        each.thread.join()
    problems = [f"{each.device}: {each.error}" for each in loads if each.error]
    problems += [f"{each.device}: {each.wrong} numbers differ from the first product's" for each in loads if each.wrong]
    if problems:
        raise RuntimeError("; ".join(problems))
    return {
        "seconds": seconds,
        **{str(each.device): {"teraflops": _teraflops(each), "products": each.products} for each in loads},
        **summary(samples),
    }


def summary(samples: list[dict[str, int]]) -> dict[str, int]:
    """Highest temperature (C) and power (W), lowest clock (MHz) of all devices while they were loaded."""
    found = {}
    for key, choose in (("temperature", max), ("power_w", max), ("clock_mhz", min)):
        values = [sample[key] for sample in samples[len(samples) // 4 :] if key in sample]
        if values:
            found[f"{choose.__name__}_{key}"] = choose(values)
    return found


def _teraflops(load: Load) -> float:
    work = 2.0 * SIDE[load.device.type] ** 3 * load.products
    return round(work / load.spent / 1e12, 3) if load.spent else 0.0
