"""Numbers about pictures."""
