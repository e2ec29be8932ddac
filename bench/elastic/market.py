"""What the benchmarks of `proteus run --market` share: recorded prices, and EC2's bill of 2016 made once more from them
by rules written here, in whole units of 1/3600 micro-dollar."""

import bisect
import csv
import datetime
import glob
import gzip
import json
import os
from decimal import Decimal

HOUR = 3600
ON_DEMAND = {"c4.xlarge": 209000}  # micro-dollars an hour in us-east-1 in spring 2016: what reliable machines are here


def seconds(text):
    """Whole seconds since 1970 of an ISO 8601 text in UTC; fractions are dropped."""
    return int(datetime.datetime.fromisoformat(text.split(".")[0].rstrip("Z").split("+")[0])
               .replace(tzinfo=datetime.timezone.utc).timestamp())


def stamp(when):
    return datetime.datetime.fromtimestamp(when, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_dollars(text):
    return int((Decimal(text) * 1000000).quantize(Decimal(1), rounding="ROUND_HALF_UP"))


def read_prices(folder):
    """{(type, zone): ([times], [prices])}, in order of time."""
    points = {}
    for path in glob.glob(os.path.join(folder, "*")):
        if path.endswith(".json.gz"):
            with gzip.open(path, "rt", encoding="utf-8") as file:
                for item in json.load(file)["SpotPriceHistory"]:
                    if item["ProductDescription"] == "Linux/UNIX":
                        market = points.setdefault((item["InstanceType"], item["AvailabilityZone"]), set())
                        market.add((seconds(item["Timestamp"]), micro_dollars(item["SpotPrice"])))
        elif path.endswith(".csv"):
            name = os.path.basename(path)[:-4]
            kind, _, zone = name.partition("-")
            with open(path, encoding="utf-8", newline="") as file:
                for row in csv.DictReader(file):
                    points.setdefault((kind, zone), set()).add((seconds(row["timestamp_utc"]),
                                                                micro_dollars(row["price_usd"])))
    series = {}
    for market, pairs in points.items():
        highest = {}  # of several prices at one time
        for time, price in pairs:
            highest[time] = max(price, highest.get(time, 0))
        times = sorted(highest)
        series[market] = (times, [highest[time] for time in times])
    return series


def price_at(series, market, time):
    times, prices = series[market]
    return prices[bisect.bisect_right(times, time) - 1]


def cost(series, machine):
    """Whole hours, each at the price that holds when it begins; an hour that the cloud cuts short is free."""
    start, end = seconds(machine["start"]), seconds(machine["end"])
    amount, hour = 0, start
    while True:
        whole = end - hour >= HOUR
        if machine["how"] != "evicted" or whole:
            spot = machine["kind"] == "spot"
            price = price_at(series, (machine["type"], machine["zone"]), hour) if spot else ON_DEMAND[machine["type"]]
            amount += price * HOUR
        hour += HOUR
        if hour >= end:
            return amount


def cents(amount):
    """Half a cent and more rounded up."""
    unit = 1000000 * HOUR // 100
    return (amount + unit // 2) // unit


def check_bill(series, bill):
    """(units billed, units by our rules, machines whose two differ)."""
    billed = expected = 0
    wrong = []
    for machine in bill["instances"]:
        units = machine["cost"]["ec2-2016"]["amount_units"]
        ours = cost(series, machine)
        billed += units
        expected += ours
        if units != ours:
            wrong.append(machine["id"])
    return billed, expected, wrong


def evictions(bill):
    """Times at which machines were taken that had been got together."""
    return len({machine["token"] for machine in bill["instances"] if machine["how"] == "evicted"})


def doubled(bill, most):
    """Moments at which more machines ran than there may be; those that the cloud takes are replaced before they go."""
    found = []
    for machine in bill["instances"]:
        moment = seconds(machine["start"])
        there = [other for other in bill["instances"]
                 if seconds(other["start"]) <= moment < seconds(other["end"] or bill["now"])]
        spot = sum(other["kind"] == "spot" and other["how"] != "evicted" for other in there)
        reliable = sum(other["kind"] != "spot" for other in there)
        if spot > most or reliable > 1:
            found.append(machine["start"])
    return found
