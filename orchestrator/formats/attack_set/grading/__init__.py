"""Human grading of attack sets (rule C7): who grades what, whose grades count, and the scores from them."""
