"""The views of the pages, in modules for each kind of people."""
