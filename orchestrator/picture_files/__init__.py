"""Files of pictures from strangers: JPEG, PNG, label.txt, arrays, and the zips that hold them (rules C1 and C2)."""
