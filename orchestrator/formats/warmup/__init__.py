"""The warm-up: fixed attacks of the organizers against submitted defences (rules B1 to B8)."""

plugin = "orchestrator.formats.warmup.format:Warmup"
