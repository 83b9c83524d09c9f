"""The page of a run as HTML, and the curves that every run leaves behind."""
