"""Code that the sandboxes of one machine share: processes, pipes, control groups."""
