"""What tests ask of a Docker engine's images."""

import docker
from docker.errors import ImageNotFound


def has_image(engine: docker.DockerClient, name: str) -> bool:
    """Returns whether the engine has an image of that name. For a list it would read every image that it has."""
    try:
        engine.images.get(name)
    except ImageNotFound:
        return False
    return True
