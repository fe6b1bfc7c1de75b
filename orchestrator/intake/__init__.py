"""The way in: contest files, manifests, and what of them can play."""
