"""Generates the C source of proteus._binding: what the Python package calls of libagileml, and what libagileml calls of
the package. `python3 binding.py FILE.c` writes it; CMake compiles it."""

import sys

import cffi

DECLARATIONS = """
typedef struct aml_worker aml_worker;

enum aml_type { AML_FLOAT32, AML_FLOAT64, AML_INT32, AML_INT64, ... };
enum aml_mode { AML_ADD, AML_PUT, ... };
#define AML_EINPUT ...
#define AML_EFAIL ...
#define AML_ENOMEM ...
#define AML_ELIMIT ...
#define AML_EPROTOCOL ...
#define AML_ESTOP ...
#define AML_ITEM_BYTES_MAX ...

struct aml_step { ...; };
struct aml_steps {
    uint64_t clock;
    uint32_t width, state_width;
    size_t count;
    uint64_t *keys;
    void *rows;
    void *states;
    void *sums;
    char *error;
    size_t error_bytes;
    ...;
};

struct aml_table {
    const char *name;
    enum aml_type type;
    enum aml_mode mode;
    uint32_t width;
    uint64_t rows;
    int whole;
    int changes_given;
    void (*start)(void *context, uint64_t key, void *row);
    void (*apply)(const struct aml_step *step, const void *parameters);
    const void *parameters;
    uint32_t state_width;
    int (*apply_rows)(const struct aml_steps *steps, const void *parameters);
    ...;
};

#define AML_TRANSFORMS_MAX ...
#define AML_TRANSFORM_STATE ...
#define AML_TRANSFORM_TRAIN ...
struct aml_transform {
    const char *name;
    const char *from;
    unsigned flags;
    size_t bytes;
    int (*run)(aml_worker *worker, uint64_t random, const void *in, void *out, void *context);
};

enum aml_metric_kind { AML_SUM, AML_MEAN, AML_ROOT_MEAN, AML_EXP_MEAN, ... };
struct aml_metric {
    const char *name;
    enum aml_metric_kind kind;
    int evaluated;
};

enum aml_option_type {
    AML_OPTION_FLAG, AML_OPTION_INTEGER, AML_OPTION_REAL, AML_OPTION_STRING, AML_OPTION_STRINGS, AML_OPTION_WORD, ...
};
struct aml_strings {
    unsigned count;
    const char *values[...];
};
struct aml_option {
    const char *name;
    const char *value;
    enum aml_option_type type;
    void *target;
    double minimum, maximum;
    const char *help;
};

struct aml_app {
    const char *name;
    const char *summary;
    const struct aml_option *options;
    const char *const *steering;
    struct aml_table *tables;
    unsigned table_count;
    const struct aml_metric *metrics;
    unsigned metric_count;
    unsigned item_rows;
    unsigned item_tables[...];
    size_t item_bytes;
    int item_varied;
    int clock_alone;
    int evaluate_always;
    int lots;
    int strategies;
    int slices;
    const struct aml_transform *transforms;
    int read_only_emits;
    int64_t iterations;
    int64_t clocks_per_iteration;
    unsigned phases;
    int64_t evaluate_every;
    const char *strategy;
    int (*configure)(aml_worker *worker, struct aml_app *app);
    int (*read)(aml_worker *worker, void *context);
    int (*begin)(aml_worker *worker, void *context);
    int (*clock)(aml_worker *worker, const void *items, size_t count, void *context);
    int (*evaluate)(aml_worker *worker, const void *items, size_t count, void *context);
    int (*finish)(aml_worker *worker, void *context);
    void *context;
    ...;
};

struct aml_rating {
    uint64_t user;
    uint64_t item;
    float value;
};
struct aml_lines {
    const char *text;
    size_t size;
    uint32_t file;
    uint32_t split;
    uint64_t offset;
    int first;
};
struct aml_file {
    const char *path;
    ...;
};
struct aml_item {
    uint32_t row_count;
    uint32_t size;
};
struct aml_rows {
    unsigned char *base;
    size_t stride;
    uint32_t count;
    unsigned char *sums;
    ...;
};
struct aml_keys {
    unsigned table;
    uint32_t count;
    const uint64_t *keys;
};

struct aml_momentum { double rate, momentum, l2; int nesterov; };
struct aml_adagrad { double rate, l2, initial, epsilon; };
struct aml_adam { double rate, beta1, beta2, epsilon, l2; };
struct aml_ftrl { double alpha, beta, l1, l2; };
void aml_apply_momentum(const struct aml_step *step, const void *parameters);
void aml_apply_adagrad(const struct aml_step *step, const void *parameters);
void aml_apply_adam(const struct aml_step *step, const void *parameters);
void aml_apply_ftrl(const struct aml_step *step, const void *parameters);
uint32_t aml_momentum_state(uint32_t width);
uint32_t aml_adagrad_state(uint32_t width);
uint32_t aml_adam_state(uint32_t width);
uint32_t aml_ftrl_state(uint32_t width);

int aml_main(struct aml_app *app, int argc, char **argv);
int aml_emit_varied(aml_worker *worker, int use, uint64_t key, const struct aml_keys *runs, unsigned run_count,
                    const void *bytes, size_t size);
int aml_read_ratings(aml_worker *worker, const char *path,
                     int (*each)(aml_worker *worker, const struct aml_rating *ratings, size_t count, void *context),
                     void *context);
int aml_read_lines(aml_worker *worker, const char *path,
                   int (*each)(aml_worker *worker, const struct aml_lines *lines, void *context), void *context);
int aml_read_files(aml_worker *worker, const char *path,
                   int (*each)(aml_worker *worker, const struct aml_file *file, void *context), void *context);
uint64_t aml_line_number(aml_worker *worker, const struct aml_lines *lines, const char *at);
int aml_files(aml_worker *worker, const char *value, int (*each)(aml_worker *worker, const char *path, void *context),
              void *context);
void aml_input_file(aml_worker *worker, const char *path);
void aml_input_mark(aml_worker *worker, const char *what, uint64_t hash);
struct aml_rows aml_table_rows(aml_worker *worker, unsigned table);
int aml_read_params(aml_worker *worker, unsigned table, const uint64_t *keys, size_t count, void *values);
int aml_update_params(aml_worker *worker, unsigned table, const uint64_t *keys, size_t count, const void *deltas);
int aml_rows_done(aml_worker *worker, unsigned table, uint64_t first, uint64_t count);
void aml_metric_add(aml_worker *worker, unsigned index, double sum, double weight);
int aml_scan(aml_worker *worker, unsigned table,
             int (*each)(void *context, const uint64_t *keys, const void *rows, size_t count), void *context);
uint64_t aml_clock(const aml_worker *worker);
uint64_t aml_iteration(const aml_worker *worker);
unsigned aml_clocks_per_iteration(const aml_worker *worker);
unsigned aml_phase(const aml_worker *worker);
int aml_last(const aml_worker *worker);
size_t aml_slice(const aml_worker *worker, size_t count, size_t done);
enum aml_strategy { AML_SSGD, AML_SMA, AML_ADPSGD, ... };
int aml_averages(const aml_worker *worker);
enum aml_strategy aml_strategy(const aml_worker *worker);
unsigned aml_local_step(const aml_worker *worker);
double aml_share(const aml_worker *worker);
unsigned aml_lag(const aml_worker *worker);
uint64_t aml_seed(const aml_worker *worker);
uint64_t aml_mix(uint64_t seed, uint64_t value);
uint64_t aml_total_items(const aml_worker *worker);
uint64_t aml_node_items(const aml_worker *worker);
unsigned aml_nodes(const aml_worker *worker);
unsigned aml_staleness(const aml_worker *worker);
double aml_total(const aml_worker *worker, unsigned index);
double aml_total_maximum(const aml_worker *worker, unsigned index);
const void *aml_items(const aml_worker *worker, size_t *count);
int aml_items_on_disk(const aml_worker *worker);

/* binding.h */
#define BINDING_TABLES_MAX ...
enum start_kind { START_ZERO, START_CONSTANT, START_UNIFORM, START_NORMAL, START_PYTHON, ... };
struct start { int kind; enum aml_type type; uint32_t width; uint64_t seed; double a, b; };
struct binding { struct start starts[...]; };
struct batch {
    size_t count;
    const uint64_t *keys;
    unsigned item_rows;
    const unsigned char *data;
    size_t item_bytes;
    const unsigned char *test;
    const uint64_t *numbers;
    const double *totals;
    unsigned total_count;
    const double *maxima;
    unsigned maximum_count;
};
typedef void start_function(void *context, uint64_t key, void *row);
start_function *start_for(unsigned table);
typedef int transform_function(aml_worker *worker, uint64_t random, const void *in, void *out, void *context);
transform_function *transform_for(unsigned transform);
int read_groups(aml_worker *worker, const char *path,
                int (*each)(aml_worker *worker, const struct aml_lines *lines, void *context), void *context);
int rows_add_elements(aml_worker *worker, unsigned table, int given, const struct aml_rows *rows, enum aml_type type,
                      const uint32_t *slots, const uint32_t *columns, const void *deltas, size_t count);
int64_t emit_batch(aml_worker *worker, const struct batch *batch);
size_t rows_check(const struct aml_rows *rows, const uint32_t *slots, size_t count);
void rows_touch(const struct aml_rows *rows, const uint32_t *slots, size_t count);
void rows_touch_all(const struct aml_rows *rows);
void rows_add(const struct aml_rows *rows, enum aml_type type, uint32_t width, const uint32_t *slots, size_t count,
              const void *deltas);
void rows_put(const struct aml_rows *rows, size_t row_bytes, const uint32_t *slots, size_t count, const void *values);
void items_places(const void *items, size_t count, uint64_t *places);
int error_text(aml_worker *worker, int code, const char *text);
void note_text(aml_worker *worker, const char *text);

/* What libagileml calls: defined in proteus/_app.py. */
extern "Python" {
    int app_configure(aml_worker *worker, struct aml_app *app);
    int app_read(aml_worker *worker, void *context);
    int app_begin(aml_worker *worker, void *context);
    int app_clock(aml_worker *worker, const void *items, size_t count, void *context);
    int app_evaluate(aml_worker *worker, const void *items, size_t count, void *context);
    int app_finish(aml_worker *worker, void *context);
    int each_ratings(aml_worker *worker, const struct aml_rating *ratings, size_t count, void *context);
    int each_lines(aml_worker *worker, const struct aml_lines *lines, void *context);
    int each_whole_file(aml_worker *worker, const struct aml_file *file, void *context);
    int each_file(aml_worker *worker, const char *path, void *context);
    int each_rows(void *context, const uint64_t *keys, const void *rows, size_t count);
    void start_python(unsigned table, uint64_t key, void *row);
    int run_transform(aml_worker *worker, unsigned transform, uint64_t random, const void *in, void *out);
    int apply_python(const struct aml_steps *steps, const void *table);
}
"""


def main():
    builder = cffi.FFI()
    builder.cdef(DECLARATIONS)
    builder.set_source("proteus._binding", '#include "binding.h"\n')
    builder.emit_c_code(sys.argv[1])


if __name__ == "__main__":
    main()
