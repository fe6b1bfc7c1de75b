"""The engine's images as submissions: which of them may play, and what is in them."""

from collections.abc import Mapping
from typing import Any

from orchestrator.domain.images import ImageConfig, is_image_reference, read_image_config
from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected, SandboxLost, UsageError
from orchestrator.sandboxes.base import Image, ImageFacts, ImageSource
from orchestrator.sandboxes.docker import container_spec
from orchestrator.sandboxes.docker.engine import DockerEngine
from orchestrator.sandboxes.image_files import file_checks, image_facts
from orchestrator.sandboxes.linux.owner import Owner
from orchestrator.sandboxes.retry_start import StartFailedError


class ImageAdmission:
    """Looks at images before they play, and remembers what is used of those that were admitted."""

    def __init__(self, engine: DockerEngine) -> None:
        self._engine = engine
        self._configs: dict[str, ImageConfig] = {}

    def admit(self, source: ImageSource) -> Image:
        """Returns the image by its id. Raises Rejected with everything that its configuration may not say."""
        reference = source.image
        if reference is None:
            raise Rejected("submission", [Problem("image", "missing", "build it, and give its name or id")])
        subject = f"image {printable(reference)}"
        if not is_image_reference(reference):
            raise Rejected(
                subject, [Problem("image", "not the name or id of an image", "use a name like team/entry:1")]
            )
        inspected = self._engine.image(reference)
        if inspected is None:
            remedy = "build it (`make images` builds ours), or bring it with `docker load`; nothing is pulled"
            raise Rejected(subject, [Problem("image", "the engine does not have it", remedy)])
        config, problems = read_image_config(inspected, self._engine.architecture())
        if not problems and inspected["Id"] not in self._configs:
            problems = self._file_problems(inspected, config)
        if problems:
            raise Rejected(subject, problems)
        self._configs[inspected["Id"]] = config
        return Image(digest=inspected["Id"], name=printable(reference), command=config.command)

    def inspect_image(self, reference: str, *, files: bool = True, max_bytes: int | None = None) -> ImageFacts:
        """Returns what an image is, without starting it; see `Backend.inspect_image`."""
        inspected = self._engine.image(reference) if is_image_reference(reference) else None
        if inspected is None:
            raise UsageError(f"the engine has no image {printable(reference)}; build it, or use `docker load`")
        config, problems = read_image_config(inspected, self._engine.architecture(), max_bytes)
        if files and not problems:
            problems = self._file_problems(inspected, config)
            files = not problems  # an engine may wait without end for what lies in such an image
        return image_facts.inspect_image(self._engine, inspected, problems, inspection_labels(), files=files)

    def config_of(self, image: Image) -> ImageConfig:
        """Returns what is used of an image that was admitted, perhaps by an orchestrator before this one."""
        if image.digest not in self._configs:
            found = self._engine.image(image.digest) if is_image_reference(image.digest) else None
            if found is None:
                raise SandboxLost(f"image {image.name} ({image.digest}) is gone from the engine; load it again")
            config, problems = read_image_config(found)
            if problems and not image.command:
                raise Rejected(f"image {image.name}", problems)
            self._configs[image.digest] = config
        return self._configs[image.digest]

    def add_copy(self, copied: str, config: ImageConfig) -> None:
        """Notes that the image `copied` has the files of an admitted one, whose configuration it goes by."""
        self._configs[copied] = config

    def _file_problems(self, image: Mapping[str, Any], config: ImageConfig) -> list[Problem]:
        """Returns what of an image's files keeps it from playing, whose configuration is as it should be."""
        try:
            return file_checks.image_file_problems(
                self._engine, image, config, self._engine.architecture(), inspection_labels()
            )
        except StartFailedError as error:
            return [Problem("image", str(error), "look at its files: no container can be made of it")]


def inspection_labels() -> dict[str, str]:
    """Returns the labels of a container that is only looked at."""
    return {container_spec.RUN_LABEL: "look", container_spec.OWNER_LABEL: str(Owner.current_process())}
