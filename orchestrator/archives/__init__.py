"""What every reader of archives from strangers needs, and the zip format. Each caller has rules of its own besides."""
