"""Contests over weeks: opened, administered, promoted and judged again."""
