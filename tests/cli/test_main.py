import json
from pathlib import Path

import pytest
from PIL import Image

import vitedu
from tests.cli.small import SMOKE, TINY, write_pictures
from vitedu import results
from vitedu.cli import main
from vitedu.cli.main import COMMANDS
from vitedu.data import load_dataset
from vitedu.train import fit, override, recipe


def test_version_is_the_package_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == vitedu.__version__


@pytest.mark.parametrize("name", ["", "data", "device", "digits", "ViT-Ti/16"])
def test_info_answers_in_text_and_in_json(here, capsys, name):
    assert main(["info", *name.split()]) == 0
    assert capsys.readouterr().out.strip()
    assert main(["info", *name.split(), "--json"]) == 0
    assert isinstance(json.loads(capsys.readouterr().out), dict)


def test_info_of_the_device_says_what_was_measured_on_which_card(
    here, answer, capsys, monkeypatch
):
    record = results.read("throughput-cpu") | {
        "name": "gpu-steps",
        "hardware": "NVIDIA H100",
        "date": "2026-01-31",
        "status": "interrupted",
    }
    monkeypatch.setattr(results, "FOLDER", here)
    assert main(["info", "device"]) == 0
    assert "no lot has run" in capsys.readouterr().out
    results.write(here / "gpu-steps.json", record)
    (measured,) = answer("info", "device")["measured_on_gpus"]
    assert measured == {name: record[name] for name in measured}
    assert main(["info", "device"]) == 0
    shown = capsys.readouterr().out
    assert "NVIDIA H100, 2026-01-31, in part" in " ".join(shown.split())


@pytest.mark.slow
@pytest.mark.parametrize("words", [["digits"], ["finetune", "data=photos"]])
def test_info_of_a_recipe_prints_what_its_run_then_uses(
    here, answer, monkeypatch, words
):
    monkeypatch.setenv("VITEDU_TIER", "smoke")
    write_pictures(here / "photos", ants=6, bees=6)
    said = answer("info", words[0], "--device", "cpu")
    answer("train", *words, "--out", "run", "--device", "cpu")
    used = json.loads((here / "run/config.json").read_text())
    # what the data decide, and what the work of a step decides
    for each in (said, used):
        each["model"].pop("num_classes")
        del each["dataset"], each["threads"], each["num_workers"]
    assert {name: said[name] for name in used} == used


def test_info_of_a_model_holds_its_exact_size(here, answer):
    assert answer("info", "ViT-B/16")["parameters"] == 86_567_656
    assert answer("info", "ViT-B/16", "image_size=384")["tokens"] == 577
    # timm's name, of 37x37 patches
    tokens = answer("info", "vit_small_patch14_reg4_dinov2")["tokens"]
    assert tokens == 37 * 37 + 5


def test_train_leaves_the_files_of_a_run(run):
    wanted = ".lock config.json log.jsonl checkpoint.pt result.json curves.png"
    names = {path.name for path in run.iterdir()}
    assert names == {*wanted.split(), "model.safetensors"}


def test_json_is_one_object_and_the_talk_goes_to_stderr(here, capsys):
    assert main([*SMOKE, "--json"]) == 0
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert answer["status"] == "finished"
    assert answer["command"].startswith("vitedu train digits model.embed_dim=8")
    assert "runs/digits-" in err


@pytest.mark.slow
def test_the_default_folder_is_named_by_recipe_and_configuration(here):
    for seed in (0, 1, 0):
        main([*SMOKE, f"seed={seed}"])
    folders = sorted(path.name for path in (here / "runs").iterdir())
    assert len(folders) == 2
    assert all(
        name.startswith("digits-") and len(name) == 15 for name in folders
    )


@pytest.mark.slow
def test_fresh_keeps_the_old_run_aside(run):
    assert main([*SMOKE, "--out", str(run), "--fresh"]) == 0
    assert (run.with_name("run.1") / "model.safetensors").is_file()
    first = (run.with_name("run.1") / "model.safetensors").read_bytes()
    assert (run / "model.safetensors").read_bytes() == first


def test_resume_takes_the_configuration_from_the_folder(run):
    (run / "result.json").unlink()
    (run / "model.safetensors").unlink()
    assert main(["train", "--resume", str(run), "micro_batch_size=16"]) == 0
    assert (run / "model.safetensors").is_file()


def test_evaluate_agrees_with_the_run(run, answer):
    found = answer("evaluate", run, "digits")
    trained = json.loads((run / "result.json").read_text())
    # the run was cut to 512 test images, of which digits has 500: the same ones
    assert found["accuracy"] == trained["metrics"]["test_accuracy"]["value"]
    assert found["num_images"] == 500


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
    said = sentence("evaluate", "trained")
    assert "was given its data in Python (train=tuple)" in said
    said = sentence("evaluate", "tested/model.safetensors")
    assert "was given its data in Python (test=tuple)" in said
    assert "vitedu evaluate tested/model.safetensors photos/val" in said
    for name in ("trained", "tested"):
        assert main(["evaluate", name, "digits"]) == 0
        assert "500 test images of digits" in capsys.readouterr().out


def test_a_loss_that_is_not_finite_stops_with_the_way_out(here, sentence):
    words = [*SMOKE, "--out", "run", "lr=1e30", "warmup=0"]
    said = sentence(*words, "schedule=constant", "optimizer=sgd")
    assert "between steps" in said and "precision fp32" in said


def test_evaluate_reads_class_folders_and_a_folder_with_labels(run, answer):
    test, rows = load_dataset("digits").test.first(20), []
    for index, label in enumerate(test.labels.tolist()):
        for folder in (f"classes/{label}", "flat"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            image = Image.fromarray(test.images[index, 0].numpy())
            image.save(f"{folder}/{index:02}.png")
        rows.append(f"{index:02}.png,{label}\n")
    Path("labels.csv").write_text(f"filename,class_index\n{''.join(rows)}")
    want = vitedu.evaluate.accuracy(run, test)
    for words in (["classes"], ["flat", "labels=labels.csv"]):
        found = answer("evaluate", run, *words)
        assert found["num_images"] == 20
        assert found["num_correct"] == want.num_correct
        assert found["num_top5_correct"] == want.num_top5_correct
        assert found["loss"] == pytest.approx(want.loss)


def test_ctrl_c_ends_any_command_in_a_word(monkeypatch, capsys):
    def interrupted(options):
        raise KeyboardInterrupt

    command = COMMANDS["info"]._replace(run=interrupted)
    monkeypatch.setitem(COMMANDS, "info", command)
    assert main(["info"]) == 130
    assert capsys.readouterr().err == "vitedu: interrupted\n"
