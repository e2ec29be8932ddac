"""bench/gnn --what defaults: the reference alone with several settings on all sets, to choose options that are good
without knowing the set."""

import dataclasses

import app
import data
import job
import reference

# What differs from app.SETTINGS.
CANDIDATES = {
    "gcn": ({}, {"anneal": 200}, {"scale": "none"}, {"scale": "unit"}, {"scale": "unit", "anneal": 200},
            {"scale": "unit", "anneal": 200, "decay": 1e-3}, {"scale": "unit", "anneal": 200, "decay": 2e-3},
            {"scale": "unit", "anneal": 200, "decay": 5e-3}),
    "sage": ({}, {"scale": "unit", "anneal": 200, "decay": 1e-3}, {"scale": "unit", "anneal": 200, "decay": 5e-3}),
    "gat": ({"anneal": 300}, {"scale": "unit", "anneal": 200, "rate": 0.01, "iterations": 200},
            {"scale": "unit", "anneal": 200, "iterations": 200},
            {"scale": "unit", "anneal": 200, "iterations": 200, "decay": 1e-3})}


def defaults(chosen, folder):
    print(f"Test accuracy at the end, %, means of {chosen.seeds} seeds; hidden 64, of gat 8 heads of 8\n")
    job.head(["model", "changed", *chosen.sets, "mean"])
    for model in chosen.models:
        graphs = {name: data.load(name) for name in chosen.sets}
        for changed in CANDIDATES[model]:
            layers = {} if model == "gat" else {"layers": (64,)}
            settings = dataclasses.replace(app.SETTINGS[model], **{**layers, **changed})
            means = [mean_of(chosen, graph, settings, folder) for graph in graphs.values()]
            job.row([model, ", ".join(f"{key} {value}" for key, value in changed.items()) or "nothing",
                     *(f"{value:.1f}" for value in means), f"{sum(means) / len(means):.1f}"])


def mean_of(chosen, graph, settings, folder):
    found = []
    for seed in range(1, chosen.seeds + 1):
        of_seed = dataclasses.replace(settings, seed=seed)
        lines = reference.run(data.with_split(graph, seed, folder), of_seed, every=settings.iterations)
        found.append(100 * lines[-1]["test_accuracy"])
    return sum(found) / len(found)
