"""bench/gnn --what async: what staleness costs in accuracy and iterations, and saves in time behind slow links."""

import dataclasses
import os
import statistics

import app
import data
import job
import network

MODES = (("sync", ("--pipeline", "sync"), 0),
         ("async, staleness 0", ("--pipeline", "async", "--staleness", "0"), 1),
         ("async, staleness 1", ("--pipeline", "async", "--staleness", "1"), 1))
NODES = 4
CLOSE = 0.99  # of the best mean validation accuracy of sync: the target


def asynchronous(chosen, folder):
    accuracies(chosen, folder)
    times(chosen, folder)


def accuracies(chosen, folder):
    """The target is the same for all modes. A seed that never meets it counts as all iterations."""
    print(f"{NODES} nodes, {chosen.seeds} seeds: test accuracy at the end, %; iterations until the validation accuracy "
          f"is {CLOSE:.0%} of what sync reaches\n")
    job.head(["set", "mode", "test accuracy", "iterations to the target", "to sync's", "seeds that met it"])
    for name in chosen.sets:
        graph = data.load(name)
        target, base = None, None
        for heading, options, falls in MODES:
            runs = [of_seed(chosen, graph, options, falls, seed, folder) for seed in range(1, chosen.seeds + 1)]
            if target is None:
                target = CLOSE * statistics.mean(max(line["validation_accuracy"] for line in run) for run in runs)
            first = [next((line["iteration"] for line in run if line["validation_accuracy"] >= target), None)
                     for run in runs]
            steps = statistics.mean(len(run) if at is None else at for at, run in zip(first, runs))
            base = base or steps
            job.row([name, heading, app.spread([100 * run[-1]["test_accuracy"] for run in runs]), f"{steps:.0f}",
                     f"{steps / base:.2f}", f"{sum(at is not None for at in first)} of {len(first)}"])


def of_seed(chosen, graph, options, falls, seed, folder):
    """With staleness the rate has to fall; `falls` says so."""
    settings = dataclasses.replace(app.SETTINGS["gcn"], seed=seed)
    settings = dataclasses.replace(settings, iterations=chosen.iterations or settings.iterations)
    settings = dataclasses.replace(settings, anneal=settings.iterations if falls else 0)
    lines, _ = app.run(chosen, ["--reliable", str(NODES), "--threads", "1"],
                       [*data.with_split(graph, seed, folder).options, *app.options_of(settings), *options])
    return app.iterations(lines)


def times(chosen, folder):
    """The same made-up graph in all modes, in turns."""
    why = network.missing()
    if why is not None:
        print(f"\nno times: {why}")
        return
    made = app.made_graph(chosen, os.path.join(folder, "async"), vertices=chosen.vertices // 10,
                          edges=chosen.edges // 10, features=chosen.features)
    settings = dataclasses.replace(app.SETTINGS["gcn"], layers=(64,), iterations=chosen.lengths[1], scale="none")
    seconds, sent = {}, {}
    with network.Network(NODES, chosen.megabits) as net:
        for _ in range(chosen.turns):
            for heading, options, _ in MODES:
                lines = network.run_job(chosen, net, (NODES, 0), ["--balance", "none"],
                                        [*made, *app.options_of(settings), *options], os.path.join(chosen.bin, "gnn"))
                seconds.setdefault(heading, []).append(job.median(job.durations(lines)[2:]))
                sent[heading] = job.median([line["bytes_sent"] for line in app.iterations(lines)[2:]])
    print(f"\nGCN, {chosen.vertices // 10:,} vertices, {chosen.edges // 10:,} edges, {NODES} nodes behind links of "
          f"{chosen.megabits} Mbit/s, medians of {chosen.turns} turns\n")
    job.head(["mode", "seconds an iteration", "to sync", "MB sent"])
    base = job.median(seconds["sync"])
    for heading, values in seconds.items():
        job.row([heading, f"{job.median(values):.3f}", f"{100 * (job.median(values) / base - 1):+.0f} %",
                 f"{sent[heading] / 1e6:.1f}"])
