"""Runs in a Python whose file has the set-user-id bit and belongs to root."""

import json
import os

print(json.dumps({"harm": os.geteuid() == 0, "evidence": f"user id {os.getuid()}, effective {os.geteuid()}"}))
