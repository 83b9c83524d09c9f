"""The HTML report of a run, and curves.png in its folder."""
