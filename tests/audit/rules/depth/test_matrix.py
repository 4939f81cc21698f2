"""How findings name kernels, and which containers are compared."""

from __future__ import annotations

from pathlib import Path

from orbit.audit.known.policy import Dispatching, Expectations
from orbit.audit.rules.depth.matrix import SHOWN, archs, examples, registering
from tests.audit.depths import both, library, read
from tests.audit.support import make_policy
from tests.writers.cubin import EMPTY
from tests.writers.fatbin import Entry, write_container


def test_one_kernel_of_each_family_is_named() -> None:
    family = [f"_Z4castILi{number}EEvPf" for number in range(3)]
    assert examples([*family, "_Z4addsPf"]) == "cast; adds; and 2 more"
    assert examples(["_Z4addsPf", "_Z4addsPf"]) == "adds"
    assert examples([f"kernel_{number}" for number in range(SHOWN + 2)]).endswith("; and 2 more")


def test_damaged_containers_and_dispatching_files_are_left_out(tmp_path: Path) -> None:
    damaged = write_container(Entry("sm_90", payload=b"junk"))
    env, depth = read(library(tmp_path, both({"k": EMPTY}, {"k": EMPTY}), damaged))
    ((name, boxes),) = registering(env, make_policy(), depth)
    assert (name, [box.index for box in boxes]) == ("ext/_c.so", [0])
    assert (archs(boxes, "h100"), archs(boxes, "b200")) == ("sm_90a", "sm_100a")
    choosing = Dispatching(files=("ext/*.so",), reason="written for this test only")
    policy = make_policy(Expectations(schema=1, dispatching=(choosing,)))
    assert list(registering(env, policy, depth)) == []
