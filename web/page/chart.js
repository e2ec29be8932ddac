/* A line chart in a box of fixed size: dygraphs, with a legend of our own and the values as a table. dygraphs' own
 * legend sets style attributes, which the page's policy forbids. */

Dygraph.PLUGINS = Dygraph.PLUGINS.filter((plugin) => plugin !== Dygraph.Plugins.Legend);

const TABLE_POINTS = 25;
const POINTS_DRAWN = 40; /* a curve of fewer has a dot at each point */

/* By mouse: drag to zoom, double-click to see all. A finger scrolls the page. */
const INTERACTION = Object.fromEntries(Object.entries(Dygraph.defaultInteractionModel)
    .filter(([event]) => !event.startsWith("touch")));

/* Joins curves [[x, y], ...] into dygraphs' rows [x, y of curve 0, y of curve 1, ...], by rising x. */
function joinCurves(curves) {
    const rows = new Map();
    curves.forEach((curve, c) => {
        for (const [x, y] of curve) {
            let row = rows.get(x);
            if (!row) {
                row = [x, ...curves.map(() => null)];
                rows.set(x, row);
            }
            row[c + 1] = y;
        }
    });
    return [...rows.values()].sort((a, b) => a[0] - b[0]);
}

class Chart {
    /* `options`: title, y (formats a value), yAxis (formats it on the axis), stacked, step, zero (the axis shows 0),
     * time (x is milliseconds since 1970), tall (the legend has several lines). */
    constructor(parent, options) {
        this.options = options;
        this.legend = element("div", { className: "legend" });
        this.plot = element("div", { className: "plot" },
            element("p", { className: "none", textContent: "No values" }));
        this.table = element("tbody");
        this.head = element("tr");
        this.details = element("details", {}, element("summary", { textContent: "Values as a table" }),
            this.tableRegion());
        this.at = element("span", { className: "where" }); /* where the pointer is */
        this.at.setAttribute("aria-hidden", "true");
        this.title = element("figcaption", { textContent: options.title });
        this.saves = element("button", { type: "button", className: "save", textContent: "SVG", disabled: true,
            title: "Save the chart as an SVG file" });
        this.saves.addEventListener("click", () => this.save());
        this.element = element("figure", { className: options.tall ? "chart tall" : "chart" }, this.title, this.at,
            this.saves, this.legend, this.plot, this.details);
        this.details.addEventListener("toggle", () => this.fillTable());
        this.data = [];
        this.series = [];
        this.graph = null;
        parent.append(this.element);
    }
    tableRegion() {
        const region = element("div", { className: "table low", tabIndex: 0 },
            element("table", {}, element("thead", {}, this.head), this.table));
        region.setAttribute("role", "region");
        region.setAttribute("aria-label", `${this.options.title}, values`);
        return region;
    }

    /* `series`: [{name, colour, dashed, short, plain, of}], colours by their names in page.css; `short`: the name in the
     * legend; `plain`: the legend has the value only; `of`: the legend has it, as that, behind the series before it.
     * `data`: rows of joinCurves; `axis`: what x is; `end`: where the axis ends at least, if it begins at 0. */
    set(series, data, axis, end = NaN) {
        const same = this.axis === axis && JSON.stringify(series) === JSON.stringify(this.series);
        this.axis = axis;
        this.data = data;
        this.end = end;
        if (!same) {
            this.series = series;
            this.makeLegend();
        }
        if (data.length === 0 || series.length === 0) {
            return;
        }
        if (!this.graph) {
            this.make();
        } else if (same) {
            this.graph.updateOptions({ file: this.rows(), drawPoints: this.hasPoints() });
        } else {
            this.graph.updateOptions({ file: this.rows(), dateWindow: null, valueRange: null, ...this.look() });
        }
        this.showValues();
        this.fillTable();
        this.describe();
    }
    /* Rows without values before and after the data let the charts of a job share their axis. */
    rows() {
        if (this.options.time) {
            return this.data.map(([x, ...y]) => [new Date(x), ...y]);
        }
        const none = this.series.map(() => null);
        const before = this.data[0][0] > 0 ? [[0, ...none]] : [];
        const after = this.end > this.data[this.data.length - 1][0] ? [[this.end, ...none]] : [];
        return [...before, ...this.data, ...after];
    }
    hasPoints() {
        return this.data.length < POINTS_DRAWN && !this.options.stacked && !this.options.step;
    }
    /* The options that follow from the series and the colour scheme. */
    look() {
        const perSeries = {};
        for (const one of this.series) {
            perSeries[one.name] = one.dashed ? { strokePattern: [5, 4] } : { strokePattern: null };
        }
        return {
            labels: [this.axis, ...this.series.map((one) => one.name)],
            colors: this.series.map((one) => cssColour(one.colour)),
            series: perSeries,
            gridLineColor: cssColour("grid"),
            axisLineColor: cssColour("line"),
            drawPoints: this.hasPoints(),
        };
    }
    make() {
        const { y, stacked, step, time } = this.options;
        const formatX = (value) => (this.axis === "seconds" ? Format.clock(value) : Format.number(value));
        this.plot.replaceChildren();
        const inner = element("div");
        inner.style.position = "absolute";
        inner.style.inset = "0";
        inner.setAttribute("aria-hidden", "true");
        this.plot.append(inner);
        this.saves.disabled = false;
        new ResizeObserver(() => this.resize()).observe(this.plot); /* dygraphs looks at the window only */
        this.graph = new Dygraph(inner, this.rows(), {
            ...this.look(),
            interactionModel: INTERACTION,
            stackedGraph: Boolean(stacked),
            stackedGraphNaNFill: "inside",
            fillGraph: Boolean(stacked),
            fillAlpha: 0.35,
            stepPlot: Boolean(step),
            includeZero: Boolean(stacked || this.options.zero),
            connectSeparatedPoints: !stacked,
            strokeWidth: 1.6,
            pointSize: 2,
            labelsUTC: true,
            axisLabelFontSize: 11,
            xAxisHeight: 20,
            rightGap: 8,
            highlightCircleSize: 3,
            axes: {
                x: { drawGrid: false, ...(time ? {} : { axisLabelFormatter: formatX, pixelsPerLabel: 55 }) },
                y: { axisLabelFormatter: this.options.yAxis ?? y, axisLabelWidth: 50, pixelsPerLabel: 30 },
            },
            highlightCallback: (_, x, points) => this.showValues(points, x),
            unhighlightCallback: () => this.showValues(),
        });
    }
    resize() {
        if (this.graph && this.graph.size().width !== this.plot.clientWidth) {
            this.graph.resize();
        }
    }
    makeLegend() {
        this.values = this.series.map(() => element("span"));
        this.legend.replaceChildren();
        this.series.forEach((one, s) => {
            if (one.of) {
                this.legend.lastChild.append(" ", this.values[s]);
            } else if (one.plain) {
                this.legend.append(element("span", {}, this.values[s]));
            } else {
                this.legend.append(element("span", { title: one.name }, swatch(one.colour),
                    `${one.short ?? one.name}${one.dashed ? " (dashed)" : ""} `, this.values[s]));
            }
        });
    }
    /* Shows the values under the pointer in the legend, or the newest ones. */
    showValues(points, x) {
        const there = (points ?? []).filter((point) => Number.isFinite(point.yval));
        const shown = new Map(there.map((point) => [point.name, point.yval]));
        setText(this.at, there.length > 0 ? this.formatPlace(x) : "last values");
        this.series.forEach((one, s) => {
            const value = there.length > 0 ? shown.get(one.name) : this.lastOf(s);
            const before = one.of ? `${one.of} ` : "";
            setText(this.values[s], Number.isFinite(value) ? before + this.options.y(value) : "");
        });
    }
    formatPlace(x) {
        if (this.options.time) {
            return `at ${Format.date(x)} UTC`;
        }
        return this.axis === "seconds" ? `at ${Format.moment(x)}` : `at iteration ${Format.number(x)}`;
    }
    /* The newest value of a series; of one that goes with another, only if both have it. */
    lastOf(s) {
        const oldest = this.series[s].of ? this.data.length - 1 : 0;
        for (let r = this.data.length - 1; r >= oldest; r--) {
            if (Number.isFinite(this.data[r][s + 1])) {
                return this.data[r][s + 1];
            }
        }
        return NaN;
    }
    describe() {
        const newest = this.series.slice(0, 4).map((one, s) => `${one.name} ${this.options.y(this.lastOf(s))}`);
        const points = Format.count(this.data.length, "point");
        this.plot.setAttribute("role", "img"); /* from now on the label says what is in it */
        this.plot.setAttribute("aria-label",
            `${this.options.title} over ${this.axis}: ${points}, last ${newest.join(", ")}`);
    }
    /* At most TABLE_POINTS rows, evenly over all. Where a series has no point its value is that of the point before. */
    fillTable() {
        if (!this.details.open) {
            return;
        }
        const name = this.axis === "iteration" ? "iteration" : this.axis;
        this.head.replaceChildren(...[name, ...this.series.map((one) => one.name)].map((text) => {
            const cell = element("th", { textContent: text });
            cell.scope = "col";
            return cell;
        }));
        const each = Math.max(1, Math.ceil(this.data.length / TABLE_POINTS));
        const known = this.series.map(() => null);
        const rows = this.data.map(([x, ...values]) => {
            values.forEach((value, s) => { known[s] = value ?? known[s]; });
            return [x, ...known];
        }).filter((_, r) => r % each === 0 || r === this.data.length - 1);
        const formatX = (x) => (this.options.time ? new Date(x).toISOString().slice(0, 19) : Format.number(x));
        this.table.replaceChildren(...rows.map(([x, ...values]) => element("tr", {},
            element("td", { textContent: formatX(x) }),
            ...values.map((value) =>
                element("td", { textContent: Number.isFinite(value) ? this.options.y(value) : "" })))));
    }
    /* The colours of the page have changed. */
    recolour() {
        if (this.graph) {
            this.graph.updateOptions(this.look());
        }
    }
    save() {
        const legend = this.series.filter((one) => !one.plain && !one.of).map((one) =>
            ({ colour: cssColour(one.colour), text: `${one.name}${one.dashed ? " (dashed)" : ""}` }));
        const { clientWidth: width, clientHeight: height } = this.plot;
        saveFigure({ title: this.options.title, legend, width, height, paint: (context) => this.paint(context) });
    }
    /* Has dygraphs draw once more, onto `context`, and copies the axes' labels, which are elements of the page. */
    paint(context) {
        const { graph } = this;
        const { x, y, w, h } = graph.getArea();
        const shown = graph.hidden_ctx_;
        context.save();
        context.beginPath();
        context.rect(x, y, w, h);
        context.clip();
        graph.hidden_ctx_ = graph.plotter_.elementContext = context;
        graph.renderGraph_(false);
        graph.hidden_ctx_ = graph.plotter_.elementContext = shown;
        context.restore();
        context.fillStyle = cssColour("dim");
        context.textAlign = "center";
        const corner = this.plot.getBoundingClientRect();
        for (const label of this.plot.querySelectorAll(".dygraph-axis-label")) {
            const place = document.createRange();
            place.selectNodeContents(label);
            const { left, top, width, height } = place.getBoundingClientRect();
            context.fillText(label.textContent, left - corner.left + width / 2, top - corner.top + height / 2);
        }
    }
    /* Whether the legend has several lines. */
    setTall(tall) {
        this.element.classList.toggle("tall", tall);
    }
    setTitle(text) {
        setText(this.title, text);
        this.options.title = text;
    }
}
