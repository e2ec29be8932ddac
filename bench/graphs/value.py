"""bench/gnn --what value: Dorylus's value V = 1 / (T C) of jobs on a machine on demand, on spot markets as recorded,
and on a V100 by published times."""

import dataclasses
import json
import os
import subprocess

import app
import data
import job

EPOCHS = 200
CPU_HOUR = 0.085   # dollars: c5.large on demand, 2 vCPUs
V100_HOUR = 3.06   # p3.2xlarge on demand
# Seconds of 200 epochs on a V100: dmlc/dgl, docs/source/performance.rst.
PUBLISHED = {("cora", "gcn"): {"PyG": 0.478, "DGL": 0.666}, ("cora", "gat"): {"PyG": 1.608, "DGL": 1.399},
             ("reddit", "gcn"): {"DGL": 28.6}}
REDDIT = {"vertices": 232965, "edges": 57307946, "features": 602, "classes": 41}  # Hamilton et al., 2017
MARKETS = (("spot-2021-us-east-1", "ec2"), ("spot-2016-us-east-1", "ec2-2016"))


def value(chosen, folder):
    print(f"{EPOCHS} epochs: T seconds, C dollars, V = 1 / (T C). CPU: one node on this machine, at the price of a "
          f"c5.large, ${CPU_HOUR} an hour. Spot: time and cost of bidbrain's jobs of {chosen.job_hours} hours on "
          f"recorded prices, by on demand's. V100: published times, at ${V100_HOUR} an hour\n")
    markets = [(name, *market(chosen, name, model)) for name, model in MARKETS]
    job.head(["graph", "model", "where", "T", "C", "V", "V to CPU on demand"])
    options = {}
    for (graph, model), published in PUBLISHED.items():
        if graph == "reddit" and not chosen.reddit:
            continue
        if graph not in options:
            options[graph] = options_of(chosen, graph, folder)
        seconds = seconds_of(chosen, graph, app.SETTINGS[model], options[graph])
        rows = [("CPU on demand", seconds, seconds * CPU_HOUR / 3600)]
        rows += [(f"CPU, {name}", seconds * time, seconds * CPU_HOUR / 3600 * cost) for name, time, cost in markets]
        rows += [(f"V100, {name}", time, time * V100_HOUR / 3600) for name, time in published.items()]
        base = 1 / (rows[0][1] * rows[0][2])
        for where, time, cost in rows:
            worth = 1 / (time * cost)
            job.row([graph, model, where, f"{time:.3g}", f"{cost:.3g}", f"{worth:.3g}", f"{worth / base:.2f}"])


def market(chosen, folder, model):
    """How long and how dear bidbrain's jobs are, to those on demand."""
    path = os.path.join(data.DATA, folder)
    if not os.path.isdir(path):
        job.skip(f"no prices in {path}")
    command = [os.path.join(chosen.bin, "bidbrain"), "simulate", "--json", "--prices", path, "--starts", "200",
               "--model", model, "--job-hours", str(chosen.job_hours), "--schemes", "on-demand,proteus+additions"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    base, ours = json.loads(done.stdout)["schemes"]
    return tuple(ours[key]["mean"] / base[key]["mean"] for key in ("runtime_hours", "relative_cost"))


def options_of(chosen, name, folder):
    """Of a graph of ../shared/data; `reddit` is a made-up one of its shape, packed for gcn."""
    if name != "reddit":
        return data.load(name).options
    made = app.made_graph(chosen, os.path.join(folder, "reddit"), **REDDIT)
    packed = os.path.join(folder, "reddit-packed")
    app.pack(chosen, packed, made, dataclasses.replace(app.SETTINGS["gcn"], aggregate="once"))
    return ["--graph", packed]


def seconds_of(chosen, graph, settings, options):
    """Of all epochs, from some of them: the published times have no start either."""
    packed = "--graph" in options
    settings = dataclasses.replace(settings, iterations=chosen.lengths[1] if packed else EPOCHS)
    trained = (app.options_of_training if packed else app.options_of)(settings)
    lines, _ = app.run(chosen, ["--reliable", "1"], [*options, *trained])
    return EPOCHS * job.median(job.durations(lines)[1:])
