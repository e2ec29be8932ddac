"""Runs gnn and the reference programs with the same settings, for bench/gnn."""

import os
import statistics
import subprocess
import tempfile
import time

import job
import reference

SETTINGS = {
    "gcn": reference.Settings(),
    "sage": reference.Settings(model="sage"),
    "gat": reference.Settings(model="gat", layers=(8,), dropout=0.6, rate=0.005, iterations=300)}
SCALES = {"none": "none", "sum": "rows", "unit": "unit"}
ONE_NODE = ("--reliable", "1", "--threads", "1")


def options_of(settings):
    """gnn's options for these settings, all of them, so that its defaults do not matter."""
    return options_of_training(settings) + options_of_features(settings)


def options_of_features(settings):
    """Those that a packed graph has been packed with."""
    aggregate = [] if settings.model == "gat" else ["--aggregate", settings.aggregate]
    return ["--scale", SCALES[settings.scale], *aggregate]


def options_of_training(settings):
    """The others: for a packed graph all."""
    options = ["--model", settings.model, "--layers", ",".join(map(str, settings.layers)),
               "--dropout", str(settings.dropout), "--optimizer", "adam", "--rate", str(settings.rate),
               "--lambda", str(settings.decay), "--init", settings.init,
               "--iterations", str(settings.iterations), "--seed", str(settings.seed)]
    if settings.model == "gat":
        options += ["--heads", str(settings.heads), "--output-heads", str(settings.output_heads),
                    "--attention-dropout", str(settings.attention_dropout)]
    return [*options, "--anneal", str(settings.anneal)]


def pack(chosen, folder, options, settings):
    """Packs a graph for jobs of these settings; returns what `measured` does."""
    return measured([os.path.join(chosen.bin, "gnn"), "--pack", folder, *options, "--model", settings.model, "--layers",
                     ",".join(map(str, settings.layers)), *options_of_features(settings)])


def run(chosen, cluster, options, events=()):
    """A job of gnn; returns its report's lines and the CPU-seconds of all processes."""
    with tempfile.NamedTemporaryFile("w", suffix=".events") as file:
        file.write("".join(event + "\n" for event in events))
        file.flush()
        return job.run_unseen(chosen.bin, [*cluster, *(["--events", file.name] if events else [])], "gnn", options)


def iterations(lines):
    return job.of_type(lines, "iteration")


def result(settings, lines):
    """The test accuracy that papers give, in %: of gat that of the best iteration by validation, of others the last."""
    if settings.model != "gat":
        return 100 * lines[-1]["test_accuracy"]
    lines = [line for line in lines if line["validation_accuracy"] is not None]  # none right after a loss
    return 100 * max(lines, key=lambda line: (line["validation_accuracy"], -line["validation_loss"]))["test_accuracy"]


def spread(values):
    """Mean and deviation."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0
    return f"{statistics.mean(values):.2f} ± {deviation:.2f}"


def measured(command):
    """Runs a command; returns its wall seconds, CPU-seconds and peak memory in bytes, each of all its processes (the
    peak: of the largest)."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            log.seek(0)
            told = log.read().decode(errors="replace").splitlines()
            raise job.Failed(f"{' '.join(command[:2])}: " + (told[-1] if told else f"status {process.returncode}"))
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def made_graph(chosen, folder, **shape):
    """Writes a made-up graph (graph_lines --help: its options); returns gnn's options that name its files."""
    program = os.path.join(chosen.bin, os.pardir, "bench", "graph_lines")
    if not os.access(program, os.X_OK):
        raise job.Failed(f"no {program}; build it")
    words = [word for name, value in shape.items() for word in ("--" + name, str(value))]
    measured([program, "--out", folder, *words])
    return ["--edges", os.path.join(folder, "edges.npy"), "--features", os.path.join(folder, "features.npy"),
            "--labels", os.path.join(folder, "labels.txt"), "--split", os.path.join(folder, "split.txt")]
