"""Whole objects: the result of one compiler call in a build of the very same wheel, so that a killed build resumes."""

from __future__ import annotations

import hashlib
import json
import os

from .admission import Admission
from .cache import UnitCache, key_of
from .places import hide, inside, reveal, write_beside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .config import Config


def object_key(tool: str, words: Sequence[str], source: str, config: Config) -> str:
    """Hash of the wheel that is built, the command line without paths of this machine, and the source's content.

    Headers are not looked at: the wheel's key covers the whole source tree and every package they may come from. Empty
    when the settings name no wheel, there is no cache, or the source cannot be read.
    """
    wheel = config.get("wheel_key", "")
    if not wheel or not UnitCache(config):
        return ""
    try:
        with open(source, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
    return key_of("object", wheel, tool, inside(".", config), json.dumps(list(words)), digest)


def fetch_object(key: str, outputs: Mapping[str, str], config: Config, steps: Sequence[tuple[str, str, str]]) -> int:
    """Put a kept object and its dependency file in place; its entry's size, 0 when it is not there.

    ``steps`` are the (step, source, arch) that need not run; the job server counts them.
    """
    entry = UnitCache(config).get("object", key)
    if entry is None or not outputs.keys() <= entry.files.keys():
        return 0
    for step in steps:
        Admission(config, *step).count_cached()
    for role, path in outputs.items():
        data = entry.files[role]
        write_beside(path, reveal(data, config) if role == "depfile" else data)
    return entry.size


def keep_object(key: str, outputs: Mapping[str, str], config: Config) -> int:
    """Keep a finished object, which must hold no placeholder; its entry's size."""
    files = {}
    for role, path in outputs.items():
        if not os.path.isfile(path):
            return 0
        with open(path, "rb") as file:
            files[role] = hide(file.read(), config) if role == "depfile" else file.read()
    return UnitCache(config).put("object", key, files, {})
