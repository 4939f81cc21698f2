"""Jobs of a Kubernetes cluster, by kubectl: create, get, logs, delete.

The owner token and the values of secrets go to kubectl's standard input alone: never into a file, never into the
arguments of a process. The context that was current when a job was submitted is used to ask for it later.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets as random
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orbit.core import proc
from orbit.core.tools import find
from orbit.errors import CommandFailed, InputError, MissingError, OrbitError, RefusedError
from orbit.launch.plan import LaunchPlan
from orbit.launch.render import File
from orbit.launch.render.kubernetes import prepull_name
from orbit.launch.render.pod import OWNER_KEY, labels, secret_name
from orbit.launch.render.words import LABEL_JOB
from orbit.launch.submit.kubernetes_state import KINDS, Seen, read_state, speaker
from orbit.launch.submit.model import JobRef, JobStatus, now

ASK_S = 60.0
REQUEST = "--request-timeout=30s"
PAUSE_S = 2.0
LATE_S = 60
"""After the grace period: the cluster's own time to take pods away."""
UNREACHABLE = re.compile(
    r"connection to the server .* was refused|unable to connect to the server|no such host|i/o timeout"
    r"|context deadline exceeded|TLS handshake timeout|must be logged in|Unauthorized|connection refused"
    r"|getting credentials|no configuration has been provided|current-context|context .* does not exist",
    re.IGNORECASE,
)
UNKNOWN_KIND = re.compile(r"no matches for kind|doesn't have a resource type", re.IGNORECASE)


def open_scheduler() -> Kubernetes:
    """The cluster of kubectl's current context."""
    return Kubernetes()


class Kubernetes:
    """See :class:`orbit.launch.submit.model.Scheduler`."""

    def submit(
        self, plan: LaunchPlan, form: str, files: tuple[File, ...], folder: Path, secrets: Mapping[str, str]
    ) -> JobRef:
        """The secret first, so that no pod waits for it; then what was rendered, which owns the secret from then on."""
        namespace = plan.site.kubernetes.namespace
        name = prepull_name(plan) if form == "prepull" else plan.name
        ref = JobRef(
            name=plan.name,
            scheduler="kubernetes",
            form=form,
            id=f"{namespace}/{name}",
            identity=plan.identity,
            site=plan.site.name,
            nodes=plan.job.nodes,
            submitted=now(),
            grace_seconds=plan.job.grace_seconds,
            details={"namespace": namespace, "object": name, "context": _context()},
        )
        self._make_room(ref)
        said = self._secret(plan, ref, form, secrets)
        try:
            made = _objects(_kubectl(ref, ["create", "-f", str(folder / files[0].name), "-o", "json"]))
        except OrbitError:
            with contextlib.suppress(OrbitError):  # the first error is the one to tell
                self._remove(ref, wait=False)
            raise
        uid = self._adopt(ref, made, said)
        return JobRef(**{**_fields(ref), "details": ref.details | {"uid": uid}})

    def status(self, ref: JobRef) -> JobStatus:
        """The object of the job and its pods, in one question."""
        return read_state(ref, self._seen(ref))

    def logs(self, ref: JobRef, *, follow: bool) -> Iterator[bytes]:
        """What the first node printed (under KubeRay: the command). ``kubectl logs`` again where a stream breaks."""
        since: list[str] = []
        while True:
            seen = self._seen(ref)
            found = speaker(ref, seen)
            status = read_state(ref, seen)
            if found:
                words = ["logs", found[0], "--container", found[1], *since, *(["--follow"] if follow else [])]
                yield from proc.stream(
                    _argv(ref, words, limit=False), doing=f"reading the log of {ref.name}", env=_env()
                )
                since = [f"--since-time={datetime.now(UTC).isoformat(timespec='seconds').replace('+00:00', 'Z')}"]
                if not follow:
                    return
                status = self.status(ref)
            if status.phase.ended or not follow:
                if not found:
                    why = f"{status.state}{f', {status.message}' if status.message else ''}"
                    raise MissingError(
                        f"{ref.name} has printed nothing that can be read: it is {status.phase.value} ({why})",
                        fix="orbit launch logs --follow waits for it; after its end a cluster keeps logs for a day",
                    )
                return
            time.sleep(PAUSE_S)

    def cancel(self, ref: JobRef, *, now: bool) -> str:
        """Delete it: pods get SIGTERM and their grace period, or with ``now`` SIGKILL."""
        before = self.status(ref)
        if now:
            self._remove(ref, wait=False)
            words = [
                "delete",
                "pods",
                "--selector",
                _selector(ref),
                "--grace-period=0",
                "--force",
                "--ignore-not-found",
            ]
            _kubectl(ref, words)
        else:
            self._remove(ref, wait=True)
        if before.phase.ended:
            return f"it had ended ({before.state}); what was left of it is removed"
        return "killed at once, and removed" if now else "SIGTERM was sent, it has ended and is removed"

    def _seen(self, ref: JobRef) -> list[Seen]:
        words = ["get", f"{KINDS[ref.form]},pods", "--selector", _selector(ref), "-o", "json"]
        return [Seen(each) for each in _objects(_kubectl(ref, words))]

    def _make_room(self, ref: JobRef) -> None:
        """Remove what an ended job of this name left. Raises :class:`RefusedError` for one that has not ended."""
        words = ["get", f"{KINDS[ref.form]}/{ref.details['object']}", "-o", "json", "--ignore-not-found"]
        found = _objects(_kubectl(ref, words))
        if not found:
            return
        status = read_state(ref, [Seen(found[0])])
        if not status.phase.ended or (found[0].get("metadata") or {}).get("labels", {}).get(LABEL_JOB) is None:
            raise RefusedError(
                f"{ref.id}: the cluster has a {KINDS[ref.form]} of this name already ({status.state or status.phase})",
                fix=f"kubectl -n {ref.details['namespace']} delete {KINDS[ref.form]} {ref.details['object']}, "
                "or another name in the recipe",
            )
        self._remove(ref, wait=True)

    def _secret(self, plan: LaunchPlan, ref: JobRef, form: str, values: Mapping[str, str]) -> str:
        """Make the secret that the manifest names. Its name, or empty where none is needed."""
        data = dict(values)
        if form == "job" and plan.job.nodes > 1:
            data[OWNER_KEY] = random.token_hex(32)
        if not data or form == "prepull":
            return ""
        name = secret_name(plan)
        metadata = {"name": name, "namespace": ref.details["namespace"], "labels": labels(plan)}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "stringData": data}
        _kubectl(ref, ["delete", f"secret/{name}", "--ignore-not-found"])
        _kubectl(ref, ["create", "-f", "-"], stdin=json.dumps(secret).encode())
        return name

    def _adopt(self, ref: JobRef, made: list[dict[str, Any]], secret: str) -> str:
        """What belongs to the job goes with it when the cluster removes it. The uid of the job."""
        kind = KINDS[ref.form].partition(".")[0].removesuffix("s")
        job = next(each for each in made if each["kind"].lower() == kind)
        uid: str = job["metadata"]["uid"]
        owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": job["metadata"]["name"], "uid": uid}
        patch = json.dumps({"metadata": {"ownerReferences": [owner]}})
        others = [f"{each['kind'].lower()}/{each['metadata']['name']}" for each in made if each is not job]
        for other in [*others, *([f"secret/{secret}"] if secret else [])]:
            with contextlib.suppress(OrbitError):  # cancel removes them by their label all the same
                _kubectl(ref, ["patch", other, "--type=merge", "--patch", patch])
        return uid

    def _remove(self, ref: JobRef, *, wait: bool) -> None:
        """The job with its pods, then what has its label. ``wait``: until the pods are gone."""
        words = ["delete", f"{KINDS[ref.form]}/{ref.details['object']}", "--ignore-not-found", "--cascade=foreground"]
        limit = ref.grace_seconds + LATE_S
        _kubectl(ref, [*words, f"--wait={str(wait).lower()}", f"--timeout={limit}s"], limit_s=limit + ASK_S)
        own = "services,configmaps,secrets"
        _kubectl(ref, ["delete", own, "--selector", _selector(ref), "--ignore-not-found"])


def _fields(ref: JobRef) -> dict[str, Any]:
    return {name: getattr(ref, name) for name in ref.__struct_fields__}


def _selector(ref: JobRef) -> str:
    return f"{LABEL_JOB}={ref.details['object']}"


def _env() -> dict[str, str]:
    """All of the caller's: programs that fetch credentials for kubectl want their own variables."""
    return dict(os.environ)


def _context() -> str:
    """The current context; empty inside a cluster, where there is none."""
    done = proc.run(
        [find("kubectl"), "config", "current-context"],
        doing="asking for the current context",
        env=_env(),
        timeout_s=ASK_S,
        check=False,
    )
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else ""


def _argv(ref: JobRef, words: Sequence[str], *, limit: bool = True) -> list[str]:
    context = [f"--context={ref.details['context']}"] if ref.details.get("context") else []
    return [
        str(find("kubectl")),
        *context,
        f"--namespace={ref.details['namespace']}",
        *([REQUEST] if limit else []),
        *words,
    ]


def _kubectl(ref: JobRef, words: Sequence[str], *, stdin: bytes | None = None, limit_s: float = ASK_S) -> str:
    """What kubectl answers. Raises :class:`MissingError` when no cluster does, :class:`InputError` for its "no"."""
    waits = any(word.startswith("--timeout=") for word in words)
    argv = _argv(ref, words, limit=not waits)
    try:
        done = proc.run(argv, doing=f"{words[0]} for {ref.id}", env=_env(), stdin=stdin, timeout_s=limit_s)
    except CommandFailed as error:
        raise _explained(error, ref, words) from None
    return done.stdout.decode(errors="replace")


def _explained(error: CommandFailed, ref: JobRef, words: Sequence[str]) -> OrbitError:
    lines = [line for line in error.tail.strip().splitlines() if line.strip()]
    last = lines[-1] if lines else f"status {error.status}"
    what = f"kubectl {words[0]}: {last}"
    if UNKNOWN_KIND.search(error.tail):
        return MissingError(
            f"{what}: the cluster does not know this kind", fix="KubeRay is not installed there: --form job needs none"
        )
    if error.status == 124 or UNREACHABLE.search(error.tail):
        tried = ref.details.get("context") or "no context"
        return MissingError(
            f"{what} (context: {tried})", fix="`kubectl get pods` must work in this shell: KUBECONFIG, VPN, login"
        )
    if "AlreadyExists" in error.tail:
        return RefusedError(what, fix="orbit launch cancel removes a job of ours; else choose another name")
    if "timed out waiting" in error.tail:
        return RefusedError(
            f"{ref.name}: its pods are not gone {ref.grace_seconds + LATE_S} s after SIGTERM",
            fix=f"orbit launch cancel --now {ref.name}; a node that is down keeps its pods until it is back",
        )
    return InputError(what, fix="the cluster's own words are above: correct the site file ([kubernetes]) or the recipe")


def _objects(text: str) -> list[dict[str, Any]]:
    """The objects in what ``-o json`` printed: one, several in a row, or lists of them."""
    decoder, place = json.JSONDecoder(), 0
    found: list[dict[str, Any]] = []
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        try:
            one, place = decoder.raw_decode(text, place)
        except ValueError:
            raise InputError(f"kubectl did not answer with JSON: {text[place : place + 80]!r}") from None
        found += one["items"] if str(one.get("kind", "")).endswith("List") else [one]
    return found
