"""The book's drawings: every function returns a figure and its alt text.

`figures.show(*figures.network("attention"))` in a notebook. `palette`,
`charts`, `schematic` and `photos` are what all drawings are made of; a
chapter's own are in the module of its name: `images`, `attention`, `encoder`,
`vit`, `mnist`, `recipe`, `speed`, `scale`, `weights`, `resolution`, `transfer`,
`few_shot`, `resnets`. `report` is no drawing but the page of a run, as HTML.
"""

from vitedu.figures.curves import curves
from vitedu.figures.network import network
from vitedu.figures.show import show

__all__ = ["curves", "network", "show"]
