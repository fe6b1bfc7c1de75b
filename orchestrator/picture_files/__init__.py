"""Reads files of pictures from strangers: JPEG, PNG, label.txt, arrays, and zips with them (rules C1 and C2)."""
