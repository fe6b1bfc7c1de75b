"""Plays findings again, for people who doubt them."""
