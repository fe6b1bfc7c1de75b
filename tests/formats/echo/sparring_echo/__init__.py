"""A contest format of another distribution: classifiers, week after week."""
