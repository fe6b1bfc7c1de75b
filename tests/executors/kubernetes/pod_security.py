"""Pod Security Standards as a table of rules, and the rule for a pod's quality of service.

Source: https://kubernetes.io/docs/concepts/security/pod-security-standards (baseline and restricted), as of version
1.35. Each rule here is one row of its tables: the fields that it restricts and what they may hold. A pod is a template:
`metadata` and `spec`, as a Pod has them and a Job below `spec.template`.

Source of the classes: https://kubernetes.io/docs/concepts/workloads/pods/pod-qos, "Criteria".
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.kubernetes_api.quantity import amount

Pod = dict[str, Any]
Found = Iterator[str]

CAPABILITIES = {
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}  # fmt: skip
SYSCTLS = {
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
}  # fmt: skip
SELINUX = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip
PROFILES = {"RuntimeDefault", "Localhost"}


def containers(pod: Pod) -> list[dict[str, Any]]:
    """Returns all containers of a pod, those that run before and those that are added later too."""
    parts = ("initContainers", "containers", "ephemeralContainers")
    return [each for part in parts for each in pod["spec"].get(part) or []]


def contexts(pod: Pod) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the security contexts of the pod and of its containers, with whose they are."""
    yield "pod", pod["spec"].get("securityContext") or {}
    yield from own(pod)


def own(pod: Pod) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the security contexts of its containers."""
    for each in containers(pod):
        yield each["name"], each.get("securityContext") or {}


def host_process(pod: Pod) -> Found:
    """windowsOptions.hostProcess: undefined or false."""
    return (who for who, context in contexts(pod) if (context.get("windowsOptions") or {}).get("hostProcess"))


def host_namespaces(pod: Pod) -> Found:
    """hostNetwork, hostPID, hostIPC: undefined or false."""
    return (name for name in ("hostNetwork", "hostPID", "hostIPC") if pod["spec"].get(name))


def privileged(pod: Pod) -> Found:
    """Privileged: undefined or false."""
    return (who for who, context in own(pod) if context.get("privileged"))


def capabilities(pod: Pod) -> Found:
    """capabilities.add: those of the list."""
    for who, context in own(pod):
        added = set((context.get("capabilities") or {}).get("add") or [])
        yield from (f"{who}: {name}" for name in sorted(added - CAPABILITIES))


def host_paths(pod: Pod) -> Found:
    """volumes.hostPath: undefined."""
    return (each["name"] for each in pod["spec"].get("volumes") or [] if "hostPath" in each)


def host_ports(pod: Pod) -> Found:
    """ports.hostPort: undefined or 0."""
    return (each["name"] for each in containers(pod) for port in each.get("ports") or [] if port.get("hostPort"))


def host_probes(pod: Pod) -> Found:
    """The host of probes and of lifecycle hooks: undefined or empty (since 1.34)."""
    for each in containers(pod):
        probes = [each.get(name) for name in ("livenessProbe", "readinessProbe", "startupProbe")]
        hooks = [(each.get("lifecycle") or {}).get(name) for name in ("postStart", "preStop")]
        for asked in filter(None, probes + hooks):
            if any((asked.get(kind) or {}).get("host") for kind in ("httpGet", "tcpSocket")):
                yield each["name"]


def apparmor(pod: Pod) -> Found:
    """appArmorProfile.type: undefined, RuntimeDefault, Localhost; in the older annotation as well."""
    for who, context in contexts(pod):
        if (context.get("appArmorProfile") or {}).get("type", "RuntimeDefault") not in PROFILES:
            yield who
    for name, value in (pod.get("metadata", {}).get("annotations") or {}).items():
        old = name.startswith("container.apparmor.security.beta.kubernetes.io/")
        if old and value != "runtime/default" and not value.startswith("localhost/"):
            yield name


def selinux(pod: Pod) -> Found:
    """seLinuxOptions: a type of the list, neither user nor role."""
    for who, context in contexts(pod):
        options = context.get("seLinuxOptions") or {}
        if options.get("type", "") not in SELINUX or options.get("user") or options.get("role"):
            yield who


def proc_mount(pod: Pod) -> Found:
    """procMount: undefined or Default."""
    return (who for who, context in own(pod) if context.get("procMount", "Default") != "Default")


def seccomp_baseline(pod: Pod) -> Found:
    """seccompProfile.type: undefined, RuntimeDefault, Localhost."""
    for who, context in contexts(pod):
        if (context.get("seccompProfile") or {}).get("type", "RuntimeDefault") not in PROFILES:
            yield who


def sysctls(pod: Pod) -> Found:
    """sysctls: those of the list."""
    asked = (pod["spec"].get("securityContext") or {}).get("sysctls") or []
    return (each["name"] for each in asked if each["name"] not in SYSCTLS)


def volume_types(pod: Pod) -> Found:
    """Volumes: of a kind in the list."""
    return (each["name"] for each in pod["spec"].get("volumes") or [] if not VOLUMES & each.keys())


def escalation(pod: Pod) -> Found:
    """allowPrivilegeEscalation: false in every container."""
    return (who for who, context in own(pod) if context.get("allowPrivilegeEscalation") is not False)


def non_root(pod: Pod) -> Found:
    """runAsNonRoot: true; a container may leave it out where the pod says so."""
    whole = (pod["spec"].get("securityContext") or {}).get("runAsNonRoot")
    return (who for who, context in own(pod) if context.get("runAsNonRoot", whole) is not True)


def non_root_user(pod: Pod) -> Found:
    """runAsUser: undefined or not 0."""
    return (who for who, context in contexts(pod) if context.get("runAsUser") == 0)


def seccomp_restricted(pod: Pod) -> Found:
    """seccompProfile.type: RuntimeDefault or Localhost; a container may leave it out where the pod says so."""
    whole = (pod["spec"].get("securityContext") or {}).get("seccompProfile") or {}
    return (who for who, context in own(pod) if (context.get("seccompProfile") or whole).get("type") not in PROFILES)


def dropped(pod: Pod) -> Found:
    """capabilities: ALL dropped, none added but NET_BIND_SERVICE."""
    for who, context in own(pod):
        held = context.get("capabilities") or {}
        if "ALL" not in (held.get("drop") or []) or set(held.get("add") or []) - {"NET_BIND_SERVICE"}:
            yield who


@dataclass(frozen=True)
class Rule:
    """One row of the tables; `broken` yields where a pod does not keep it."""

    control: str
    broken: Callable[[Pod], Found]


BASELINE = (
    Rule("HostProcess", host_process),
    Rule("Host Namespaces", host_namespaces),
    Rule("Privileged Containers", privileged),
    Rule("Capabilities", capabilities),
    Rule("HostPath Volumes", host_paths),
    Rule("Host Ports", host_ports),
    Rule("Host Probes / Lifecycle Hooks", host_probes),
    Rule("AppArmor", apparmor),
    Rule("SELinux", selinux),
    Rule("/proc Mount Type", proc_mount),
    Rule("Seccomp", seccomp_baseline),
    Rule("Sysctls", sysctls),
)
RESTRICTED = (
    *BASELINE,
    Rule("Volume Types", volume_types),
    Rule("Privilege Escalation", escalation),
    Rule("Running as Non-root", non_root),
    Rule("Running as Non-root user", non_root_user),
    Rule("Seccomp (restricted)", seccomp_restricted),
    Rule("Capabilities (restricted)", dropped),
)


def violations(pod: Pod, rules: tuple[Rule, ...] = RESTRICTED) -> list[str]:
    """Returns what a pod breaks: the control and where; empty for one that is let in."""
    return [f"{rule.control}: {where}" for rule in rules for where in rule.broken(pod)]


def quality(pod: Pod) -> str:
    """Returns a pod's class of service.

    Guaranteed: every container has limits of processor and memory, and requests equal to them (left out they are the
    limits). BestEffort: no container has any. Else Burstable.
    """
    held = [each.get("resources") or {} for each in containers(pod)]
    if not any((each.get(part) or {}).keys() & {"cpu", "memory"} for each in held for part in ("limits", "requests")):
        return "BestEffort"
    for resources in held:
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            if not amount(limits.get(name, 0)) or amount(requests.get(name, limits[name])) != amount(limits[name]):
                return "Burstable"
    return "Guaranteed"
