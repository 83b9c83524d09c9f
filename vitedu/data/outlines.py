"""Outlines of the figures of `shapes`, in integers.

Lengths are in 1/64 pixel, angles in 1/720 turn, sines in 1/2^14; `shapes` says
why no number overflows.
"""

from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy import ndarray as Array

PIXEL, TURN, SINE_BITS = 64, 720, 14
TWO_PI = 6283185307179586476925287 * 2**60 // 10**24  # in 1/2^60

# In the order in which they join as num_classes grows.
FORMS = (
    "disc",
    "triangle",
    "ring",
    "cross",
    "square",
    "stripes",
    "star",
    "half_disc",
    "hexagon",
    "frame",
    "ellipse",
    "arrow",
    "crescent",
    "letter_l",
    "letter_t",
    "pentagon",
)
# Sides, and their distance from the middle in percent of the radius.
POLYGONS = dict(
    triangle=(3, 58), square=(4, 74), pentagon=(5, 73), hexagon=(6, 76)
)


class Place(NamedTuple):
    """Where figures are: pixel centres relative to theirs, a row per image."""

    right: Array  # (b, w) int64, 1/64 pixel
    down: Array  # (b, h) int64, 1/64 pixel
    angle: Array  # (b,) int64, 1/720 turn
    sine: Array  # (720,) int64

    def along(self, turn: int | Array = 0) -> Array:
        """Coordinates along the figure's angle + `turn`: (b, h, w) int32.

        A coordinate is an outer sum of a row and a column, so no pixel is
        multiplied.
        """
        angle = (self.angle + turn) % TURN
        x = (
            self.right * self.sine[(angle + TURN // 4) % TURN, None]
            >> SINE_BITS
        )
        y = self.down * self.sine[angle, None] >> SINE_BITS
        return x.astype(np.int32)[:, None, :] + y.astype(np.int32)[:, :, None]

    def rows(self, chosen: Array) -> "Place":
        """The same for some of the images."""
        return Place(*(rows[chosen] for rows in self[:3]), self.sine)


def outline(form: str, place: Place, radius: Array) -> Array:
    """Distance of each pixel from an outline: (b, h, w) int32, < 0 inside.

    `radius` is (b, 1, 1); distances are in 1/64 pixel and exact only near the
    outline. Union is the minimum, intersection the maximum, the complement a
    minus. Lengths are percentages of the radius; areas are about equal, so that
    size tells no class.
    """
    radius = radius.astype(np.int32)
    u, v = place.along(), place.along(TURN // 4)

    def part(percent: int) -> Array:
        return radius * percent // 100

    def circle(percent: int, at_u: int = 0) -> Array:
        return circle_of(u - part(at_u), v, part(percent))

    def box(half_u: int, half_v: int, at_u: int = 0, at_v: int = 0) -> Array:
        return box_of(
            u - part(at_u), v - part(at_v), part(half_u), part(half_v)
        )

    def polygon(num_sides: int, apothem: int) -> Array:
        sides = (
            place.along(side * TURN // num_sides) for side in range(num_sides)
        )
        return reduce(np.maximum, sides) - part(apothem)

    if form in POLYGONS:
        return polygon(*POLYGONS[form])
    match form:
        case "disc":
            return circle(82)
        case "ring":
            return np.maximum(circle(95), -circle(55))
        case "cross":
            return np.minimum(box(97, 30), box(30, 97))
        case "stripes":
            return reduce(
                np.minimum, (box(88, 20, at_v=at) for at in (-68, 0, 68))
            )
        case "star":
            # outside at most one of the lines that join every second point
            lines = np.stack(
                [place.along(side * TURN // 5) for side in range(5)]
            )
            return np.partition(lines, 3, axis=0)[3] - part(37)
        case "half_disc":
            return np.maximum(circle(105, at_u=-45), -u - part(45))
        case "frame":  # a square ring
            return np.maximum(polygon(4, 84), -polygon(4, 48))
        case "ellipse":
            return circle_of(u // 2, v, part(54))
        case "arrow":
            slopes = np.maximum(place.along(TURN // 8), place.along(-TURN // 8))
            head = np.maximum(slopes - part(74), -u)
            return np.minimum(head, box(60, 22, at_u=-45))
        case "crescent":
            return np.maximum(circle(100, at_u=-15), -circle(82, at_u=40))
        case "letter_l":
            return np.minimum(box(95, 25, at_v=-37), box(25, 62, at_u=-70))
        case "letter_t":
            return np.minimum(box(24, 90, at_u=60), box(80, 24, at_u=-10))
    raise ValueError(f"no form {form!r}")


def circle_of(u: Array, v: Array, radius: Array) -> Array:
    """(|p|^2 - r^2) / 2r, which is |p| - r to first order."""
    u, v, radius = u >> 2, v >> 2, np.maximum(radius >> 2, 1)  # 1/16 pixel
    return (u * u + v * v - radius * radius) * 2 // radius


def box_of(u: Array, v: Array, half_u: Array, half_v: Array) -> Array:
    """max(|u| - half_u, |v| - half_v): the distance, but for the corners."""
    return np.maximum(np.abs(u) - half_u, np.abs(v) - half_v)


def sine_table() -> Array:
    """sin(2 pi k / TURN) in 1/2^14 for k = 0 … TURN - 1, rounded: (720,) int64.

    A quarter by Taylor's series in 1/2^60, good to 20 of these; the rest
    mirrored.
    """
    rising = []
    for step in range(TURN // 4 + 1):
        term = total = angle = TWO_PI * step // TURN
        for power in range(2, 26, 2):
            term = -term * angle * angle // (power * (power + 1)) >> 120
            total += term
        rising.append((total >> 59 - SINE_BITS) + 1 >> 1)
    half = np.array(rising + rising[-2:0:-1], dtype=np.int64)
    return np.concatenate([half, -half])
