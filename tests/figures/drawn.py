"""What tests of drawings read off a figure."""

from matplotlib.colors import to_hex


def words(axes):
    """All that is written inside of a panel; arrows have empty words."""
    return [text.get_text() for text in axes.texts if text.get_text()]


def names(ticks_or_texts):
    """What stands at ticks, or in a legend."""
    return [each.get_text() for each in ticks_or_texts]


def lines(axes):
    """Label and points of each line of a panel."""
    return {line.get_label(): line.get_xydata().tolist() for line in axes.lines}


def fill(patch):
    """The colour of a patch, as palette.py writes it."""
    return to_hex(patch.get_facecolor())
