/* A table of records in a box of fixed height: sorted by a column, filtered by a text, a page of rows at a time. Cells
 * are changed in place, so that a reader's selection and focus stay while the job runs. */

const TABLE_PAGE = 50;
const WIDE_REM = 14; /* the least width of a column that takes what the others leave */

class RecordTable {
    /* `columns`: [{label, text(record), value(record) to sort by, number, width in rem, or wide}]. `options`: caption,
     * filter (its label), choices {label, of(record)}: a list to choose kinds of records from. */
    constructor(holder, columns, options) {
        this.columns = columns;
        this.options = options;
        this.records = [];
        this.page = 0;
        this.sortBy = null;
        this.down = false;
        this.shown = [];
        this.body = element("tbody");
        this.buttons = columns.map((column, c) => {
            const button = element("button", { type: "button", textContent: column.label });
            button.addEventListener("click", () => this.sort(c));
            return button;
        });
        this.heads = columns.map((column, c) => {
            const head = element("th", { scope: "col", className: column.number ? "number" : "" },
                column.value ? this.buttons[c] : column.label);
            return head;
        });
        const table = element("table", { className: "fixed" },
            element("caption", { className: "unseen", textContent: options.caption }), this.makeWidths(),
            element("thead", {}, element("tr", {}, ...this.heads)), this.body);
        const width = columns.reduce((sum, column) => sum + (column.width ?? WIDE_REM), 0);
        table.style.minWidth = `calc(${width}rem * var(--narrow, 1))`;
        this.region = element("div", { className: "table", tabIndex: 0 }, table);
        this.region.setAttribute("role", "region");
        this.region.setAttribute("aria-label", options.caption);
        holder.append(this.makePager(), this.region);
    }
    /* Columns of fixed width do not move when a value gets longer. */
    makeWidths() {
        return element("colgroup", {}, ...this.columns.map((column) => {
            const made = element("col");
            made.style.width = column.wide ? "auto" : `calc(${column.width}rem * var(--narrow, 1))`;
            return made;
        }));
    }
    makePager() {
        this.filter = element("input", { type: "search", size: 14 });
        this.filter.setAttribute("aria-label", `${this.options.filter}: ${this.options.caption}`);
        this.filter.addEventListener("input", () => this.turn(0));
        this.choice = element("select");
        this.choice.append(new Option("all", ""));
        this.choice.addEventListener("change", () => this.turn(0));
        this.before = element("button", { type: "button", textContent: "Previous" });
        this.before.addEventListener("click", () => this.turn(this.page - 1));
        this.after = element("button", { type: "button", textContent: "Next" });
        this.after.addEventListener("click", () => this.turn(this.page + 1));
        this.count = element("span");
        const pager = element("div", { className: "pager" });
        pager.append(element("label", {}, `${this.options.filter} `, this.filter));
        if (this.options.choices) {
            pager.append(element("label", {}, `${this.options.choices.label} `, this.choice));
        }
        pager.append(this.count, this.before, this.after);
        return pager;
    }
    sort(c) {
        this.down = this.sortBy === c && !this.down;
        this.sortBy = c;
        this.heads.forEach((head, h) => {
            if (h === c) {
                head.setAttribute("aria-sort", this.down ? "descending" : "ascending");
            } else {
                head.removeAttribute("aria-sort");
            }
        });
        this.turn(0);
    }
    turn(page) {
        this.page = page;
        this.draw();
    }
    set(records) {
        this.records = records;
        this.draw();
    }
    addChoices(records) {
        for (const record of records) {
            const kind = this.options.choices.of(record);
            if (![...this.choice.options].some((option) => option.value === kind)) {
                this.choice.append(new Option(kind, kind));
            }
        }
    }
    chosen() {
        const wanted = this.filter.value.trim().toLowerCase();
        const kind = this.choice.value;
        let records = this.records;
        if (this.options.choices) {
            this.addChoices(records);
            records = kind ? records.filter((record) => this.options.choices.of(record) === kind) : records;
        }
        if (wanted) {
            records = records.filter((record) =>
                this.columns.some((column) => column.text(record).toLowerCase().includes(wanted)));
        }
        if (this.sortBy !== null) {
            const value = this.columns[this.sortBy].value;
            const sign = this.down ? -1 : 1;
            records = [...records].sort((a, b) => sign * compareValues(value(a), value(b)));
        }
        return records;
    }
    draw() {
        const records = this.chosen();
        const pages = Math.max(1, Math.ceil(records.length / TABLE_PAGE));
        this.page = Math.max(0, Math.min(this.page, pages - 1));
        const first = this.page * TABLE_PAGE;
        const rows = records.slice(first, first + TABLE_PAGE);
        this.before.disabled = this.page === 0;
        this.after.disabled = this.page === pages - 1;
        this.before.classList.toggle("away", pages === 1);
        this.after.classList.toggle("away", pages === 1);
        setText(this.count, records.length === 0 ? "nothing to show"
            : `${first + 1} to ${first + rows.length} of ${Format.whole(records.length)}`);
        while (this.body.rows.length > rows.length) {
            this.body.lastChild.remove();
        }
        rows.forEach((record, r) => this.fillRow(this.body.rows[r] ?? this.addRow(), record));
    }
    addRow() {
        const row = element("tr");
        this.columns.forEach((column) => {
            row.append(element("td", { className: column.wide ? "wide" : column.number ? "number" : "" }));
        });
        this.body.append(row);
        return row;
    }
    fillRow(row, record) {
        this.columns.forEach((column, c) => setText(row.cells[c], column.text(record)));
    }
}
