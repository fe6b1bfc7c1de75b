"""Use cases for contests over weeks: opening, submissions, rounds, promotion, rescoring and reports."""
