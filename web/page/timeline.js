/* The timeline of nodes, on a canvas: a row for each node, coloured by role, with marks for events above and in the
 * rows; moved and zoomed by pointer and keys. A table (figures.js) says the same to those who do not see it. */

const TIMELINE = {
    top: 26, bottom: 22, right: 10, rowMax: 28, labelMin: 11,
    heights: { few: 250, most: 620, row: 24, still: 120 }, /* of the canvas, see fit() */
    linesMost: 80, /* more marks than these have no line through all rows */
    letter: 13, /* the width of a mark's letter with what is free beside it */
    sharpest: 5000, /* times zoomed at most */
};

class Timeline {
    constructor(canvas, at, tools) {
        this.canvas = canvas;
        this.at = at;
        this.rows = [];
        this.marks = [];
        this.axis = "seconds";
        this.end = 1;
        this.showAll();
        this.cursor = -1; /* the row that is described */
        this.drag = null;
        new ResizeObserver(() => this.draw()).observe(canvas);
        canvas.addEventListener("keydown", (event) => this.key(event));
        canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
        canvas.addEventListener("pointerdown", (event) => this.press(event));
        canvas.addEventListener("pointermove", (event) => this.move(event));
        canvas.addEventListener("pointerup", () => this.release());
        canvas.addEventListener("pointercancel", () => this.release());
        canvas.addEventListener("dblclick", () => this.act("all"));
        tools.addEventListener("click", (event) => event.target.dataset.do && this.act(event.target.dataset.do));
    }
    showAll() {
        this.view = { from: 0, to: null }; /* to null: the newest */
        this.rowHeight = 0; /* 0: so that all rows fit */
        this.scroll = 0;
    }
    set(rows, marks, axis, end) {
        if (axis !== this.axis) {
            this.showAll();
        }
        Object.assign(this, { rows, marks, axis, end: Math.max(end, axis === "seconds" ? 0.1 : 1) });
        this.draw();
    }

    /* Gives the canvas a height for `count` rows. In a live page more rows may come. */
    fit(count, live) {
        const { few, most, row, still } = TIMELINE.heights;
        const all = TIMELINE.top + TIMELINE.bottom + row * count;
        const least = live ? few : still;
        const height = Math.max(least, Math.min(most, live ? Math.ceil(all / 100) * 100 : all));
        this.canvas.style.height = `${Math.min(height, Math.max(least, window.innerHeight * 0.8))}px`;
    }

    /* ---- Where things are ---- */

    measure() {
        const width = this.canvas.clientWidth;
        const height = this.canvas.clientHeight;
        const left = width < 600 ? 64 : 148;
        const area = height - TIMELINE.top - TIMELINE.bottom;
        const fit = Math.min(TIMELINE.rowMax, area / Math.max(1, this.rows.length));
        const row = Math.max(fit, Math.min(TIMELINE.rowMax, this.rowHeight));
        const to = this.view.to ?? this.end;
        this.scroll = Math.max(0, Math.min(this.scroll, row * this.rows.length - area));
        this.place = { width, height, left, area, row, from: this.view.from, to,
            scale: (width - left - TIMELINE.right) / (to - this.view.from) };
        return this.place;
    }
    x(value) {
        return this.place.left + (value - this.place.from) * this.place.scale;
    }
    y(row) {
        return TIMELINE.top + row * this.place.row - this.scroll;
    }
    rowAt(y) {
        const row = Math.floor((y - TIMELINE.top + this.scroll) / this.place.row);
        return y >= TIMELINE.top && row < this.rows.length ? row : -1;
    }
    valueAt(x) {
        return this.place.from + (x - this.place.left) / this.place.scale;
    }

    /* ---- Drawing ---- */

    draw() {
        const ratio = window.devicePixelRatio || 1;
        const place = this.measure();
        if (place.width === 0) {
            return;
        }
        const wide = Math.round(place.width * ratio);
        const high = Math.round(place.height * ratio);
        if (this.canvas.width !== wide || this.canvas.height !== high) {
            this.canvas.width = wide;
            this.canvas.height = high;
        }
        const context = this.canvas.getContext("2d");
        context.setTransform(ratio, 0, 0, ratio, 0, 0);
        this.paint(context);
        this.describe();
    }
    paint(context) {
        const { place } = this;
        context.clearRect(0, 0, place.width, place.height);
        context.font = "11px system-ui, sans-serif";
        context.textBaseline = "middle";
        this.colours = {};
        for (const name of ["text", "dim", "line", "grid", "stripe", "lost", "focus", "ground",
            ...Object.values(ROLES).map((role) => role.colour), ...Object.values(MARKS).map((mark) => mark.colour)]) {
            this.colours[name] = cssColour(name);
        }
        this.drawAxis(context);
        context.save();
        context.beginPath();
        context.rect(0, TIMELINE.top, place.width, place.area);
        context.clip();
        this.drawRows(context);
        context.restore();
        this.drawMarks(context);
    }
    drawAxis(context) {
        const { from, to, width, left, height } = this.place;
        const about = (to - from) / Math.max(2, (width - left) / (width < 600 ? 75 : 110));
        const power = 10 ** Math.floor(Math.log10(about));
        const steps = this.axis === "seconds" && about > 10 ? [15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400]
            : [1, 2, 5, 10].map((factor) => factor * power);
        const step = Math.max(steps.find((one) => one >= about) ?? about, this.axis === "iteration" ? 1 : 0);
        context.fillStyle = this.colours.dim;
        context.strokeStyle = this.colours.grid;
        context.textAlign = "center";
        for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) {
            const x = Math.round(this.x(tick)) + 0.5;
            context.beginPath();
            context.moveTo(x, TIMELINE.top);
            context.lineTo(x, height - TIMELINE.bottom);
            context.stroke();
            context.fillText(this.axis === "seconds" ? Format.clock(tick) : Format.whole(tick),
                Math.min(x, width - 18), height - 10);
        }
    }
    drawRows(context) {
        const { row, area, left, width } = this.place;
        const first = Math.max(0, Math.floor(this.scroll / row));
        const last = Math.min(this.rows.length, Math.ceil((this.scroll + area) / row));
        const gap = row >= 8 ? 2 : row >= 4 ? 1 : 0;
        context.save();
        context.beginPath();
        context.rect(left, TIMELINE.top, width - left - TIMELINE.right + 6, area);
        context.clip();
        for (let r = first; r < last; r++) {
            const top = Math.round(this.y(r) + gap / 2); /* whole pixels: thin rows would look like waves */
            this.drawRow(context, this.rows[r], top, Math.max(1, Math.round(this.y(r + 1) - gap / 2) - top));
        }
        for (let r = first; r < last; r++) { /* above the bars, as rows may be thinner than a pixel */
            this.drawLosses(context, this.rows[r], this.y(r), row);
        }
        context.restore();
        this.drawNames(context, first, last);
    }
    drawRow(context, row, y, height) {
        const { left, width } = this.place;
        for (const segment of row.segments) {
            const from = Math.max(left, this.x(segment[this.axis]));
            const to = Math.min(width, this.x(segment.end ? segment.end[this.axis] : this.end));
            if (to < left || from > width) {
                continue;
            }
            const long = Math.max(1, to - from);
            context.fillStyle = this.colours[ROLES[segment.role].colour];
            context.fillRect(from, y, long, height);
            if (segment.works && segment.role !== "working" && height >= 5) {
                context.fillStyle = this.colours.stripe;
                context.fillRect(from, y + height * 0.7, long, Math.max(1, height * 0.12));
            }
        }
    }
    drawLosses(context, row, y, height) {
        for (const segment of row.segments) {
            if (segment.end && segment.end.how === "lost") {
                const x = this.x(segment.end[this.axis]);
                const half = Math.max(1.5, Math.min(5, height / 2 - 1));
                const middle = y + height / 2;
                context.strokeStyle = this.colours.lost;
                context.lineWidth = half > 2 ? 2 : 1;
                context.beginPath();
                context.moveTo(x - half, middle - half);
                context.lineTo(x + half, middle + half);
                context.moveTo(x - half, middle + half);
                context.lineTo(x + half, middle - half);
                context.stroke();
                context.lineWidth = 1;
            }
        }
    }
    drawNames(context, first, last) {
        const { row, left, width, area } = this.place;
        context.textAlign = "left";
        const each = Math.max(1, Math.ceil(TIMELINE.labelMin / row));
        for (let r = first; r < last; r++) {
            const y = this.y(r) + row / 2;
            const whole = y >= TIMELINE.top + 5 && y <= TIMELINE.top + area - 5;
            if (whole && r % each === 0) {
                context.fillStyle = this.rows[r].gone ? this.colours.dim : this.colours.text;
                context.fillText(this.shortened(context, this.rows[r].name, left - 8), 4, y);
            }
        }
        if (this.cursor >= first && this.cursor < last) {
            context.strokeStyle = this.colours.focus;
            context.strokeRect(left - 1, this.y(this.cursor) - 0.5, width - left - TIMELINE.right + 4, row + 1);
        }
    }
    shortened(context, name, most) {
        if (context.measureText(name).width <= most) {
            return name;
        }
        let long = name.length; /* the end of a name tells nodes apart */
        while (long > 3 && context.measureText(`\u2026${name.slice(-long)}`).width > most) {
            long--;
        }
        return `\u2026${name.slice(-long)}`;
    }
    /* A letter above and, of few marks, a line through all rows. A letter that would overlap the one before stands
     * beside it; one that would be far from its time then, or has many others about it, is left out. */
    drawMarks(context) {
        const { left, height } = this.place;
        const { from, to } = this.place;
        const seen = this.marks.filter((mark) => mark[this.axis] >= from && mark[this.axis] <= to);
        let free = left - TIMELINE.letter;
        context.textAlign = "center";
        for (const mark of seen) {
            const x = this.x(mark[this.axis]);
            const kind = MARKS[mark.event];
            if (seen.length <= TIMELINE.linesMost) {
                context.strokeStyle = this.colours[kind.colour];
                context.globalAlpha = 0.45;
                context.beginPath();
                context.moveTo(x, TIMELINE.top);
                context.lineTo(x, height - TIMELINE.bottom);
                context.stroke();
                context.globalAlpha = 1;
            }
            const at = Math.max(x, free);
            if (at - x <= (seen.length <= TIMELINE.linesMost ? TIMELINE.letter : 0)) {
                free = at + TIMELINE.letter;
                context.fillStyle = this.colours[kind.colour];
                context.fillRect(at - 6, 6, 12, 14);
                context.fillStyle = this.colours.ground;
                context.fillText(kind.letter, at, 13.5);
            }
        }
    }
    save() {
        const roles = Object.values(ROLES).map(({ colour, label }) => ({ colour: cssColour(colour), text: label }));
        const seen = new Set(this.marks.map((mark) => MARKS[mark.event]));
        const marks = [...seen].map(({ colour, letter, label }) =>
            ({ colour: cssColour(colour), text: `${letter}: ${label}` }));
        const { width, height } = this.measure();
        saveFigure({ title: "Timeline of nodes", legend: [...roles, ...marks], width, height,
            paint: (context) => this.paint(context) });
    }
    describe() {
        const there = this.rows.filter((row) => !row.gone).length;
        const text = `Timeline of ${Format.count(this.rows.length, "node")} over ${this.axis}, ` +
            `${there} of them in the job, with ${Format.count(this.marks.length, "mark")}`;
        if (this.canvas.getAttribute("aria-label") !== text) {
            this.canvas.setAttribute("aria-label", text);
        }
    }

    /* ---- What the reader does ---- */

    zoom(factor, middle) {
        const { from, to } = this.place;
        const span = Math.max((to - from) * factor, this.end / TIMELINE.sharpest);
        const share = (middle - from) / (to - from);
        this.look(middle - share * span, middle + (1 - share) * span);
    }
    look(from, to) {
        const span = to - from;
        if (span >= this.end) {
            this.view = { from: 0, to: null };
        } else {
            const start = Math.max(0, Math.min(from, this.end - span));
            this.view = { from: start, to: start + span };
        }
        this.draw();
    }
    pan(share) {
        const { from, to } = this.place;
        this.look(from + share * (to - from), to + share * (to - from));
    }
    height(factor) {
        const { row, area } = this.place;
        const middle = (this.scroll + area / 2) / row;
        this.rowHeight = Math.min(TIMELINE.rowMax, row * factor);
        this.scroll = middle * Math.max(this.rowHeight, area / Math.max(1, this.rows.length)) - area / 2;
        this.draw();
    }
    act(what) {
        const middle = (this.place.from + this.place.to) / 2;
        const actions = {
            in: () => this.zoom(0.5, middle), out: () => this.zoom(2, middle),
            taller: () => this.height(1.6), flatter: () => this.height(1 / 1.6),
            all: () => { this.showAll(); this.draw(); },
            save: () => this.save(),
        };
        actions[what]();
    }
    key(event) {
        const keys = {
            ArrowLeft: () => this.pan(-0.15), ArrowRight: () => this.pan(0.15),
            ArrowUp: () => this.select(this.cursor - 1), ArrowDown: () => this.select(this.cursor + 1),
            "+": () => this.act("in"), "=": () => this.act("in"), "-": () => this.act("out"),
            PageUp: () => this.act("taller"), PageDown: () => this.act("flatter"),
            Home: () => this.act("all"), 0: () => this.act("all"),
        };
        if (Object.hasOwn(keys, event.key) && !event.ctrlKey && !event.metaKey && !event.altKey) {
            keys[event.key]();
            event.preventDefault();
        }
    }
    wheel(event) {
        if (!event.ctrlKey && document.activeElement !== this.canvas) {
            return; /* the page scrolls */
        }
        event.preventDefault();
        if (event.shiftKey) {
            this.scroll += event.deltaY || event.deltaX;
            this.draw();
        } else {
            this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.valueAt(event.offsetX));
        }
    }
    press(event) {
        this.drag = { x: event.clientX, y: event.clientY };
        this.canvas.setPointerCapture(event.pointerId);
    }
    release() {
        this.drag = null;
    }
    move(event) {
        if (this.drag) {
            const { from, to, scale } = this.place;
            const by = (this.drag.x - event.clientX) / scale;
            this.scroll += this.drag.y - event.clientY;
            this.drag = { x: event.clientX, y: event.clientY };
            this.look(from + by, to + by);
        } else {
            const row = this.rowAt(event.offsetY);
            if (row >= 0) {
                this.cursor = row;
                this.tell(this.rows[row], this.valueAt(event.offsetX));
                this.draw();
            }
        }
    }
    select(row) {
        if (this.rows.length === 0) {
            return;
        }
        this.cursor = Math.max(0, Math.min(row, this.rows.length - 1));
        const { row: high, area } = this.place;
        this.scroll = Math.max(this.cursor * high + high - area, Math.min(this.scroll, this.cursor * high));
        this.tell(this.rows[this.cursor], null);
        this.draw();
    }
    /* Says what a row's node does at `value`, or what it does last. */
    tell(row, value) {
        const segment = value === null ? row.segments[row.segments.length - 1]
            : row.segments.find((one) => one[this.axis] <= value && value <= (one.end ? one.end[this.axis] : Infinity));
        setText(this.at, segment ? `${row.name} (${row.tier}, ${row.host}): ${segmentText(segment, this.axis)}`
            : `${row.name}: not in the job then`);
    }
}

/* A segment in words: "ActivePS, working, from 2.1 s to 8 s, then lost". */
function segmentText(segment, axis) {
    const value = (number) => (axis === "seconds" ? Format.moment(number) : `iteration ${number}`);
    const works = segment.works && segment.role !== "working" ? ", working" : "";
    const ends = { lost: ", then lost", left: ", then gone in time" };
    return `${segment.role}${works}, from ${value(segment[axis])}` +
        (segment.end ? ` to ${value(segment.end[axis])}${ends[segment.end.how] ?? ""}` : " until now");
}
