"""What echo adds to report pages."""
