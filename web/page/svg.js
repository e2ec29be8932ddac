/* Saves a figure as an SVG file that needs nothing else: what is drawn on a canvas is recorded as elements, with their
 * styles as attributes. */

const SVG_LOOK = { edge: 10, title: 18, line: 18, swatch: 10 }; /* sizes of a figure's head */

/* What dygraphs and the timeline call of a canvas' context, and what they set. */
class SvgContext {
    constructor(name, width, height) {
        this.name = name;
        this.root = SvgContext.element("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`,
            width, height, "font-family": "system-ui, sans-serif" });
        this.parent = this.root;
        this.clips = 0;
        this.saved = [];
        this.path = "";
        this.state = { fillStyle: "#000000", strokeStyle: "#000000", lineWidth: 1, globalAlpha: 1, textAlign: "left",
            textBaseline: "middle", font: "11px system-ui, sans-serif", dash: "", clipped: "" };
        Object.assign(this, this.state);
        this.meter = document.createElement("canvas").getContext("2d");
    }
    static element(tag, attributes) {
        const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
        for (const [name, value] of Object.entries(attributes)) {
            if (name !== "xmlns" && value !== "") {
                made.setAttribute(name, typeof value === "number" ? SvgContext.round(value) : value);
            }
        }
        return made;
    }
    static round(number) {
        return Math.round(100 * number) / 100;
    }
    /* What follows is drawn in a group that lies so far from the figure's corner. */
    moveInto(x, y) {
        this.parent = SvgContext.element("g", { transform: `translate(${x} ${y})` });
        this.root.append(this.parent);
    }
    add(tag, attributes) {
        const opacity = this.globalAlpha < 1 ? this.globalAlpha : "";
        const made = SvgContext.element(tag, { ...attributes, opacity, "clip-path": this.clipped });
        this.parent.append(made);
        return made;
    }
    get stroked() {
        return { fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth, "stroke-dasharray": this.dash };
    }
    save() {
        this.saved.push(Object.fromEntries(Object.keys(this.state).map((key) => [key, this[key]])));
    }
    restore() {
        Object.assign(this, this.saved.pop());
    }
    beginPath() {
        this.path = "";
    }
    /* As on a canvas, numbers that are not finite are left out. */
    step(letter, ...numbers) {
        if (numbers.every(Number.isFinite)) {
            this.path += letter + numbers.map(SvgContext.round).join(" ");
        }
    }
    moveTo(x, y) {
        this.step("M", x, y);
    }
    lineTo(x, y) {
        this.step(this.path === "" ? "M" : "L", x, y);
    }
    closePath() {
        this.path += "Z";
    }
    rect(x, y, width, height) {
        this.step("M", x, y);
        this.step("h", width);
        this.step("v", height);
        this.step("h", -width);
        this.closePath();
    }
    /* A whole circle, whatever the angles. */
    arc(x, y, radius) {
        this.step("M", x - radius, y);
        this.step("a", radius, radius, 0, 1, 0, 2 * radius, 0);
        this.step("a", radius, radius, 0, 1, 0, -2 * radius, 0);
    }
    stroke() {
        this.add("path", { d: this.path, ...this.stroked });
    }
    fill() {
        this.add("path", { d: this.path, fill: this.fillStyle });
    }
    clip() {
        const id = `${this.name}-clip-${++this.clips}`;
        const outer = SvgContext.element("clipPath", { id, "clip-path": this.clipped });
        outer.append(SvgContext.element("path", { d: this.path }));
        this.parent.append(outer);
        this.clipped = `url(#${id})`;
    }
    fillRect(x, y, width, height) {
        this.add("rect", { x, y, width, height, fill: this.fillStyle });
    }
    strokeRect(x, y, width, height) {
        this.add("rect", { x, y, width, height, ...this.stroked });
    }
    fillText(text, x, y) {
        const anchor = { center: "middle", right: "end" }[this.textAlign] ?? "start";
        const [weight, size] = this.font.startsWith("bold ") ? ["bold", this.font.slice(5)] : ["", this.font];
        this.add("text", { x, y, fill: this.fillStyle, "font-size": parseFloat(size), "font-weight": weight,
            "text-anchor": anchor, "dominant-baseline": "central" }).textContent = text;
    }
    measureText(text) {
        this.meter.font = this.font;
        return this.meter.measureText(text);
    }
    setLineDash(pattern) {
        this.dash = pattern.join(" ");
    }
    clearRect() {}
    setTransform() {}
}

/* Places a legend's items {colour, text} in lines: [{item, x, line}, ...]. */
function placeLegend(context, items, width) {
    let x = 0;
    let line = 0;
    return items.map((item) => {
        const long = SVG_LOOK.swatch + 6 + context.measureText(item.text).width + 14;
        if (x > 0 && x + long > width) {
            x = 0;
            line++;
        }
        x += long;
        return { item, x: x - long, line };
    });
}

/* Gives the reader a file with a figure: its title, a legend, and below what `paint(context)` draws in a box of
 * width by height. */
function saveFigure({ title, legend, width, height, paint }) {
    const name = title.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-").replaceAll(/^-|-$/g, "") || "figure";
    const { edge, title: high, line, swatch: side } = SVG_LOOK;
    const places = placeLegend(new SvgContext(name, 0, 0), legend, width);
    const top = edge + high + line * (places.length > 0 ? places[places.length - 1].line + 1 : 0);
    const context = new SvgContext(name, width + 2 * edge, top + height + edge);
    context.fillStyle = cssColour("ground");
    context.fillRect(0, 0, width + 2 * edge, top + height + edge);
    context.font = "bold 14px";
    context.fillStyle = cssColour("text");
    context.fillText(title, edge, edge + high / 2);
    context.font = context.state.font;
    for (const place of places) {
        const y = edge + high + line * (place.line + 0.5);
        context.fillStyle = place.item.colour;
        context.fillRect(edge + place.x, y - side / 2, side, side);
        context.fillStyle = cssColour("text");
        context.fillText(place.item.text, edge + place.x + side + 6, y);
    }
    context.moveInto(edge, top);
    paint(context);
    const text = new XMLSerializer().serializeToString(context.root);
    const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    element("a", { href: address, download: `${name}.svg` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
}
