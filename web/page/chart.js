/* A line chart in a box of fixed size: dygraphs, with a legend of our own and the values as a table. dygraphs' own
 * legend sets style attributes, which the page's policy forbids. */

Dygraph.PLUGINS = Dygraph.PLUGINS.filter((plugin) => plugin !== Dygraph.Plugins.Legend);

const TABLE_POINTS = 25;

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
     * time (x is milliseconds since 1970), tall (the legend has two lines). */
    constructor(parent, options) {
        this.options = options;
        this.legend = element("div", { className: "legend" });
        this.plot = element("div", { className: "plot" },
            element("p", { className: "none", textContent: "no values yet" }));
        this.plot.setAttribute("role", "img");
        this.table = element("tbody");
        this.head = element("tr");
        this.details = element("details", {}, element("summary", { textContent: "Values as a table" }),
            this.tableRegion());
        this.element = element("figure", { className: options.tall ? "chart tall" : "chart" },
            element("figcaption", { textContent: options.title }), this.legend, this.plot, this.details);
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

    /* `series`: [{name, colour, dashed}], colours by their names in page.css; `data`: rows of joinCurves; `axis`: what
     * x is. */
    set(series, data, axis) {
        const same = this.axis === axis && JSON.stringify(series) === JSON.stringify(this.series);
        this.axis = axis;
        this.data = data;
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
            this.graph.updateOptions({ file: this.rows(), drawPoints: data.length < 40 });
        } else {
            this.graph.updateOptions({ file: this.rows(), dateWindow: null, valueRange: null, ...this.look() });
        }
        this.showValues();
        this.fillTable();
        this.describe();
    }
    rows() {
        return this.options.time ? this.data.map(([x, ...y]) => [new Date(x), ...y]) : this.data;
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
            drawPoints: this.data.length < 40,
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
        this.graph = new Dygraph(inner, this.rows(), {
            ...this.look(),
            stackedGraph: Boolean(stacked),
            fillGraph: Boolean(stacked),
            fillAlpha: 0.35,
            stepPlot: Boolean(step),
            includeZero: Boolean(stacked || this.options.zero),
            connectSeparatedPoints: !stacked,
            strokeWidth: 1.6,
            pointSize: 2,
            labelsUTC: true,
            axisLabelFontSize: 11,
            rightGap: 8,
            highlightCircleSize: 3,
            axes: {
                x: { drawGrid: false, ...(time ? {} : { axisLabelFormatter: formatX, pixelsPerLabel: 55 }) },
                y: { axisLabelFormatter: this.options.yAxis ?? y, axisLabelWidth: 58, pixelsPerLabel: 30 },
            },
            highlightCallback: (_, __, points) => this.showValues(points),
            unhighlightCallback: () => this.showValues(),
        });
    }
    makeLegend() {
        this.values = this.series.map(() => element("span"));
        this.legend.replaceChildren(...this.series.map((one, s) =>
            element("span", {}, swatch(one.colour), `${one.name}${one.dashed ? " (dashed)" : ""} `, this.values[s])));
    }
    /* Shows the values under the pointer in the legend, or the newest ones. */
    showValues(points) {
        const shown = new Map();
        for (const point of points ?? []) {
            shown.set(point.name, point.yval);
        }
        this.series.forEach((one, s) => {
            let value = shown.get(one.name);
            if (!points) {
                value = this.lastOf(s);
            }
            setText(this.values[s], Number.isFinite(value) ? this.options.y(value) : "");
        });
    }
    lastOf(s) {
        for (let r = this.data.length - 1; r >= 0; r--) {
            if (Number.isFinite(this.data[r][s + 1])) {
                return this.data[r][s + 1];
            }
        }
        return NaN;
    }
    describe() {
        const newest = this.series.slice(0, 4).map((one, s) => `${one.name} ${this.options.y(this.lastOf(s))}`);
        const points = Format.count(this.data.length, "point");
        this.plot.setAttribute("aria-label",
            `${this.options.title} over ${this.axis}: ${points}, last ${newest.join(", ")}`);
    }
    /* At most TABLE_POINTS rows, evenly over all. */
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
        const rows = this.data.filter((_, r) => r % each === 0 || r === this.data.length - 1);
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
}
