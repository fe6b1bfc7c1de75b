"""Submissions received, tried and checked."""
