"""Image registries, asked over HTTP: which image a name means, and how it is started. What they say is hostile."""
