"""What organizers do with a cluster besides playing a round: check it, push images, review and remove Jobs."""
