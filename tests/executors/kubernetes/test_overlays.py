"""Every overlay of k8s/ makes objects that the last three minor versions take, and gives nobody more than needed."""

import re
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

import orchestrator
from orchestrator import resources
from orchestrator.cli.app import app
from orchestrator.domain.policy import SandboxPolicy
from orchestrator.executors.kubernetes import api, cluster_check
from orchestrator.executors.kubernetes.pod_manifest import qualified_image
from orchestrator.executors.kubernetes.probe_job import RECORD_NAME, ProbeJobs, match_pod_spec
from orchestrator.executors.kubernetes.settings import ClusterSettings
from orchestrator.intake.contest_file import Contest
from tests.kubernetes_api import Cluster, Fakes, Node, Resource, versions
from tests.kubernetes_api.admission import needs
from tests.kubernetes_api.quantity import amount
from tests.kubernetes_api.schemas import validator
from tests.kubernetes_api.tests.conftest import Http

from . import kueue
from .overlays import (
    FOLDER,
    OVERLAYS,
    SOURCES,
    Object,
    built,
    controller_template,
    documents,
    one,
    pod_templates,
    refusals,
)
from .pod_security import quality, violations
from .rendering import rendered

ADMISSION = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
EACH = pytest.mark.parametrize("overlay", OVERLAYS)
RECOMMENDED = {"name", "instance", "version", "component", "part-of", "managed-by"}
"""Recommended Labels of the Kubernetes documentation."""


@pytest.fixture
def objects(overlay, require) -> list[Object]:
    """The objects of an overlay."""
    return built(overlay, require)


def complaints(body: Object) -> list[str]:
    """Returns what the schemas say against an object, unknown fields included; Kueue's are a table of ours."""
    if body["apiVersion"].startswith("kueue."):
        return list(kueue.problems(body))
    found = ((each, validator(each, body["apiVersion"], body["kind"]).iter_errors(body)) for each in versions())
    return [f"{version}: {error.json_path}: {error.message}" for version, errors in found for error in errors]


@pytest.mark.parametrize("name", SOURCES)
def test_every_file_is_of_objects_that_are_taken(name) -> None:
    """What is written in the files fits the schemas by itself, which needs no kubectl."""
    found = documents((FOLDER / name).read_text("utf-8"))
    assert found
    assert {f"{each['kind']} {each['metadata']['name']}": complaints(each) for each in found if complaints(each)} == {}
    assert [violations(template) for template in pod_templates(found) if violations(template)] == []


@pytest.mark.slow
@EACH
def test_every_object_of_an_overlay_is_taken(objects) -> None:
    """The last three minor versions take it, and no two objects have one name."""
    assert {each["metadata"]["name"]: complaints(each) for each in objects if complaints(each)} == {}
    names = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in objects]
    assert len(set(names)) == len(names) > 15


def test_the_schemas_see_what_is_wrong() -> None:
    """A misspelt field, and a queue without its quotas, are complained of."""
    [deployment] = documents((FOLDER / "base" / "controller.yaml").read_text("utf-8"))
    deployment["spec"]["template"]["spec"]["runtimeClass"] = "gvisor"
    assert len(complaints(deployment)) == len(versions()) == 3
    _, queue, _ = documents((FOLDER / "overlays" / "kueue" / "queues.yaml").read_text("utf-8"))
    assert complaints(queue) == []
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"].pop()
    assert complaints(queue) == ["sparring-gpu: quotas are not those of coveredResources, in their order"]
    queue["spec"]["nominalQuota"] = 8
    assert len(complaints(queue)) == 2


@EACH
def test_every_object_has_the_recommended_labels(objects) -> None:
    """All six, the version is this one, and pods have them too."""
    for each in [*objects, *pod_templates(objects)]:
        labels = each["metadata"]["labels"]
        assert {f"app.kubernetes.io/{name}" for name in RECOMMENDED} <= set(labels), each
        assert labels["app.kubernetes.io/version"] == orchestrator.__version__


@EACH
def test_what_belongs_to_a_namespace_is_in_ours(objects) -> None:
    """And the cluster's own objects name none; everything that is named is there."""
    everywhere = {
        *("Namespace", "RuntimeClass", "ResourceFlavor", "ClusterQueue"),
        *ADMISSION,
    }
    for each in objects:
        assert each["metadata"].get("namespace") == (None if each["kind"] in everywhere else "sparring"), each
    for binding in (each for each in objects if each["kind"] == "RoleBinding"):
        assert one(objects, "Role", binding["roleRef"]["name"])
        assert all(one(objects, "ServiceAccount", each["name"]) for each in binding["subjects"])
    for binding in (each for each in objects if each["kind"] == "ValidatingAdmissionPolicyBinding"):
        assert one(objects, "ValidatingAdmissionPolicy", binding["spec"]["policyName"])


@EACH
def test_pods_are_restricted_and_guaranteed(objects) -> None:
    """Every pod satisfies what its namespace enforces, and asks for what it may have."""
    for template in pod_templates(objects):
        assert violations(template) == []
        assert quality(template) == "Guaranteed"
        for container in [*template["spec"]["containers"], *template["spec"].get("initContainers", ())]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert controller_template(objects)["spec"]["securityContext"]["runAsUser"] == 10_002


@EACH
def test_the_namespace_enforces_the_standard_of_the_oldest_version(objects) -> None:
    """`restricted`, pinned to a version that every supported server knows, in all three modes."""
    labels = one(objects, "Namespace")["metadata"]["labels"]
    oldest = "v" + ".".join(versions()[0].split(".")[:2])
    assert f"v1.{cluster_check.TESTED_MINOR_VERSIONS[0]}" == oldest
    for mode in ("enforce", "audit", "warn"):
        assert labels[f"pod-security.kubernetes.io/{mode}"] == "restricted"
        assert labels[f"pod-security.kubernetes.io/{mode}-version"] == oldest


def granted(role: Object) -> set[tuple[str, str, str]]:
    """Returns the rights of a role: group, resource, verb."""
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize(
    ("name", "rights"),
    [("sparring-controller", api.CONTROLLER_RIGHTS), ("sparring-check", cluster_check.CHECK_RIGHTS)],
    ids=["engine", "check"],
)
def test_roles_give_what_the_code_uses_and_nothing_more(name, rights) -> None:
    """The controller's Role is the list in executors/kubernetes/api.py, the check's that in preflight.py beside it."""
    role = one(documents((FOLDER / "base" / "rights.yaml").read_text("utf-8")), "Role", name)
    assert granted(role) == {(each.kind.group, each.kind.plural, verb) for each in rights for verb in each.verbs}


def test_no_other_config_map_can_be_read_or_changed() -> None:
    """The contest file is one too."""
    role = one(documents((FOLDER / "base" / "rights.yaml").read_text("utf-8")), "Role", "sparring-check")
    named = [rule for rule in role["rules"] if rule["resources"] == ["configmaps"] and rule["verbs"] != ["create"]]
    assert [rule["resourceNames"] for rule in named] == [[RECORD_NAME]]


def test_no_gpu_is_given_to_who_asks_for_none() -> None:
    """A LimitRange gives every container as a default what it names a maximum of."""
    for name in SOURCES:
        for each in documents((FOLDER / name).read_text("utf-8")):
            for limit in each["spec"]["limits"] if each["kind"] == "LimitRange" else ():
                assert set(limit.get("max", {})) <= set(limit.get("default", {})) | {"storage"}
    assert "LimitRange" not in (FOLDER / "overlays" / "gpu" / "kustomization.yaml").read_text("utf-8")


@EACH
def test_nobody_but_the_controller_has_a_token(objects) -> None:
    """Accounts mount none by default; the controller's pod asks for its own."""
    accounts = [each for each in objects if each["kind"] == "ServiceAccount"]
    assert [each["automountServiceAccountToken"] for each in accounts] == [False, False]
    mounting = [each for each in pod_templates(objects) if each["spec"]["automountServiceAccountToken"]]
    assert mounting == [controller_template(objects)]
    assert mounting[0]["spec"]["serviceAccountName"] == "sparring-controller"
    bound = {s["name"] for each in objects if each["kind"] == "RoleBinding" for s in each["subjects"]}
    assert bound == {"sparring-controller"}


@EACH
def test_everything_is_denied_but_what_the_controller_asks(objects) -> None:
    """One policy denies all pods everything; the other selects the controller alone, and lets nothing in."""
    whole = one(objects, "NetworkPolicy", "sparring-deny-all")["spec"]
    assert whole == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    own = one(objects, "NetworkPolicy", "sparring-controller")["spec"]
    assert own["policyTypes"] == ["Egress"]
    assert "ingress" not in own
    chosen = own["podSelector"]["matchLabels"].items()
    template = controller_template(objects)
    assert chosen <= template["metadata"]["labels"].items()
    job = rendered()["spec"]["template"]
    assert not chosen <= job["metadata"]["labels"].items()
    probe = ProbeJobs(ClusterSettings(), "t").network_job([])["spec"]["template"]
    assert not chosen <= probe["metadata"]["labels"].items()


def contest_folder(words: list[str]) -> str:
    """Returns the folder that a command of a container works in."""
    return words[words.index("--out") + 1] if "--out" in words else words[1]


@EACH
def test_the_controller_sees_what_drivers_see(objects) -> None:
    """Blobs and cluster of its folder are on the shared claim where drivers look, all else on its own."""
    template = controller_template(objects)
    [controller] = template["spec"]["containers"]
    out = contest_folder(controller["args"])
    mounts = {each["mountPath"]: each for each in controller["volumeMounts"]}
    held = {each["name"]: each.get("persistentVolumeClaim") for each in template["spec"]["volumes"]}
    claims = {name: claim["claimName"] for name, claim in held.items() if claim}
    for part in ("blobs", "cluster"):
        assert claims[mounts[f"{out}/{part}"]["name"]] == "sparring-work"
        assert mounts[f"{out}/{part}"]["subPath"] == part
    assert claims[mounts["/round"]["name"]] == "sparring-record"
    driver = rendered()["spec"]["template"]["spec"]
    assert driver["volumes"][-1]["persistentVolumeClaim"]["claimName"] == "sparring-work"
    paths = {m.get("subPath", "").split("/")[0] for c in driver["containers"] for m in c["volumeMounts"]} - {""}
    assert paths == {"blobs", "cluster"}
    folders, waits = template["spec"]["initContainers"]
    seen = {each["mountPath"]: each for each in waits["volumeMounts"]}
    assert seen == {path: each for path, each in mounts.items() if path != "/registry"}, (
        "the check tries the same folders"
    )
    assert {f"{out}/blobs", f"{out}/cluster", "/work/blobs", "/work/cluster"} <= set(folders["command"])
    assert one(objects, "PersistentVolumeClaim", "sparring-record")["spec"]["accessModes"] == ["ReadWriteOnce"]


@EACH
def test_no_storage_class_has_to_be_right_for_both_volumes(objects, overlay) -> None:
    """What many nodes can write is not right for SQLite: on several nodes the claims name different classes."""
    record, work = (
        one(objects, "PersistentVolumeClaim", name)["spec"] for name in ("sparring-record", "sparring-work")
    )
    if overlay == "single-node":
        assert work["accessModes"] == ["ReadWriteOnce"]
        assert "storageClassName" not in work
    else:
        assert work["accessModes"] == ["ReadWriteMany"]
        assert work["storageClassName"] != record.get("storageClassName")


@EACH
def test_no_mesh_puts_a_proxy_into_a_pod(objects) -> None:
    """Istio and Linkerd are told so by the namespace: a proxy would be a way out, and its container never ends."""
    metadata = one(objects, "Namespace")["metadata"]
    assert metadata["labels"]["istio-injection"] == "disabled"
    assert metadata["annotations"]["linkerd.io/inject"] == "disabled"


@EACH
def test_the_controller_runs_a_command_that_exists(objects) -> None:
    """The words of each of our containers, after the image's own, are options that the command has."""
    ours = [each["spec"]["containers"][0] for each in pod_templates(objects) if "args" in each["spec"]["containers"][0]]
    for words in [each["args"] for each in ours]:
        shown = CliRunner().invoke(app, [*words[: 2 if words[0] == "round" else 1], "--help"], env={"COLUMNS": "200"})
        assert shown.exit_code == 0
        options = {word for word in words if word.startswith("--")}
        assert options <= set(re.findall(r"--[a-z-]+", shown.output))
    assert ours


@EACH
def test_the_example_contest_is_accepted(objects, overlay, tmp_path) -> None:
    """`sparring contest check` takes it, once there are pictures; its settings name what the overlay makes."""
    held = one(objects, "ConfigMap", "sparring-contest")["data"]["contest.yaml"]
    pictures = np.arange(10 * 64, dtype=np.uint8).reshape(10, 8, 8)
    np.savez(tmp_path / "pictures.npz", images=pictures, labels=np.arange(10) % 2)
    path = tmp_path / "contest.yaml"
    path.write_text(held.replace("/round/data", str(tmp_path)), "utf-8")
    done = CliRunner().invoke(app, ["contest", "check", str(path)])
    assert done.exit_code == 0, done.output
    file = Contest(path).file
    settings = file.cluster
    assert one(objects, "Namespace")["metadata"]["name"] == settings.namespace
    assert one(objects, "PersistentVolumeClaim", settings.claim)
    template = controller_template(objects)
    image = template["spec"]["containers"][0]["image"].replace("sparring/service", "sparring/runner")
    assert qualified_image(image, "") == qualified_image(settings.runner, settings.registry)
    assert set(settings.pull_secrets) <= {each["name"] for each in template["spec"]["imagePullSecrets"]}
    assert (settings.queue is not None) == (overlay == "kueue")
    if settings.queue:
        assert one(objects, "LocalQueue", settings.queue)
        assert ClusterSettings.model_validate(YAML(typ="safe").load(held)["cluster"]) == settings
    assert bool(file.sandbox_policy().limits.gpus) == (overlay in {"gpu", "kueue"})
    folders = resources.resource_path("images").glob("*/submission.yaml")
    manifests = [YAML(typ="safe").load(path) for path in folders]
    built = {f"{each['image']}:cpu" for each in manifests}
    built |= {f"{each['image']}:cuda" for each in manifests if each.get("gpu")}
    assert {str(entry.image) for entry in file.baselines} <= built, "what `sparring image build` tags"


@EACH
def test_quotas_leave_room_for_as_many_matches_as_the_example_plays(objects) -> None:
    """The pods of `cluster.max_jobs` matches fit beside all others, unless a queue holds them back."""
    file = YAML(typ="safe").load(one(objects, "ConfigMap", "sparring-contest")["data"]["contest.yaml"])
    settings = ClusterSettings.model_validate(file["cluster"])
    limits = {"gpus": 0, "cpus": 1} | file["limits"]
    pods = [each["spec"] for each in objects if each["kind"] in {"Deployment", "StatefulSet"}]
    pod = match_pod_spec(settings, SandboxPolicy())
    memory = int(file["limits"]["memory"].removesuffix("GiB")) * 2**30
    one_match = {
        "requests.cpu": Fraction(limits["cpus"]) + Fraction(1, 2),
        "requests.memory": Fraction(memory) + needs({"containers": pod["containers"][1:]})["memory"],
        "requests.nvidia.com/gpu": Fraction(limits["gpus"]),
        "pods": Fraction(1),
        "count/jobs.batch": Fraction(1),
    }
    beside: Counter[str] = Counter()
    for each in pods:  # one more than it has while a Deployment is updated
        count = each["replicas"] + each.get("strategy", {}).get("rollingUpdate", {}).get("maxSurge", 0)
        need = {f"requests.{name}": value for name, value in needs(each["template"]["spec"]).items()}
        beside.update({name: count * value for name, value in (need | {"pods": Fraction(1)}).items()})
    hard = one(objects, "ResourceQuota")["spec"]["hard"]
    most = settings.max_jobs if settings.queue is None else int(amount(hard["requests.nvidia.com/gpu"]))
    for name, need in one_match.items():
        # A queue holds back pods, not Jobs.
        matches = settings.max_jobs if name == "count/jobs.batch" else most
        assert matches * need + beside[name] <= amount(hard[name]), name
    assert {name.replace("limits.", "requests.") for name in hard if name.startswith("limits.")} <= set(hard)


@EACH
def test_kueue_lets_start_no_more_than_the_namespace_may_use(require, overlay) -> None:
    """Else a Job that a queue let go would be refused a pod."""
    objects = built(overlay, require)
    hard = one(objects, "ResourceQuota")["spec"]["hard"]
    queues = [each for each in objects if each["kind"] == "ClusterQueue"]
    assert bool(queues) == (overlay == "kueue")
    for queue in queues:
        [group] = queue["spec"]["resourceGroups"]
        [flavour] = group["flavors"]
        given = {each["name"]: amount(each["nominalQuota"]) for each in flavour["resources"]}
        for name in given.keys() - {"ephemeral-storage"}:
            assert given[name] <= amount(hard[f"requests.{name}"]), name
        job = rendered(gpu="nvidia.com/gpu", queue="sparring")["spec"]["template"]["spec"]
        assert set(needs(job)) <= set(given)
        assert one(objects, "ResourceFlavor", flavour["name"])


@EACH
def test_a_server_takes_all_of_it(objects) -> None:
    """The test API server stores every object whose kind it has, quota included; the controller's pod would fit."""
    missing = {each.kind for each in SERVED}
    with Cluster(Fakes(), (Node(),)) as cluster:
        ask = Http(cluster.url)
        known = cluster.catalogue.kinds()
        for each in sorted(objects, key=lambda each: each["kind"] != "Namespace"):
            if each["kind"] in missing:
                continue
            resource = known[each["apiVersion"], each["kind"]]
            root = f"/apis/{each['apiVersion']}" if resource.group else "/api/v1"
            place = "/namespaces/sparring" if resource.namespaced else ""
            answer = ask("POST", f"{root}{place}/{resource.plural}", each, fieldValidation="Strict")
            assert answer.code == 201, answer.text
        template = controller_template(objects)
        pod = {
            "metadata": {"name": "controller"} | template["metadata"],
            "spec": dict(template["spec"], restartPolicy="Never"),
        }
        assert ask("POST", "/api/v1/namespaces/sparring/pods", pod, fieldValidation="Strict").code == 201
        cluster.settle()
        assert cluster.read("persistentvolumeclaims", "sparring-work", "sparring")["status"]["phase"] == "Bound"


SERVED = (
    Resource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", ADMISSION[0], namespaced=False),
    Resource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", ADMISSION[1], namespaced=False),
    Resource("kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor", namespaced=False),
    Resource("kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", namespaced=False),
    Resource("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue"),
)
"""What the overlays have, and the test server does not know by itself."""


@pytest.mark.slow
@EACH
def test_kubectl_applies_it_and_applies_it_again(overlay, cluster, kubectl) -> None:
    """As the document says it is done; the second time nothing changes."""
    for each in SERVED:
        cluster.serve(each)
    first = kubectl("apply", "-k", str(FOLDER / "overlays" / overlay))
    assert first.returncode == 0, first.stderr
    assert first.stdout.count(" created\n") == len(first.stdout.splitlines()) > 15
    assert cluster.read("deployments", "sparring-controller", "sparring", "apps") is not None
    again = kubectl("apply", "-k", str(FOLDER / "overlays" / overlay))
    changed = [line for line in again.stdout.splitlines() if not line.endswith(" unchanged")]
    # kubectl replaces a budget's selector whole (patchStrategy of policy/v1), by the same one.
    assert set(changed) <= {"poddisruptionbudget.policy/sparring-web configured"}
    assert len(again.stdout.splitlines()) == len(first.stdout.splitlines())


@pytest.fixture
def web(require) -> list[Object]:
    """The objects of the overlay with a site."""
    return built("web", require)


def selected(policy: Object, template: Object) -> bool:
    """Returns whether a network policy is for the pods of a template."""
    return chosen(policy["spec"]["podSelector"], template["metadata"]["labels"])


def chosen(selector: Object, labels: dict[str, str]) -> bool:
    """Returns whether a selector chooses these labels. Raises KeyError for an operator but In."""
    named = selector.get("matchLabels", {}).items() <= labels.items()
    return named and all(
        labels.get(each["key"]) in {"In": each["values"]}[each["operator"]]
        for each in selector.get("matchExpressions", ())
    )


def opened(objects: list[Object], template: Object, way: str) -> list[tuple[str, int]]:
    """Returns what the policies open to a pod: whom, and at which port."""
    found = []
    for policy in (each for each in objects if each["kind"] == "NetworkPolicy" and selected(each, template)):
        for rule in policy["spec"].get(way, ()):
            for peer in rule["from" if way == "ingress" else "to"]:
                who = next(iter(peer.values()))
                labels = who.get("matchLabels", {})
                expressions = [value for each in who.get("matchExpressions", ()) for value in each["values"]]
                name = who.get("cidr") or labels.get("kubernetes.io/metadata.name")
                names = [name] if name else expressions or [labels["app.kubernetes.io/component"]]
                found += [(each, port["port"]) for each in names for port in rule["ports"]]
    return sorted(set(found))


def test_who_reaches_whom_around_the_site(web) -> None:
    """From outside, the ingress controller alone reaches the site alone; the database answers two and asks nobody."""
    site, database, worker = (
        one(web, kind, name)["spec"]["template"]
        for kind, name in (
            ("Deployment", "sparring-web"),
            ("StatefulSet", "sparring-database"),
            ("Deployment", "sparring-controller"),
        )
    )
    everywhere, names = ["0.0.0.0/0", "::/0"], ("kube-system", 53)
    assert opened(web, site, "ingress") == [("ingress-nginx", 8000)]
    assert opened(web, site, "egress") == sorted([("database", 5432), names, *((each, 587) for each in everywhere)])
    assert opened(web, database, "ingress") == [("controller", 5432), ("web", 5432)]
    assert opened(web, database, "egress") == []
    assert opened(web, worker, "ingress") == []
    own = [("database", 5432), names, *((each, port) for each in everywhere for port in (443, 6443))]
    assert opened(web, worker, "egress") == sorted(own)


def test_players_reach_nobody_beside_a_site_either(web) -> None:
    """Of all policies the one that denies everything is for them."""
    job = rendered()["spec"]["template"]
    probe = ProbeJobs(ClusterSettings(), "t").network_job([])["spec"]["template"]
    for each in (job, probe):
        policies = [policy for policy in web if policy["kind"] == "NetworkPolicy" and selected(policy, each)]
        assert [policy["metadata"]["name"] for policy in policies] == ["sparring-deny-all"]


def test_the_admission_policies_let_the_site_in(web) -> None:
    """What they ask of a match's pod they do not ask of these; a token of the API neither of them may have."""
    policy = one(web, "ValidatingAdmissionPolicy", "sparring-match-pods")
    for template in pod_templates(web):
        assert refusals(policy, template) == []
    site = one(web, "Deployment", "sparring-web")["spec"]["template"]
    site = dict(site, spec=dict(site["spec"], automountServiceAccountToken=True))
    assert refusals(policy, site) == ["no pod but the controller's has a token of the API"]


def test_services_lead_to_pods_that_are_there(web) -> None:
    """The ingress, its service, the pods' ports; nobody outside reaches the database through one."""
    for service in (each for each in web if each["kind"] == "Service"):
        [template] = [each for each in pod_templates(web) if chosen({"matchLabels": service["spec"]["selector"]},
                                                                   each["metadata"]["labels"])]  # fmt: skip
        ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
        assert service["spec"].get("type", "ClusterIP") == "ClusterIP"
    ingress = one(web, "Ingress")["spec"]
    [rule] = ingress["rules"]
    [path] = rule["http"]["paths"]
    assert path["backend"]["service"] == {"name": "sparring-web", "port": {"name": "http"}}
    assert ingress["tls"] == [{"hosts": [rule["host"]], "secretName": "sparring-web-tls"}]
    site = one(web, "Deployment", "sparring-web")["spec"]["template"]
    assert (
        site["metadata"]["labels"].items() >= one(web, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"].items()
    )
    [container] = site["spec"]["containers"]
    for probe in ("startupProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert (asked["path"], asked["httpHeaders"]) == ("/healthz/", [{"name": "Host", "value": rule["host"]}])
    assert f"https://{rule['host']}" in container["args"]


def test_the_site_and_the_worker_have_one_folder_on_one_node(web) -> None:
    """The same volumes at the same places, as the same user, with the same database; SQLite bears no two nodes."""
    site, worker = (
        one(web, "Deployment", name)["spec"]["template"] for name in ("sparring-web", "sparring-controller")
    )
    [served], [working] = site["spec"]["containers"], worker["spec"]["containers"]
    assert contest_folder(served["args"]) == contest_folder(working["args"])
    folders = [
        {each["mountPath"]: each for each in container["volumeMounts"] if each["mountPath"].startswith("/round")}
        for container in (served, working)
    ]
    assert folders[0] == folders[1]
    assert site["spec"]["securityContext"] == worker["spec"]["securityContext"]
    assert site["spec"]["affinity"] == worker["spec"]["affinity"]
    [term] = site["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert all(chosen(term["labelSelector"], each["metadata"]["labels"]) for each in (site, worker))
    opening = {each["name"]: each for each in worker["spec"]["initContainers"]}["pictures"]["env"]
    named = [{each["name"]: each for each in env}["SPARRING_DATABASE"]["value"] for env in (opening, served["env"])]
    assert named[0] == named[1]
    assert one(web, "Service", "sparring-database")["metadata"]["name"] in named[0]
