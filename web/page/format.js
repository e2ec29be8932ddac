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

/* Returns names cut to their ends, "...86cd7", as short as they still differ; names that are short are left alone. */
function shortNames(names) {
    const longest = Math.max(...names.map((name) => name.length), 0);
    for (let ends = 5; ends + 4 < longest; ends++) {
        const cut = names.map((name) => (name.length > ends + 1 ? `\u2026${name.slice(-ends)}` : name));
        if (new Set(cut).size === new Set(names).size && longest > 12) {
            return cut;
        }
    }
    return names;
}

function cssColour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/* Returns a square of a colour for a legend; `name` is that of a custom property of page.css. */
function swatch(name) {
    const made = element("span", { className: "swatch" });
    made.setAttribute("aria-hidden", "true");
    made.style.backgroundColor = `var(--${name})`;
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
    /* On an axis: 0.95, 120 k, -8.213 M. */
    axis(value) {
        return Math.abs(value) < 1e4 ? Format.number(value) : Format.scaledShort(value);
    },
    /* With a factor of 1000 and three digits: 1.25 M, 47.0 M. */
    scaled(value, unit = "") {
        return Format.withPrefix(value, unit, (number, power) =>
            (power === 0 ? String(Number(number.toPrecision(3))) : number.toPrecision(3)));
    },
    /* The same on an axis, without zeros at the end: 47 M. */
    scaledShort(value, unit = "") {
        return Format.withPrefix(value, unit, (number) => String(Number(number.toPrecision(4))));
    },
    withPrefix(value, unit, digits) {
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
        return digits(value, power) + (suffix ? ` ${suffix}` : "");
    },
    count1000(value) {
        return Format.scaled(value);
    },
    count1000Short(value) {
        return Format.scaledShort(value);
    },
    bytes(value) {
        return Format.scaled(value, "B");
    },
    bytesShort(value) {
        return Format.scaledShort(value, "B");
    },
    /* A moment of the job, to a tenth of a second: 57.3 s, 1 min 02.4 s. */
    moment(value) {
        if (!Number.isFinite(value)) {
            return "-";
        }
        const tenths = Math.round(value * 10);
        if (tenths < 600) {
            return `${(tenths / 10).toFixed(1)} s`;
        }
        const minutes = Math.floor(tenths / 600);
        const rest = ((tenths % 600) / 10).toFixed(1).padStart(4, "0");
        return minutes < 60 ? `${minutes} min ${rest} s` : Format.seconds(value);
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
    /* A time on an axis: 0.25 s, 40 s, 1:20, 2:05:00. */
    clock(value) {
        const whole = Math.round(value);
        if (whole < 60) {
            return `${Number(value.toFixed(value < 10 ? 3 : 1))} s`;
        }
        const two = (number) => String(number).padStart(2, "0");
        const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
        return `${hours > 0 ? `${hours}:${two(minutes)}` : minutes}:${two(whole % 60)}`;
    },
    dollars(value) {
        const cents = { minimumFractionDigits: 2, maximumFractionDigits: 2 };
        return Number.isFinite(value) ? `$${value.toLocaleString("en", cents)}` : "-";
    },
    /* Of what costs cents: an hour of a machine, a unit of work. */
    price(value) {
        return Number.isFinite(value) && value < 1 ? `$${value.toFixed(4)}` : Format.dollars(value);
    },
    /* On an axis. */
    dollarsShort(value) {
        return `$${Format.scaledShort(value)}`;
    },
    /* Milliseconds since 1970, in UTC: 04-04 01:23. */
    date(value) {
        return new Date(value).toISOString().slice(5, 16).replace("T", " ");
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
