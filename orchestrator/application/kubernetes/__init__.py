"""What an organizer does with a cluster before and beside a round."""
