"""What the Kubernetes API accepts: schemas of the API, and CRDs of KubeRay where a file of them is named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

VERSIONS = ("1.29", "1.33", "1.37")
CRD_VARIABLE = "ORBIT_KUBERAY_CRDS"
"""Names a folder with ``ray.io_rayjobs.yaml`` and ``ray.io_rayclusters.yaml``, as ``ray-operator/config/crd/bases``."""


def objects(text: str) -> list[dict[str, Any]]:
    """The documents of a manifest."""
    return list(yaml.safe_load_all(text))


def only(text: str, kind: str) -> dict[str, Any]:
    """The one object of a kind."""
    found = [each for each in objects(text) if each["kind"] == kind]
    assert len(found) == 1
    return found[0]


def check_schema(text: str) -> int:
    """Every object of Kubernetes' own API in ``text``, and every pod template of KubeRay's, is valid; how many."""
    checked = 0
    for each in objects(text):
        for one in templates(each) if each["apiVersion"].startswith("ray.io/") else [each]:
            for version in VERSIONS:
                kubernetes_validate.validate(one, version, strict=True)
                checked += 1
    return checked


def templates(ray: dict[str, Any]) -> list[dict[str, Any]]:
    """Pods as KubeRay would make them of a RayJob's or RayCluster's templates."""
    spec = ray["spec"]
    cluster = spec.get("rayClusterSpec", spec)
    found = [cluster["headGroupSpec"]["template"]]
    found += [group["template"] for group in cluster.get("workerGroupSpecs", [])]
    found += [spec["submitterPodTemplate"]] if "submitterPodTemplate" in spec else []
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", **one["metadata"]}, "spec": one["spec"]}
        for one in found
    ]


def check_crd(ray: dict[str, Any]) -> None:
    """``ray`` is what the CRD of its kind accepts; unknown fields are refused, as kubectl has the API server do."""
    folder = os.environ.get(CRD_VARIABLE)
    if not folder:
        pytest.skip(f"{CRD_VARIABLE} names no folder with KubeRay's CRDs")
    name = f"ray.io_{ray['kind'].lower()}s.yaml"
    crd = yaml.load((Path(folder) / name).read_bytes(), Loader=yaml.CSafeLoader)
    version = next(each for each in crd["spec"]["versions"] if each["name"] == "v1")
    schema = strict(version["schema"]["openAPIV3Schema"])
    jsonschema.Draft202012Validator(schema).validate({key: ray[key] for key in ray if key != "metadata"})


def strict(schema: Any) -> Any:
    """An OpenAPI schema of a CRD as a JSON schema that knows no other fields; numbers or texts where it says so."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(each) for key, each in schema.items() if not key.startswith("x-kubernetes")}
    if schema.get("x-kubernetes-int-or-string"):
        made.pop("type", None)
        made["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        made.setdefault("additionalProperties", bool(schema.get("x-kubernetes-preserve-unknown-fields", False)))
    return made
