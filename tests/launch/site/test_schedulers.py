"""What a scheduler can start: the tables agree with the model and with what the renderers know."""

from __future__ import annotations

import typing

from orbit.launch.render import FORMS
from orbit.launch.site import model
from orbit.launch.site.schedulers import STARTS, TAKES


def test_the_tables_know_every_scheduler_runtime_and_form() -> None:
    assert set(STARTS) == set(typing.get_args(model.Scheduler.__value__)) == set(FORMS)
    runtimes = set(typing.get_args(model.Runtime.__value__))
    assert {runtime for row in STARTS.values() for runtime in row} == runtimes == set(TAKES)
    (form,) = [field for field in model.ImageSource.__annotations__.items() if field[0] == "form"]
    assert {each for row in TAKES.values() for each in row} == {
        "registry", "sif", "squashfs", "archive", "prefix",
    }, form  # fmt: skip
