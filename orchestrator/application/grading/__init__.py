"""Grading of pictures by people: plans, pages, answers and progress."""
