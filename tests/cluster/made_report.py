#!/usr/bin/env python3
"""Makes up the report of a job, of any length and number of nodes, the same for the same arguments: for the tests of
the page that shows reports, and bench/page. Printed as JSON lines when it is run as a program."""
import argparse
import datetime
import json
import random

PARTITIONS_PER_NODE = 2
MARKETS = {"c4.xlarge/us-east-1b": 0.199, "hi1.4xlarge/us-east-1b": 3.1, "m4.xlarge/us-east-1a": 0.239}


class Node:
    def __init__(self, name, tier):
        self.name, self.tier = name, tier
        self.serves, self.follows, self.shards, self.state = [], [], 0, "registering"
        self.items = self.sent = self.received = 0


class Job:
    """A job in stage 2 whose transient nodes come and go. `seconds` is how long it trains."""

    def __init__(self, nodes=6, seconds=120.0, step=1.0, churn=0.02, money=False, seed=1, end=True):
        self.random = random.Random(seed)
        self.reliable = max(1, nodes // 16)
        self.wanted, self.length, self.step, self.churn = nodes - self.reliable, seconds, step, churn
        self.with_money, self.with_end = money, end
        self.nodes, self.number = [], 0
        self.seconds, self.iteration, self.version, self.items = 0.0, 0, 0, 0
        self.failures = self.evictions = 0
        self.partitions = max(8, nodes * PARTITIONS_PER_NODE)
        self.dollars = self.all_on_demand = 0.0

    # ---- Lines ----

    def moment(self, kind, **more):
        return {"type": kind, "iteration": self.iteration, "seconds": round(self.seconds, 3), **more}

    def event(self, event, nodes=(), reason=None):
        line = self.moment("event", event=event, nodes=[node.name for node in nodes])
        return {**line, "reason": reason} if reason else line

    def about(self, changed, gone=()):
        self.version += 1
        rows = [{"name": node.name, "state": how, "items": node.items, "bytes_sent": node.sent,
                 "bytes_received": node.received} for node, how in gone]
        rows += [{"name": node.name, "tier": node.tier, "host": f"host-{int(node.name[5:]) % 40}", "threads": 2,
                  "state": node.state, "serves": node.serves, "follows": node.follows, "shards": node.shards}
                 for node in changed]
        return self.moment("nodes", epoch=1 + self.failures, version=self.version, stage=2, nodes=rows)

    def usage(self):
        rows = [[node.name, node.items, node.sent, node.received, 31200000] for node in self.nodes]
        return [self.moment("usage", nodes=rows[first:first + 500]) for first in range(0, len(rows), 500)]

    def metrics(self):
        rmse = 0.8 + 0.4 / (1 + self.iteration / 12) + self.random.gauss(0, 0.002)
        return {"objective": rmse, "train_rmse": rmse, "test_rmse": rmse + 0.06 if self.iteration % 2 == 0 else None}

    def iteration_line(self):
        self.iteration += 1
        total = 1000209
        self.items += total
        return self.moment("iteration", iterations=int(self.length / self.step), **self.metrics(), stage=2,
                           reliable=self.reliable, transient=len(self.nodes) - self.reliable, memory_bytes=31200000,
                           bytes_sent=84000000, bytes_received=84000000, items=total,
                           items_per_second=total / self.step, clock=4 * self.iteration)

    def clock_lines(self):
        return [{"type": "clock", "clock": 4 * self.iteration + part, "seconds": self.seconds + part * self.step / 4,
                 "objective": self.metrics()["objective"] + 0.01, "items": 250052} for part in (1, 2, 3)]

    def money(self):
        now = datetime.datetime(2016, 3, 15, 21, 30) + datetime.timedelta(seconds=120 * self.seconds)
        markets = []
        for market, on_demand in MARKETS.items():
            price = on_demand * (0.16 + 0.06 * self.random.random())
            held = sum(1 for node in self.nodes[self.reliable:] if hash_of(node.name) % 3 == len(markets))
            markets.append({"market": market, "price": round(price, 4), "on_demand_price": on_demand, "machines": held,
                            **({"bid": round(price * 1.2, 4)} if held else {})})
            self.dollars += held * price * self.step / 30
            self.all_on_demand += held * on_demand * self.step / 30
        return self.moment("money", time=now.isoformat() + "Z", dollars=self.dollars,
                           on_demand_dollars=self.dollars * 0.4, spot_dollars=self.dollars * 0.6, on_demand_hours=3.1,
                           spot_hours=7.5, free_hours=4.6, all_on_demand_dollars=self.all_on_demand,
                           dollars_per_work=0.02 + 0.01 / (1 + self.seconds), work_unit="vCPU-hour",
                           budget_dollars=50, markets=markets), now

    def decision(self, now, text):
        return self.moment("decision", time=now.isoformat() + "Z", text=text)

    # ---- What happens ----

    def place(self):
        """Deals partitions and data out, and returns the nodes of which anything has changed."""
        ready = [node for node in self.nodes if node.state == "started"]
        backups = [node for node in ready if node.tier == "reliable"]
        transient = [node for node in ready if node.tier == "transient"]
        servers = transient[:max(1, len(transient) // 2)] or backups
        before = {node.name: (node.serves, node.follows, node.shards) for node in ready}
        for node in ready:
            node.serves, node.follows, node.shards = [], [], 1024 // len(ready)
        for partition in range(self.partitions):
            servers[partition % len(servers)].serves.append(partition)
            if servers is not backups:
                backups[partition % len(backups)].follows.append(partition)
        return [node for node in ready if (node.serves, node.follows, node.shards) != before[node.name]]

    def join(self, tier):
        self.number += 1
        node = Node(f"node-{self.number}", tier)
        self.nodes.append(node)
        return node

    def work(self):
        workers = [node for node in self.nodes if node.shards]
        for place, node in enumerate(workers):
            share = 1000209 // len(workers) * (1 + (place % 5) / 10)
            node.items += int(share)
            node.sent += int(share * 84)
            node.received += int(share * 82)

    def leave(self):
        """Some transient nodes are evicted or lost; as many come for them."""
        lines = []
        going = [node for node in self.nodes if node.tier == "transient" and self.random.random() < self.churn]
        going = going[:max(1, self.wanted // 2)]
        if not going:
            return lines
        lost = self.random.random() < 0.4
        if lost:
            self.failures += len(going)
            lines.append(self.event("failure", going, "no heartbeat for 10.0 s"))
        else:
            self.evictions += len(going)
            lines.append(self.event("evict", going))
            for node in going:
                node.state = "leaving"
            lines.append(self.about(going))
        self.seconds += self.step / 5
        self.nodes = [node for node in self.nodes if node not in going]
        lines += [] if lost else [self.event("evicted", [node]) for node in going]
        lines.append(self.about(self.place(), [(node, "lost" if lost else "left") for node in going]))
        if lost:
            lines.append({**self.event("recover", [], f"restored clock {4 * self.iteration} in 210 ms"),
                          "recovery_seconds": 0.21})
        return lines

    def refill(self):
        lines = []
        loading = [node for node in self.nodes if node.state == "loading"]
        for node in loading:
            node.state = "started"
        if loading:
            lines.append(self.about(loading + [node for node in self.place() if node not in loading]))
        missing = self.wanted - sum(1 for node in self.nodes if node.tier == "transient")
        if missing > 0:
            new = [self.join("transient") for _ in range(missing)]
            for node in new:
                node.state = "loading"
            lines += [self.event("join", [node]) for node in new] + [self.about(new)]
        return lines

    def lines(self):
        """Yields the lines, as objects, in order."""
        started = [self.join("reliable" if place < self.reliable else "transient")
                   for place in range(self.reliable + self.wanted)]
        yield from (self.event("join", [node]) for node in started)
        for node in started:
            node.state = "started"
        self.place()
        yield self.about(started)
        yield self.moment("note", node="node-1", text="ratings.csv: line 1 is taken as a header: user,item,rating")
        yield self.event("start")
        yield self.event("stage", reason="stage 2")
        usage_each = max(1.0, len(started) / 10, self.length / 5000)
        usage_due = money_due = 0.0
        while self.seconds < self.length:
            yield from self.clock_lines()
            self.seconds += self.step
            self.work()
            yield self.iteration_line()
            yield from self.refill()
            yield from self.leave()
            if self.iteration % 25 == 0:
                yield self.event("checkpoint", reason=f"iteration {self.iteration}, 12 MB in 40 ms in checkpoints")
            if self.iteration % 40 == 0:
                yield self.event("balance", reason="clocks 32 % shorter")
            if self.seconds >= usage_due:
                usage_due = self.seconds + usage_each
                yield from self.usage()
            if self.with_money and self.seconds >= money_due:
                money_due = self.seconds + 2 * self.step
                line, now = self.money()
                yield line
                if self.iteration % 7 == 0:
                    yield self.decision(now, "decision: 2 x hi1.4xlarge/us-east-1b spot at $0.2734, bid $0.3172")
        if self.with_end:
            yield self.moment("note", node="node-2", text="the model <3 the mean rating")
            yield {"type": "summary", "iterations": self.iteration, "clocks": 4 * self.iteration,
                   "seconds": self.seconds, **self.metrics(), "stage": 2, "reliable": self.reliable,
                   "transient": self.wanted, "memory_bytes": 31200000, "items_processed": self.items,
                   "items_redone": 0, "failures": self.failures, "evictions": self.evictions, "bytes_sent": 1,
                   "bytes_received": 1, "ok": True, "status": 0}


def hash_of(name):
    return sum(ord(letter) * (place + 1) for place, letter in enumerate(name))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--step", type=float, default=1, help="seconds of an iteration")
    parser.add_argument("--churn", type=float, default=0.02, help="share of the transient nodes that goes in a step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--money", action="store_true")
    parser.add_argument("--no-end", action="store_true", help="leave the summary out")
    given = parser.parse_args()
    job = Job(given.nodes, given.seconds, given.step, given.churn, given.money, given.seed, not given.no_end)
    for line in job.lines():
        print(json.dumps(line, separators=(",", ":")))


if __name__ == "__main__":
    main()
