"""Looks who it is."""

import json
import os

print(json.dumps({"harm": os.getuid() == 0, "evidence": f"user id {os.getuid()}"}))
