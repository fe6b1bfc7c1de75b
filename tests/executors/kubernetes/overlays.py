"""k8s/ as kubectl makes objects of it, and the files that it is made from."""

import shutil
import subprocess
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

from celpy import Environment, json_to_cel
from celpy.celtypes import MapType, StringType
from ruamel.yaml import YAML

FOLDER = Path(__file__).resolve().parents[3] / "k8s"
OVERLAYS = ("single-node", "gpu", "kueue", "web")
SOURCES = sorted(
    str(path.relative_to(FOLDER))
    for path in FOLDER.rglob("*.yaml")
    if path.name not in {"kustomization.yaml", "contest.yaml"}
)
Object = dict[str, Any]


def documents(text: str) -> list[Object]:
    """Returns the objects of a YAML stream, in which no key may stand twice. They are the caller's own."""
    return deepcopy(_parsed(text))


@cache
def _parsed(text: str) -> list[Object]:
    return [found for found in YAML(typ="safe", pure=True).load_all(text) if found is not None]


@cache
def _built(overlay: str) -> str:
    command = ["kubectl", "kustomize", str(FOLDER / "overlays" / overlay)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def built(overlay: str, require: Callable[[str, str], None]) -> list[Object]:
    """Returns the objects of an overlay. Ends the test where there is no kubectl."""
    if shutil.which("kubectl") is None:
        require("kubectl", "kubectl is not installed")
    return documents(_built(overlay))


def one(objects: list[Object], kind: str, name: str = "") -> Object:
    """Returns the one object of a kind, or of a kind and name; a generated name begins with it."""
    [found] = [each for each in objects if each["kind"] == kind and each["metadata"]["name"].startswith(name)]
    return found


def pod_templates(objects: list[Object]) -> list[Object]:
    """Returns the templates of all pods that objects would make."""
    return [each["spec"]["template"] for each in objects if each["kind"] in {"Deployment", "Job", "StatefulSet"}]


def controller_template(objects: list[Object]) -> Object:
    """Returns the template of the controller's pod, which is the worker's where there is a site."""
    template: Object = one(objects, "Deployment", "sparring-controller")["spec"]["template"]
    return template


def refusals(policy: Object, body: Object, old: Object | None = None, **request: str) -> list[str]:
    """Returns the messages with which a ValidatingAdmissionPolicy refuses an object, or its change from `old`.

    Kubernetes documentation: Validating Admission Policy ("Matching requests: matchConditions"); Common Expression
    Language in Kubernetes.
    """
    environment = Environment()
    variables: dict[Any, Any] = {}

    def value(expression: str) -> Any:
        activation = {
            "object": json_to_cel(body),
            "oldObject": json_to_cel(old),
            "request": json_to_cel({"operation": "CREATE" if old is None else "UPDATE"} | request),
            "variables": MapType(variables),
        }
        return environment.program(environment.compile(expression)).evaluate(activation)

    if not all(value(each["expression"]) for each in policy["spec"].get("matchConditions", ())):
        return []
    for each in policy["spec"].get("variables", ()):
        variables[StringType(each["name"])] = value(each["expression"])
    return [each["message"] for each in policy["spec"]["validations"] if not value(each["expression"])]
