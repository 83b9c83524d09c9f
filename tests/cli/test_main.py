import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

import vitedu
from vitedu.cli import main
from vitedu.cli.main import COMMANDS
from vitedu.data import load_dataset
from vitedu.train import fit, override, recipe

TINY = [
    "model.embed_dim=8",
    "model.depth=1",
    "model.num_heads=2",
    "model.mlp_dim=8",
]


@pytest.fixture(scope="session")
def trained_once(tmp_path_factory):
    """The run folder of the digits at tier smoke."""
    folder = tmp_path_factory.mktemp("trained")
    words = ["train", "digits", *TINY, "--tier", "smoke", "--out", "run"]
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("VITEDU_OFFLINE", "1")
        assert main(words) == 0
    return folder / "run"


@pytest.fixture
def run(here, trained_once):
    """A copy of that run folder, as `run` in the folder to work in."""
    return shutil.copytree(trained_once, here / "run")


def test_version_is_the_package_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == vitedu.__version__


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trian"], "did you mean 'train'"),
        (["train"], "train needs a recipe; known: "),
        (["train", "mnist-tiy"], "did you mean 'mnist-tiny'"),
        (["train", "digits", "mnist-seed"], "takes one recipe"),
        (
            ["train", "digits", "warm_up=0.1"],
            "no field 'warm_up'; did you mean 'warmup'",
        ),
        (["train", "digits", "model.dept=2"], "did you mean 'depth'"),
        (
            ["train", "digits", "lr=fast"],
            "lr must be a number above 0, got 'fast'",
        ),
        (["train", "digits", "batch_size=0"], "batch_size must be a whole"),
        (["train", "digits", "model.depth=0"], "depth must be a whole number"),
        (
            ["train", "digits", "model.patch_size=5"],
            "28 is not a multiple of the patch",
        ),
        (["train", "digits", "lr=nan"], "number above 0, got nan"),
        (["train", "digits", "lr=1e-3", "--tier", "huge"], "no tier 'huge'"),
        (["train", "digits", "--devise", "cpu"], "did you mean '--device'"),
        (["train", "digits", "--device", "cuda:99"], "cuda:99"),
        (["train", "digits", "--device", "tpu"], "tpu"),
        (["train", "digits", "--out"], "expected one argument"),
        (
            ["train", "digits", "--resume", "nowhere"],
            "nowhere is not a run folder",
        ),
        (["train", "mnist-tiny"], "VITEDU_OFFLINE=1 forbids the download"),
        (
            ["train", "digits", "model.num_classes=12"],
            "10 classes, the model 12",
        ),
        (["train", "digits", "model.in_channels=3"], "3"),
        (["info", "ViT-B/15"], "did you mean 'ViT-B/16'"),
        (["info", "data", "device"], "takes one name"),
        (["evaluate"], "needs WEIGHTS"),
        (["evaluate", "absent.safetensors", "digits"], "no file or run folder"),
        (
            ["evaluate", "google/vit-base-patch16-224"],
            "as a model of the hub",
        ),
        (["predict", "absent.safetensors"], "at least one IMAGE"),
    ],
)
def test_a_mistake_gets_one_sentence(here, words, said, sentence):
    assert said in sentence(*words)
    assert not (here / "runs").exists()


def test_a_mistake_with_json_is_json_on_stdout_too(here, capsys):
    assert main(["info", "ViT-B/15", "--json"]) == 2
    out, err = capsys.readouterr()
    assert f"vitedu: {json.loads(out)['error']}\n" == err
    assert "did you mean" in err


def test_debug_shows_the_traceback(here):
    with pytest.raises(vitedu.UserError):
        main(["info", "ViT-B/15", "--debug"])


@pytest.mark.parametrize("name", ["", "data", "device", "digits", "ViT-Ti/16"])
def test_info_answers_in_text_and_in_json(here, capsys, name):
    assert main(["info", *name.split()]) == 0
    assert capsys.readouterr().out.strip()
    assert main(["info", *name.split(), "--json"]) == 0
    assert isinstance(json.loads(capsys.readouterr().out), dict)


def test_info_of_a_model_holds_its_exact_size(here, capsys):
    main(["info", "ViT-B/16", "--json"])
    assert json.loads(capsys.readouterr().out)["parameters"] == 86_567_656


def test_info_of_a_run_shows_architecture_and_preprocessing(run, capsys):
    assert main(["info", str(run), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["config"]["embed_dim"] == 8
    assert answer["preprocess"]["in_channels"] == 1
    assert answer["class_names"] == [str(digit) for digit in range(10)]


def test_train_leaves_the_files_of_a_run(run):
    names = {path.name for path in run.iterdir()}
    assert names == {
        ".lock",
        "config.json",
        "log.jsonl",
        "checkpoint.pt",
        "result.json",
        "model.safetensors",
        "curves.png",
    }


def test_json_is_one_object_and_the_talk_goes_to_stderr(here, capsys):
    assert main(["train", "digits", *TINY, "--tier", "smoke", "--json"]) == 0
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert answer["status"] == "finished"
    assert answer["command"].startswith("vitedu train digits model.embed_dim=8")
    assert "runs/digits-" in err


@pytest.mark.slow
def test_words_and_options_come_in_any_order(here):
    words = [
        "train",
        "--tier",
        "smoke",
        "digits",
        "--out",
        "run",
        "seed=3",
        *TINY,
    ]
    assert main(words) == 0
    assert json.loads((here / "run/config.json").read_text())["seed"] == 3


@pytest.mark.slow
def test_the_default_folder_is_named_by_recipe_and_configuration(here):
    for seed in (0, 1, 0):
        main(["train", "digits", *TINY, "--tier", "smoke", f"seed={seed}"])
    folders = sorted(path.name for path in (here / "runs").iterdir())
    assert len(folders) == 2
    assert all(
        name.startswith("digits-") and len(name) == 15 for name in folders
    )


def test_a_finished_run_is_not_repeated(run, capsys):
    before = (run / "result.json").stat().st_mtime_ns
    assert (
        main(["train", "digits", *TINY, "--tier", "smoke", "--out", str(run)])
        == 0
    )
    assert "test accuracy" in capsys.readouterr().out
    assert (run / "result.json").stat().st_mtime_ns == before


@pytest.mark.slow
def test_fresh_keeps_the_old_run_aside(run):
    words = ["train", "digits", *TINY, "--tier", "smoke"]
    assert main([*words, "--out", str(run), "--fresh"]) == 0
    assert (run.with_name("run.1") / "model.safetensors").is_file()
    first = (run.with_name("run.1") / "model.safetensors").read_bytes()
    assert (run / "model.safetensors").read_bytes() == first


def test_another_configuration_in_the_folder_is_refused_by_name(run, sentence):
    words = [
        "train",
        "digits",
        *TINY,
        "--tier",
        "smoke",
        "--out",
        run,
        "lr=0.5",
    ]
    assert "lr=0.003, this one has lr=0.5" in sentence(*words)


def test_resume_takes_the_configuration_from_the_folder(run):
    (run / "result.json").unlink()
    (run / "model.safetensors").unlink()
    assert main(["train", "--resume", str(run), "micro_batch_size=16"]) == 0
    assert (run / "model.safetensors").is_file()


def test_resume_refuses_what_would_make_it_another_run(run, sentence):
    assert "lr cannot change" in sentence("train", "--resume", run, "lr=1")


@pytest.mark.parametrize("words", [["--tier", "cpu"], ["--tier=cpu"]])
def test_resume_refuses_a_tier(run, words, sentence):
    said = sentence("train", "--resume", run, *words)
    assert "uses the run's own folder and tier; leave out" in said


@pytest.mark.slow
def test_resume_does_not_mind_the_tier_of_the_environment(run, monkeypatch):
    monkeypatch.setenv("VITEDU_TIER", "cpu")
    assert main(["train", "--resume", str(run)]) == 0


def test_resume_refuses_another_recipe(run, sentence):
    said = sentence("train", "mnist-tiny", "--resume", run)
    assert "contains a run of digits" in said


def test_evaluate_agrees_with_the_run(run, capsys):
    assert main(["evaluate", str(run), "digits", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    trained = json.loads((run / "result.json").read_text())
    # the run was cut to 512 test images, of which digits has 500: the same ones
    assert answer["accuracy"] == trained["metrics"]["test_accuracy"]["value"]
    assert answer["num_images"] == 500


def test_evaluate_takes_the_data_set_from_the_run(run, capsys, monkeypatch):
    monkeypatch.setenv("HOME", str(run.parent))
    for path in (str(run), "~/run"):
        assert main(["evaluate", path]) == 0
        assert "500 test images of digits" in capsys.readouterr().out


@pytest.mark.slow
def test_evaluate_reads_what_stood_in_for_the_data_of_a_run(here, capsys):
    words = ["train", "mnist-tiny", *TINY, "fallback=digits", "steps=2"]
    assert main([*words, "epochs=none", "--tier", "smoke", "--out", "r"]) == 0
    capsys.readouterr()
    assert main(["evaluate", "r"]) == 0
    assert "500 test images of digits" in capsys.readouterr().out


@pytest.mark.slow
def test_evaluate_asks_for_data_that_were_given_in_python(
    here, capsys, sentence
):
    digits = load_dataset("digits")
    config = override(
        recipe("digits", "smoke"), dict(x.split("=") for x in TINY)
    )
    pair = (digits.test.images, digits.test.labels)
    fit(config, "trained", train=pair)
    fit(config, "tested", test=pair)
    assert "was trained on data given in Python (train=tuple)" in sentence(
        "evaluate", "trained"
    )
    said = sentence("evaluate", "tested/model.safetensors")
    assert "was tested on data given in Python (test=tuple)" in said
    assert "vitedu evaluate tested/model.safetensors photos/val" in said
    for name in ("trained", "tested"):
        assert main(["evaluate", name, "digits"]) == 0
        assert "500 test images of digits" in capsys.readouterr().out


def test_evaluate_reads_an_npz_file(run, here, capsys):
    dataset = load_dataset("digits")
    images, labels = (
        dataset.test.images[:, 0].numpy(),
        dataset.test.labels.numpy(),
    )
    np.savez(
        "my.npz", x_train=images, y_train=labels, x_test=images, y_test=labels
    )
    assert main(["evaluate", str(run), "my.npz", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["num_images"] == 500


def test_evaluate_of_a_lone_file_asks_for_the_data_set(run, here, sentence):
    (here / "lone").mkdir()
    (run / "model.safetensors").rename(here / "lone/model.safetensors")
    said = sentence("evaluate", "lone/model.safetensors")
    assert "name a data set" in said


def test_predict_names_the_likeliest_classes(run, here, capsys):
    pixels = load_dataset("digits").test.images[:2, 0].numpy()
    for number, array in enumerate(pixels):
        Image.fromarray(array).save(f"{number}.png")
    assert (
        main(["predict", str(run), "0.png", "1.png", "--top", "3", "--json"])
        == 0
    )
    first, second = json.loads(capsys.readouterr().out)["predictions"]
    assert first["image"] == "0.png" and second["image"] == "1.png"
    shares = [entry["probability"] for entry in first["top"]]
    assert len(shares) == 3 and shares == sorted(shares, reverse=True)
    model = vitedu.load(run)
    logits = model(vitedu.preprocess(model, "0.png"))
    assert first["top"][0]["class"] == model.class_names[logits.argmax()]


def test_predict_says_which_picture_cannot_be_read(run, here, sentence):
    (here / "notes.png").write_text("no picture")
    assert "notes.png" in sentence("predict", run, "notes.png")
    assert "absent.png" in sentence("predict", run, "absent.png")


def test_predict_refuses_a_top_of_zero(run, here, sentence):
    assert "--top is 0" in sentence("predict", run, "a.png", "--top", "0")


@pytest.mark.slow
def test_the_tier_is_read_from_the_environment(here, monkeypatch):
    monkeypatch.setenv("VITEDU_TIER", "smoke")
    assert main(["train", "digits", *TINY, "--out", "run"]) == 0
    assert json.loads((here / "run/config.json").read_text())["tier"] == "smoke"


def test_a_loss_that_is_not_finite_stops_with_the_way_out(here, sentence):
    words = [
        "train",
        "digits",
        *TINY,
        "--tier",
        "smoke",
        "--out",
        "run",
        "lr=1e30",
    ]
    said = sentence(*words, "warmup=0", "schedule=constant", "optimizer=sgd")
    assert "between steps" in said and "precision fp32" in said


def digit_folder(folder, count=20):
    """The first test digits as pictures in class folders; and a flat twin."""
    digits = load_dataset("digits").test
    rows = ["filename,class_index"]
    for index in range(count):
        label = int(digits.labels[index])
        image = Image.fromarray(digits.images[index, 0].numpy())
        for path in (
            folder / f"classes/{label}/{index:02}.png",
            folder / f"flat/{index:02}.png",
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            image.save(path)
        rows.append(f"{index:02}.png,{label}")
    (folder / "labels.csv").write_text("\n".join(rows) + "\n")


def test_evaluate_reads_folders_of_pictures(run, capsys):
    digit_folder(run.parent)
    model = vitedu.load(run)
    test = load_dataset("digits").test
    pixels = vitedu.data.normalise(test.images[:20], model.preprocess)
    with torch.no_grad():
        right = model(pixels).argmax(dim=1) == test.labels[:20]
    answers = []
    for words in (["classes"], ["flat", "labels=labels.csv"]):
        assert main(["evaluate", str(run), *words, "--json"]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    for answer in answers:
        assert answer["num_images"] == 20
        assert answer["num_correct"] == int(right.sum())
        assert answer["num_correct"] <= answer["num_top5_correct"] <= 20
    assert answers[0]["loss"] == pytest.approx(answers[1]["loss"])


def test_evaluate_says_what_is_wrong_with_a_folder(run, sentence):
    digit_folder(run.parent, count=3)
    (run.parent / "classes/cat").mkdir()
    Image.new("L", (9, 9)).save(run.parent / "classes/cat/x.png")
    said = sentence("evaluate", run, "classes")
    assert "the first is 'cat'; its classes: 0, 1, 2, 3, 4" in said
    said = sentence("evaluate", run, "digits", "labels=labels.csv")
    assert "labels= is for a folder" in said
    said = sentence("evaluate", run, "flat")
    assert "labels=FILE.csv" in said
    said = sentence("evaluate", run, "data=a", "data=b")
    assert "data= is given twice" in said


TINY_BENCH = [
    "bench",
    "ViT-Ti/16",
    "image_size=32",
    "embed_dim=16",
    "num_heads=2",
    "mlp_dim=24",
    "depth=1",
    "num_classes=3",
    "--batch",
    "1",
    "--rounds",
    "5",
    "--threads",
    "1",
    "--device",
    "cpu",
    "--against",
    "vit-pytorch,torchvision",
]


@pytest.fixture
def short_turns(monkeypatch):
    from vitedu.bench import measure, peers

    monkeypatch.setattr(measure, "TURN_SECONDS", 1e-9)
    monkeypatch.setattr(measure, "WARM_UP", 1)
    found = peers.importlib.util.find_spec
    monkeypatch.setattr(
        peers.importlib.util,
        "find_spec",
        lambda name: None if name == "vit_pytorch" else found(name),
    )


@pytest.mark.slow
def test_bench_answers_in_text_and_in_json(short_turns, capsys):
    assert main(TINY_BENCH) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].startswith("ViT-Ti/16: ") and "32x32" in lines[0]
    heads = [line.split()[0] for line in lines if "ours / theirs" in line]
    assert heads == ["inference", "training"]
    assert "vit-pytorch did not take part: vit-pytorch is not installed" in out
    assert "warming up" in err
    assert main([*TINY_BENCH, "--training", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["model"] == "ViT-Ti/16" and "inference" not in answer
    assert answer["training"]["fastest_peer"] == "torchvision"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "needs one MODEL"),
        (["ViT-S/61"], "did you mean 'ViT-S/16'"),
        (["ViT-S/16", "imagesize=32"], "did you mean 'image_size'"),
        (["ViT-S/16", "--against", "trimm"], "did you mean 'timm'"),
        (["ViT-S/16", "--rounds", "2"], "of at least 5 and at most 1000000"),
        (["ViT-S/16", "--batch", "0"], "of at least 1, got 0"),
        (["ViT-S/16", "--bach", "4"], "did you mean '--batch'"),
    ],
)
def test_bench_says_what_is_wrong(words, said, sentence):
    assert said in sentence("bench", *words, "--device", "cpu")


def test_ctrl_c_ends_any_command_in_a_word(monkeypatch, capsys):
    def interrupted(options):
        raise KeyboardInterrupt

    command = COMMANDS["info"]._replace(run=interrupted)
    monkeypatch.setitem(COMMANDS, "info", command)
    assert main(["info"]) == 130
    assert capsys.readouterr().err == "vitedu: interrupted\n"


def test_what_is_no_setting_is_refused(run, sentence):
    said = sentence("train", "digits", "recipe=other")
    assert "name the recipe after train" in said
    said = sentence("train", "--resume", run, "--tier", "cpu")
    assert "leave out --fresh, --out and --tier" in said


@pytest.mark.slow
def test_train_says_what_it_found_in_the_folder(run, capsys):
    assert main(["train", "--resume", str(run)]) == 0
    assert "finished; --fresh repeats it" in capsys.readouterr().err
    (run / "model.safetensors").unlink()
    assert main(["train", "--resume", str(run)]) == 0
    assert "run, going on at step 20" in capsys.readouterr().err


def test_info_of_a_recipe_says_what_it_is_for(here, capsys):
    assert main(["info", "paper-jft"]) == 0
    assert "JFT-300M" in capsys.readouterr().out.splitlines()[0]


@pytest.mark.slow
def test_bench_takes_fields_as_train_does(short_turns):
    words = [x.replace("image_size=", "model.image_size=") for x in TINY_BENCH]
    assert words != TINY_BENCH and main(words) == 0
