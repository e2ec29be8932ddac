"""bench/gnn --what rate: CPU-seconds of an iteration, one thread, in turns with the reference programs."""

import dataclasses

import app
import data
import job
import reference

try:
    import with_torch
except ImportError:
    with_torch = None


def own(chosen, graph, settings):
    """CPU milliseconds of an iteration: two jobs of different lengths."""
    few, more = chosen.lengths
    used = [app.run(chosen, app.ONE_NODE, [*graph.options, *app.options_of(
        dataclasses.replace(settings, iterations=count))])[1] for count in (few, more)]
    return 1000 * (used[1] - used[0]) / (more - few)


def rates(chosen, folder):
    """gnn measures loss and accuracy of all splits in each iteration, so the reference does."""
    print(f"CPU milliseconds of an iteration, one thread, medians of {chosen.turns} turns; each iteration measures "
          "accuracy too, but for torch's\n")
    job.head(["set", "model", "hidden", "gnn", "numpy, scipy", "of it the step", "torch, the step",
              "scipy / gnn (least to most)", "torch / gnn"])
    for name in chosen.sets:
        graph = data.with_split(data.load(name), 1, folder)
        for model in chosen.models:
            of_model(chosen, graph, app.SETTINGS[model])


def of_model(chosen, graph, settings):
    turns = []
    short = dataclasses.replace(settings, iterations=chosen.reference_iterations)
    for _ in range(chosen.turns):
        torch = None if with_torch is None else 1000 * with_torch.seconds_of_iteration(graph, short)
        step, whole = (1000 * reference.seconds_of_iteration(graph, short, evaluated) for evaluated in (False, True))
        turns.append((own(chosen, graph, settings) if chosen.app else float("nan"), whole, step, torch))
    columns = list(zip(*turns))
    medians = [None if column[0] is None else job.median(column) for column in columns]
    ratios = sorted(turn[1] / turn[0] for turn in turns)
    job.row([graph.name, settings.model, ",".join(map(str, settings.layers)),
             *("" if value is None else f"{value:.2f}" for value in medians),
             f"{job.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})",
             "" if medians[3] is None else f"{job.median([turn[3] / turn[0] for turn in turns]):.1f}"])
