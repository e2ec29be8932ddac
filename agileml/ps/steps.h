/* The steps that a table's optimizer makes in a clock (agileml.h, aml_table.apply and apply_rows). For apply_rows it
 * collects copies of rows, which lie anywhere in the table, so that one call steps many of them. Keeps no old rows and
 * sets no clocks: partition.c does. One thread. */
#ifndef AGILEML_PS_STEPS_H
#define AGILEML_PS_STEPS_H

#include "agileml/ps/table.h"

enum {
    STEPS_ROWS_MAX = 4096,       /* of a call of apply_rows */
    STEPS_BYTES_MAX = 256 * 1024 /* of the rows, states and sums of a call, unless a single row has more */
};

struct steps {
    const struct table *table;
    struct aml_steps call; /* the next call of apply_rows; its arrays have `room` rows and are ours */
    uint32_t room;         /* 0: the table has `apply` */
    uint32_t *slots;       /* of the rows in `call` */
    struct error *error;   /* takes the first failure of apply_rows */
};

/* Begins the steps of a clock, of at most `count` rows. `error` must live until steps_close. */
void steps_open(struct steps *steps, const struct table *table, uint64_t clock, uint32_t count, struct error *error);
/* Steps `rows` rows with slots from `slot` on, whose sums lie one behind the other: now, or with others up to
 * steps_close. A row has one step in a clock. The sums are read now. */
void steps_add(struct steps *steps, uint32_t slot, uint32_t rows, const unsigned char *sums);
/* Makes the steps that are left, and frees the arrays. */
void steps_close(struct steps *steps);

#endif
