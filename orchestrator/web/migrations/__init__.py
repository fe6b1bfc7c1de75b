"""The migrations of the service's tables."""
