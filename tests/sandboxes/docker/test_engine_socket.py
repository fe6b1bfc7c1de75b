"""The engine's unix socket: what is written to it, and how the head of an answer is read."""

import socket
import threading

import pytest

from orchestrator.sandboxes.docker.engine_socket import connect_socket, open_stream, read_head


@pytest.fixture
def engine(tmp_path):
    """Returns a function that begins an engine with one answer, given in pieces; returns its path and its requests."""
    threads, listeners = [], []

    def begin(*pieces: bytes):
        path, requests = str(tmp_path / f"engine-{len(listeners)}"), []
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        listeners.append(listener)

        def serve():
            line, _ = listener.accept()
            with line:
                requests.append(line.recv(4096))
                for piece in pieces:
                    line.sendall(piece)
                line.shutdown(socket.SHUT_WR)
                line.recv(1)

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        return path, requests

    yield begin
    for thread in threads:
        thread.join()
    for listener in listeners:
        listener.close()


def test_a_request_is_one_with_a_host_and_the_callers_headers(engine):
    """What is sent is HTTP/1.1, and what the caller said."""
    path, requests = engine(b"HTTP/1.1 101 UPGRADED\r\n\r\n")
    line, head = open_stream(path, "POST", "/v1.41/containers/c/attach?stdin=1", 5, {"Upgrade": "tcp"})
    line.close()
    lines = requests[0].split(b"\r\n")
    assert lines[0] == b"POST /v1.41/containers/c/attach?stdin=1 HTTP/1.1"
    assert {b"Host: engine", b"Upgrade: tcp", b"Content-Length: 0"} <= set(lines)
    assert head.status == 101


def test_every_byte_after_the_head_is_the_callers(engine):
    """However the answer is cut, what follows its head is in `rest` or still in the socket."""
    answer = b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\nbody"
    for cut in range(len(answer)):
        path, _ = engine(answer[:cut], answer[cut:])
        line, head = open_stream(path, "GET", "/events", 5)
        with line:
            assert (head.status, head.line) == (200, b"HTTP/1.1 200 OK")
            body = head.rest
            while len(body) < len(b"body"):
                body += line.recv(64)
            assert body == b"body"


@pytest.mark.parametrize(
    ("first", "status"),
    [(b"HTTP/1.1 404 Not Found", 404), (b"HTTP/1.0 200", 200), (b"HTTP/1.1 2000 OK", 0), (b"SSH-2.0-x", 0), (b"", 0)],
)
def test_a_line_that_is_no_status_is_status_0(first, status):
    """What does not speak HTTP has no status, and its line is kept for the message."""
    near, far = socket.socketpair()
    with near, far:
        far.sendall(first + b"\r\n\r\n")
        head = read_head(near)
    assert (head.status, head.line) == (status, first)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\n"])
def test_an_engine_that_hangs_up_within_the_head_is_an_error(engine, answer):
    """It has not answered, and the socket is closed."""
    path, _ = engine(answer)
    with pytest.raises(ConnectionResetError, match="hung up"):
        open_stream(path, "GET", "/_ping", 5)


def test_an_engine_that_does_not_answer_is_an_error_in_time(tmp_path):
    """Nobody waits for longer than was asked for: neither where nobody listens nor where nobody answers."""
    path = str(tmp_path / "engine")
    with pytest.raises(FileNotFoundError):
        connect_socket(path, 0.1)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        with pytest.raises(TimeoutError):
            open_stream(path, "GET", "/_ping", 0.1)


def test_a_head_without_an_end_is_bounded():
    """64 KiB of headers are enough."""
    near, far = socket.socketpair()

    def send():
        with far:
            for _ in range(128):
                far.sendall(b"x" * 1024)

    with near:
        near.settimeout(5)
        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        with pytest.raises(OSError, match="no end"):
            read_head(near)
        near.recv(128 * 1024, socket.MSG_WAITALL)
        thread.join()
