"""Measures of pictures: distances, similarity, margins, and the uncertainty of means over pictures."""
