/* Where a live page has its lines from: the history first, then what follows, one event of the server at a time. After
 * a lost connection it goes on where it was; when the server does not have the lines between, or is another job's, it
 * begins anew. */

const RETRY = { first: 1000, most: 30000 };
const STATUS_MS = { few: 1000, many: 3000, hidden: 30000, manyNodes: 200 };

/* Calls `take` for each line of JSON in a response as it comes. */
async function eachLine(response, take) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
        const { done, value } = await reader.read();
        const lines = (rest + (value ?? "")).split("\n");
        rest = done ? "" : lines.pop();
        lines.filter((line) => line.trim() !== "").forEach((line) => take(JSON.parse(line)));
        if (done) {
            return;
        }
    }
}

class Unauthorized extends Error {} /* a token would help */
class Forbidden extends Error {}

async function get(path) {
    const response = await fetch(path, { cache: "no-store", credentials: "same-origin" });
    if (response.status === 401) {
        throw new Unauthorized(path);
    }
    if (response.status === 403) {
        throw new Forbidden(path);
    }
    if (!response.ok) {
        throw new Error(`${path}: ${response.status}`);
    }
    return response;
}

class Live {
    /* `on`: begin() before a history, line(object), caughtUp(), status(object), connection(text), login(). */
    constructor(report, on) {
        this.report = report;
        this.on = on;
        this.run = null;
        this.next = 0;
        this.resets = 0; /* in a row, without a line between them */
        this.wait = RETRY.first;
        this.over = false;
        document.addEventListener("visibilitychange", () => !document.hidden && this.pollStatus());
        this.load();
        this.pollStatus();
    }
    async load() {
        this.close();
        try {
            const response = await get("api/history");
            let begun = false;
            await eachLine(response, (line) => {
                if (line.type === "history") {
                    this.run = line.run;
                    this.next = line.next;
                }
                if (!begun) {
                    begun = true;
                    this.on.begin();
                }
                this.on.line(line);
            });
            this.on.caughtUp();
            this.listen();
        } catch (problem) {
            this.failed(problem, () => this.load());
        }
    }
    listen() {
        this.close();
        this.events = new EventSource(`api/events?run=${encodeURIComponent(this.run ?? "")}&from=${this.next}`);
        this.events.addEventListener("open", () => this.connected());
        this.events.addEventListener("message", (event) => this.message(event));
        this.events.addEventListener("reset", () => this.reset());
        this.events.addEventListener("end", () => this.end());
        this.events.addEventListener("error", () => this.lost());
    }
    message(event) {
        const number = Number(event.lastEventId);
        if (number > this.next) { /* lines between are missing */
            this.reset();
        } else if (number === this.next) {
            this.next = number + 1;
            this.resets = 0;
            this.on.line(JSON.parse(event.data));
        }
    }
    /* At once; later if no line came since the last time. */
    reset() {
        this.close();
        this.resets++;
        if (this.resets > 1) {
            this.later(() => this.load());
        } else {
            this.load();
        }
    }
    connected() {
        this.wait = this.resets > 0 ? this.wait : RETRY.first;
        this.on.connection("");
    }
    end() {
        this.over = true;
        this.close();
        this.on.connection("the job has ended");
    }
    /* The browser says why to nobody: a request tells whether it was the token. */
    lost() {
        this.close();
        if (this.report.summary) {
            this.end();
            return;
        }
        this.on.connection("connection lost, trying again");
        this.later(async () => {
            try {
                await get("api/status");
                this.listen();
            } catch (problem) {
                this.failed(problem, () => this.lost());
            }
        });
    }
    failed(problem, again) {
        if (problem instanceof Unauthorized) {
            this.on.login();
            return;
        }
        this.on.connection(problem instanceof Forbidden ? "the server does not let this browser in, trying again"
            : "connection lost, trying again");
        this.later(again);
    }
    later(what) {
        clearTimeout(this.timer);
        this.timer = setTimeout(what, this.wait * (0.75 + Math.random() / 2));
        this.wait = Math.min(RETRY.most, this.wait * 2);
    }
    close() {
        clearTimeout(this.timer);
        this.events?.close();
        this.events = null;
    }

    /* ---- The status ---- */

    async pollStatus() {
        clearTimeout(this.statusTimer);
        if (this.over) {
            return;
        }
        let nodes = 0;
        if (this.events && !document.hidden) {
            try {
                const status = await (await get("api/status")).json();
                nodes = status.nodes?.length ?? 0;
                this.on.status(status);
            } catch {
                /* the events' connection says so */
            }
        }
        const wait = document.hidden ? STATUS_MS.hidden : nodes > STATUS_MS.manyNodes ? STATUS_MS.many : STATUS_MS.few;
        clearTimeout(this.statusTimer);
        this.statusTimer = setTimeout(() => this.pollStatus(), wait);
    }
}

/* Shows the form for the token until the server takes one, then calls `done`. */
function askForToken(done) {
    const form = byId("login");
    const lock = (locked) => {
        form.hidden = !locked;
        byId("main").hidden = locked;
        document.body.classList.toggle("locked", locked);
    };
    lock(true);
    form.onsubmit = async (event) => {
        event.preventDefault();
        const response = await fetch("api/login", { method: "POST", credentials: "same-origin",
            headers: { Authorization: `Bearer ${byId("token").value.trim()}` } }).catch(() => null);
        if (response?.ok) {
            byId("token").value = "";
            lock(false);
            done();
        } else {
            setText(byId("login-error"),
                response ? "The server does not take this token." : "The server does not answer.");
        }
    };
    byId("token").focus();
}
