"""A small image registry on loopback: manifests, blobs, tokens, uploads, and any misbehaviour that a test adds.

It implements the parts of the distribution specification (github.com/opencontainers/distribution-spec) that pulling and
`docker push` need; tokens are docker's (distribution.github.io/distribution/spec/auth/token).
"""

import base64
import hashlib
import io
import json
import re
import ssl
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from orchestrator.oci.credentials import Credentials
from orchestrator.oci.references import ImageReference, parse_reference

OCI = "application/vnd.oci.image."
MANIFEST, INDEX, CONFIG, LAYER = (
    f"{OCI}{kind}" for kind in ("manifest.v1+json", "index.v1+json", "config.v1+json", "layer.v1.tar")
)
DOCKER = "application/vnd.docker."
RUN = {"Entrypoint": ["python3"], "Cmd": ["player.py"], "WorkingDir": "/player"}
AMD = "linux/amd64"
_PATH = re.compile(r"/v2/(?P<repository>.+)/(?P<kind>manifests|blobs)/(?P<what>[^/]+)")


def sha(data: bytes) -> str:
    """Returns the digest of these bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def dump(document: Any) -> bytes:
    """Returns a document as bytes."""
    return json.dumps(document).encode()


def tar(*members: tarfile.TarInfo, content: bytes = b"", form: int = tarfile.PAX_FORMAT) -> bytes:
    """Returns an archive of these members; those with a size have zeros after the content."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", format=form) as archive:
        for each in members:
            archive.addfile(each, io.BytesIO(content + bytes(max(0, each.size - len(content)))))
    return held.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", mode: int = 0o755, size: int = 0) -> Any:
    """Returns a member of an archive."""
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode, made.size = kind, target, mode, size
    return made


def link(name: str, target: str) -> Any:
    """Returns a symbolic link."""
    return member(name, tarfile.SYMTYPE, target)


def folder(name: str) -> Any:
    """Returns a folder."""
    return member(name, tarfile.DIRTYPE)


def program() -> bytes:
    """Returns a layer with the program that `RUN` starts, a few bytes without an interpreter, and its folder."""
    return tar(member("usr/bin/python3", size=8), folder("player"))


@dataclass(frozen=True)
class Asked:
    """A received request."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]


@dataclass
class Answer:
    """The answer to a request."""

    code: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class Registry:
    """A registry that serves what tests store in it. `odd` is called first; if it returns None, the answer is normal.

    With `users` it requires a token from `realm` (by default its own /token), and gives one only to those users. With
    `basic` it requires name and password with each request.
    """

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.asked: list[Asked] = []
        self.odd: Callable[[Asked], Answer | None] = lambda _: None
        self.users: dict[str, str] | None = None
        self.anonymous = False
        self.basic = False
        self.token = "a-token"  # noqa: S105  the same for all users
        self.realm = ""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # a client may hang up in the middle of an answer
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.scheme = "http" if context is None else "https"
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        self.url = f"{self.scheme}://{self.host}"

    @contextmanager
    def running(self) -> Iterator["Registry"]:
        """Serves until the end of the block."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def put(self, repository: str, tag: str, document: Any, kind: str = MANIFEST) -> str:
        """Stores a manifest, given as bytes or as a document, under a tag and its digest, which is returned."""
        data = document if isinstance(document, bytes) else dump(document)
        self.manifests[repository, tag] = self.manifests[repository, sha(data)] = (kind, data)
        return sha(data)

    def blob(self, data: bytes, kind: str) -> dict[str, Any]:
        """Stores a blob and returns its descriptor."""
        self.blobs[sha(data)] = data
        return {"mediaType": kind, "digest": sha(data), "size": len(data)}

    def image(self, config: Any, layers: int = 1, **more: Any) -> dict[str, Any]:
        """Stores an image's configuration (its `config`, or bytes as they are) and returns a manifest of it.

        Its layers are no archives, because a client that only inspects an image does not fetch them.
        """
        return self._image(config, [self.blob(b"layer %d" % number, LAYER) for number in range(layers)], more)

    def playable(self, config: Any, *layers: bytes, kind: str = LAYER, **more: Any) -> dict[str, Any]:
        """Stores an image that has a program `python3` and these layers above it, and returns a manifest of it."""
        made = [self.blob(program(), LAYER), *(self.blob(layer, kind) for layer in layers)]
        return self._image(config, made, more)

    def _image(self, config: Any, made: list[dict[str, Any]], more: Mapping[str, Any]) -> dict[str, Any]:
        whole = {
            "architecture": "amd64",
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in made]},
        }
        described = self.blob(config if isinstance(config, bytes) else dump(whole | dict(more)), CONFIG)
        return {"schemaVersion": 2, "mediaType": MANIFEST, "config": described, "layers": made}

    def answer(self, asked: Asked, body: bytes) -> Answer:
        """Returns the answer to a request."""
        if (found := self.odd(asked)) is not None:
            return found
        if asked.path == "/token":
            return self._token(asked)
        if self.users is not None and not self._known(asked):
            realm = self.realm or f"{self.url}/token"
            challenge = (
                'Basic realm="here"' if self.basic else f'Bearer realm="{realm}",service="registry",scope="x:y:z"'
            )
            return Answer(401, b"{}", {"WWW-Authenticate": challenge})
        if asked.path == "/v2/":
            return Answer(200, b"{}")
        if "/blobs/uploads/" in asked.path:
            return self._upload(asked, body)
        found = _PATH.fullmatch(asked.path)
        return Answer(404) if found is None else self._thing(asked, body, **found.groupdict())

    def _thing(self, asked: Asked, body: bytes, repository: str, kind: str, what: str) -> Answer:
        if asked.method == "PUT":
            digest = self.put(repository, what, body, asked.headers.get("Content-Type", MANIFEST))
            return Answer(201, headers={"Docker-Content-Digest": digest, "Location": asked.path})
        if kind == "blobs":
            data = self.blobs.get(what)
            return Answer(404) if data is None else Answer(200, data, {"Content-Type": "application/octet-stream"})
        media, data = self.manifests.get((repository, what), ("", b""))
        return Answer(200, data, {"Content-Type": media, "Docker-Content-Digest": sha(data)}) if media else Answer(404)

    def _upload(self, asked: Asked, body: bytes) -> Answer:
        place = asked.path if asked.method != "POST" else f"{asked.path}{len(self.asked)}"
        held = self.blobs.pop(place, b"") + body
        if asked.method == "PUT":
            [digest] = asked.query["digest"]
            self.blobs[digest] = held
            return Answer(201, headers={"Docker-Content-Digest": digest, "Location": asked.path})
        self.blobs[place] = held
        return Answer(
            202, headers={"Location": place, "Range": f"0-{max(0, len(held) - 1)}", "Docker-Upload-UUID": "u"}
        )

    def _token(self, asked: Asked) -> Answer:
        given = asked.headers.get("Authorization")
        if given is None:
            return Answer(200, dump({"token": self.token})) if self.anonymous else Answer(401)
        return Answer(200, dump({"access_token": self.token})) if given in self._logins() else Answer(401)

    def _known(self, asked: Asked) -> bool:
        allowed = self._logins() if self.basic else {f"Bearer {self.token}"}
        return asked.headers.get("Authorization") in allowed

    def _logins(self) -> set[str]:
        pairs = (self.users or {}).items()
        return {f"Basic {base64.b64encode(f'{user}:{word}'.encode()).decode()}" for user, word in pairs}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                """Logs nothing."""

            def serve(self) -> None:
                """Answers one request."""
                parts = urlsplit(self.path)
                asked = Asked(self.command, parts.path, parse_qs(parts.query), dict(self.headers.items()))
                registry.asked.append(asked)
                answer = registry.answer(asked, self.body())
                self.send_response(answer.code)
                for name, value in ({"Content-Length": str(len(answer.body))} | answer.headers).items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer.body)
                self.close_connection = answer.headers.get("Connection") == "close"

            def body(self) -> bytes:
                """Returns the request's body, whether chunked or not."""
                if self.headers.get("Transfer-Encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length", "0")))
                made = []
                while length := int(self.rfile.readline(), 16):
                    made.append(self.rfile.read(length))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(made)

            do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = serve  # noqa: N815  as the library calls them

        return Handler


def named(registry: Registry, rest: str = "team/entry:1") -> ImageReference:
    """Returns the name of an image in that registry."""
    return parse_reference(f"{registry.host}/{rest}")


def logged_in(tmp_path: Path, auths: dict, **more) -> Credentials:
    """Returns the credentials of a file like docker's."""
    (tmp_path / "config.json").write_text(json.dumps({"auths": auths, **more}))
    return Credentials.from_docker_config({"DOCKER_CONFIG": str(tmp_path)})


def auth(user: str, password: str) -> dict:
    """Returns an entry as `docker login` writes it."""
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}
