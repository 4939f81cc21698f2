"""The identity of a running environment on one node, as all nodes of a job compare it and every checkpoint keeps it."""

from __future__ import annotations

from orbit.core.records import Record, content_key

SCHEMA = "orbit.fingerprint/1"


class Library(Record, frozen=True, kw_only=True):
    """A shared library as it is mapped into a process (``/proc/self/maps``)."""

    name: str
    """Its soname, or file name without one: ``libcudnn.so.9``."""
    path: str
    sha256: str
    """Of the file; empty when it cannot be read any more."""
    inside: bool
    """Whether it lies below the environment's prefix. The driver's do not."""
    stated: bool = False
    """Whether ``sha256`` is what RECORD states of a file that has the size and time it was sealed with; not read."""


class Fingerprint(Record, frozen=True, kw_only=True):
    """What runs on one node."""

    schema: str = SCHEMA
    image: str = ""
    """``sha256:...`` as the launcher says (``ORBIT_IMAGE_DIGEST``); empty outside an image."""
    environment: str = ""
    """Identity of the environment, from its ``environment.json``; empty when there is none."""
    lock: str = ""
    """sha256 of uv.lock."""
    kernels: str = ""
    """sha256 over the kernels' manifests."""
    orbit: str = ""
    """sha256 over the files of the package ``orbit`` itself: an edit of Orbit shows, too."""
    interpreter: str
    """``3.12.8 sha256:...``: version, and hash of the program."""
    glibc: str = ""
    libraries: tuple[Library, ...] = ()
    """Sorted by name; what is mapped when the stack has been loaded, or nothing when it was not asked for."""
    versions: dict[str, str] = {}
    """As the libraries themselves say, once loaded: ``nccl``, ``cudnn``, ``cuda-runtime``, ``torch``, ``ray``."""
    driver: str = ""
    """Its release and the newest CUDA release it serves: ``580.65.06, CUDA 13.0``; empty without one."""
    devices: tuple[str, ...] = ()
    """Name and compute capability of each device: ``NVIDIA H200 9.0``."""

    @property
    def agreed(self) -> str:
        """sha256 of what must be the same on all nodes: all but driver, devices and the driver's libraries."""
        return content_key(must_agree(self))


def must_agree(one: Fingerprint) -> dict[str, object]:
    """The part of a fingerprint that all nodes of a job must have in common, by field."""
    return {
        "image": one.image,
        "environment": one.environment,
        "lock": one.lock,
        "kernels": one.kernels,
        "orbit": one.orbit,
        "interpreter": one.interpreter,
        "glibc": one.glibc,
        "libraries": [[each.name, each.sha256] for each in one.libraries if each.inside],
        "versions": one.versions,
    }
