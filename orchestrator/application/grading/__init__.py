"""People who grade pictures: plans, pages, answers, and how far they are."""
