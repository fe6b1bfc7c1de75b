"""Images: which can be pulled, and how a pull fails.

Images, "ImagePullBackOff": the wait doubles from 10 s to 300 s. Reasons and events are those of `pkg/kubelet/images`.
"""

from datetime import datetime, timedelta
from typing import Any

from .events import Recorder
from .pod_status import Container

LONGEST = 300.0


class Images:
    """A registry that has every image but those refused."""

    def __init__(self, backoff: float) -> None:
        self._backoff = backoff
        self._refused: dict[str, str] = {}

    def refuse(self, image: str, message: str = "") -> None:
        """Makes every pull of an image fail from here."""
        text = f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": {image}: not found'
        self._refused[image] = message or f"rpc error: code = NotFound desc = {text}"

    def allow(self, image: str) -> None:
        """Lets an image be pulled again."""
        self._refused.pop(image, None)

    def pull(
        self, container: Container, pod: dict[str, Any], field: str, recorder: Recorder, now: datetime
    ) -> float | None:
        """Pulls a container's image; returns None when it is there, else the seconds after which to look again."""
        image = container.spec["image"]
        why = self._refused.get(image)
        if container.spec.get("imagePullPolicy") == "Never" and why is not None:
            text = f'Container image "{image}" is not present with pull policy of Never'
            if container.waiting[0] != "ErrImageNeverPull":
                recorder.warning(pod, "ErrImageNeverPull", text, field)
            container.waiting = ("ErrImageNeverPull", text)
            return self._backoff
        if container.pull_at is not None and now < container.pull_at:
            if container.waiting[0] == "ErrImagePull":
                recorder.normal(pod, "BackOff", f'Back-off pulling image "{image}"', field)
                recorder.warning(pod, "Failed", "Error: ImagePullBackOff", field)
                text = f'Back-off pulling image "{image}": ErrImagePull: {container.waiting[1]}'
                container.waiting = ("ImagePullBackOff", text)
            return (container.pull_at - now).total_seconds()
        if container.pulls == 0 and why is None and "@" in image and container.spec["imagePullPolicy"] != "Always":
            recorder.normal(pod, "Pulled", f'Container image "{image}" already present on machine', field)
            return None
        recorder.normal(pod, "Pulling", f'Pulling image "{image}"', field)
        if why is None:
            recorder.normal(pod, "Pulled", f'Successfully pulled image "{image}"', field)
            return None
        recorder.warning(pod, "Failed", f'Failed to pull image "{image}": {why}', field)
        recorder.warning(pod, "Failed", "Error: ErrImagePull", field)
        container.waiting = ("ErrImagePull", why)
        container.pull_at = now + timedelta(seconds=min(LONGEST, self._backoff * 2**container.pulls))
        container.pulls += 1
        return min(0.05, self._backoff)
