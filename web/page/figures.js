/* The page's sections: each takes what it shows from a Report and, live, from the job's status. A section is drawn when
 * it is seen and something has changed (page.js). `state` is {reports, chosen, axis, status}. */

const CHART_COLOURS = ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9"];
const colourOf = (number) => CHART_COLOURS[number % CHART_COLOURS.length];
const NODES_BY_NAME = 10;
const MARKETS_SHOWN = 6;
const FEW_ITERATIONS = 40; /* while there are fewer, their clocks are shown too */

/* Where the axes of the reports' charts end. */
const endOf = (state) => Math.max(...state.reports.map((report) => report[state.axis]));

/* Colours of what charts show by name: the same in all charts of a section, while the name is shown. */
class Colours {
    constructor() {
        this.byName = new Map();
    }
    of(name) {
        return this.byName.get(name);
    }
    /* Gives each name of each of the charts' lists a colour that no other name of the same list has. */
    choose(lists) {
        const before = this.byName;
        this.byName = new Map();
        for (const name of lists.flat()) {
            if (!this.byName.has(name)) {
                const beside = new Set(lists.filter((list) => list.includes(name)).flat());
                const taken = (colour) => [...beside].some((other) =>
                    (this.byName.get(other) ?? before.get(other)) === colour && other !== name);
                const kept = before.get(name);
                this.byName.set(name, kept && !taken(kept) ? kept
                    : CHART_COLOURS.find((colour) => !taken(colour)) ?? colourOf(this.byName.size));
            }
        }
    }
}

/* ---- The objective and metrics ---- */

class Learning {
    constructor(section) {
        this.element = section;
        this.holder = section.querySelector(".charts");
        this.charts = new Map();
        this.chartOf("objective", false);
    }
    chartOf(metric, several) {
        if (!this.charts.has(metric)) {
            this.charts.set(metric,
                new Chart(this.holder, { title: Learning.title(metric), y: Format.number, yAxis: Format.axis }));
        }
        this.charts.get(metric).setTall(several);
        return this.charts.get(metric);
    }
    static title(metric) {
        const words = metric.replaceAll("_", " ");
        return words.charAt(0).toUpperCase() + words.slice(1);
    }
    /* Whether a metric is the objective by another name: its chart would be the same. */
    static isObjective(metric, reports) {
        const lines = reports.flatMap((report) => [...report.iterations.items, ...report.clocks.items])
            .filter((line) => line[metric] !== undefined);
        return metric !== "objective" && lines.length > 0 && lines.every((line) => line[metric] === line.objective);
    }
    draw(state) {
        const metrics = [...new Set(state.reports.flatMap((report) => report.metrics))];
        const same = metrics.filter((metric) => Learning.isObjective(metric, state.reports));
        same.forEach((metric) => this.charts.get(metric)?.element.remove());
        same.forEach((metric) => this.charts.delete(metric));
        const shown = metrics.filter((metric) => !same.includes(metric));
        shown.forEach((metric) => this.chartOf(metric, state.reports.length > 1)); /* all, so that each has its place */
        shown.forEach((metric) => this.drawMetric(metric, state));
        const named = same.map((metric) => metric.replaceAll("_", " ")).join(", ");
        this.charts.get("objective").setTitle(named ? `Objective: ${named}` : "Objective");
    }
    drawMetric(metric, state) {
        const several = state.reports.length > 1;
        const series = state.reports.map((report, r) =>
            ({ name: several ? report.name : "by iteration", colour: colourOf(r) }));
        const curves = state.reports.map((report) => report.curve(metric, state.axis));
        if (!several && state.chosen.iterations.items.length < FEW_ITERATIONS) {
            const clocks = state.chosen.curve(metric, state.axis, true);
            if (clocks.length > 0) { /* below the other curve, so before it */
                series.unshift({ name: "by clock", colour: "rest" });
                curves.unshift(clocks);
            }
        }
        series[0].plain = series.length === 1;
        this.charts.get(metric).set(series, joinCurves(curves), state.axis, endOf(state));
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
        this.items = new Chart(holder,
            { title: "Items per second", y: Format.count1000, yAxis: Format.count1000Short, ...look });
        this.bytes = new Chart(holder,
            { title: "Network bytes per second", y: Format.bytes, yAxis: Format.bytesShort, ...look });
        this.all = null;
        this.holder = holder;
        this.colours = new Colours();
    }
    draw(state) {
        const items = state.chosen.topRates((items) => items, NODES_BY_NAME, state.axis);
        const bytes = state.chosen.topRates((_, sent, received) => sent + received, NODES_BY_NAME, state.axis);
        this.colours.choose([items, bytes].map((top) => top.rows.map((row) => row.name)));
        this.stack(this.items, items, state);
        this.stack(this.bytes, bytes, state);
        if (state.reports.length > 1) {
            this.compare(state);
        }
    }
    stack(chart, { rows, others, data }, state) {
        const names = shortNames(rows.map((row) => row.name));
        const series = rows.map((row, s) =>
            ({ name: row.name, short: names[s], colour: this.colours.of(row.name) }));
        if (others > 0) {
            series.push({ name: Format.count(others, "other"), colour: "rest" });
        }
        chart.set(series, data, state.axis, state.chosen[state.axis]);
    }
    compare(state) {
        this.all ??= new Chart(this.holder,
            { title: "Items per second of each report", y: Format.count1000, yAxis: Format.count1000Short, zero: true,
                tall: true });
        this.all.set(state.reports.map((report, r) => ({ name: report.name, colour: colourOf(r) })),
            joinCurves(state.reports.map((report) => report.curve("items_per_second", state.axis))), state.axis,
            endOf(state));
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
        const striped = swatch("activeps");
        striped.classList.add("striped");
        key.append(element("li", {}, striped, "with a stripe: works on data too"));
        const mark = (colour, letter, label) => {
            const made = element("b", { textContent: letter });
            made.style.background = `var(--${colour})`;
            key.append(element("li", {}, made, label));
        };
        mark("lost", "\u00d7", "lost");
        Object.values(MARKS).forEach(({ colour, letter, label }) => mark(colour, letter, label));
        const details = byId("timeline-table");
        this.table = new RecordTable(details.querySelector(".holder"), [
            { label: "Node", width: 11.5, text: (row) => row.name, value: (row) => row.name },
            { label: "Tier", width: 6, text: (row) => row.tier, value: (row) => row.tier },
            { label: "Host", width: 7, text: (row) => row.host, value: (row) => row.host },
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
        if (this.mayResize) {
            this.timeline.fit(this.rows.length, state.live);
            this.mayResize = false;
        }
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
        const text = (label, key, width) =>
            ({ label, width, text: (node) => String(node[key] ?? ""), value: (node) => node[key] ?? "" });
        const number = (label, key, format) =>
            ({ label, width: 6, number: true, text: (node) => format(node[key]), value: (node) => node[key] ?? -1 });
        this.table = new RecordTable(section.querySelector(".holder"), [
            text("Node", "name", 11.5), text("Host", "host", 7), text("Tier", "tier", 6), text("State", "state", 6),
            number("Clock", "clock", Format.whole), number("Shards", "shards", Format.whole),
            number("Slowness", "slowness", (value) => Number.isFinite(value) ? value.toFixed(2) : "-"),
            number("Items", "items", Format.scaled), number("Network", "network", Format.bytes),
            number("Memory", "memory", Format.bytes), { ...text("Partitions", "partitions"), wide: true },
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
            parts.push(`${follows} ${tier === "transient" && stage !== "transient" ? "copied" : "BackupPS"}`);
        }
        return parts.join(", ");
    }
    static ofStatus(status) {
        const nodes = (status.nodes ?? []).map((node) => ({ ...node, state: node.leaving ? "leaving" : node.state,
            network: node.bytes_sent + node.bytes_received, memory: node.memory_bytes, slowness: node.slowness_short,
            partitions: Nodes.roles(node.serves, node.follows, node.tier, status.stage) }));
        const expected = (status.expected ?? []).map(({ name, tier }) => ({ name, tier, state: "expected" }));
        return [...nodes, ...expected];
    }
    static ofReport(report) {
        return report.present.map((row) => ({ name: row.name, host: row.host, tier: row.tier, state: row.state,
            shards: row.shards, items: row.items, network: row.bytes, memory: row.memory, slowness: row.slowness,
            partitions: Nodes.roles(row.serves.length, row.follows.length, row.tier, report.stage) }));
    }
}

class Placement {
    constructor(section) {
        this.element = section;
        this.table = new RecordTable(section.querySelector(".holder"), [
            { label: "Partition", width: 6, text: (one) => String(one.partition), value: (one) => one.partition },
            { label: "Served by", width: 11.5, text: (one) => one.server, value: (one) => one.server },
            { label: "Copy on", width: 11.5, text: (one) => one.backup, value: (one) => one.backup },
            { label: "About to move to", wide: true, text: (one) => one.next, value: (one) => one.next },
        ], { caption: "Where the partitions of the tables are", filter: "Search" });
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
        const price = { y: Format.price, yAxis: Format.dollarsShort, ...look };
        this.prices = new Chart(holder, { title: "Prices an hour, and our bids", step: true, ...price });
        this.machines = new Chart(holder,
            { title: "Machines by market", y: Format.whole, stacked: true, step: true, ...look });
        this.spent = new Chart(holder, { title: "Dollars", zero: true, ...price, y: Format.dollars });
        this.perWork = new Chart(holder, { title: "Dollars per work", zero: true, ...price });
        this.colours = new Colours();
        this.decisions = new RecordTable(section.querySelector(".holder"), [
            { label: "Time (UTC)", width: 11, text: (one) => (one.time ?? "").replace("T", " ").replace("Z", "") },
            { label: "At", number: true, width: 7.5, text: (one) => Format.moment(one.seconds) },
            { label: "What BidBrain did", wide: true, text: (one) => one.text ?? "" },
        ], { caption: "BidBrain's decisions, the newest first", filter: "Search" });
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
    /* The markets in which machines were held, and of others the cheapest; by name. */
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
            .map((market) => market.name).sort(compareTexts);
    }
    drawMarkets(lines, known) {
        const curve = (market, key) => lines.map((line) => {
            const one = (line.markets ?? []).find((other) => other.market === market);
            return [Date.parse(line.time), one?.[key] ?? NaN]; /* NaN is a gap in the curve */
        });
        const series = [];
        const curves = [];
        this.colours.choose([known]);
        known.forEach((market) => {
            const colour = this.colours.of(market);
            series.push({ name: market, colour });
            curves.push(curve(market, "price"));
            const bids = curve(market, "bid");
            if (bids.some(([, bid]) => Number.isFinite(bid))) {
                series.push({ name: `${market} bid`, of: "bid", colour, dashed: true });
                curves.push(bids);
            }
        });
        this.prices.set(series, joinCurves(curves), "time");
        this.machines.set(known.map((name) => ({ name, colour: this.colours.of(name) })),
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
            { label: "At", number: true, width: 7.5, text: (one) => Format.moment(one.seconds) },
            { label: "Iteration", number: true, width: 6, text: (one) => Format.whole(one.iteration) },
            { label: "Event", width: 7.5, text: (one) => one.event },
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
        this.notes = [];
        for (const label of ["Iteration", "Time", "Time left", "Objective", "Items per second",
            "Reliable + transient", "Stage", "Cost"]) {
            const value = element("dd", { textContent: "-" });
            this.figures.set(label, value);
            const className = label === "Time" || label === "Cost" ? "" : "of-job";
            byId("figures").append(element("div", { className }, element("dt", { textContent: label }), value));
        }
    }
    show(label, shown) {
        this.figures.get(label).parentNode.hidden = !shown;
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
        this.put("Time left", Format.seconds(left));
        this.show("Time left", state.live); /* a live job may come to have both values, and no figure is to move */
        this.show("Cost", state.live || Money.hasMoney(report));
        this.putObjective(summary, report, status);
        this.put("Items per second", last ? Format.scaled(last.items_per_second) : "-");
        this.put("Reliable + transient", Heading.nodes(report));
        this.put("Stage", String(status?.stage ?? report.stage ?? "-"));
        this.put("Cost", Heading.cost(report));
        this.putNotes(report.notes.items);
    }
    /* What the app says. */
    putNotes(notes) {
        if (notes.length !== this.notes.length || notes.some((text, n) => text !== this.notes[n])) {
            this.notes = [...notes];
            byId("notes").replaceChildren(...notes.map((text) => element("li", { textContent: text })));
        }
    }
    /* The last one that was measured: not every iteration has to measure it. */
    putObjective(summary, report, status) {
        const [iteration, value] = summary ? [] : report.curve("objective", "iteration").pop() ?? [];
        const older = value !== undefined && iteration < report.iterations.last.iteration;
        this.put("Objective", Format.number(summary?.objective ?? value ?? status?.objective));
        setText(this.figures.get("Objective").previousSibling,
            older ? `Objective, iter. ${Format.whole(iteration)}` : "Objective");
    }
    static limit(iterations) {
        return iterations < 1e6 ? Format.whole(iterations) : Format.scaledShort(iterations);
    }
    static nodes(report) {
        const there = report.present;
        const reliable = there.filter((row) => row.tier === "reliable").length;
        const feeders = there.filter((row) => row.tier === "feeder").length;
        const transient = there.length - reliable - feeders;
        return `${reliable} + ${transient}${feeders > 0 ? `, ${feeders} feeders` : ""}`;
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
    if (!status?.phase) { /* bidbrain's status has none */
        return status || report.lines > 0 ? "running" : "connecting";
    }
    return (phases[status.phase] ?? status.phase) + (changes[status.change] ?? "");
}
