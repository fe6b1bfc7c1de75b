"""Mails of the service leave through the server that `web.yaml` names."""

import re
import socketserver
import threading
from contextlib import contextmanager

from tests.web.conftest import ADDRESS, client_of


class Session(socketserver.StreamRequestHandler):
    """One client of a mail server that takes everything (RFC 5321)."""

    def handle(self):
        """Answers each command, and keeps each mail."""
        self.wfile.write(b"220 here\r\n")
        for line in self.rfile:
            if line[:4].upper() == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                self.server.mails.append(b"".join(iter(self.rfile.readline, b".\r\n")).decode())
            self.wfile.write(b"221 bye\r\n" if line[:4].upper() == b"QUIT" else b"250 well\r\n")


@contextmanager
def mail_server():
    """A mail server on a free port, which keeps what it gets in `mails`."""
    with socketserver.TCPServer(("127.0.0.1", 0), Session) as server:
        server.mails = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_a_code_leaves_through_the_mail_server_that_is_named(contest, tmp_path):
    """From the sender that the organizers named, to who signs up, in plain text with the code on a line of its own."""
    from django.test import override_settings

    from orchestrator.web.settings import WebFile, WebSettings, django_settings

    (tmp_path / "other" / "web").mkdir(parents=True)
    with mail_server() as server:
        mail = {"host": "127.0.0.1", "port": server.server_address[1], "security": "none", "sender": "cup@example.org"}
        made = django_settings(WebSettings(contest=tmp_path / "other", address=ADDRESS, file=WebFile(mail=mail)))
        said = {name: made[name] for name in made if name.startswith("EMAIL_") or name == "DEFAULT_FROM_EMAIL"}
        with override_settings(**said):
            client_of().post("/account/signup/", {"email": "ada@example.org", "name": "Ada"})
    [text] = server.mails
    assert ("From: cup@example.org" in text, "To: ada@example.org" in text) == (True, True)
    assert "Content-Type: text/plain" in text
    assert re.search(r"(?m)^[A-Z0-9-]{6,12}\r?$", text)
