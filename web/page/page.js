/* Puts the page together: reports from the document, or a live job; draws what is seen and has changed, a few times a
 * second at most. */

const DRAW_MS = 400; /* between two drawings, at least; with many nodes longer */
const DRAW_MANY_MS = 1000;

const state = { reports: [], chosen: null, axis: "seconds", status: null, app: "", live: false };
const sections = [];
let drawTimer = null;
let drawnAt = -Infinity;

function markAll() {
    sections.forEach((section) => { section.dirty = true; });
    schedule();
}

/* Draws all once, seen or not, so that each section has its size before the reader comes to it. */
function sizeAll() {
    sections.forEach((section) => { section.unsized = section.mayResize = true; });
    markAll();
}

function schedule() {
    if (drawTimer === null) {
        const each = (state.chosen?.rows.size ?? 0) > STATUS_MS.manyNodes ? DRAW_MANY_MS : DRAW_MS;
        drawTimer = setTimeout(() => requestAnimationFrame(drawAll), Math.max(0, drawnAt + each - performance.now()));
    }
}

function drawAll() {
    drawTimer = null;
    drawnAt = performance.now();
    showSections();
    for (const section of sections) {
        if (section.dirty && (section.seen || section.unsized) && !section.element.hidden) {
            section.dirty = section.unsized = false;
            section.draw(state);
        }
    }
    showState();
}

/* Money is shown where there is some; what is about the job, where there is more than money (bidbrain's own page). */
function showSections() {
    const { chosen: report, live, status } = state;
    const money = Money.hasMoney(report);
    const idle = report.iterations.items.length === 0 && report.rows.size === 0 && report.events.items.length === 0;
    const job = live ? !status || "phase" in status : !money || !idle || report.summary;
    state.job = Boolean(job);
    document.body.classList.toggle("no-job", !job);
    if (live) { /* bidbrain's own report makes no page */
        setText(byId("source"), job ? "Live. From a report's file, proteus report makes a page like this one." : "Live.");
    }
    for (const { element: { id }, element: part } of sections.slice(1)) {
        part.hidden = id === "money" ? !money && job : !job;
        document.querySelector(`nav a[href="#${id}"]`).hidden = part.hidden;
    }
}

function showState() {
    const text = stateText(state);
    setText(byId("state"), text);
    byId("state").className = state.chosen.summary ? (state.chosen.summary.ok ? "good" : "bad")
        : state.live ? "going" : "";
    const program = state.job ? "Proteus" : "BidBrain";
    const name = state.app || state.status?.job || state.chosen.name;
    setText(byId("title"), name ? `${program}: ${name}` : program);
    document.title = `${name || program}: ${text}`;
    if (!state.live) {
        setText(byId("notice"), state.chosen.whole ? "" : "Some older lines of this long report were left out.");
    }
}

function makeSections() {
    const classes = { learning: Learning, work: Work, timeline: TimelineSection, nodes: Nodes, placement: Placement,
        money: Money, events: Events };
    sections.push(new Heading(document.querySelector("header")));
    for (const [id, type] of Object.entries(classes)) {
        sections.push(new type(byId(id)));
    }
    const seen = new IntersectionObserver((entries) => {
        for (const entry of entries) {
            const section = sections.find((one) => one.element === entry.target);
            section.mayResize ||= entry.isIntersecting && !section.seen; /* it comes into sight now */
            section.seen = entry.isIntersecting;
        }
        schedule();
    }, { rootMargin: "200px" });
    const [heading, ...others] = sections;
    heading.seen = true; /* always up to date, as it costs nothing */
    others.forEach((section) => seen.observe(section.element));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
        sections.forEach((section) => section.recolour?.()));
    document.querySelectorAll("input[name=axis]").forEach((input) => input.addEventListener("change", () => {
        state.axis = input.value;
        markAll();
    }));
    state.axis = document.querySelector("input[name=axis]:checked").value;
}

/* ---- Reports in the document ---- */

function readEmbedded(scripts) {
    for (const script of scripts) {
        const report = new Report(script.dataset.name);
        const text = script.textContent;
        for (let from = 0, end; from < text.length; from = end + 1) {
            end = text.indexOf("\n", from);
            end = end < 0 ? text.length : end;
            if (end > from) {
                report.take(JSON.parse(text.slice(from, end)));
            }
        }
        script.remove();
        state.reports.push(report);
    }
    state.chosen = state.reports[0];
    if (state.reports.length > 1) {
        const choice = byId("report");
        state.reports.forEach((report, r) => choice.append(new Option(report.name, String(r))));
        choice.addEventListener("change", () => {
            state.chosen = state.reports[Number(choice.value)];
            markAll();
        });
        byId("choice").hidden = false;
    }
    document.body.classList.add("still");
    setText(byId("source"), "Made by proteus report. This page holds all that it shows.");
    sizeAll();
}

/* ---- A live job ---- */

function watch() {
    const report = new Report("");
    state.live = true;
    state.reports = [report];
    state.chosen = report;
    const live = new Live(report, {
        begin: () => report.begin(),
        line: (line) => {
            report.take(line);
            if (line.type === "summary") {
                state.status = null; /* from now on the report says more */
            }
            markAll();
        },
        caughtUp: () => sizeAll(),
        status: (status) => {
            state.status = report.summary ? null : status;
            state.app = status.app || state.app;
            report.takeStatus(status);
            markAll();
        },
        connection: (text) => setText(byId("notice"), text),
        login: () => askForToken(() => live.load()),
    });
    markAll();
}

makeSections();
const embedded = document.querySelectorAll("script.report");
if (embedded.length > 0) {
    readEmbedded(embedded);
} else {
    watch();
}
