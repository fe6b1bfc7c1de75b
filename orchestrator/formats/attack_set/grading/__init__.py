"""Human grading of an attack set (rule C7): who grades what, whose grades count, and what they say."""
