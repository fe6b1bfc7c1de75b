"""The tokens of a person, by the address that each belongs to, in a file that only its owner can read."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from orchestrator.errors import UsageError
from orchestrator.files import write_whole

VARIABLE = "SPARRING_TOKEN"
"""The environment variable with the token for unattended use, such as continuous integration. It takes precedence."""
_FILE_MODE, _FOLDER_MODE = 0o600, 0o700


class TokenStore:
    """The file with tokens. `environment` are the process's environment variables."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        config_home = environment.get("XDG_CONFIG_HOME", "")
        base = Path(config_home) if config_home.startswith("/") else Path.home() / ".config"
        self.path = base / "sparring" / "tokens.json"
        self._token_from_environment = environment.get(VARIABLE, "")

    def find(self, address: str) -> str:
        """Returns the token for an address, "" if there is none. Raises UsageError if the file is damaged."""
        return self._token_from_environment or self._read().get(address, "")

    def require(self, address: str) -> str:
        """Returns the token for an address. Raises UsageError if there is none."""
        token = self.find(address)
        if not token:
            raise UsageError(f"there is no token for {address}; get one with `sparring login {address}`")
        return token

    def keep(self, address: str, token: str) -> None:
        """Stores a token for an address, in place of an earlier one. Raises UsageError, StoreFault."""
        self._write({**self._read(), address: token})

    def forget(self, address: str) -> None:
        """Removes the token for an address. Raises UsageError, StoreFault."""
        self._write({known: token for known, token in self._read().items() if known != address})

    def _read(self) -> dict[str, str]:
        try:
            tokens = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{self.path} cannot be read: {error}; correct it, or delete it and run `sparring login` again"
            ) from error
        if not isinstance(tokens, dict) or not all(isinstance(token, str) for token in tokens.values()):
            raise UsageError(f"{self.path} does not map addresses to tokens; delete it and run `sparring login` again")
        return tokens

    def _write(self, tokens: dict[str, str]) -> None:
        self.path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        write_whole(self.path, json.dumps(tokens, indent=2).encode(), _FILE_MODE)
