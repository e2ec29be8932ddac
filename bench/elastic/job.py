"""What the benchmarks of elasticity share: finding the programs, made-up ratings, running a job, reading its report."""

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

import svg

FOLDER = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Failed(Exception):
    """What went wrong, in one line."""


class Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Keeps the description's lines, and adds the options' defaults."""


def options(description, **more):
    """The command line that all of these scripts understand; `more`: further options' defaults and texts."""
    parser = argparse.ArgumentParser(description=description, formatter_class=Help)
    parser.add_argument("--bin", default=os.environ.get("PROTEUS_BIN", os.path.join(FOLDER, "build", "bin")),
                        help="folder of proteus and mf")
    parser.add_argument("--figures", default="", metavar="DIR", help="write SVG plots there")
    parser.add_argument("--quick", action="store_true", help="a small part: does it run at all")
    for name, (default, text) in more.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(default), default=default, help=text)
    chosen = parser.parse_args()
    for program in ("proteus", "mf"):
        if not os.access(os.path.join(chosen.bin, program), os.X_OK):
            skip(f"no {program} in {chosen.bin}; build it, or set PROTEUS_BIN or --bin to its folder")
    return chosen


def skip(why):
    print(f"{os.path.basename(sys.argv[0])}: skipped: {why}")
    sys.exit(0)


def run_script(main):
    """Calls main; however it ends, what it has begun is cleaned up by its own `finally`s and `with`s."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    try:
        main()
    except Failed as failure:
        print(f"{os.path.basename(sys.argv[0])}: {failure}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def write_ratings(folder, users, items, each, name="ratings.tsv"):
    """`each` ratings of each of `users` users; few of the items get most of them. The same ones every time."""
    path = os.path.join(folder, name)
    chance = random.Random(1)
    with open(path, "w", encoding="ascii") as file:
        for user in range(users):
            file.writelines(f"{user}\t{int(items ** chance.random()) * 7919 % items}\t{chance.randint(1, 10) / 2}\n"
                            for _ in range(each))
    return path


def job_cpu(launcher):
    """CPU-seconds of a process and its children so far."""
    ticks = 0
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        if int(name) == launcher or int(fields[1]) == launcher:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def read_report(stream, see=None):
    """The report's lines as they come; `see` is called with each. The job is to end well."""
    lines = []
    for text in stream:
        line = json.loads(text)
        lines.append(line)
        if see is not None:
            see(line)
    return lines


def check_end(lines, log):
    if not lines or lines[-1].get("type") != "summary" or not lines[-1].get("ok"):
        log.seek(0)
        told = [line for line in log.read().decode(errors="replace").splitlines() if line]
        raise Failed("the job failed: " + (told[-1] if told else "it said nothing"))


def run_job(chosen, cluster, app, events=(), see=None, program="mf", environment=None, prefix=()):
    """`proteus run` with these options; returns the report's lines. `see` is called with each line and the launcher's
    process id, when it comes. `prefix`: a command that executes the one behind it."""
    with tempfile.TemporaryFile() as log, tempfile.NamedTemporaryFile("w", suffix=".events") as file:
        file.write("".join(event + "\n" for event in events))
        file.flush()
        readable, writable = os.pipe()
        command = [os.path.join(chosen.bin, "proteus"), "run", "--quiet", f"--report=/proc/self/fd/{writable}",
                   "--balance=none", *cluster]
        command += [f"--events={file.name}"] if events else []
        job = subprocess.Popen([*prefix, *command, "--", program, *app],
                               stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                               pass_fds=[writable], env=environment)
        os.close(writable)
        try:
            with os.fdopen(readable, encoding="utf-8") as stream:
                lines = read_report(stream, None if see is None else lambda line: see(line, job.pid))
            job.wait()
        finally:
            if job.poll() is None:
                job.terminate()
                job.wait()
        check_end(lines, log)
        return lines


def run_unseen(programs, cluster, program, app, environment=None):
    """The same with a report that is read when the job is over, so that reading it takes no time from the job. Returns
    the lines, and the CPU-seconds of all processes."""
    with tempfile.TemporaryFile() as log, tempfile.NamedTemporaryFile("r", suffix=".report") as report:
        job = subprocess.Popen([os.path.join(programs, "proteus"), "run", "--quiet", f"--report={report.name}",
                                *cluster, "--", program, *app], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                               env={**os.environ, **(environment or {})})
        try:
            _, status, usage = os.wait4(job.pid, 0)
            job.returncode = os.waitstatus_to_exitcode(status)
        finally:
            if job.returncode is None:
                job.terminate()
                job.wait()
        with open(report.name, encoding="utf-8") as stream:
            lines = read_report(stream)
        check_end(lines, log)
    return lines, usage.ru_utime + usage.ru_stime


def of_type(lines, name):
    return [line for line in lines if line["type"] == name]


def iteration_times(lines):
    """(begin, end) of each iteration, in seconds of training."""
    ends = [line["seconds"] for line in of_type(lines, "iteration")]
    return list(zip([0.0, *ends], ends))


def durations(lines):
    return [end - begin for begin, end in iteration_times(lines)]


def iterations_figure(chosen, lines, name):
    """Plots the seconds of each iteration, with how many nodes joined and left."""
    changes = {}
    for line in of_type(lines, "event"):
        sign = {"join": 1, "evict": -1, "failure": -1}.get(line["event"])
        if sign is not None and line.get("iteration", 0) > 0:  # those before the first one are no change
            key = (line["iteration"] + 1, sign)
            changes[key] = changes.get(key, 0) + len(line["nodes"])
    marks = [(iteration, f"{sign * count:+d}") for (iteration, sign), count in sorted(changes.items())]
    svg.steps(chosen.figures, f"{name}.svg", "Seconds of each iteration", "seconds", durations(lines), marks)


def page_figure(chosen, lines, figure, name):
    """Saves a figure of the job's page, by its title there, through a browser without a screen (bench/page-figures)."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        script = os.path.join(FOLDER, "bench", "page-figures")
        made = os.path.join(folder, "figures")
        if subprocess.run([script, "--bin", chosen.bin, "--svg", made, path], check=False).returncode != 0:
            raise Failed("bench/page-figures made no figures")
        if os.path.isdir(made):
            os.makedirs(chosen.figures, exist_ok=True)
            shutil.copyfile(os.path.join(made, f"{figure}.svg"), os.path.join(chosen.figures, f"{name}.svg"))


def median(values):
    return statistics.median(values) if values else float("nan")


def machine():
    """One line about where this was measured."""
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return f"machine: {len(os.sched_getaffinity(0))} x {model}"


def row(cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def head(cells):
    row(cells)
    print("|" + "---|" * len(cells), flush=True)


def table(names, rows):
    head(names)
    for cells in rows:
        row(cells)
