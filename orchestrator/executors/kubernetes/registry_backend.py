"""The images of a cluster's rounds: found in their registry, judged as the docker backend judges them, fixed by digest.

The nodes pull them, so no engine is needed here. The files of an image are judged by the headers of its layers, which
are fetched for that, and nothing is unpacked. A received one was looked into at the desk, and its identity proves that
it is the same: its layers are not fetched.
"""

from dataclasses import replace
from typing import ClassVar, Protocol

from orchestrator.domain.images import ImageConfig, read_image_config
from orchestrator.domain.policy import Runtime
from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected, SparringError, UsageError
from orchestrator.executors.kubernetes.image_files import Files
from orchestrator.executors.kubernetes.settings import ClusterSettings
from orchestrator.oci.client import ImageNotFoundError
from orchestrator.oci.image_names import NO_REGISTRY, registry_prefix
from orchestrator.oci.manifests import UnusableImageError
from orchestrator.oci.references import ImageReference, InvalidReferenceError, parse_reference
from orchestrator.oci.resolver import ImageResolver, ResolvedImage
from orchestrator.sandboxes.base import (
    Check,
    CheckStatus,
    Image,
    ImageFacts,
    ImageSource,
    ImageStore,
    ImageTree,
    Sandbox,
    SandboxSpec,
)
from orchestrator.sandboxes.image_files import image_facts

CLEARED_VARIABLES = ("GCONV_PATH", "GLIBC_TUNABLES", "LD_AUDIT", "LD_LIBRARY_PATH", "LD_PRELOAD")
"""What is unset of an image whose own variables nobody knows."""
_MISSING_REMEDY = "correct its name, or push it: `sparring cluster push FILE|DIR`, on a machine whose engine has it"
_RECEIVED_REMEDY = "push what was received: `sparring cluster push DIR`, on a machine whose engine has it"
_REGISTRY_REMEDY = "set cluster.registry in the contest file, then `sparring cluster push DIR`"
_PUSH_REMEDY = (
    "build it, tag it with its registry and push it: docker build -t REGISTRY/NAME . && docker push REGISTRY/NAME"
)


class CleanUp(Protocol):
    """See `Backend.sweep`."""

    def __call__(self, *, keep: str | None = None, ended: str | None = None) -> int:
        """Returns how many things it removed."""
        ...


def _clean_up_nothing(*, keep: str | None = None, ended: str | None = None) -> int:  # noqa: ARG001  as every sweep is called
    return 0


class RegistryBackend:
    """The controller's side of a cluster: it admits images, and pods start them."""

    name: ClassVar[str] = "kubernetes"

    def __init__(
        self, settings: ClusterSettings, sweep: CleanUp = _clean_up_nothing, registries: ImageResolver | None = None
    ) -> None:
        """`sweep` removes what dead rounds left on the cluster. Raises UsageError where `registry` names none."""
        self._settings = settings
        self._sweep = sweep
        self._registries = registries or ImageResolver(settings.insecure_registries)
        self._files = Files(self._registries)
        self._prefix = "" if settings.registry == NO_REGISTRY else settings.registry.rstrip("/")
        if self._prefix:
            try:
                parse_reference("entry", self._prefix)
            except InvalidReferenceError as error:
                raise UsageError(f"cluster.registry: {error}; write it like registry.example.org/teams") from error

    def check(self, runtime: Runtime | None = None) -> None:  # noqa: ARG002  `sparring cluster check` asks the cluster
        """Raises BackendUnavailable when the registry that names without one are looked up in does not answer."""
        if self._prefix:
            self._registries.knock(parse_reference("entry", self._prefix))

    def examine(self) -> list[Check]:
        """Returns whether images can be asked for."""
        title = "kubernetes: registry"
        if self._settings.registry == NO_REGISTRY:
            return [Check(title, CheckStatus.OK, "none; images are on the nodes, and named by digest")]
        try:
            self.check()
        except SparringError as error:
            return [Check(title, CheckStatus.FAIL, str(error), "look at `cluster:` in the contest file")]
        return [Check(title, CheckStatus.OK, f"{self._prefix} answers" if self._prefix else "as each image names it")]

    def admit(self, source: ImageSource) -> Image:
        """Returns the image by the digest of its manifest, a received one by the digest that it was received with.

        Raises:
            Rejected: with everything that is wrong with it.
        """
        if source.image is None:
            raise Rejected("submission", [Problem("image", "missing: a cluster starts no folders", _PUSH_REMEDY)])
        subject = f"image {printable(source.shelf or source.image)}"
        if self._settings.registry == NO_REGISTRY and not source.shelf:
            return self._unseen(subject, source)
        try:
            name = self._named(source)
            config, problems = _check_configuration(found := self._described(name), self._settings.platform)
            if not problems and not source.shelf:
                problems = self._files.problems(name, found, config, self._settings.platform.split("/")[1])
        except InvalidReferenceError as error:
            raise Rejected(
                subject, [Problem("image", str(error), _REGISTRY_REMEDY if source.shelf else _PUSH_REMEDY)]
            ) from error
        except UnusableImageError as error:
            lacking = isinstance(error, ImageNotFoundError)
            remedy = _RECEIVED_REMEDY if source.shelf else _MISSING_REMEDY
            raise Rejected(subject, [replace(error.problem, remedy=remedy) if lacking else error.problem]) from error
        if source.shelf and source.image not in found.identities:
            what = f"{name.host} has {', '.join(sorted(found.identities))} there, and {source.image} was received"
            problems.append(Problem("image", what, _RECEIVED_REMEDY))
        if problems:
            raise Rejected(subject, problems)
        return Image(
            digest=source.image if source.shelf else found.digest,
            name=printable(source.image),
            command=config.command,
            reference=name.at(found.digest),
            unset=config.dropped,
        )

    def fresh_copy(self, image: Image, run: str) -> Image:  # noqa: ARG002  nothing is made
        """Returns the image: nodes pull what admission fixed, and each keeps what it pulled."""
        return image

    def look_into(self, reference: str, *, files: bool = True, largest: int | None = None) -> ImageFacts:
        """Returns what an image's registry says of it; sizes are packed, and files are not looked at.

        Raises:
            UsageError: there is no registry, or no image of that name in it.
            Rejected: what is there is no image.
        """
        if self._settings.registry == NO_REGISTRY:
            raise UsageError(f"cluster.registry is none, so nobody can look into {printable(reference)}; use docker")
        try:
            found = self._described(parse_reference(reference, self._prefix))
        except (InvalidReferenceError, ImageNotFoundError) as error:
            raise UsageError(f"no image {printable(reference)}: {error}") from error
        except UnusableImageError as error:
            raise Rejected(f"image {printable(reference)}", [error.problem]) from error
        size = sum(found.sizes)
        _, problems = _check_configuration(found, self._settings.platform, largest)
        history = [{"Size": layer} for layer in reversed(found.sizes)]
        tree = ImageTree(0, 0, {}, {}, cut="a registry's images are looked into with docker") if files else None
        return image_facts.make_image_facts(found.configuration.inspected(found.digest, size), history, problems, tree)

    def workshop(self) -> ImageStore:
        """Raises UsageError: images are made where an engine is."""
        raise UsageError("a cluster builds and loads no images; build with --backend docker, then push them")

    def start(self, order: SandboxSpec) -> Sandbox:
        """Raises UsageError: a player starts in a pod, beside its driver."""
        raise UsageError(f"players of {printable(order.image.name)} start in pods; play with --engine kubernetes")

    def sweep(self, *, keep: str | None = None, ended: str | None = None) -> int:
        """Removes what dead rounds left on the cluster; see `Backend.sweep`."""
        return self._sweep(keep=keep, ended=ended)

    def _named(self, source: ImageSource) -> ImageReference:
        """Returns where an image lies.

        Raises InvalidReferenceError where that is no name, or a received one can lie nowhere.
        """
        if not source.shelf:
            return parse_reference(source.image or "", self._prefix)
        return parse_reference(f"{registry_prefix(self._settings.registry)}{source.shelf}")

    def _described(self, name: ImageReference) -> ResolvedImage:
        return self._registries.describe(name, self._settings.platform)

    def _unseen(self, subject: str, source: ImageSource) -> Image:
        """Returns an image that nobody can be asked about: by its own digest, started as its manifest says."""
        problems = []
        try:
            name = parse_reference(source.image or "")
        except InvalidReferenceError as error:
            raise Rejected(subject, [Problem("image", str(error), "write it like team/entry@sha256:...")]) from error
        if not name.digest:
            what = "not named by its digest, and cluster.registry is none: there is nobody to ask"
            problems.append(Problem("image", what, "write it like team/entry@sha256:..., or set cluster.registry"))
        _, unfit = read_image_config({"Config": {"Cmd": list(source.command)}})
        if unfit:
            what = "cluster.registry is none, so nothing says how it is started"
            problems.append(Problem("command", what, "give the entry a folder with `command:` in its submission.yaml"))
        if problems:
            raise Rejected(subject, problems)
        shown = printable(source.image or "")
        return Image(name.digest, shown, source.command, reference=name.at(name.digest), unset=CLEARED_VARIABLES)


def _check_configuration(
    found: ResolvedImage, platform: str, largest: int | None = None
) -> tuple[ImageConfig, list[Problem]]:
    architecture = platform.split("/")[1]
    return read_image_config(found.configuration.inspected(found.digest, sum(found.sizes)), architecture, largest)
