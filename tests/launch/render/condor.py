"""What HTCondor makes of a submit description: its own parser, from the package ``htcondor``, where it is installed.

Version 24 of it: later ones have no ``Submit.jobs``. And the rules of its quoting, written down once more, for where it
is not.
"""

from __future__ import annotations

import os
from typing import Any

import pytest


def condor() -> Any:
    """The package, without a configuration of a pool."""
    os.environ.setdefault("CONDOR_CONFIG", "/dev/null")
    return pytest.importorskip("htcondor", reason="HTCondor's own parser (package htcondor, version 24) is not there")


def job_ads(text: str, **macros: str) -> list[dict[str, Any]]:
    """The jobs that condor_submit would hand over for ``text``, each with all its attributes; the list ``Argv`` too."""
    submit = condor().Submit(text)
    for name, value in macros.items():
        submit[name] = value
    classad = pytest.importorskip("classad")
    ads: list[dict[str, Any]] = []
    for ad in submit.jobs(int(submit.getQArgs() or 1), clusterid=7):
        whole = {**(ads[0] if ads else {}), **{key: ad[key] for key in ad}}
        ad_of = classad.ClassAd({"Arguments": whole["Arguments"], "Environment": whole["Environment"]})
        whole["Argv"] = list(classad.ExprTree("argsToList(Arguments)").eval(ad_of))
        pairs = [word.partition("=") for word in classad.ExprTree("argsToList(Environment)").eval(ad_of)]
        whole["Env"] = {name: value for name, _, value in pairs}
        ads.append(whole)
    return ads


def lines_of(text: str) -> dict[str, str]:
    """Key -> value of a submit description."""
    pairs = [line.partition("=") for line in text.splitlines() if not line.startswith("#")]
    return {key.strip(): value.strip() for key, sign, value in pairs if sign}


def split(value: str, process: int = 0) -> list[str]:
    """The words in a value of ``arguments`` or ``environment`` (condor_submit(1), "new" syntax)."""
    assert value[0] == value[-1] == '"'
    text = value[1:-1]
    assert '"' not in text.replace('""', "")
    text = text.replace('""', '"').replace("$(Process)", str(process)).replace("$(DOLLAR)", "$")
    words: list[str] = []
    word, started, quoted, place = "", False, False, 0
    while place < len(text):
        char = text[place]
        if char == "'" and quoted and text[place + 1 : place + 2] == "'":
            word, place = word + "'", place + 1
        elif char == "'":
            started, quoted = True, not quoted
        elif char.isspace() and not quoted:
            words += [word] if started else []
            word, started = "", False
        else:
            word, started = word + char, True
        place += 1
    assert not quoted
    return words + ([word] if started else [])
