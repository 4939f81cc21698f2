"""A program that answers like kubectl does, from objects in a folder: what it is asked is checked and written down.

Its words are kubectl 1.32's own (``created``, ``deleted``, ``Error from server (NotFound)``), and it takes no option
that kubectl does not have. What Kubernetes would do with the objects, a test does: it writes them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import yaml

STORE = Path(os.environ["FAKE_KUBECTL"])
PLURALS = {"Job": "jobs.batch", "RayJob": "rayjobs.ray.io", "RayCluster": "rayclusters.ray.io",
           "DaemonSet": "daemonsets.apps", "Pod": "pods", "Secret": "secrets", "Service": "services",
           "ConfigMap": "configmaps"}  # fmt: skip


def kind_of(word: str) -> str:
    for kind, plural in PLURALS.items():
        if word.lower() in (plural, plural.split(".")[0], kind.lower()):
            return kind
    return fail(f'error: the server doesn\'t have a resource type "{word}"')


def fail(text: str) -> NoReturn:
    print(text, file=sys.stderr)
    raise SystemExit(1)


def path_of(kind: str, name: str) -> Path:
    return STORE / f"{kind}.{name}.json"


def stored(kind: str) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(STORE.glob(f"{kind}.*.json"))]


def selected(each: dict[str, Any], selector: str) -> bool:
    key, _, value = selector.partition("=")
    return not selector or each["metadata"].get("labels", {}).get(key) == value


def named(args: argparse.Namespace) -> list[dict[str, Any]]:
    """What ``KIND/NAME``, ``KIND NAME`` or ``KIND,KIND`` with a selector means."""
    if "/" in args.what:
        kind, name = kind_of(args.what.split("/")[0]), args.what.split("/")[1]
        if path_of(kind, name).exists():
            return [json.loads(path_of(kind, name).read_text())]
        if args.ignore_not_found:
            return []
        fail(f'Error from server (NotFound): {PLURALS[kind]} "{name}" not found')
    assert args.selector, "never all of a namespace"
    return [each for word in args.what.split(",") for each in stored(kind_of(word)) if selected(each, args.selector)]


def create(args: argparse.Namespace, stdin: str) -> None:
    if (STORE / "say-on-create").exists():
        fail((STORE / "say-on-create").read_text())
    text = stdin if args.filename == "-" else Path(args.filename).read_text()
    for each in yaml.safe_load_all(text):
        path = path_of(each["kind"], each["metadata"]["name"])
        name = f'{PLURALS[each["kind"]]} "{each["metadata"]["name"]}"'
        if path.exists():
            fail(f'Error from server (AlreadyExists): error when creating "x": {name} already exists')
        assert each["metadata"]["namespace"] == args.namespace
        each["metadata"]["uid"] = f"uid-{each['kind']}-{each['metadata']['name']}-{os.getpid()}"
        path.write_text(json.dumps(each))
        print(json.dumps(each, indent=4) if args.output == "json" else f"{name} created")


def get(args: argparse.Namespace) -> None:
    found = named(args)
    if "/" in args.what:
        print("\n".join(json.dumps(each) for each in found), end="")
    else:
        print(json.dumps({"apiVersion": "v1", "kind": "List", "items": found, "metadata": {"resourceVersion": ""}}))


def delete(args: argparse.Namespace) -> None:
    for each in named(args):
        path_of(each["kind"], each["metadata"]["name"]).unlink()
        print(f'{each["kind"].lower()} "{each["metadata"]["name"]}" deleted')
        for pod in stored("Pod") if args.cascade == "foreground" else []:
            if pod["metadata"]["labels"] == each["metadata"]["labels"]:
                path_of("Pod", pod["metadata"]["name"]).unlink()


def patch(args: argparse.Namespace) -> None:
    (each,) = named(args)
    each["metadata"] |= json.loads(args.patch)["metadata"]
    path_of(each["kind"], each["metadata"]["name"]).write_text(json.dumps(each))


def logs(args: argparse.Namespace) -> None:
    path = STORE / f"log.{args.what}.{args.container}"
    if not path.exists():
        fail(f'Error from server (BadRequest): container "{args.container}" in pod "{args.what}" is waiting to start')
    sys.stdout.write(path.read_text())
    path.write_text("")  # read with --since-time the next time
    if (STORE / "then").exists():  # what the cluster did while the log was followed
        for name, text in json.loads((STORE / "then").read_text()).items():
            (STORE / name).write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(prog="kubectl", allow_abbrev=False)
    for option in ("--context", "--namespace", "--request-timeout"):
        parser.add_argument(option, default="")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("create", "get", "delete", "patch", "logs", "config"):
        sub = verbs.add_parser(verb, allow_abbrev=False)
        if verb != "create":
            sub.add_argument("what")
        for option in ("-f", "-o"):
            sub.add_argument(option, {"-f": "--filename", "-o": "--output"}[option], default="")
        for option in ("--selector", "--cascade", "--wait", "--timeout", "--type", "--patch", "--container",
                       "--since-time", "--grace-period"):  # fmt: skip
            sub.add_argument(option, default="")
        for flag in ("--ignore-not-found", "--follow", "--force"):
            sub.add_argument(flag, action="store_true")
    args = parser.parse_args()
    stdin = sys.stdin.read() if args.verb == "create" and args.filename == "-" else ""
    with (STORE / "asked").open("a") as file:
        file.write(json.dumps({"argv": sys.argv[1:], "stdin": stdin}) + "\n")
    if (STORE / "unreachable").exists() and args.verb != "config":
        fail((STORE / "unreachable").read_text())
    if args.verb == "config":
        print("lab" if args.what == "current-context" else fail("error: unknown"))
        return
    assert args.namespace
    assert args.context == "lab"
    create(args, stdin) if args.verb == "create" else globals()[args.verb](args)


if __name__ == "__main__":
    main()
