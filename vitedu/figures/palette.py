"""The book's colours: one for each part of the network.

Each is legible as a line and as a box with white words, on light and dark
pages. Maps have one scale: dark is little, bright is much.
"""

PATCHES = "#2f6fb0"  # image, patches and stem: blue
POSITIONS = "#b35c00"  # orange
ATTENTION = "#2b7d43"  # green
MLP = "#7b52ab"  # purple
CLASS = "#b8323a"  # class token and head: red
STREAM = "#5b636d"  # the residual stream: grey

# a ground for words in black, of the same six
TINTS = {
    PATCHES: "#d7e5f4",
    POSITIONS: "#fae3c8",
    ATTENTION: "#d5ecdb",
    MLP: "#e6dcf3",
    CLASS: "#f7d9da",
    STREAM: "#e5e7ea",
}

NIGHT = "#3b4350"  # a box of no part, legible on a white page and a dark one
DARK = "#202020"  # words and lines on an opaque white ground
GREY = "#7a808a"  # words and lines on a ground that may be white or dark
PALE = "#9aa1aa"  # a comparison, beside a colour of the book

MAP = "cividis"  # of weights and shares
