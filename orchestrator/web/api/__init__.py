"""What programs can do over HTTP: /api/v1, with bearer tokens. Its rules and rights are those of the pages."""
