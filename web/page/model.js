/* A job's report as the page keeps it: what the lines (docs/proteus.md, "The report") say, within bounds that hold
 * however long the job runs. Draws nothing. */

const LIMITS = {
    points: 2000, /* of each curve */
    usageNumbers: 1500000, /* counters of all nodes in all kept `usage` lines */
    rows: 3000, /* nodes of the timeline; those that left first go first */
    segments: 40000, /* of all rows; the oldest go first */
    marks: 600, /* of each kind */
    events: 2000,
    decisions: 500,
    notes: 100,
    namesShown: 20, /* of an event's nodes */
};

/* Keeps at most about `most` items, evenly over all that were added: when there are more, every second one goes, and
 * from then on half as many stay. The newest item is always there. docs/proteus.md, "How a long job is thinned". */
class Thinned {
    constructor(most) {
        this.most = most;
        this.items = [];
        this.stride = 1;
        this.added = 0;
        this.lastStays = true;
    }
    add(item) {
        if (!this.lastStays) {
            this.items.pop();
        }
        this.items.push(item);
        this.lastStays = this.added % this.stride === 0;
        this.added++;
        while (this.items.length > this.most) {
            this.halve();
        }
    }
    halve() {
        const newest = this.items.length - 1;
        const newestWas = this.lastStays;
        this.items = this.items.filter((_, i) => i % 2 === 0 || i === newest);
        this.stride *= 2;
        this.lastStays = newestWas && newest % 2 === 0;
    }
    get last() {
        return this.items[this.items.length - 1];
    }
}

/* Keeps the newest items. */
class Newest {
    constructor(most) {
        this.most = most;
        this.items = [];
        this.dropped = 0;
    }
    add(item) {
        this.items.push(item);
        if (this.items.length > this.most + this.most / 4) { /* now and then, as it moves all */
            this.dropped += this.items.length - this.most;
            this.items = this.items.slice(-this.most);
        }
    }
}

const MARKS = {
    stage: { letter: "S", label: "stage changed", colour: "c4" },
    balance: { letter: "B", label: "shares or servers changed for slow nodes", colour: "c8" },
    replace: { letter: "X", label: "straggler replaced", colour: "c5" },
    "add-feeder": { letter: "+", label: "feeder added", colour: "c6" },
    "feeder-threads": { letter: "T", label: "feeders' threads changed", colour: "c6" },
    "remove-feeders": { letter: "-", label: "feeders given back", colour: "c6" },
    evict: { letter: "E", label: "notice of an eviction", colour: "leaving" },
    failure: { letter: "F", label: "node lost", colour: "lost" },
    recover: { letter: "R", label: "recovered", colour: "c9" },
    checkpoint: { letter: "C", label: "checkpoint", colour: "c7" },
};
const GONE = { failure: "lost", evicted: "left" }; /* how nodes are after an event */
const ROLES = {
    loading: { label: "joining, loading data", colour: "loading" },
    working: { label: "working only", colour: "working" },
    ParamServ: { label: "ParamServ: serves, reliable", colour: "paramserv" },
    ActivePS: { label: "ActivePS: serves, transient", colour: "activeps" },
    BackupPS: { label: "BackupPS: keeps copies", colour: "backupps" },
    leaving: { label: "leaving", colour: "leaving" },
    idle: { label: "idle", colour: "idle" },
};

/* What a node does, by a `nodes` line: a key of ROLES. */
function roleOf(node, stage) {
    if (node.state === "leaving") {
        return "leaving";
    }
    if (["registering", "loading", "loaded"].includes(node.state)) {
        return "loading";
    }
    if (node.serves && node.serves.length > 0) {
        return node.tier === "transient" && stage !== "traditional" ? "ActivePS" : "ParamServ";
    }
    if (node.follows && node.follows.length > 0) {
        return "BackupPS";
    }
    return node.shards > 0 ? "working" : "idle";
}

/* A node of the timeline. A segment is {seconds, iteration, end, role, works}; `end` is null while it lasts, else
 * {seconds, iteration, how}. */
class Row {
    constructor(name) {
        Object.assign(this, { name, tier: "", host: "", threads: 0, state: "", serves: [], follows: [], shards: 0,
            role: "idle", gone: false, segments: [], finals: null, pass: 0,
            measured: 0, measuredAt: 0, seen: null });
    }
    get open() {
        const last = this.segments[this.segments.length - 1];
        return last && last.end === null ? last : null;
    }
    leave(at, how) {
        this.close(at, how);
        this.gone = true;
    }
    close(at, how) {
        if (this.open) {
            this.open.end = { seconds: at.seconds, iteration: at.iteration, how };
        }
    }
}

class Report {
    constructor(name) {
        this.name = name;
        this.begin();
    }
    /* Forgets everything. */
    begin() {
        this.iterations = new Thinned(LIMITS.points);
        this.clocks = new Thinned(LIMITS.points);
        this.metrics = []; /* names, the objective first */
        this.rows = new Map(); /* by name, in the order of joining */
        this.segments = 0;
        this.usages = new Thinned(LIMITS.points);
        this.pass = 0; /* tells rows that this pass over the usages has measured */
        this.marksOf = new Map(Object.keys(MARKS).map((kind) => [kind, new Thinned(LIMITS.marks)]));
        this.terms = {}; /* the stop criteria */
        this.events = new Newest(LIMITS.events);
        this.decisions = new Newest(LIMITS.decisions);
        this.notes = new Newest(LIMITS.notes);
        this.money = new Thinned(LIMITS.points);
        this.market = null;
        this.summary = null;
        this.stage = null;
        this.whole = true;
        this.seconds = 0;
        this.iteration = 0;
        this.clocksPerIteration = 1;
        this.lines = 0;
    }
    take(line) {
        this.lines++;
        if (Number.isFinite(line.seconds)) {
            this.seconds = Math.max(this.seconds, line.seconds);
        }
        if (Number.isFinite(line.iteration)) {
            this.iteration = Math.max(this.iteration, line.iteration);
        }
        const takers = { history: this.takeHistory, iteration: this.takeIteration, clock: this.takeClock,
            nodes: this.takeNodes, usage: this.takeUsage, event: this.takeEvent, money: this.takeMoney,
            decision: this.takeDecision, note: this.takeNote, market: this.takeMarket, summary: this.takeSummary };
        if (Object.hasOwn(takers, line.type)) {
            takers[line.type].call(this, line);
        }
    }
    takeHistory(line) {
        this.whole = line.whole !== false;
    }
    findMetrics(line) {
        for (const key of Object.keys(line)) {
            const metric = key === "objective" || !REPORT_KEYS.has(key);
            if (metric && !this.metrics.includes(key) && this.metrics.length < 12) {
                this.metrics.push(key);
            }
        }
    }
    takeIteration(line) {
        this.findMetrics(line);
        this.stage = line.stage;
        if (line.iteration > 0 && line.clock > 0) {
            this.clocksPerIteration = line.clock / line.iteration;
        }
        this.iterations.add(line);
    }
    takeClock(line) {
        this.findMetrics(line);
        this.clocks.add(line);
    }

    /* ---- Nodes ---- */

    rowOf(name) {
        let row = this.rows.get(name);
        if (!row) {
            row = new Row(name);
            this.rows.set(name, row);
            if (this.rows.size > LIMITS.rows) {
                this.dropRow();
            }
        }
        return row;
    }
    dropRow() {
        for (const [name, row] of this.rows) {
            if (row.gone) {
                this.segments -= row.segments.length;
                this.rows.delete(name);
                this.whole = false;
                return;
            }
        }
    }
    takeNodes(line) {
        this.stage = line.stage ?? this.stage;
        if (line.all) { /* in place of lines that are not there any more */
            this.keepOnly(new Set(line.nodes.map((node) => node.name)));
        }
        for (const node of line.nodes) {
            const row = this.rowOf(node.name);
            if (node.state === "left" || node.state === "lost") {
                row.leave(line, node.state);
                row.state = node.state;
                row.finals = [node.items, node.bytes_sent, node.bytes_received];
            } else {
                this.changeRow(row, node, line);
            }
        }
        if (this.segments > LIMITS.segments) {
            this.dropSegments();
        }
    }
    /* Nodes of other names have left since they were last seen. */
    keepOnly(names) {
        for (const row of this.rows.values()) {
            if (!names.has(row.name) && !row.gone) {
                row.leave(row.seen ?? row.open, "unknown");
            }
        }
    }
    changeRow(row, node, line) {
        Object.assign(row, { tier: node.tier, host: node.host, threads: node.threads, state: node.state,
            serves: node.serves ?? [], follows: node.follows ?? [], shards: node.shards ?? 0, gone: false });
        const role = roleOf(node, this.stage);
        const works = row.shards > 0 && role !== "loading";
        row.role = role;
        if (!row.open || row.open.role !== role || row.open.works !== works) {
            row.close(line, "changed");
            row.segments.push({ seconds: line.seconds, iteration: line.iteration, end: null, role, works });
            this.segments++;
        }
    }
    /* A node of which no line is left, as the report is not whole: it did this since then, at least. */
    adopt(row, at, role, works) {
        if (!this.whole && !row.gone && row.segments.length === 0) {
            row.role = role;
            row.segments.push({ seconds: at.seconds, iteration: at.iteration, end: null, role, works });
            this.segments++;
        }
    }
    /* Takes from the job's status what nodes do of which the report has no line any more. */
    takeStatus(status) {
        const first = this.iterations.items[0] ?? status;
        for (const node of this.whole ? [] : status.nodes ?? []) {
            const row = this.rowOf(node.name);
            if (row.segments.length === 0) {
                Object.assign(row, { tier: node.tier, host: node.host, threads: node.threads, state: node.state,
                    shards: node.shards, gone: false });
                const list = (count) => Array.from({ length: count }, () => 0); /* roleOf only counts them */
                const role = roleOf({ ...node, state: node.leaving ? "leaving" : node.state,
                    serves: list(node.serves), follows: list(node.follows) }, status.stage);
                this.adopt(row, first, role, node.shards > 0);
            }
        }
    }
    /* Halves the rows that have most segments. */
    dropSegments() {
        const most = Math.max(4, LIMITS.segments / 2 / this.rows.size);
        for (const row of this.rows.values()) {
            if (row.segments.length > most) {
                this.segments -= row.segments.length - Math.ceil(most / 2);
                row.segments = row.segments.slice(-Math.ceil(most / 2));
            }
        }
        this.whole = false;
    }
    get present() {
        return [...this.rows.values()].filter((row) => !row.gone);
    }

    /* ---- What nodes have done ---- */

    /* A kept usage is {seconds, iteration, rows, values}: three counters (items, bytes sent, received) for each row. A
     * node that has gone since the last one is in it with its last counters. */
    takeUsage(line) {
        const rows = [];
        const values = [];
        for (const [name, items, sent, received, memory, slowness] of line.nodes) {
            const row = this.rowOf(name);
            row.memory = memory;
            row.slowness = slowness;
            row.seen = line;
            row.items = items;
            row.bytes = sent + received;
            if (items > 0) {
                this.adopt(row, line, "working", true);
            }
            rows.push(row);
            values.push(items, sent, received);
        }
        const last = this.usages.last;
        if (last && last.seconds === line.seconds && last.iteration === line.iteration) { /* the same, continued */
            last.rows.push(...rows);
            last.values.push(...values);
            return;
        }
        for (const row of this.rows.values()) {
            if (row.finals) {
                if (row.gone) {
                    rows.push(row);
                    values.push(...row.finals);
                }
                row.finals = null;
            }
        }
        this.usages.add({ seconds: line.seconds, iteration: line.iteration, rows, values });
        while (this.usages.items.length > 50 &&
            this.usages.items.length * this.usages.last.values.length > LIMITS.usageNumbers) {
            this.usages.halve();
        }
    }

    /* Calls take(usage, row, rate, elapsed) for each node of each kept usage but the first: what `measure` makes of
     * (items, bytes sent, bytes received), a second of those that elapsed since the usage before. Makes no objects, as
     * there may be a million rates. */
    eachRate(measure, take) {
        let previous = null;
        this.pass++;
        for (const usage of this.usages.items) {
            const begun = previous ? previous.seconds : 0;
            if (previous && usage.seconds <= begun) {
                continue;
            }
            usage.rows.forEach((row, r) => {
                const value = measure(usage.values[3 * r], usage.values[3 * r + 1], usage.values[3 * r + 2]);
                const known = row.pass === this.pass;
                const old = known ? row.measured : 0;
                const elapsed = usage.seconds - (known ? row.measuredAt : begun);
                row.pass = this.pass;
                row.measured = value;
                row.measuredAt = usage.seconds;
                if (previous) { /* a counter that fell has begun anew */
                    take(usage, row, (value >= old ? value - old : value) / elapsed, elapsed);
                }
            });
            previous = usage;
        }
    }

    /* Returns {rows, others, data}: the `most` rows that did most by `measure`, by name; how many others there are; and
     * [x, rate of each of them, rate of the others] for each kept usage but the first. */
    topRates(measure, most, axis) {
        const totals = new Map();
        this.eachRate(measure, (usage, row, rate, elapsed) =>
            totals.set(row, (totals.get(row) ?? 0) + rate * elapsed));
        const rows = [...totals.keys()].sort((a, b) => totals.get(b) - totals.get(a)).slice(0, most)
            .sort((a, b) => compareTexts(a.name, b.name));
        const others = totals.size - rows.length;
        const places = new Map(rows.map((row, place) => [row, 1 + place]));
        const data = [];
        let last = null;
        this.eachRate(measure, (usage, row, rate) => {
            if (usage !== last) {
                last = usage;
                data.push([usage[axis], ...rows.map(() => 0), ...(others > 0 ? [0] : [])]);
            }
            data[data.length - 1][places.get(row) ?? 1 + rows.length] += rate;
        });
        return { rows, others, data };
    }

    /* ---- Events ---- */

    takeEvent(line) {
        const nodes = line.nodes ?? [];
        const shown = nodes.slice(0, LIMITS.namesShown);
        const more = nodes.length - shown.length;
        const event = { seconds: line.seconds, iteration: line.iteration, event: line.event, nodes: shown,
            names: shown.join(", ") + (more > 0 ? ` and ${more} more` : ""), reason: line.reason ?? "" };
        if (!this.whole && GONE[line.event]) { /* the line about these nodes may be missing */
            nodes.forEach((name) => this.rows.get(name)?.leave(line, GONE[line.event]));
        }
        this.events.add(event);
        this.marksOf.get(line.event)?.add(event);
        if (line.event === "start") {
            this.terms = line;
        }
    }
    /* All kinds, by time. */
    get marks() {
        return [...this.marksOf.values()].flatMap((marks) => marks.items).sort((a, b) => a.seconds - b.seconds);
    }
    takeMoney(line) {
        this.money.add(line);
    }
    takeDecision(line) {
        this.decisions.add(line);
    }
    takeNote(line) {
        this.notes.add(String(line.text));
    }
    takeMarket(line) {
        this.market = line;
    }
    takeSummary(line) {
        this.summary = line;
        this.stage = line.stage ?? this.stage;
    }

    /* ---- Curves ---- */

    /* Returns [[x, y], ...] of a metric over "iteration" or "seconds", by iterations or by clocks. */
    curve(metric, axis, byClock = false) {
        const points = [];
        for (const line of (byClock ? this.clocks : this.iterations).items) {
            const x = byClock && axis === "iteration" ? line.clock / this.clocksPerIteration : line[axis];
            if (Number.isFinite(line[metric]) && Number.isFinite(x)) {
                points.push([x, line[metric]]);
            }
        }
        return points;
    }

    /* Seconds until the stop criterion of time or of iterations, these by the pace of the last ones; NaN if there is
     * neither. `terms` are the criteria: of the job's start, or of its status. */
    secondsLeft(terms, seconds) {
        const items = this.iterations.items;
        const last = items[items.length - 1];
        const first = items[Math.max(0, items.length - 20)];
        const left = [];
        const iterations = last?.iterations ?? terms.iterations;
        if (terms.until_seconds > 0) {
            left.push(terms.until_seconds - seconds);
        }
        if (iterations > 0 && last && last !== first) {
            const pace = (last.seconds - first.seconds) / (last.iteration - first.iteration);
            left.push((iterations - last.iteration) * pace - (seconds - last.seconds));
        }
        return left.length > 0 ? Math.max(0, Math.min(...left)) : NaN;
    }
}
