"""From a submission's folder to a recipe that the engine's builder takes: context, arguments, labels.

The same folder gives the same context, byte for byte: files in order, owned by root, all of one age. What the builder
makes of it is not the same twice: it notes the time in the image, and steps of its own write files with times.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from orchestrator import resources
from orchestrator.errors import Problem, Rejected, UsageError
from orchestrator.intake import dockerfile, dockerignore, manifest
from orchestrator.intake.admission import with_tag
from orchestrator.intake.dockerfile import Dockerfile
from orchestrator.intake.dockerignore import DockerIgnore
from orchestrator.intake.manifest import Manifest
from orchestrator.intake.source_tree import SourceTree, scan_folder, tar_end, tar_members
from orchestrator.sandboxes.base import BuildRequest

T = TypeVar("T")
CONTEXT_TIME = 315_532_800
"""1980-01-01, in seconds since 1970: the age of every file in a context. A zip, and so a wheel, knows none older."""
FLAVOURS = ("cpu", "cuda")
ALLOWED_BASES = ("sparring/base", "sparring/base-torch")
"""What a stranger's recipe may stand on where organizers build it, by name; any other image there may be a team's."""
SOURCE_LABEL = "sparring.source"
FORMAT_LABEL = "sparring.manifest"
_OCI = "org.opencontainers.image"
_CUDA_BASE = {"sparring/base-torch:cpu": "sparring/base-torch:cuda"}
_WITHOUT_NETWORK = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}
_WITH_NETWORK = {"PIP_NO_INDEX": "0"}
"""Against a recipe's own default, which is that of a build without a network."""


@dataclass(frozen=True, slots=True)
class ImageBuildOptions:
    """How a folder is to be built."""

    flavour: str = "cpu"
    tag: str = ""
    """The image's name; empty for the manifest's `image` with the flavour as its tag."""
    base: str = ""
    """What the Dockerfile's BASE is; empty for its default, in the flavour."""
    network: bool = False
    revision: str = ""
    """The version of the source, for the image's label."""


@dataclass(frozen=True, slots=True)
class PreparedBuild:
    """A folder that can be built."""

    manifest: Manifest
    tree: SourceTree
    recipe: BuildRequest


def prepare_build(folder: Path, wanted: ImageBuildOptions) -> PreparedBuild:
    """Returns what the builder needs to make an image of a folder.

    Raises:
        Rejected: with everything that is wrong with its manifest, its files or its Dockerfile.
        UsageError: it has no name for the image, or no such flavour.
    """
    if wanted.flavour not in FLAVOURS:
        raise UsageError(f"there is no variant {wanted.flavour!r}; the variants are {', '.join(FLAVOURS)}")
    problems: list[Problem] = []
    submission_manifest = _collect_problems(problems, lambda: manifest.read_manifest(folder))
    tree = _collect_problems(problems, lambda: scan_folder(folder))
    recipe = _collect_problems(problems, lambda: dockerfile.read_dockerfile(folder, network=wanted.network))
    ignored = _collect_problems(problems, lambda: dockerignore.read_dockerignore(folder))
    if problems or submission_manifest is None or tree is None or recipe is None or ignored is None:
        raise Rejected(f"folder {folder}", problems)
    given = _arguments(folder, submission_manifest, recipe, wanted)
    name = with_tag(wanted.tag, wanted.flavour) or image_tag(folder, submission_manifest, wanted.flavour)
    if (other := shipped_folder_with_image(folder, name)) is not None:
        problem = f"{name} is already the image of {other}, a folder that comes with Sparring"
        remedy = f"give it an `image:` of its own in {manifest.FILE_NAME}, or --tag"
        raise Rejected(f"folder {folder}", [Problem("image", problem, remedy)])
    request = BuildRequest(
        context=_context(tree, ignored),
        tag=name,
        bases=dockerfile.read_dockerfile(folder, given, network=wanted.network).bases,
        arguments=given,
        labels=_labels(submission_manifest, tree, wanted.revision),
        network=wanted.network,
    )
    return PreparedBuild(submission_manifest, tree, request)


def untrusted_recipe(folder: Path, tag: str, *, cuda: bool) -> BuildRequest:
    """Returns the recipe of a stranger's folder. Raises Rejected, also where it stands on what is not for everybody."""
    prepared = prepare_build(folder, ImageBuildOptions(flavour="cuda" if cuda else "cpu", tag=tag))
    foreign = [base for base in prepared.recipe.bases if base.partition(":")[0] not in ALLOWED_BASES]
    if foreign:
        remedy = (
            f"begin with FROM {' or '.join(ALLOWED_BASES)}, or pack an image: `sparring submission pack --image TAG`"
        )
        raise Rejected(
            f"folder {folder}", [Problem("FROM", f"{base} is not an allowed base image", remedy) for base in foreign]
        )
    return prepared.recipe


def image_tag(folder: Path, found: Manifest, flavour: str) -> str:
    """Returns the name under which admission looks a folder's image up. Raises UsageError where there is none."""
    name = with_tag(found.image, flavour)
    if name is None:
        raise UsageError(f"{folder / manifest.FILE_NAME} has no `image:`; add one, or give --tag")
    return name


def shipped_folder_with_image(folder: Path, image: str) -> Path | None:
    """Returns the shipped folder whose image has this name, where `folder` is another; None where it is free to take.

    A copy of a baseline has the same `image:` in its manifest, and must not take the baseline's name from it.
    """
    repository = image.rpartition(":")[0] or image
    for manifest_paths in (
        resources.resource_path().glob("images/*/submission.yaml"),
        resources.resource_path().glob("examples/demo/submissions/*/*.yaml"),
        resources.resource_path().glob("examples/warmup/players/*/*.yaml"),
        resources.resource_path().glob("examples/query/players/*/*.yaml"),
    ):
        for path in manifest_paths:
            if (
                manifest.read_manifest(path.parent).image.partition(":")[0] == repository
                and path.parent != folder.resolve()
            ):
                return path.parent
    return None


DOWNLOAD_WHEELS = "pip download --python-version 3.11 --no-deps --only-binary :all: -r requirements.lock -d wheels"
"""Brings the packages of a submission's image into its folder, for the Python of the base images."""


def missing_wheels_problem(folder: Path) -> tuple[str, str] | None:
    """Returns what a build without a network lacks, and the remedy; None when nothing seems to be missing."""
    if (folder / "requirements.lock").is_file() and not (folder / "wheels").is_dir():
        problem = "requirements.lock names packages, there is no wheels/ beside it, and the build has no network"
        return problem, f"`{DOWNLOAD_WHEELS}`, or build with --network"
    return None


def _collect_problems(problems: list[Problem], read: Callable[[], T]) -> T | None:
    """Returns what is read, or None with its problems noted."""
    try:
        return read()
    except Rejected as error:
        problems += error.problems
        return None


def _arguments(
    folder: Path, submission_manifest: Manifest, recipe: Dockerfile, options: ImageBuildOptions
) -> dict[str, str]:
    """Returns the arguments of the build, of those that the Dockerfile declares."""
    if options.flavour == "cuda" and not submission_manifest.gpu:
        raise UsageError(f"{folder / manifest.FILE_NAME} does not say `gpu: true`: build it without --variant cuda")
    if options.base and "BASE" not in recipe.arguments:
        raise UsageError(f"{folder / dockerfile.FILE_NAME} has no `ARG BASE` that --base could set")
    default = recipe.arguments.get("BASE", "")
    base = options.base or (_CUDA_BASE.get(default, default) if options.flavour == "cuda" else default)
    given = {"BASE": base, **(_WITH_NETWORK if options.network else _WITHOUT_NETWORK)}
    return {name: value for name, value in given.items() if name in recipe.arguments}


def _labels(submission_manifest: Manifest, tree: SourceTree, revision: str) -> dict[str, str]:
    """Returns the labels that the Open Container Initiative names, of what is known, and our own two."""
    known = {
        "title": submission_manifest.name,
        "source": submission_manifest.source,
        "licenses": submission_manifest.licence,
        "revision": revision,
    }
    return {
        **{f"{_OCI}.{name}": value for name, value in known.items() if value},
        FORMAT_LABEL: str(submission_manifest.sparring),
        SOURCE_LABEL: tree.digest,
    }


def _context(tree: SourceTree, ignored: DockerIgnore) -> Iterator[bytes]:
    files = [file for file in tree.files if not ignored(file.path)]
    yield from tar_members(tree, files, "", CONTEXT_TIME)
    yield tar_end()
