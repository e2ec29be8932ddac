#!/usr/bin/env python3
"""Reads bidbrain's ledger second by second: were its caps ever passed, and does the market's bill say the same of each
machine? By rules written here, from the state, the prices beside it and the report. Status 1, and a line for each
breach.

    bench/elastic/ledger.py --config bidbrain.json --report report.jsonl [--bill bill.json]

A machine takes its part of the caps on machines and vCPUs from the plan of its launch until it leaves: the cloud has
given notice, it is told to leave the job, or it has ended. The cap on dollars an hour is one on what is bought: all
that is held and planned, at the prices of the moment of a plan. The budget holds while spot machines run: reliable ones
stay beyond it."""

import argparse
import bisect
import collections
import json
import os
import sqlite3
import sys
import urllib.request

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import market  # noqa: E402

HOUR = market.HOUR
MINUTE = 60
DOLLAR = 1000000  # micro-dollars; amounts are in units of 1/3600 of one
SPOT, OVER = 0, 3  # kind of a machine; stages of a launch from here on have their last answer
ENDS = ["running", "released", "evicted", "released"]  # "vanished" is paid like released
FOREVER = 1 << 62

Ledger = collections.namedtuple("Ledger", "limits reliable model launches machines prices types leaves")


def database(path):
    connection = sqlite3.connect("file:" + urllib.request.pathname2url(path) + "?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    return connection


def read_prices(path):
    series = {}
    with database(path) as store:
        for row in store.execute("SELECT type, zone, time, price FROM point, market WHERE market.id = point.market "
                                 "ORDER BY time"):
            times, prices = series.setdefault((row["type"], row["zone"]), ([], []))
            times.append(row["time"])
            prices.append(row["price"])
    return series


def read_report(path):
    """({type: (vCPUs, micro-dollars on demand)}, {id: the moment from which it leaves})."""
    types, leaves = {}, {}
    with open(path, encoding="utf-8") as report:
        for line in map(json.loads, report):
            if line["type"] != "machine":
                continue
            types[line["instance_type"]] = (line["vcpus"], round(line["on_demand_price"] * DOLLAR))
            if line["noticed"] or line["release_at"] or line["ended"] or line["state"] in ("stopping", "gone"):
                leaves.setdefault(line["id"], market.seconds(line["time"]))
            else:
                leaves.pop(line["id"], None)  # it was taken for gone, and is back
    return types, leaves


def read(config_path, report_path):
    with open(config_path, encoding="utf-8") as file:
        config = json.load(file)
    folder = os.path.dirname(os.path.abspath(config_path))
    state = os.path.join(folder, config.get("state", "bidbrain.db"))
    with database(state) as ledger:
        launches = [dict(row) for row in ledger.execute("SELECT * FROM launch")]
        machines = [dict(row) for row in ledger.execute("SELECT * FROM machine")]
    types, leaves = read_report(report_path)
    return Ledger(config["limits"], config["on_demand"].get("count", 1), config.get("model", "ec2"), launches, machines,
                  read_prices(state.removesuffix(".db") + "-prices.db"), types, leaves)


def price(ledger, thing, moment):
    """Micro-dollars an hour of a machine or of one of a launch."""
    if thing["kind"] != SPOT:
        return ledger.types[thing["type"]][1]
    times, prices = ledger.prices[thing["type"], thing["zone"]]
    return prices[max(0, bisect.bisect_right(times, moment) - 1)]


def rate(ledger, thing, moment):
    """What it costs an hour: never more than its bid. Of a type that no machine was ever of: 0."""
    if thing["kind"] == SPOT:
        return min(price(ledger, thing, moment), thing["bid"] or FOREVER)
    return price(ledger, thing, moment) if thing["type"] in ledger.types else 0


def cost(ledger, machine, end, how):
    """Units that it costs if it ends then, by the rules of its model."""
    amount, hour, first = 0, machine["launched"], True
    while True:
        used = min(HOUR, end - hour)
        if used == HOUR:
            paid = HOUR
        elif how == "evicted":
            paid = 0 if ledger.model == "ec2-2016" or first else used
        elif ledger.model == "ec2-2016":
            paid = HOUR if used or first else 0
        else:
            paid = max(used, MINUTE) if first else used
        amount += price(ledger, machine, hour) * paid
        hour, first = hour + HOUR, False
        if hour >= end:
            return amount


def spent(ledger, moment):
    """By the machines that have been launched by then; one that runs on is reckoned as if it were given back."""
    return sum(cost(ledger, machine, min(machine["ended"] or FOREVER, moment),
                    ENDS[machine["how"]] if machine["ended"] and machine["ended"] <= moment else "released")
               for machine in ledger.machines if machine["launched"] and machine["launched"] <= moment)


def held(ledger):
    """Things that take their part of the caps: (from, to, machine or launch, how many)."""
    of_launch = collections.defaultdict(list)
    for machine in ledger.machines:
        of_launch[machine["token"]].append(machine)
    for launch in ledger.launches:
        machines = of_launch.pop(launch["token"], [])
        for machine in machines:
            left = min(ledger.leaves.get(machine["id"], FOREVER), machine["ended"] or FOREVER)
            yield launch["planned"], left, machine, 1
        missing = launch["count"] - len(machines)
        if missing > 0:  # more than were asked for all count
            yield launch["planned"], launch["answered"] if launch["stage"] >= OVER else FOREVER, launch, missing
    for machine in (machine for machines in of_launch.values() for machine in machines):
        yield machine["launched"], machine["ended"] or FOREVER, machine, 1


def check_caps(ledger):
    """(what was reached, breaches)."""
    most = {"machines": 0, "vcpus": 0, "dollars_per_hour": 0.0, "dollars": 0.0}
    wrong = {}
    things = list(held(ledger))
    caps = {"machines": ledger.limits.get("most_machines", 1000), "vcpus": ledger.limits["most_vcpus"],
            "dollars_per_hour": ledger.limits.get("most_dollars_per_hour", FOREVER),
            "dollars": ledger.limits.get("budget_dollars", FOREVER), "reliable": ledger.reliable}

    def reach(what, value, moment):
        most[what] = max(most.get(what, 0), value)
        if value > caps[what] * (1 + 1e-9):
            name = what.replace("_", " ")
            wrong.setdefault(what, f"{market.stamp(moment)}: {value:g} {name}, the cap is {caps[what]:g}")

    for moment in sorted({start for start, _, _, _ in things}):
        there = [(thing, count) for start, end, thing, count in things if start <= moment < end]
        transient = [(thing, count) for thing, count in there if not thing["reliable"]]
        reach("machines", sum(count for _, count in transient), moment)
        reach("vcpus", sum(count * ledger.types[thing["type"]][0] for thing, count in transient
                           if thing["type"] in ledger.types), moment)
        reach("reliable", sum(count for thing, count in there if thing["reliable"]), moment)
        reach("dollars_per_hour", sum(count * rate(ledger, thing, moment) for thing, count in there) / DOLLAR, moment)
    for machine in ledger.machines:  # what is spent grows until a machine's end, and at the beginnings of hours
        if machine["reliable"] or not machine["launched"]:
            continue
        end = machine["ended"] or machine["launched"]
        for moment in {*range(machine["launched"], end, HOUR), max(machine["launched"], end - 1)}:
            reach("dollars", spent(ledger, moment) / (DOLLAR * HOUR), moment)
    return most, list(wrong.values())


def check_bill(ledger, bill):
    """(units of the market, units of the ledger, lines about machines that differ)."""
    theirs = {machine["id"]: machine for machine in bill["instances"]}
    ours = {machine["id"]: machine for machine in ledger.machines}
    total, sum_ours, wrong = 0, 0, []
    for name in sorted({*theirs, *ours}):
        billed = theirs[name]["cost"][ledger.model]["amount_units"] if name in theirs else 0
        machine = ours.get(name)
        over = machine is not None and machine["launched"] and machine["ended"]
        booked = cost(ledger, machine, machine["ended"], ENDS[machine["how"]]) if over else 0
        total, sum_ours = total + billed, sum_ours + booked
        if billed != booked:
            wrong.append(f"{name}: {billed} units by the market, {booked} by the ledger")
    return total, sum_ours, wrong


def check_folder(folder):
    """Of `proteus run --market-folder`: (what was reached, breaches, the bill's (market, ledger) units)."""
    ledger = read(os.path.join(folder, "bidbrain.json"), os.path.join(folder, "bidbrain.jsonl"))
    with open(os.path.join(folder, "bill.json"), encoding="utf-8") as file:
        bill = json.load(file)
    most, wrong = check_caps(ledger)
    billed, booked, apart = check_bill(ledger, bill)
    return most, wrong + apart, (billed, booked)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--config", required=True)
    parser.add_argument("--report", required=True, help="bidbrain's, of the whole job")
    parser.add_argument("--bill", help="what the market's GET /bill says")
    chosen = parser.parse_args()
    ledger = read(chosen.config, chosen.report)
    most, wrong = check_caps(ledger)
    print(f"most of each: {most['machines']} machines, {most['vcpus']} vCPUs, ${most['dollars_per_hour']:.4f} an hour, "
          f"${most['dollars']:.4f} spent while spot machines ran")
    if chosen.bill is not None:
        with open(chosen.bill, encoding="utf-8") as file:
            billed, booked, apart = check_bill(ledger, json.load(file))
        wrong += apart
        print(f"bill: {billed} units by the market, {booked} by the ledger")
    for line in wrong:
        print(f"ledger.py: {line}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
