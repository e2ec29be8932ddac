/* An app whose clocks do nothing: measures the cost of a clock in C, for bench/python to compare with. Its items have 4
 * bytes and no rows. A replicated table of floats is updated in each clock with --update. */
#include <agileml.h>

#include <stdbool.h>

struct empty {
    int64_t items, rows;
    bool update;
};

enum { WIDTH = 100 };

static int empty_configure(aml_worker *worker, struct aml_app *app) {
    const struct empty *empty = app->context;
    (void)worker;
    app->tables[0].rows = (uint64_t)empty->rows;
    return 0;
}

static int empty_read(aml_worker *worker, void *context) {
    const struct empty *empty = context;
    int kept = 0;
    for (int64_t i = 0; i < empty->items && kept >= 0; i++) {
        float value = (float)i;
        kept = aml_emit(worker, AML_TRAIN, NULL, &value);
    }
    return kept < 0 ? kept : 0;
}

static int empty_clock(aml_worker *worker, const void *items, size_t count, void *context) {
    const struct empty *empty = context;
    (void)items;
    if (empty->update) {
        struct aml_rows rows = aml_table_rows(worker, 0);
        for (uint32_t slot = 0; slot < rows.count; slot++) {
            float *row = aml_row(&rows, slot);
            for (unsigned c = 0; c < WIDTH; c++) {
                row[c] += 1;
            }
        }
    }
    aml_metric_add(worker, 0, 0, (double)count);
    return 0;
}

int main(int argc, char **argv) {
    struct empty empty = {.items = 1000000, .rows = 10};
    const struct aml_option options[] = {
        {"items", "N", AML_OPTION_INTEGER, &empty.items, 1, 1e9, "items of a clock"},
        {"rows", "N", AML_OPTION_INTEGER, &empty.rows, 1, 1e9, "rows of 100 floats"},
        {"update", NULL, AML_OPTION_FLAG, &empty.update, 0, 0, "add to each row in each clock"},
        {0}};
    struct aml_table tables[] = {{.name = "w", .type = AML_FLOAT32, .width = WIDTH, .whole = 1}};
    const struct aml_metric metrics[] = {{.name = "none", .kind = AML_MEAN}};
    struct aml_app app = {.name = "empty_clock",
                          .summary = "clocks that do nothing",
                          .options = options,
                          .tables = tables,
                          .table_count = 1,
                          .metrics = metrics,
                          .metric_count = 1,
                          .item_bytes = sizeof(float),
                          .clock_alone = 1,
                          .read_only_emits = 1,
                          .configure = empty_configure,
                          .read = empty_read,
                          .clock = empty_clock,
                          .context = &empty};
    return aml_main(&app, argc, argv);
}
