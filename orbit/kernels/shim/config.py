"""The settings of one build: the contract between orbit, which writes them, and the fronts, which read them.

Handed over as a JSON file (``places.CONFIG_NAME``) in CUDA_HOME/bin. A dictionary and not a class of its own: reading
it must cost nothing.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict


class Part(TypedDict):
    """Which steps this machine really compiles. All other steps get placeholders, so the wheel is of no use.

    Example, the first of four machines that share the work on one architecture::

        {"archs": ["sm_90a"], "index": 1, "count": 4}
    """

    archs: list[str]
    """Real architectures (``sm_90a``) and ``host`` for C++ units without device code; empty: all of them."""
    index: int
    """This machine's number, from 1."""
    count: int
    """How many machines share the work; 1: this one does all of ``archs``."""


class Config(TypedDict):
    """What the fronts of one build know. Every path is absolute."""

    bin: str
    """CUDA_HOME/bin of the build. The real programs are there, with ``-real`` behind their names."""
    root: str
    """The build's folder; paths below it never reach a result."""
    pairs: list[list[str]]
    """(virtual, real) architectures, e.g. ``["compute_90a", "sm_90a"]``."""
    threads: int
    """nvcc's ``--threads``: how many architectures of a unit are compiled at once."""
    flags: list[str]
    """Flags added to every nvcc command line."""
    log: str
    """File that gets one JSON line per compiler call and per step."""
    programs: dict[str, str]
    """Front outside CUDA_HOME (``g++``, ``ninja``) -> the real program."""
    prefixes: list[list[str]]
    """(path, replacement) that are exchanged in texts between steps and in keys, in this order; both end with ``/`` or
    the replacement is empty. The first is the build's folder: ``["/b/", ""]``."""
    recipe: str
    """Name of the recipe, for the job server."""
    jobs: str
    """Unix stream socket of the job server, at most 107 bytes; empty: steps start without asking."""
    inflight: int
    """``-j`` of ninja and make: open compile calls, not running ones. 0: leave what the build asks for."""
    units: str
    """Folder of the unit cache; empty: none. Made when it is missing."""
    shared: str
    """A second unit cache, read when ``units`` has no entry and written after it; empty: none. May be any mounted
    folder: no locks, hard links or atomic renames are needed, and its failures never fail a build."""
    identities: dict[str, str]
    """Tool (``cicc``, ``ptxas``, ``cudafe++``, ``g++``, ...) -> what tells one compiler from another: version and
    sha256. A step of a tool that is not here is not cached."""
    wheel_key: NotRequired[str]
    """Everything the wheel depends on, as one hash; without it whole objects are not cached, only steps."""
    part: NotRequired[Part]
    """Without it everything is compiled."""
