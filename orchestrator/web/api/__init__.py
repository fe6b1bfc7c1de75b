"""The HTTP API for programs: /api/v1, with bearer tokens. Its rules and rights are those of the pages."""
