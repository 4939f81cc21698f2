"""Programs that answer like condor_submit, condor_q, condor_history, condor_rm and condor_vacate_job do.

Their words are those of HTCondor 24 (condor_submit(1), condor_q(1) and the others); one that gets an option the real
one does not have fails. The queue is a JSON file; what a pool would do with it, a test does.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any, NoReturn

STORE = Path(os.environ["FAKE_CONDOR"])
OPTIONS = {
    "condor_submit": {"-terse": 0},
    "condor_q": {"-json": 0, "-attributes": 1, "-constraint": 1},
    "condor_history": {"-json": 0, "-attributes": 1, "-limit": 1},
    "condor_rm": {},
    "condor_vacate_job": {"-fast": 0},
}


def fail(text: str) -> NoReturn:
    print(text, file=sys.stderr)
    raise SystemExit(1)


def load(name: str) -> list[dict[str, Any]]:
    path = STORE / name
    return json.loads(path.read_text()) if path.exists() else []


def save(name: str, ads: list[dict[str, Any]]) -> None:
    (STORE / name).write_text(json.dumps(ads))


def submit(words: list[str]) -> None:
    macros = dict(word.split("=", 1) for word in words if "=" in word)
    (name,) = [word for word in words if "=" not in word]
    text = Path(name).read_text()
    if (STORE / "say-on-submit").exists():
        fail((STORE / "say-on-submit").read_text())
    found = re.search(r"^transfer_input_files = (.*)$", text, re.MULTILINE)
    files = re.sub(r"\$\((\w+)\)", lambda match: macros[match[1]], found[1]).split(", ") if found else []
    seen = {}
    for file in files:
        for path in [Path(file), *Path(file).rglob("*")]:
            seen[str(path)] = [oct(path.stat().st_mode & 0o777), path.read_text() if path.is_file() else ""]
    (STORE / "transferred").write_text(json.dumps(seen))
    batch = re.search(r"^batch_name = (.*)$", text, re.MULTILINE)
    count = int(re.search(r"^queue (\d+)$", text, re.MULTILINE)[1])  # type: ignore[index]
    number = 7 + len(list(STORE.glob("cluster.*")))
    (STORE / f"cluster.{number}").touch()
    ads = [
        {
            "ClusterId": number,
            "ProcId": proc,
            "JobStatus": 1,
            "JobBatchName": batch[1] if batch else "",
            "NumJobStarts": 0,
        }
        for proc in range(count)
    ]
    save("queue", load("queue") + ads)
    print(f"{number}.0 - {number}.{count - 1}")


def show(program: str, words: list[str], said: dict[str, str]) -> None:
    ads = load("queue" if program == "condor_q" else "history")
    if "-constraint" in said:
        name = re.fullmatch(r'JobBatchName == "([-a-z0-9]+)"', said["-constraint"])
        ads = [ad for ad in ads if name and ad["JobBatchName"] == name[1]]
    if words:
        ads = [ad for ad in ads if str(ad["ClusterId"]) in words]
    ads = ads[: int(said.get("-limit", 1 << 30))]
    wanted = said["-attributes"].split(",")
    assert "-json" in said
    if ads or program == "condor_history":  # condor_q prints nothing at all when it finds nothing
        print(json.dumps([{key: ad[key] for key in wanted if key in ad} for ad in ads], indent=2))


def remove(words: list[str]) -> None:
    queue = load("queue")
    if not [ad for ad in queue if str(ad["ClusterId"]) in words]:
        fail(f"Couldn't find/remove all jobs in cluster {words[0]}")
    gone = [ad for ad in queue if str(ad["ClusterId"]) in words]
    save("queue", [ad for ad in queue if ad not in gone])
    reason = "via condor_rm (by user ann)"
    save("history", load("history") + [ad | {"JobStatus": 3, "RemoveReason": reason} for ad in gone])
    print(f"All jobs in cluster {words[0]} have been marked for removal")


def main() -> None:
    program = Path(sys.argv[0]).name
    words, said = sys.argv[1:], dict[str, str]()
    with (STORE / "asked").open("a") as file:
        file.write(json.dumps([program, *words]) + "\n")
    if (STORE / "unreachable").exists():
        fail((STORE / "unreachable").read_text())
    rest = []
    while words:
        word = words.pop(0)
        if word.startswith("-"):
            if word not in OPTIONS[program]:
                fail(f"{program}: unknown option {word}")
            said[word] = words.pop(0) if OPTIONS[program][word] else ""
        else:
            rest.append(word)
    if program == "condor_submit":
        submit(rest)
    elif program in ("condor_q", "condor_history"):
        show(program, rest, said)
    elif program == "condor_rm":
        remove(rest)
    elif not [ad for ad in load("queue") if str(ad["ClusterId"]) in rest and ad["JobStatus"] == 2]:
        fail(f"Couldn't find/vacate all jobs in cluster {rest[0]}")


if __name__ == "__main__":
    main()
