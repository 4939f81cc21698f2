"""``CUDA_VISIBLE_DEVICES``: what it names, and what of that is here.

Numbers, ids (GPU-...), beginnings of ids as HTCondor gives them, slices (MIG-...).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orbit.launch.preflight.model import Check
from orbit.launch.preflight.say import failed, passed, skipped, warned

VARIABLE = "CUDA_VISIBLE_DEVICES"
TOLD = "NVIDIA_VISIBLE_DEVICES"
NOTHING = ("-1", "NoDevFiles", "void", "none")


def match(word: str, uuids: Sequence[str]) -> int | None:
    """Which of the devices ``word`` names; None when it names none, or not exactly one."""
    if word.isdigit():
        return int(word) if int(word) < len(uuids) else None
    full = word if word.startswith("GPU-") else f"GPU-{word}"
    hits = [index for index, uuid in enumerate(uuids) if uuid.lower().startswith(full.lower())]
    return hits[0] if len(hits) == 1 else None


def judge_visible(env: Mapping[str, str], uuids: Sequence[str], wanted: int) -> Check:
    """``visible-devices``: ``uuids`` are those of the devices in this container, in the driver's order."""
    name = "visible-devices"
    if not wanted:
        return skipped(name, "no GPU is asked for")
    if VARIABLE not in env:
        return passed(name, f"{VARIABLE} is not set: all GPUs of the container are meant")
    value = env[VARIABLE]
    words = [word.strip() for word in value.split(",")]
    if not value.strip() or words[0] in NOTHING:
        text = f"{VARIABLE}={value} shows no GPU to this job, {wanted} are needed"
        fix = "unset it where it was set on purpose; the scheduler sets it so when the job did not ask for GPUs"
        return failed(name, text, fix, value=value)
    if any(word.startswith("MIG-") for word in words):
        text = f"{VARIABLE}={value} names slices of GPUs (MIG): peer access and IPC do not work between them"
        return warned(name, text, "ask for whole GPUs for jobs of more than one", value=value)
    if not uuids:
        return skipped(name, f"{VARIABLE}={value}, and the management library does not say which GPUs are here")
    return _named(value, words, uuids)


def _named(value: str, words: Sequence[str], uuids: Sequence[str]) -> Check:
    name = "visible-devices"
    found = {word: match(word, uuids) for word in words}
    foreign = [word for word, index in found.items() if index is None]
    here = ", ".join(f"{index}: {uuid[:12]}" for index, uuid in enumerate(uuids))
    if foreign:
        text = f"{VARIABLE}={value}: {foreign[0]!r} is no GPU of this container, and CUDA ignores it and all after it"
        fix = f"leave the variable as the scheduler set it; here are {here} (a value of another node or another job?)"
        return failed(name, text, fix, value=value)
    if len({*found.values()}) < len(words):
        text = f"{VARIABLE}={value} names one GPU twice: CUDA shows none then"
        return failed(name, text, f"name each once; here are {here}", value=value)
    return passed(name, f"{VARIABLE}={value} names {len(words)} of {len(uuids)} GPUs", value=value)
