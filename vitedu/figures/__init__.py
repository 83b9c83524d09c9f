"""Drawings used in more than one place: every function returns a figure and alt text.

`figures.show(*figures.network("attention"))` in a notebook.
"""

from vitedu.figures.curves import curves
from vitedu.figures.network import network
from vitedu.figures.show import show

__all__ = ["curves", "network", "show"]
