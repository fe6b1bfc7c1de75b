"""What happened: the append-only record, where it is kept, and what is read from it."""
