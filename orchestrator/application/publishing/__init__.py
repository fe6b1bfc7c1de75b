"""Reports written to disk, and bundles published."""
