"""What sandboxes on one machine share: processes, pipes, control groups."""
