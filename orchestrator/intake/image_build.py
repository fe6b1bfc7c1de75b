"""Makes a build request from a submission's folder for the engine's builder: context, arguments and labels.

The same folder gives the same context, byte for byte: files in order, owned by root, all with one time. Two builds of
it differ nevertheless: the builder writes the time into the image, and build steps write files with times.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeVar

from orchestrator import resources
from orchestrator.errors import Problem, Rejected, UsageError
from orchestrator.intake import dockerfile, dockerignore, manifest
from orchestrator.intake.dockerfile import Dockerfile
from orchestrator.intake.dockerignore import DockerIgnore
from orchestrator.intake.manifest import Manifest
from orchestrator.intake.source_tree import SourceTree, scan_folder, tar_end, tar_members
from orchestrator.sandboxes.base import BuildRequest

T = TypeVar("T")
CONTEXT_TIME = 315_532_800
"""1980-01-01 in seconds since 1970, the time of every file in a context. A zip, and so a wheel, allows no earlier."""
FLAVOURS = ("cpu", "cuda")
ALLOWED_BASES = ("sparring/base", "sparring/base-torch")
"""The base images that a stranger's Dockerfile may use on the organizers' engine; others there may be a team's."""
SOURCE_LABEL = "sparring.source"
FORMAT_LABEL = "sparring.manifest"
_OCI = "org.opencontainers.image"
_CUDA_BASE = {"sparring/base-torch:cpu": "sparring/base-torch:cuda"}
_SHIPPED_MANIFESTS = (
    *("images/*/submission.yaml", "examples/demo/submissions/*/*.yaml"),
    *("examples/warmup/players/*/*.yaml", "examples/query/players/*/*.yaml"),
)
_WITHOUT_NETWORK = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}
_WITH_NETWORK = {"PIP_NO_INDEX": "0"}
"""Overrides the Dockerfile's own default, which is for a build without a network."""


@dataclass(frozen=True, slots=True)
class ImageBuildOptions:
    """Options for building the image of a folder."""

    flavour: str = "cpu"
    tag: str = ""
    """The image's name; empty: the manifest's `image` with the flavour as its tag."""
    base: str = ""
    """The value of the Dockerfile's BASE; empty: its default, in the flavour."""
    network: bool = False
    revision: str = ""
    """The version of the source for the image's label."""


@dataclass(frozen=True, slots=True)
class PreparedBuild:
    """A folder that can be built: its manifest, its files, and the build request."""

    manifest: Manifest
    tree: SourceTree
    recipe: BuildRequest


def prepare_build(folder: Path, options: ImageBuildOptions) -> PreparedBuild:
    """Checks a folder and returns the request to build its image.

    Raises:
        Rejected: with all problems of its manifest, its files and its Dockerfile; or the image's name is taken.
        UsageError: the image has no name, or there is no such flavour.
    """
    if options.flavour not in FLAVOURS:
        raise UsageError(f"there is no variant {options.flavour!r}; the variants are {', '.join(FLAVOURS)}")
    problems: list[Problem] = []
    submission_manifest = _collect_problems(problems, lambda: manifest.read_manifest(folder))
    tree = _collect_problems(problems, lambda: scan_folder(folder))
    recipe = _collect_problems(problems, lambda: dockerfile.read_dockerfile(folder, network=options.network))
    ignored = _collect_problems(problems, lambda: dockerignore.read_dockerignore(folder))
    if problems or submission_manifest is None or tree is None or recipe is None or ignored is None:
        raise Rejected(f"folder {folder}", problems)
    given = _arguments(folder, submission_manifest, recipe, options)
    name = manifest.with_tag(options.tag, options.flavour) or image_tag(folder, submission_manifest, options.flavour)
    if (other := shipped_folder_with_image(folder, name)) is not None:
        problem = f"{name} is already the image of {other}, a folder that comes with Sparring"
        remedy = f"give it an `image:` of its own in {manifest.FILE_NAME}, or --tag"
        raise Rejected(f"folder {folder}", [Problem("image", problem, remedy)])
    request = BuildRequest(
        context=_context(tree, ignored),
        tag=name,
        bases=dockerfile.read_dockerfile(folder, given, network=options.network).bases,
        arguments=given,
        labels=_labels(submission_manifest, tree, options.revision),
        network=options.network,
    )
    return PreparedBuild(submission_manifest, tree, request)


def untrusted_recipe(folder: Path, tag: str, *, cuda: bool) -> BuildRequest:
    """Returns the build request of a stranger's folder. Raises Rejected, also for other base images than allowed."""
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
    """Returns the name under which admission looks up a folder's image. Raises UsageError if there is none."""
    name = manifest.with_tag(found.image, flavour)
    if name is None:
        raise UsageError(f"{folder / manifest.FILE_NAME} has no `image:`; add one, or give --tag")
    return name


def shipped_folder_with_image(folder: Path, image: str) -> Path | None:
    """Returns the shipped folder, other than `folder`, whose image has this name; None if the name is free.

    A copy of a baseline has the same `image:` in its manifest, and must not take the name from the baseline.
    """
    repository = image.rpartition(":")[0] or image
    for path in chain.from_iterable(map(resources.resource_path().glob, _SHIPPED_MANIFESTS)):
        shipped = path.parent
        if manifest.read_manifest(shipped).image.partition(":")[0] == repository and shipped != folder.resolve():
            return shipped
    return None


DOWNLOAD_WHEELS = "pip download --python-version 3.11 --no-deps --only-binary :all: -r requirements.lock -d wheels"
"""Downloads the packages of a submission's image into its folder, for the Python of the base images."""


def missing_wheels_problem(folder: Path) -> tuple[str, str] | None:
    """Returns a problem and its remedy if wheels for a build without a network seem to be missing, else None."""
    if (folder / "requirements.lock").is_file() and not (folder / "wheels").is_dir():
        problem = "requirements.lock names packages, there is no wheels/ beside it, and the build has no network"
        return problem, f"`{DOWNLOAD_WHEELS}`, or build with --network"
    return None


def _collect_problems(problems: list[Problem], read: Callable[[], T]) -> T | None:
    """Returns the result of `read`, or None after adding the problems of its error to `problems`."""
    try:
        return read()
    except Rejected as error:
        problems += error.problems
        return None


def _arguments(
    folder: Path, submission_manifest: Manifest, recipe: Dockerfile, options: ImageBuildOptions
) -> dict[str, str]:
    """Returns the build's arguments, restricted to those that the Dockerfile declares. Raises UsageError."""
    if options.flavour == "cuda" and not submission_manifest.gpu:
        raise UsageError(f"{folder / manifest.FILE_NAME} does not say `gpu: true`: build it without --variant cuda")
    if options.base and "BASE" not in recipe.arguments:
        raise UsageError(f"{folder / dockerfile.FILE_NAME} has no `ARG BASE` that --base could set")
    default = recipe.arguments.get("BASE", "")
    base = options.base or (_CUDA_BASE.get(default, default) if options.flavour == "cuda" else default)
    given = {"BASE": base, **(_WITH_NETWORK if options.network else _WITHOUT_NETWORK)}
    return {name: value for name, value in given.items() if name in recipe.arguments}


def _labels(submission_manifest: Manifest, tree: SourceTree, revision: str) -> dict[str, str]:
    """Returns the image's known labels of the Open Container Initiative, and our own two."""
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
