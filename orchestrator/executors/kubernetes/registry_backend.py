"""Admits the images of rounds on a cluster: looks them up in their registry, checks them, and fixes them by digest.

The checks are those of the docker backend. The nodes pull the images, so the controller needs no engine. To check an
image's files, it fetches the layers and reads their headers, and unpacks nothing. A received image was inspected when
it was submitted, and its identity proves that it is the same image, so its layers are not fetched.
"""

from dataclasses import replace
from typing import ClassVar, Protocol

from orchestrator.domain.images import ImageConfig, read_image_config
from orchestrator.domain.policy import Runtime
from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected, SparringError, UsageError
from orchestrator.executors.kubernetes.image_files import RegistryImageFiles
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
"""The variables that are unset for an image whose configuration cannot be read."""
_MISSING_REMEDY = "correct its name, or push it: `sparring cluster push FILE|DIR`, on a machine whose engine has it"
_RECEIVED_REMEDY = "push the received image: `sparring cluster push DIR`, on a machine whose engine has it"
_REGISTRY_REMEDY = "set cluster.registry in the contest file, then `sparring cluster push DIR`"
_PUSH_REMEDY = (
    "build it, tag it with its registry and push it: docker build -t REGISTRY/NAME . && docker push REGISTRY/NAME"
)


class CleanUp(Protocol):
    """See `Backend.clean_up`."""

    def __call__(self, *, spare_run: str | None = None, ended_run: str | None = None) -> int:
        """Returns how many objects it removed."""
        ...


def _clean_up_nothing(*, spare_run: str | None = None, ended_run: str | None = None) -> int:  # noqa: ARG001  as every sweep is called
    return 0


class RegistryBackend:
    """The controller's side of a cluster: it admits images, and pods start them."""

    name: ClassVar[str] = "kubernetes"

    def __init__(
        self, settings: ClusterSettings, clean_up: CleanUp = _clean_up_nothing, registries: ImageResolver | None = None
    ) -> None:
        """`clean_up` removes what dead rounds left on the cluster."""
        self._settings = settings
        self._clean_up = clean_up
        self._registries = registries or ImageResolver(settings.insecure_registries)
        self._files = RegistryImageFiles(self._registries)
        self._prefix = "" if settings.registry == NO_REGISTRY else settings.registry.rstrip("/")

    def require_available(self, runtime: Runtime | None = None, gpus: int = 0) -> None:  # noqa: ARG002  see `sparring cluster check`
        """Raises BackendUnavailable if the registry for image names without a registry does not answer."""
        if self._prefix:
            self._registries.ping(parse_reference("entry", self._prefix))

    def diagnose(self) -> list[Check]:
        """Returns the check whether the registry answers."""
        title = "kubernetes: registry"
        if self._settings.registry == NO_REGISTRY:
            return [Check(title, CheckStatus.OK, "none; images are on the nodes, and named by digest")]
        try:
            self.require_available()
        except SparringError as error:
            return [Check(title, CheckStatus.FAIL, str(error), "correct `cluster:` in the contest file")]
        each = "each image's name has its registry"
        return [Check(title, CheckStatus.OK, f"{self._prefix} answers" if self._prefix else each)]

    def admit(self, source: ImageSource) -> Image:
        """Returns the image by the digest of its manifest, or a received image by the digest of its receipt.

        Raises:
            Rejected: with all problems of the image.
        """
        if source.image is None:
            what = "missing: a cluster starts images, not folders"
            raise Rejected("submission", [Problem("image", what, _PUSH_REMEDY)])
        subject = f"image {printable(source.registry_name or source.image)}"
        if self._settings.registry == NO_REGISTRY and not source.registry_name:
            return self._admit_by_digest(subject, source)
        try:
            name = self._image_reference(source)
            config, problems = _check_configuration(image := self._resolve(name), self._settings.platform)
            if not problems and not source.registry_name:
                problems = self._files.problems(name, image, config, self._settings.platform.split("/")[1])
        except InvalidReferenceError as error:
            raise Rejected(
                subject, [Problem("image", str(error), _REGISTRY_REMEDY if source.registry_name else _PUSH_REMEDY)]
            ) from error
        except UnusableImageError as error:
            lacking = isinstance(error, ImageNotFoundError)
            remedy = _RECEIVED_REMEDY if source.registry_name else _MISSING_REMEDY
            raise Rejected(subject, [replace(error.problem, remedy=remedy) if lacking else error.problem]) from error
        if source.registry_name and source.image not in image.identities:
            mismatch = f"{name.host} holds {', '.join(sorted(image.identities))}, but {source.image} was received"
            problems.append(Problem("image", mismatch, _RECEIVED_REMEDY))
        if problems:
            raise Rejected(subject, problems)
        return Image(
            digest=source.image if source.registry_name else image.digest,
            name=printable(source.image),
            command=config.command,
            reference=name.pull_name(image.digest),
            unset_variables=config.unset_variables,
        )

    def fresh_copy(self, image: Image, run: str) -> Image:  # noqa: ARG002  nothing is made
        """Returns the image itself: nodes pull the admitted image, and each node keeps what it pulled."""
        return image

    def inspect_image(self, reference: str, *, files: bool = True, max_bytes: int | None = None) -> ImageFacts:
        """Returns the facts that an image's registry has about it; sizes are compressed, and files are not inspected.

        Raises:
            UsageError: there is no registry, or it has no image of that name.
            Rejected: what it has under that name is not a valid image.
        """
        if self._settings.registry == NO_REGISTRY:
            raise UsageError(
                f"cluster.registry is none, so there is no registry in which to inspect {printable(reference)}; "
                "use --backend docker"
            )
        try:
            image = self._resolve(parse_reference(reference, self._prefix))
        except (InvalidReferenceError, ImageNotFoundError) as error:
            raise UsageError(f"no image {printable(reference)}: {error}") from error
        except UnusableImageError as error:
            raise Rejected(f"image {printable(reference)}", [error.problem]) from error
        size = sum(image.sizes)
        _, problems = _check_configuration(image, self._settings.platform, max_bytes)
        history = [{"Size": layer} for layer in reversed(image.sizes)]
        tree = ImageTree(0, 0, {}, {}, cut_reason="a registry's images are inspected with docker") if files else None
        return image_facts.make_image_facts(
            image.configuration.to_inspect_format(image.digest, size), history, problems, tree
        )

    def image_store(self) -> ImageStore:
        """Raises UsageError: images are built and loaded where there is an engine."""
        raise UsageError("a cluster builds and loads no images; build with --backend docker, then push them")

    def start(self, spec: SandboxSpec) -> Sandbox:
        """Raises UsageError: a player starts in a pod, beside its driver."""
        raise UsageError(f"players of {printable(spec.image.name)} start in pods; play with --engine kubernetes")

    def clean_up(self, *, spare_run: str | None = None, ended_run: str | None = None) -> int:
        """Removes what dead rounds left on the cluster; see `Backend.clean_up`."""
        return self._clean_up(spare_run=spare_run, ended_run=ended_run)

    def _image_reference(self, source: ImageSource) -> ImageReference:
        """Returns the reference of an image in its registry.

        Raises InvalidReferenceError if its name is not valid, or no registry is set for a received image.
        """
        if not source.registry_name:
            return parse_reference(source.image or "", self._prefix)
        return parse_reference(f"{registry_prefix(self._settings.registry)}{source.registry_name}")

    def _resolve(self, name: ImageReference) -> ResolvedImage:
        return self._registries.resolve(name, self._settings.platform)

    def _admit_by_digest(self, subject: str, source: ImageSource) -> Image:
        """Returns an image without asking a registry: by the digest in its name, with the manifest's command."""
        problems = []
        try:
            name = parse_reference(source.image or "")
        except InvalidReferenceError as error:
            raise Rejected(subject, [Problem("image", str(error), "write it like team/entry@sha256:...")]) from error
        if not name.digest:
            description = "not named by its digest, which cannot be looked up because cluster.registry is none"
            problems.append(
                Problem("image", description, "write it like team/entry@sha256:..., or set cluster.registry")
            )
        _, unfit = read_image_config({"Config": {"Cmd": list(source.command)}})
        if unfit:
            description = "missing: the image's own command cannot be looked up because cluster.registry is none"
            problems.append(
                Problem("command", description, "give the entry a folder with `command:` in its submission.yaml")
            )
        if problems:
            raise Rejected(subject, problems)
        display_name = printable(source.image or "")
        return Image(
            name.digest,
            display_name,
            source.command,
            reference=name.pull_name(name.digest),
            unset_variables=CLEARED_VARIABLES,
        )


def _check_configuration(
    image: ResolvedImage, platform: str, largest: int | None = None
) -> tuple[ImageConfig, list[Problem]]:
    architecture = platform.split("/")[1]
    return read_image_config(
        image.configuration.to_inspect_format(image.digest, sum(image.sizes)), architecture, largest
    )
