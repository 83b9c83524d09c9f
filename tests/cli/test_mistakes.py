"""What people mistype and mistake: each time one sentence, and nothing lost."""

import os
import shlex
import shutil

import pytest
from safetensors.torch import load_file, save_file

from tests.cli.small import write_model, write_picture, write_pictures
from vitedu.cli import main
from vitedu.cli.output import rows_in

# a command, and a part of the sentence that it gets; `run` is one of digits
MISTAKES = rows_in("""
    trian  did you mean 'train'
    help trian  did you mean 'train'
    train  train needs a recipe; known:
    train mnist-tiy  did you mean 'mnist-tiny'
    train digits mnist-seed  takes one recipe
    train digits warm_up=0.1  no setting 'warm_up'; did you mean 'warmup'
    train finetune dta=photos  no field 'dta'; did you mean 'data'
    train digits learning_rate=1e-3  did you mean 'lr' (learning rate, the
    train digits bs=8  did you mean 'batch_size' (images per update)
    train digits warmup_steps=8  did you mean 'warmup' (share of the steps in
    train digits img_size=32  did you mean 'model.image_size' (height
    train digits num_classes=3  did you mean 'model.num_classes' (
    train digits augment.mixup=0.2  did you mean 'mixup' (alpha of
    train digits depth=2  did you mean 'model.depth' (
    train digits model.dept=2  did you mean 'depth'
    train digits recipe=other  name the recipe after train
    train digits lr=fast  lr must be a number above 0, got 'fast'
    train digits lr=nan  number above 0, got nan
    train digits batch_size=0  batch_size must be a whole
    train digits num_workers=2000  at most 1024
    train digits model.depth=0  depth must be a whole number
    train digits model.depth=20000  at most 4096
    train digits model.embed_dim=4000000 model.num_heads=4  of memory
    train digits model.patch_size=5  28 is not a multiple of the patch
    train digits model.num_classes=12  10 classes, the model 12
    train digits lr=1e-3 --tier huge  no tier 'huge'
    train digits --devise cpu  did you mean '--device'
    train digits --device cuda:99  cuda:99
    train digits --device tpu  tpu
    train digits --out  expected one argument
    train digits --resume nowhere  nowhere is not a run folder
    train mnist-tiny  VITEDU_OFFLINE=1 forbids the download
    train mnist-tiny  fallback=digits
    train mnist-tiny data=nowhere  nowhere
    train mnist-tiny data=empty  empty
    train mnist-tiny data=flat  flat
    train shapes-small data=photos model.num_classes=3  2 classes
    train finetune weights=shapes-small  name yours: data=FOLDER
    train --resume run lr=1  lr cannot change
    train --resume run --tier cpu
        uses the run's own folder and tier; leave out
    train mnist-tiny --resume run  contains a run of digits
    train digits --out photos --fresh  photos is not a run folder
    train digits --steps 5  settings have no dashes: steps=VALUE
    train digits --log-every=5  settings have no dashes: log_every=VALUE
    train digits --model.depth 4  settings have no dashes: model.depth=VALUE
    info ViT-B/15  did you mean 'ViT-B/16'
    info ViT-Ti16  a run folder; did you mean 'ViT-Ti/16'?
    info ''  '' is not a model, a recipe, a file
    info data device  takes one name
    info data image_size=384  image_size belongs to a model
    evaluate  needs WEIGHTS
    evaluate absent.safetensors digits  no file or run folder
    evaluate google/vit-base-patch16-224  as a model of the hub
    evaluate w.safetensors mnist fallback=shapes  only digits can stand in
    evaluate w.safetensors  name a data set
    evaluate run digits labels=labels.csv  are for a folder of pictures
    evaluate run digits --real real.json  digits isn't one
    evaluate run flat  labels=FILE.csv
    evaluate run photos  2 folders (ants, bees); its classes: 0, 1, 2, 3, 4
    evaluate run data=a data=b  data= is given twice
    evaluate w.safetensors photos --real real.json
        needs a model with ImageNet's 1,000 classes
    evaluate ViT-Ti/16  name a data set or a folder of pictures
    evaluate ViT-Ti/16 digits  digits has 10 classes, ViT-Ti/16 has 1000
    evaluate theirs.safetensors digits num_heads=three  be a whole number
    predict absent.safetensors  at least one IMAGE
    predict ViT-Ti/16 gone.png  gone.png does not exist
    predict ViT-Ti/16 notes.txt  notes.txt: it is not a picture
    predict ViT-B/16 a.png  which needs no network
    predict ViT-Ti/61 a.png  did you mean 'ViT-Ti/16'
    predict ViT-Ti16 a.png  no weights 'ViT-Ti16'; did you mean 'ViT-Ti/16'?
    predict runs/nope x.jpg  there is no file or run folder 'runs/nope'
    predict ./rum a.png  did you mean './run'
    predict a.png run  as in `vitedu predict ViT-Ti/16 a.png`
    predict ViT-Ti/14 a.png  no trained weights of 'ViT-Ti/14'
    predict w.safetensors a.png --top 0  --top is 0
    predict w.safetensors a.png --top x  --top
    predict w.safetensors a.png image_size=800000  of memory
    predict w.safetensors -x.jpg  what follows -- is never an option
    predict w.safetensors photos empty
        there are no pictures in empty, which contains 1 file (notes.txt)
    predict w.safetensors bad --csv out.csv
        none of the pictures can be read; the first of 1:
    predict w.safetensors photos gone.png --csv o.csv  gone.png does not exist
    predict w.safetensors photos --csv gone/out.csv  cannot write gone
    predict w.safetensors photos --csv out.txt  ends in .csv
    predict w.safetensors photos --csv .csv  ends in .csv
    predict theirs.safetensors a.png  give num_heads=
    predict theirs.safetensors a.png num_heads=3 pool=none
        logits for every token
    predict theirs.safetensors a.png num_heads=3 pool=nun  did you mean 'none'
    convert w.safetensors t  TARGET and --to FORMAT; known: vitedu, npz
    convert w.safetensors t --to tim  did you mean 'timm'
    convert w.safetensors t --into timm  did you mean '--to'
    convert absent.npz t --to timm  absent.npz
    convert w.safetensors w.npz --to timm  written to a folder
    convert w.safetensors t --to timm num_heads=two
        num_heads must be a whole number of at least 1, got 'two'
    convert w.safetensors t --to timm image_size=16,x
        image_size must be one number, or 2 whole numbers
    convert w.safetensors t --to timm num_heads=2
        says itself that num_heads is 3, not 2
    convert w.safetensors t --to timm image_size=16,24
        says itself that image_size is (16, 16), not (16, 24)
    prepare photos  prepare needs FOLDER and OUT
    prepare photos small short_side=big  short_side
    prepare photos small qualty=3  did you mean 'quality'?
    prepare nowhere small  there is no folder 'nowhere'
    prepare photos photos/x  is inside
    prepare photos empty  (notes.txt), and prepare doesn't write among them
    report  report needs one RUN
    report photos  config.json is missing
    report half  result.json is missing; `vitedu train --resume half`
    bench --device cpu  needs one MODEL
    bench ViT-S/61  did you mean 'ViT-S/16'
    bench ViT-S/16 imagesize=32  did you mean 'image_size'
    bench ViT-S/16 mlp_dim=4000000000  of memory
    bench ViT-S/16 --against trimm --device cpu  did you mean 'timm'
    bench ViT-S/16 --rounds 2 --device cpu  at least 5 and at most 1000000
    bench ViT-S/16 --batch 0 --device cpu  of at least 1, got 0
    bench ViT-S/16 --batch 1000000000 --device cpu  take a smaller batch
    bench ViT-S/16 --threads 1000000000  at most 1024
    bench ViT-S/16 --bach 4  did you mean '--batch'
""")
BAD_PATHS = ["", "n" * 300, "loop", "pipe", "w.safetensors/x"]


@pytest.fixture(scope="module")
def everything(tmp_path_factory, trained_once):
    """A folder with a run, weights and pictures."""
    folder = tmp_path_factory.mktemp("mistakes")
    shutil.copytree(trained_once, folder / "run")
    (folder / "half").mkdir()
    shutil.copy(folder / "run/config.json", folder / "half")
    write_model(folder / "w.safetensors", ("ants", "bees"))
    arrays = load_file(folder / "w.safetensors")
    save_file(arrays, folder / "theirs.safetensors")
    write_pictures(folder / "photos", ants=3, bees=3)
    write_picture(folder / "flat/x.png")
    write_picture(folder / "a.png")
    (folder / "empty").mkdir()
    (folder / "bad").mkdir()
    (folder / "bad/1.png").write_bytes(b"no picture")
    for path in ("notes.txt", "empty/notes.txt"):
        (folder / path).write_text("no picture")
    return folder


@pytest.fixture
def here(here, everything, monkeypatch):
    """That folder, which no mistake changes."""
    monkeypatch.chdir(everything)
    before = sorted(everything.rglob("*"))
    yield everything
    assert sorted(everything.rglob("*")) == before


@pytest.mark.parametrize(
    ("typed", "said"), MISTAKES, ids=lambda text: text[:50]
)
def test_a_mistake_is_one_sentence(here, sentence, typed, said):
    line = sentence(*shlex.split(typed))
    assert said in line and len(line) < 2200


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "info PATH",
        "predict PATH a.png",
        "predict w.safetensors PATH",
        "evaluate PATH digits",
        "evaluate w.safetensors PATH",
        "evaluate w.safetensors digits data=PATH",
        "evaluate w.safetensors photos labels=PATH",
        "convert PATH target --to timm",
        "convert w.safetensors PATH --to timm",
        "train digits --out PATH",
        "train digits --out PATH --fresh",
        "train --resume PATH",
        "train shapes-small data=PATH",
        "train finetune weights=PATH data=photos",
        "train finetune weights=w.safetensors data=PATH",
        "bench PATH",
    ],
)
def test_a_bad_path_is_one_sentence_for_every_command(here, sentence, words):
    (here / "loop").symlink_to("loop")
    os.mkfifo(here / "pipe")
    try:
        for path in BAD_PATHS:
            typed = [word.replace("PATH", path) for word in words.split()]
            assert len(sentence(*typed)) > len("vitedu: ")
    finally:
        (here / "loop").unlink()
        (here / "pipe").unlink()


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0,
    reason="the administrator may read everything",
)
@pytest.mark.parametrize(
    "words",
    [
        "info secret",
        "predict w.safetensors secret/a.png",
        "evaluate w.safetensors secret",
        "train digits --out secret",
        "train digits --out secret --fresh",
        "train --resume secret",
        "train shapes-small data=secret",
    ],
)
def test_a_folder_without_permission_is_one_sentence(here, sentence, words):
    (here / "secret").mkdir(mode=0)
    try:
        assert "ermission denied" in sentence(*words.split())
    finally:
        (here / "secret").rmdir()


def test_an_old_table_stays_if_the_new_one_fails(here, sentence):
    table = here / "old.csv"
    words = ["predict", "w.safetensors", "--csv", "old.csv"]
    assert main([*words, "photos"]) == 0
    before = table.read_bytes()
    assert len(before.splitlines()) == 7
    sentence(*words, "gone.png")
    assert table.read_bytes() == before
    table.unlink()
