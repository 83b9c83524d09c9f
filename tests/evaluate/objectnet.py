"""A small ObjectNet, with the published one's files."""

import json

from PIL import ImageOps

from vitedu.data import photo
from vitedu.data.imagenet import imagenet_classes

# folder, label, and what ImageNet calls it; the last isn't in ImageNet
THINGS = [
    ("coffee_drink", "Coffee", ["espresso", "coffee mug"]),
    ("house_cat", "Cat", ["Egyptian cat"]),
    ("air_freshener", "Air freshener", []),
]


def write_objectnet(root):
    """Coffee twice, once with a cat in it, a cat, and what ImageNet lacks.

    The list of labels is in another order than a model's classes, as ImageNet's
    own is.
    """
    names = imagenet_classes().names
    lines = list(range(1000))[::-1]  # line i has the class lines[i]
    mappings = root / "mappings"
    mappings.mkdir(parents=True)
    files = {
        "folder_to_objectnet_label.json": {x: y for x, y, _ in THINGS},
        "objectnet_to_imagenet_1k.json": {
            y: "; ".join(z) for _, y, z in THINGS if z
        },
        "pytorch_to_imagenet_2012_id.json": {
            str(index): line for line, index in enumerate(lines)
        },
    }
    for name, values in files.items():
        (mappings / name).write_text(json.dumps(values))
    text = "\n".join(names[index] for index in lines)
    (mappings / "imagenet_to_label_2012_v2").write_text(text + "\n")
    for folder, name, shown in (
        ("coffee_drink", "1.png", "coffee"),
        ("coffee_drink", "2.png", "cat"),
        ("house_cat", "1.png", "cat"),
        ("air_freshener", "1.png", "rocket"),
    ):
        (root / "images" / folder).mkdir(parents=True, exist_ok=True)
        framed = ImageOps.expand(photo(shown).resize((48, 48)), 2, "red")
        framed.save(root / "images" / folder / name)
    return root
