"""Looks which of its image's dangerous variables are set: hooks on the host have acted on them (CVE-2025-23266)."""

import json
import os

kept = {name for name in ("LD_PRELOAD", "LD_LIBRARY_PATH") if name in os.environ}
if os.environ.get("NVIDIA_VISIBLE_DEVICES") == "all":
    kept.add("NVIDIA_VISIBLE_DEVICES=all")
print(json.dumps({"harm": bool(kept), "evidence": f"set: {', '.join(sorted(kept)) or 'none of them'}"}))
