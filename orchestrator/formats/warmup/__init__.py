"""The warm-up: fixed attacks of the organizers against defences that are handed in (rules B1 to B8)."""

plugin = "orchestrator.formats.warmup.format:Warmup"
