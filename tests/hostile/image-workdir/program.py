"""Looks where it was put."""

import json
import os

here = os.getcwd()
print(json.dumps({"harm": here.startswith("/proc"), "evidence": f"working directory {here}"}))
