"""bench/gnn --what losses and accuracy: gnn beside the reference programs."""

import dataclasses

import app
import data
import job
import reference

LOSSES = 10  # that are compared
LOSS_SETTINGS = {"dropout": 0.0, "attention_dropout": 0.0, "iterations": LOSSES}


def losses(chosen, folder):
    """Without dropout both take the same steps: the largest difference of a loss in the first iterations."""
    print(f"The first {LOSSES} losses without dropout\n")
    job.head(["set", "model", "layers", "aggregate", "first loss", "last loss",
              *(f"{nodes} {'node' if nodes == 1 else 'nodes'}: largest difference" for nodes in chosen.nodes)])
    for name in chosen.sets:
        graph = data.with_split(data.load(name), 1, folder)
        for model in chosen.models:
            for layers in (app.SETTINGS[model].layers, (64,), app.SETTINGS[model].layers * 2):
                for aggregate in ("each",) if model == "gat" else ("each", "once"):
                    settings = dataclasses.replace(app.SETTINGS[model], layers=layers, aggregate=aggregate,
                                                   **LOSS_SETTINGS)
                    compare_losses(chosen, graph, settings)


def compare_losses(chosen, graph, settings):
    expected = [line["loss"] for line in reference.run(graph, settings)]
    cells = []
    for nodes in chosen.nodes:
        lines, _ = app.run(chosen, ["--reliable", str(nodes), "--threads", "1"],
                           [*graph.options, *app.options_of(settings)])
        found = [line["loss"] for line in app.iterations(lines)]
        if len(found) != len(expected):
            raise job.Failed(f"{graph.name}: {len(found)} iterations in the report, expected {len(expected)}")
        cells.append(f"{max(abs(one - other) for one, other in zip(found, expected)):.1e}")
    job.row([graph.name, settings.model, ",".join(map(str, settings.layers)), settings.aggregate,
             f"{expected[0]:.4f}", f"{expected[-1]:.4f}", *cells])


def clusters(chosen, iterations):
    """(heading, options of proteus run, events) of each column."""
    found = [(f"{nodes} {'node' if nodes == 1 else 'nodes'}", ["--reliable", str(nodes), "--threads", "1"], [])
             for nodes in chosen.nodes]
    if chosen.kills > 0:
        nodes = max(chosen.kills + 1, *chosen.nodes)
        events = [f"iteration {iterations * (k + 1) // (chosen.kills + 1)} kill node-{nodes - k}"
                  for k in range(chosen.kills)]
        found.append((f"{nodes} nodes, {chosen.kills} killed",
                      ["--reliable", "1", "--transient", str(nodes - 1), "--threads", "1", "--failure-timeout", "3"],
                      events))
    return found


def accuracies(chosen, folder):
    """Test accuracy over seeds; of sets without a public split each seed has its own, the same for all columns."""
    print(f"Test accuracy, %, mean and deviation of {chosen.seeds} seeds: of gat at the best validation accuracy, of "
          "others at the end\n")
    names = [heading for heading, _, _ in clusters(chosen, 1)] if chosen.app else []
    job.head(["set", "model", "hidden", "iterations", "numpy, scipy", *names])
    for name in chosen.sets:
        graph = data.load(name)
        for model in chosen.models:
            settings = settings_of(chosen, model, name)
            columns = {}
            for seed in range(1, chosen.seeds + 1):
                of_seed(chosen, data.with_split(graph, seed, folder), dataclasses.replace(settings, seed=seed), columns)
            job.row([name, model, ",".join(map(str, settings.layers)), settings.iterations,
                     *(app.spread(values) for values in columns.values())])


def settings_of(chosen, model, name):
    """Sets without a public split have more vertices and features: their hidden layer is wider."""
    settings = app.SETTINGS[model]
    wide = {} if name in data.PUBLIC or model == "gat" else {"layers": (64,)}
    iterations = {"iterations": chosen.iterations} if chosen.iterations > 0 else {}
    return dataclasses.replace(settings, **wide, **iterations)


def of_seed(chosen, graph, settings, columns):
    every = 1 if settings.model == "gat" else settings.iterations
    columns.setdefault("reference", []).append(app.result(settings, reference.run(graph, settings, every)))
    if not chosen.app:
        return
    for heading, cluster, events in clusters(chosen, settings.iterations):
        lines, _ = app.run(chosen, cluster, [*graph.options, *app.options_of(settings)], events)
        lost = sum(len(line["nodes"]) for line in job.of_type(lines, "event") if line["event"] == "failure")
        if lost != len(events):
            raise job.Failed(f"{graph.name}: {lost} nodes lost, expected {len(events)}")
        columns.setdefault(heading, []).append(app.result(settings, app.iterations(lines)))
