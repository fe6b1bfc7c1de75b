"""The tournament: every attack against every defence, ranked by the mean decrease in accuracy."""

plugin = "orchestrator.formats.tournament.format:Tournament"
