"""Where the device code of a target is read from: files on disk, members of wheels, members of image layers.

Members of archives are read once from front to back: :func:`orbit.audit.depth.read_depth` asks for the images of a file
in the order in which they lie in it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from orbit.audit.depth import Depth, OpenBytes, Slices, read_depth
from orbit.audit.facts import Environment
from orbit.audit.targets import Target
from orbit.audit.wheels import members_of
from orbit.audit.zip_source import MemberDamage, NotZip, ZipSource
from orbit.core.console import Progress
from orbit.profile.model import Profile


class Forward:
    """The bytes of a stream as slices, each further on than the one before; behind it there is nothing left."""

    def __init__(self, pieces: Iterable[bytes | memoryview]) -> None:
        self._pieces = iter(pieces)
        self._piece = memoryview(b"")
        self._start = 0
        """Position in the stream of the first byte of ``_piece``."""

    def __getitem__(self, key: slice, /) -> bytes:
        position, stop = key.start or 0, key.stop or 0
        parts: list[bytes] = []
        while position >= self._start and position < stop:
            inside = position - self._start
            if inside >= len(self._piece):
                self._start += len(self._piece)
                self._piece = memoryview(next(self._pieces, b""))
                if not self._piece:
                    break
                continue
            part = self._piece[inside : inside + stop - position]
            parts.append(bytes(part))
            position += len(part)
        return b"".join(parts)


def read_target_depth(target: Target, env: Environment, profile: Profile, progress: Progress) -> Depth:
    """The kernels of a target whose facts are ``env``."""
    opener = wheel_opener(target, env, profile) if env.kind == "wheels" else None
    return read_depth(Path(env.layout.prefix), env.objects, profile.targets, progress, open_bytes=opener)


def wheel_opener(target: Target, env: Environment, profile: Profile) -> OpenBytes:
    """Opens files of wheels by the path they would be installed at."""
    places = members_of(target.paths, profile, env.layout)

    @contextlib.contextmanager
    def opened(path: str) -> Iterator[Slices]:
        try:
            wheel, name = places[path]
            with ZipSource(wheel) as source:
                member = {member.name: member for member in source.members}[name]
                yield Forward(source.stream(member))
        except KeyError:
            raise OSError(0, "not in its wheel any more") from None
        except (MemberDamage, NotZip) as error:
            raise OSError(0, str(error)) from None

    return opened
