"""What a network carries besides its configuration and weights, and its JSON.

`About(PreprocessSpec(224), ("cat", "dog")).to_json()`
"""

from typing import Any, Literal, NamedTuple, get_args

from vitedu.model.resize import ResizeMode
from vitedu.pictures import PreprocessSpec

LossName = Literal["softmax", "sigmoid"]


class About(NamedTuple):
    """What a file says of a network, apart from its configuration and weights.

    `loss_name` is the loss that it was trained by. A file says "sigmoid" alone, so that
    of any other network None comes back: unknown.
    """

    preprocess: PreprocessSpec
    class_names: tuple[str, ...] = ()  # by index; empty: unknown
    loss_name: LossName | None = None
    resize_mode: ResizeMode = (
        "paper"  # whose resampling fits positions to a grid
    )

    def to_json(self) -> dict[str, Any]:
        """Plain values; the loss and the way of resizing if they are not the usual."""
        content: dict[str, Any] = {
            "preprocess": self.preprocess.to_json(),
            "class_names": list(self.class_names),
        }
        if self.loss_name not in (None, "softmax"):
            content["loss"] = self.loss_name
        if self.resize_mode != "paper":
            content["resize"] = self.resize_mode
        return content

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "About":
        """What `to_json` wrote; other keys are left alone.

        ValueError, KeyError, TypeError or AttributeError: it cannot be understood.
        """
        spec = PreprocessSpec.from_json(values["preprocess"])
        names = values["class_names"]
        if not isinstance(names, list):
            raise TypeError("class_names is not a list")
        loss, resize = values.get("loss"), values.get("resize", "paper")
        for key, value, known in (
            ("loss", loss, (None, *get_args(LossName))),
            ("resize", resize, get_args(ResizeMode)),
        ):
            if value not in known:
                words = ", ".join(filter(None, known))
                raise ValueError(f"{key} is {value!r}, not one of {words}")
        return cls(spec, tuple(names), loss, resize)
