"""Attempts, players and settings to render Jobs from; and what a container gets of a command."""

from typing import Any

from hypothesis import strategies as st

from orchestrator.domain.ids import JobId
from orchestrator.domain.plan import Cell, Job, Stage
from orchestrator.domain.policy import Runtime, SandboxPolicy
from orchestrator.domain.tasks import Limits
from orchestrator.executors.kubernetes.job_manifest import render_job
from orchestrator.executors.kubernetes.labels import Attempt, RoundRef
from orchestrator.executors.kubernetes.settings import ClusterSettings
from orchestrator.sandboxes.base import Image

DIGEST = "sha256:" + "5" * 64
ASKER = "sha256:" + "6" * 64
BOUT = RoundRef("cup", "final", "digits", "sha256:" + "c" * 64)
HOSTILE = [
    "$(HOME)",
    "$$(HOME)",
    "$",
    "$(",
    "$(A",
    "a\nb",
    "--",
    "",
    "-c",
    "'; rm -rf /",
    "\u202e",
    "x" * 5000,
    "${HOME}",
]
"""Words that something between us and the player could take for more than words."""
SETTINGS = [
    {},
    {"queue": "players", "priority_class": "low", "pull_secrets": ["registry"]},
    {"runtime_class": "kata-qemu", "user_namespaces": True, "seccomp": "sparring/player.json", "folder": "cups/one"},
    {
        "node_selector": {"pool": "untrusted"},
        "tolerations": [
            {"key": "untrusted", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
            {"operator": "Exists"},
        ],
        "registry": "registry.example:5000/cup",
        "namespace": "cup",
        "gpu": "amd.com/gpu",
    },
]
POLICIES = [
    SandboxPolicy(),
    SandboxPolicy(Limits(gpus=1, cpus=2.5, threads=2), runtime=Runtime.RUNSC),
    SandboxPolicy(Limits(memory=123_456_789, tmp=100_001, shm=1, cpus=0.0001), runtime=Runtime.KATA),
]


def attempt(
    stage: Stage = Stage.CLASSIFY, submission: str = "corners", number: int = 1, bout: RoundRef = BOUT, cells: int = 1
) -> Attempt:
    """An attempt at a job of `cells` cells."""
    held = tuple(Cell(submission, f"attack{each}") for each in range(cells)) if stage is not Stage.PERTURB else ()
    return Attempt(bout, Job(JobId("0123456789abcdef"), stage, submission, held), number)


def joined(policy: SandboxPolicy | None = None, **settings: Any) -> dict[str, Any]:
    """The Job of a query job with two players."""
    return rendered(
        policy=policy, asked=attempt(Stage.QUERY), attack=image("python3", "ask.py", digest=ASKER), **settings
    )


def image(*command: str, unset: tuple[str, ...] = (), digest: str = DIGEST) -> Image:
    """An image that was admitted."""
    reference = f"registry.example/team/entry@{digest}"
    return Image(
        digest, "team/entry:1", command or ("python3", "-m", "player"), reference=reference, unset_variables=unset
    )


def rendered(
    player: Image | None = None,
    policy: SandboxPolicy | None = None,
    asked: Attempt | None = None,
    attack: Image | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """A Job, with settings as a contest file has them."""
    policy = policy or SandboxPolicy()
    return render_job(asked or attempt(), player or image(), policy, settings_of(**settings), 7200, attack)


def settings_of(**settings: Any) -> ClusterSettings:
    """Settings as a contest file has them."""
    return ClusterSettings.model_validate(settings)


def container(made: dict[str, Any], name: str) -> dict[str, Any]:
    """One container of a Job."""
    spec = made["spec"]["template"]["spec"]
    [found] = [each for each in [*spec["initContainers"], *spec["containers"]] if each["name"] == name]
    return found


def variables(made: dict[str, Any], name: str = "player") -> dict[str, str]:
    """The variables that a container is given."""
    return {each["name"]: each["value"] for each in container(made, name)["env"]}


def expand(text: str, held: dict[str, str]) -> str:
    """What a kubelet makes of a word: `$(NAME)` is replaced, `$$` is `$`, and all else stays.

    Written from the description of `command` in the API reference (Container v1 core) and the test table of
    k8s.io/kubernetes/third_party/forked/golang/expansion.
    """
    made, at = "", 0
    while at < len(text):
        after = text[at + 1 : at + 2]
        closing = text.find(")", at)
        if text[at] == "$" and after == "$":
            made, at = made + "$", at + 2
        elif text[at] == "$" and after == "(" and closing > 0:
            name = text[at + 2 : closing]
            made, at = made + held.get(name, f"$({name})"), closing + 1
        else:
            made, at = made + text[at], at + 1
    return made


WORDS = st.one_of(
    st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
)
COMMANDS = st.tuples(st.text("abc/$()", min_size=1, max_size=9), st.lists(WORDS, max_size=6)).map(
    lambda both: (both[0], *both[1])
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80)
"""Names of submissions, contests and rounds, freer than any that is let in."""
