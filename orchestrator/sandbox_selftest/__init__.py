"""The hostile zoo: programs that attack the walls, and what must become of each."""
