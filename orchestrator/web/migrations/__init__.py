"""The history of the tables of the service."""
