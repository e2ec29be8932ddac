/* Numbers, times and names as texts, and small helpers for elements. Knows nothing of jobs. */

const byId = (id) => document.getElementById(id);

/* Returns a new element; `properties` are set on it, `children` (elements or texts) put into it. */
function element(tag, properties = {}, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
}

function setText(node, text) {
    if (node.textContent !== text) {
        node.textContent = text;
    }
}

/* The order of names: node-9 before node-10. */
const compareTexts = new Intl.Collator("en", { numeric: true }).compare;

function compareValues(a, b) {
    return typeof a === "number" && typeof b === "number" ? a - b : compareTexts(String(a), String(b));
}

function cssColour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/* Returns a square of a colour for a legend; `name` is that of a custom property of page.css. */
function swatch(name) {
    const made = element("span", { className: "swatch" });
    made.setAttribute("aria-hidden", "true");
    made.style.background = `var(--${name})`;
    return made;
}

const Format = {
    /* Four significant digits. */
    number(value) {
        if (value === null || value === undefined || Number.isNaN(value)) {
            return "-";
        }
        if (value === 0 || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e6)) {
            return String(Number(value.toPrecision(4)));
        }
        return value.toExponential(3);
    },
    whole(value) {
        return value === null || value === undefined ? "-" : Math.round(value).toLocaleString("en");
    },
    /* With a factor of 1000: 1.25 M. */
    scaled(value, unit = "") {
        if (!Number.isFinite(value)) {
            return "-";
        }
        const prefixes = ["", "k", "M", "G", "T", "P"];
        let power = 0;
        while (Math.abs(value) >= 999.5 && power + 1 < prefixes.length) {
            value /= 1000;
            power++;
        }
        const suffix = prefixes[power] + unit;
        return String(Number(value.toPrecision(3))) + (suffix ? ` ${suffix}` : "");
    },
    count1000(value) {
        return Format.scaled(value);
    },
    bytes(value) {
        return Format.scaled(value, "B");
    },
    seconds(value) {
        if (!Number.isFinite(value)) {
            return "-";
        }
        if (value < 60) {
            return `${value < 10 ? Number(value.toFixed(1)) : Math.round(value)} s`;
        }
        const minutes = Math.floor(Math.round(value) / 60);
        if (minutes < 60) {
            return `${minutes} min ${String(Math.round(value) % 60).padStart(2, "0")} s`;
        }
        return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
    },
    /* A time on an axis: 40 s, 1:20, 2:05:00. */
    clock(value) {
        const whole = Math.round(value);
        if (whole < 60) {
            return Format.seconds(value);
        }
        const two = (number) => String(number).padStart(2, "0");
        const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
        return `${hours > 0 ? `${hours}:${two(minutes)}` : minutes}:${two(whole % 60)}`;
    },
    dollars(value) {
        return Number.isFinite(value) ? `$${value < 1 ? value.toFixed(4) : value.toFixed(2)}` : "-";
    },
    /* On an axis. */
    dollarsShort(value) {
        return `$${Number(value.toPrecision(3))}`;
    },
    /* Whole numbers in order as ranges: 0-3, 7. */
    ranges(numbers) {
        const sorted = [...numbers].sort((a, b) => a - b);
        const parts = [];
        for (let n = 0; n < sorted.length; n++) {
            const first = n;
            while (n + 1 < sorted.length && sorted[n + 1] === sorted[n] + 1) {
                n++;
            }
            parts.push(n === first ? `${sorted[n]}` : `${sorted[first]}-${sorted[n]}`);
        }
        return parts.join(", ");
    },
    count(number, singular, plural = `${singular}s`) {
        return `${number.toLocaleString("en")} ${number === 1 ? singular : plural}`;
    },
};
