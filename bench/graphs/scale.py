"""bench/gnn --what scale: a made-up graph of a million vertices: packing, memory, time and messages on 1, 2 and 4
nodes."""

import dataclasses
import os

import app
import data
import job
import reference

NODES = (1, 2, 4)
COMPARED = 50  # iterations on the smaller graph


def settings_of(model):
    """As gnn has it without options: dense features, so their averages are taken once."""
    hidden = app.SETTINGS[model].layers if model == "gat" else (64,)
    return dataclasses.replace(app.SETTINGS[model], layers=hidden, scale="none", aggregate="once")


def scale(chosen, folder):
    made = app.made_graph(chosen, os.path.join(folder, "made"), vertices=chosen.vertices, edges=chosen.edges,
                          features=chosen.features)
    print(f"A made-up graph, {chosen.vertices:,} vertices, {chosen.edges:,} edges, {chosen.features} features\n")
    job.head(["packed for", "seconds", "CPU-seconds", "GB at most", "MB of parts"])
    for model in chosen.models:
        wall, cpu, peak = app.pack(chosen, os.path.join(folder, model), made, settings_of(model))
        size = sum(entry.stat().st_size for entry in os.scandir(os.path.join(folder, model)))
        job.row([model, f"{wall:.1f}", f"{cpu:.1f}", f"{peak / 1e9:.2f}", f"{size / 1e6:.0f}"])
    print()
    job.head(["model", "nodes", "seconds an iteration", "CPU-seconds", "MB sent", "GB of the largest node",
              "bytes a vertex of all nodes", "test accuracy"])
    for model in chosen.models:
        for nodes in NODES:
            of_nodes(chosen, os.path.join(folder, model), model, nodes)
    compare(chosen, folder)


def compare(chosen, folder):
    """gnn and the reference on a tenth of the graph."""
    path = os.path.join(folder, "tenth")
    made = app.made_graph(chosen, path, vertices=chosen.vertices // 10, edges=chosen.edges // 10,
                          features=chosen.features)
    graph = data.load_made(path, made)
    print(f"\nA tenth of it, {COMPARED} iterations: test accuracy at the end\n")
    job.head(["model", "gnn", "numpy, scipy"])
    for model in chosen.models:
        if model != "gat":
            settings = dataclasses.replace(settings_of(model), iterations=COMPARED)
            lines, _ = app.run(chosen, app.ONE_NODE, [*made, *app.options_of(settings)])
            found = [app.iterations(lines)[-1], reference.run(graph, settings, every=COMPARED)[-1]]
            job.row([model, *(f"{100 * line['test_accuracy']:.2f} %" for line in found)])


def of_nodes(chosen, packed, model, nodes):
    """CPU-seconds of an iteration: two jobs of different lengths. Nodes share this machine's processors."""
    few, more = chosen.lengths
    cluster = ["--reliable", str(nodes), "--threads", "1"]
    used = []
    for count in (few, more):
        settings = dataclasses.replace(settings_of(model), iterations=count)
        lines, cpu = app.run(chosen, cluster, ["--graph", packed, *app.options_of_training(settings)])
        used.append(cpu)
    last = app.iterations(lines)[1:]
    memory = max(line["memory_bytes"] for line in last)
    job.row([model, nodes, f"{job.median(job.durations(lines)[1:]):.2f}", f"{(used[1] - used[0]) / (more - few):.2f}",
             f"{job.median([line['bytes_sent'] for line in last]) / 1e6:.1f}", f"{memory / 1e9:.2f}",
             f"{memory * nodes / chosen.vertices:,.0f}", f"{100 * last[-1]['test_accuracy']:.2f} %"])
