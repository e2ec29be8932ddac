/* The steps that a table's optimizer makes in a clock (agileml.h, aml_table.apply and apply_rows), on the rows of a
 * server or of a worker. For apply_rows, copies of rows from anywhere in the table are collected, so that one call
 * steps many rows. Keeps no old rows and sets no clocks: the callers do. One thread. */
#ifndef AGILEML_PS_STEPS_H
#define AGILEML_PS_STEPS_H

#include "agileml/ps/table.h"

enum {
    STEPS_ROWS_MAX = 4096,       /* of a call of apply_rows */
    STEPS_BYTES_MAX = 256 * 1024 /* of the rows, states and sums of a call, unless a single row is larger */
};

/* Where rows lie: row s at base + s * stride. */
struct steps_rows {
    unsigned char *base;
    size_t stride;
    const struct table_spec *spec;
};

/* The rows to step and their states. */
struct steps_place {
    struct steps_rows rows, states;                      /* states.base NULL: there are none */
    uint64_t (*key)(const void *context, uint32_t slot); /* of a row */
    const void *context;
};

struct steps {
    struct steps_place place;
    struct aml_steps call; /* the next call of apply_rows; its arrays have `room` rows and are ours */
    uint32_t room;         /* 0: the table has `apply` */
    uint32_t *slots;       /* of the rows in `call` */
    struct error *error;   /* takes the first failure of apply_rows */
};

/* The place of a server's rows. */
struct steps_place steps_of_table(const struct table *table);

/* Begins the steps of a clock, of at most `count` rows. `error` must live until steps_close. */
void steps_open(struct steps *steps, const struct steps_place *place, uint64_t clock, uint32_t count,
                struct error *error);
/* Steps the `rows` rows from `slot` on; their sums follow each other in `sums`, `stride` bytes apart. The steps are
 * made now, or together with others until steps_close; the sums are read now. A row has at most one step in a clock. */
void steps_add(struct steps *steps, uint32_t slot, uint32_t rows, const unsigned char *sums, size_t stride);
/* Makes the remaining steps and frees the arrays. */
void steps_close(struct steps *steps);

#endif
