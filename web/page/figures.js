/* The page's sections: each takes what it shows from a Report and, live, from the job's status. A section is drawn when
 * it is seen and something has changed (page.js). `state` is {reports, chosen, axis, status}. */

const CHART_COLOURS = ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9"];
const colourOf = (number) => CHART_COLOURS[number % CHART_COLOURS.length];
const NODES_BY_NAME = 10;
const MARKETS_SHOWN = 6;
const FEW_ITERATIONS = 40; /* while there are fewer, their clocks are shown too */

/* ---- The objective and metrics ---- */

class Learning {
    constructor(section) {
        this.element = section;
        this.holder = section.querySelector(".charts");
        this.charts = new Map();
        this.chartOf("objective");
    }
    chartOf(metric) {
        if (!this.charts.has(metric)) {
            this.charts.set(metric, new Chart(this.holder, { title: metric.replaceAll("_", " "), y: Format.number }));
        }
        return this.charts.get(metric);
    }
    draw(state) {
        const metrics = [...new Set(state.reports.flatMap((report) => report.metrics))];
        for (const metric of metrics) {
            const several = state.reports.length > 1;
            const series = state.reports.map((report, r) =>
                ({ name: several ? report.name : "by iteration", colour: colourOf(r) }));
            const curves = state.reports.map((report) => report.curve(metric, state.axis));
            if (!several && state.chosen.iterations.items.length < FEW_ITERATIONS) {
                const clocks = state.chosen.curve(metric, state.axis, true);
                if (clocks.length > 0) {
                    series.push({ name: "by clock", colour: "rest" });
                    curves.push(clocks);
                }
            }
            this.chartOf(metric).set(series, joinCurves(curves), state.axis);
        }
    }
    recolour() {
        this.charts.forEach((chart) => chart.recolour());
    }
}

/* ---- Items and bytes ---- */

class Work {
    constructor(section) {
        this.element = section;
        const holder = section.querySelector(".charts");
        const look = { stacked: true, tall: true };
        this.items = new Chart(holder, { title: "Items per second", y: Format.count1000, ...look });
        this.bytes = new Chart(holder, { title: "Bytes per second, sent and received", y: Format.bytes, ...look });
        this.all = null;
        this.holder = holder;
    }
    draw(state) {
        this.stack(this.items, (items) => items, state);
        this.stack(this.bytes, (items, sent, received) => sent + received, state);
        if (state.reports.length > 1) {
            this.compare(state);
        }
    }
    stack(chart, measure, state) {
        const { rows, others, data } = state.chosen.topRates(measure, NODES_BY_NAME, state.axis);
        const series = rows.map((row, s) => ({ name: row.name, colour: colourOf(s) }));
        if (others > 0) {
            series.push({ name: Format.count(others, "other"), colour: "rest" });
        }
        chart.set(series, data, state.axis);
    }
    compare(state) {
        this.all ??= new Chart(this.holder,
            { title: "Items per second of each report", y: Format.count1000, zero: true });
        this.all.set(state.reports.map((report, r) => ({ name: report.name, colour: colourOf(r) })),
            joinCurves(state.reports.map((report) => report.curve("items_per_second", state.axis))), state.axis);
    }
    recolour() {
        [this.items, this.bytes, this.all].forEach((chart) => chart?.recolour());
    }
}

/* ---- The timeline ---- */

class TimelineSection {
    constructor(section) {
        this.element = section;
        this.timeline = new Timeline(byId("timeline-canvas"), byId("timeline-at"), section.querySelector(".tools"));
        const key = byId("timeline-key");
        for (const role of Object.values(ROLES)) {
            key.append(element("li", {}, swatch(role.colour), role.label));
        }
        key.append(element("li", {}, element("b", { textContent: "\u00d7" }), "lost"));
        for (const mark of Object.values(MARKS)) {
            key.append(element("li", {}, element("b", { textContent: mark.letter }), mark.label));
        }
        const details = byId("timeline-table");
        this.table = new RecordTable(details.querySelector(".holder"), [
            { label: "Node", text: (row) => row.name, value: (row) => row.name },
            { label: "Tier", text: (row) => row.tier, value: (row) => row.tier },
            { label: "Host", text: (row) => row.host, value: (row) => row.host },
            { label: "What it did", wide: true, text: (row) => this.story(row) },
        ], { caption: "What each node did", filter: "Search" });
        this.details = details;
        details.addEventListener("toggle", () => this.fill());
        this.rows = [];
    }
    story(row) {
        const most = 12;
        const parts = row.segments.slice(-most).map((segment) => segmentText(segment, this.axis));
        return (row.segments.length > most ? "...; " : "") + parts.join("; ");
    }
    draw(state) {
        const report = state.chosen;
        this.axis = state.axis;
        this.rows = [...report.rows.values()].filter((row) => row.segments.length > 0);
        this.timeline.set(this.rows, report.marks, state.axis, report[state.axis]);
        this.fill();
    }
    fill() {
        if (this.details.open) {
            this.table.set(this.rows);
        }
    }
    recolour() {
        this.timeline.draw();
    }
}

/* ---- Nodes and partitions ---- */

class Nodes {
    constructor(section) {
        this.element = section;
        const text = (label, key) =>
            ({ label, text: (node) => String(node[key] ?? ""), value: (node) => node[key] ?? "" });
        const number = (label, key, format) =>
            ({ label, number: true, text: (node) => format(node[key]), value: (node) => node[key] ?? -1 });
        this.table = new RecordTable(section.querySelector(".holder"), [
            text("Node", "name"), text("Host", "host"), text("Tier", "tier"), text("State", "state"),
            number("Clock", "clock", Format.whole), number("Shards", "shards", Format.whole),
            number("Items", "items", Format.scaled), number("Network", "network", Format.bytes),
            number("Memory", "memory", Format.bytes), text("Partitions", "partitions"),
        ], { caption: "Nodes of the job", filter: "Search" });
    }
    draw(state) {
        this.table.set(state.status ? Nodes.ofStatus(state.status) : Nodes.ofReport(state.chosen));
    }
    static roles(serves, follows, tier, stage) {
        const parts = [];
        if (serves > 0) {
            parts.push(`${serves} ${tier === "transient" && stage !== "traditional" ? "ActivePS" : "ParamServ"}`);
        }
        if (follows > 0) {
            parts.push(`${follows} ${tier === "transient" ? "copied" : "BackupPS"}`);
        }
        return parts.join(", ");
    }
    static ofStatus(status) {
        const nodes = (status.nodes ?? []).map((node) => ({ ...node, state: node.leaving ? "leaving" : node.state,
            network: node.bytes_sent + node.bytes_received, memory: node.memory_bytes,
            partitions: Nodes.roles(node.serves, node.follows, node.tier, status.stage) }));
        const expected = (status.expected ?? []).map(({ name, tier }) => ({ name, tier, state: "expected" }));
        return [...nodes, ...expected];
    }
    static ofReport(report) {
        return report.present.map((row) => ({ name: row.name, host: row.host, tier: row.tier, state: row.state,
            shards: row.shards, items: row.items, network: row.bytes, memory: row.memory,
            partitions: Nodes.roles(row.serves.length, row.follows.length, row.tier, report.stage) }));
    }
}

class Placement {
    constructor(section) {
        this.element = section;
        this.table = new RecordTable(section.querySelector(".holder"), [
            { label: "Partition", number: true, text: (one) => String(one.partition), value: (one) => one.partition },
            { label: "Served by", text: (one) => one.server, value: (one) => one.server },
            { label: "Copy on", text: (one) => one.backup, value: (one) => one.backup },
            { label: "About to move to", text: (one) => one.next, value: (one) => one.next },
        ], { caption: "Where the partitions of the tables are", filter: "Search", low: true });
    }
    draw(state) {
        this.table.set(state.status?.partitions ? Placement.ofStatus(state.status) : Placement.ofReport(state.chosen));
    }
    static ofStatus(status) {
        return status.partitions.map((one) => {
            const next = [one.next_server, one.next_backup && `copy on ${one.next_backup}`].filter(Boolean).join(", ");
            return { partition: one.partition, server: one.server || "-", backup: one.backup || "-", next };
        });
    }
    static ofReport(report) {
        const partitions = new Map();
        const at = (number) => {
            if (!partitions.has(number)) {
                partitions.set(number, { partition: number, server: "-", backup: "-", next: "" });
            }
            return partitions.get(number);
        };
        for (const row of report.present) {
            row.serves.forEach((number) => { at(number).server = row.name; });
            row.follows.forEach((number) => { at(number).backup = row.name; });
        }
        return [...partitions.values()].sort((a, b) => a.partition - b.partition);
    }
}

/* ---- Money ---- */

class Money {
    constructor(section) {
        this.element = section;
        const holder = section.querySelector(".charts");
        const look = { time: true, tall: true };
        const dollars = { y: Format.dollars, yAxis: Format.dollarsShort, ...look };
        this.prices = new Chart(holder, { title: "Prices an hour, and our bids", step: true, ...dollars });
        this.machines = new Chart(holder,
            { title: "Machines by market", y: Format.number, stacked: true, step: true, ...look });
        this.spent = new Chart(holder, { title: "Dollars", zero: true, ...dollars });
        this.perWork = new Chart(holder, { title: "Dollars per work", zero: true, ...dollars });
        this.decisions = new RecordTable(section.querySelector(".holder"), [
            { label: "Time", text: (one) => (one.time ?? "").replace("T", " ").replace("Z", "") },
            { label: "At", text: (one) => Format.seconds(one.seconds) },
            { label: "What BidBrain did", wide: true, text: (one) => one.text ?? "" },
        ], { caption: "BidBrain's decisions, the newest first", filter: "Search", low: true });
    }
    static hasMoney(report) {
        return report.money.items.length > 0 || report.decisions.items.length > 0 || report.market !== null;
    }
    draw(state) {
        const report = state.chosen;
        const lines = report.money.items.filter((line) => Number.isFinite(Date.parse(line.time)));
        const known = Money.markets(lines);
        this.drawMarkets(lines, known);
        const curve = (key) => lines.filter((line) => Number.isFinite(line[key]))
            .map((line) => [Date.parse(line.time), line[key]]);
        this.drawCurves(this.spent, { dollars: ["spent", "c0"], on_demand_dollars: ["of it on demand", "c2"],
            spot_dollars: ["of it spot", "c4"], all_on_demand_dollars: ["all on demand instead", "c1"],
            budget_dollars: ["budget", "c3", true] }, curve);
        const unit = lines.findLast((line) => line.work_unit)?.work_unit ?? "unit of work";
        this.drawCurves(this.perWork, { dollars_per_work: [`per ${unit}`, "c0"] }, curve);
        this.decisions.set([...report.decisions.items].reverse());
    }
    /* The markets in which machines were held, then the cheapest. */
    static markets(lines) {
        const markets = new Map();
        for (const line of lines) {
            for (const one of line.markets ?? []) {
                const known = markets.get(one.market) ?? { name: one.market, held: 0, price: Infinity };
                known.held += one.machines ?? 0;
                known.price = Math.min(known.price, one.price ?? Infinity);
                markets.set(one.market, known);
            }
        }
        return [...markets.values()].sort((a, b) => b.held - a.held || a.price - b.price).slice(0, MARKETS_SHOWN)
            .map((market) => market.name);
    }
    drawMarkets(lines, known) {
        const curve = (market, key) => lines.map((line) => {
            const one = (line.markets ?? []).find((other) => other.market === market);
            return [Date.parse(line.time), one?.[key] ?? NaN]; /* NaN is a gap in the curve */
        });
        const series = [];
        const curves = [];
        known.forEach((market, m) => {
            series.push({ name: market, colour: colourOf(m) });
            curves.push(curve(market, "price"));
            const bids = curve(market, "bid");
            if (bids.some(([, bid]) => Number.isFinite(bid))) {
                series.push({ name: `${market} bid`, colour: colourOf(m), dashed: true });
                curves.push(bids);
            }
        });
        this.prices.set(series, joinCurves(curves), "time");
        this.machines.set(known.map((name, m) => ({ name, colour: colourOf(m) })),
            joinCurves(known.map((market) => curve(market, "machines").map(([x, count]) => [x, count || 0]))), "time");
    }
    drawCurves(chart, keys, curve) {
        const found = Object.entries(keys).map(([key, look]) => ({ look, points: curve(key) }))
            .filter((one) => one.points.length > 0);
        chart.set(found.map(({ look: [name, colour, dashed] }) => ({ name, colour, dashed: Boolean(dashed) })),
            joinCurves(found.map((one) => one.points)), "time");
    }
    recolour() {
        [this.prices, this.machines, this.spent, this.perWork].forEach((chart) => chart.recolour());
    }
}

/* ---- Events ---- */

class Events {
    constructor(section) {
        this.element = section;
        this.table = new RecordTable(section.querySelector(".holder"), [
            { label: "At", number: true, text: (one) => Format.seconds(one.seconds) },
            { label: "Iteration", number: true, text: (one) => Format.whole(one.iteration) },
            { label: "Event", text: (one) => one.event },
            { label: "Nodes", wide: true, text: (one) => one.names },
            { label: "Why", wide: true, text: (one) => one.reason },
        ], { caption: "Events", filter: "Search", choices: { label: "Kind", of: (one) => one.event } });
    }
    draw(state) {
        this.table.set([...state.chosen.events.items].reverse());
    }
}

/* ---- The heading ---- */

class Heading {
    constructor(header) {
        this.element = header;
        this.figures = new Map();
        for (const label of ["Iteration", "Time", "Time left", "Objective", "Items per second",
            "Reliable + transient", "Stage", "Cost"]) {
            const value = element("dd", { textContent: "-" });
            this.figures.set(label, value);
            byId("figures").append(element("div", {}, element("dt", { textContent: label }), value));
        }
    }
    put(label, text) {
        setText(this.figures.get(label), text);
        this.figures.get(label).title = text;
    }
    draw(state) {
        const report = state.chosen;
        const { status } = state;
        const last = report.iterations.last;
        const summary = report.summary;
        const done = summary?.iterations ?? Math.max(last?.iteration ?? 0, status?.iteration ?? 0);
        this.put("Iteration", Format.whole(done) + (last?.iterations ? ` of ${Heading.limit(last.iterations)}` : ""));
        const seconds = Math.max(report.seconds, summary ? 0 : status?.seconds ?? 0);
        const left = state.live && !summary ? report.secondsLeft({ ...report.terms, ...status }, seconds) : NaN;
        this.put("Time", Format.seconds(seconds));
        this.put("Time left", Number.isFinite(left) ? `about ${Format.seconds(left)}` : "-");
        this.put("Objective", Heading.objective(summary, report, status));
        this.put("Items per second", last ? Format.scaled(last.items_per_second) : "-");
        this.put("Reliable + transient", Heading.nodes(report));
        this.put("Stage", String(status?.stage ?? report.stage ?? "-"));
        this.put("Cost", Heading.cost(report));
    }
    /* The last one that was measured: not every iteration has to measure it. */
    static objective(summary, report, status) {
        const [iteration, value] = summary ? [] : report.curve("objective", "iteration").pop() ?? [];
        const of = value !== undefined && iteration < report.iterations.last.iteration;
        return Format.number(summary?.objective ?? value ?? status?.objective) +
            (of ? ` of iteration ${Format.whole(iteration)}` : "");
    }
    static limit(iterations) {
        return iterations < 1e6 ? Format.whole(iterations) : Format.scaled(iterations);
    }
    static nodes(report) {
        const there = report.present;
        const reliable = there.filter((row) => row.tier === "reliable").length;
        return `${reliable} + ${there.length - reliable}`;
    }
    static cost(report) {
        const dollars = report.market?.dollars ?? report.money.last?.dollars;
        return dollars === undefined ? "-" : Format.dollars(dollars);
    }
}

/* What the job does, in words without numbers that change all the time: it is read aloud when it changes. */
function stateText(state) {
    const { status, chosen: report } = state;
    const summary = report.summary;
    if (summary) {
        return summary.ok ? "ended well" : `failed: ${summary.error ?? "no reason given"}`;
    }
    if (!state.live) {
        return "the report has no end: the job was running, or its controller was lost, when it was copied";
    }
    const phases = { gather: "waiting for nodes", load: "loading the data", train: "training", save: "saving the model",
        leave: "ending" };
    const changes = { prepare: ", preparing a change", hold: ", about to change", switch: ", changing",
        recover: ", recovering" };
    return status ? (phases[status.phase] ?? status.phase) + (changes[status.change] ?? "") : "running";
}
