/* The steps that optimizers make on a process's own rows (workers/client/client_steps.c). */
#include "agileml/base/error.h"
#include "tests/test.h"
#include "workers/client/client.h"

enum { ROWS = 11, WIDTH = 3, PLAIN = 0, STEPPED = 1, STATES = 2, TABLES = 3 };

static int64_t told_clock;
static bool fails;

/* Adds the sums to the rows, and counts each row's steps and notes its key in the state. */
static void add_sum(const struct aml_step *step, const void *parameters) {
    float *row = step->row;
    float *state = step->state;
    told_clock = (int64_t)step->clock;
    for (uint32_t e = 0; e < step->width; e++) {
        row[e] += ((const float *)step->sum)[e];
    }
    if (state != NULL) {
        state[0]++;
        state[1] = (float)step->key;
    }
}

static int add_sums(const struct aml_steps *steps, const void *parameters) {
    for (size_t r = 0; r < steps->count; r++) {
        struct aml_step step = {.key = steps->keys[r],
                                .clock = steps->clock,
                                .width = steps->width,
                                .row = (float *)steps->rows + r * steps->width,
                                .state = steps->states != NULL ? (float *)steps->states + r * steps->state_width : NULL,
                                .sum = (float *)steps->sums + r * steps->width};
        add_sum(&step, parameters);
    }
    snprintf(steps->error, steps->error_bytes, "no luck");
    return fails ? AML_EINPUT : 0;
}

static void make_job(struct job *job, bool averaged, bool many, bool states) {
    *job = (struct job){.table_count = states ? TABLES : TABLES - 1};
    for (unsigned t = 0; t < STATES; t++) {
        job->tables[t] = (struct table_spec){.name = "rows",
                                             .type = AML_FLOAT32,
                                             .mode = AML_ADD,
                                             .width = WIDTH,
                                             .row_bytes = WIDTH * sizeof(float),
                                             .rows = ROWS,
                                             .whole = true,
                                             .averaged = averaged};
    }
    struct table_spec *stepped = &job->tables[STEPPED];
    stepped->apply = many ? NULL : add_sum;
    stepped->apply_rows = many ? add_sums : NULL;
    if (states) {
        stepped->state = STATES;
        job->tables[STATES] = table_state_spec(stepped, 2);
    }
    for (unsigned t = 0; t < job->table_count; t++) {
        job->shapes[t] = table_shape(&job->tables[t]);
    }
}

/* Rows with updates have one step, by any number of threads, with one call for each row or for many; their sums are
 * then 0, and they and their states are marked for the flush. Other rows stay. */
TEST(updated_rows_are_stepped) {
    for (unsigned way = 0; way < 4; way++) {
        bool states = way / 2 != 0;
        struct job job;
        struct cache cache;
        struct error error;
        make_job(&job, true, way % 2 != 0, states);
        cache_open(&cache, &job, 2);
        for (unsigned t = 0; t < job.table_count; t++) {
            assert_int_equal(cache_add(&cache, t, 0), 0); /* with all others */
        }
        struct client client = {.job = &job, .cache = &cache};
        struct cache_table *table = &cache.tables[STEPPED];
        assert_true(job_steps_locally(&job));
        assert_ptr_equal(cache_marks(table), table->updated.base);
        assert_ptr_not_equal(table->base.base, table->sums.base);
        for (unsigned round = 1; round <= 2; round++) {
            for (uint32_t slot = 0; slot < ROWS; slot++) {
                if (slot % 4 != round) {
                    cache_marks(table)[slot] = 1;
                    ((float *)(void *)cache_sum(table, slot))[1] = (float)slot;
                }
            }
            const unsigned threads = 1 + way;
            for (unsigned thread = 0; thread < threads; thread++) {
                assert_int_equal(client_step(&client, 40 + round, thread, threads, &error), 0);
            }
            assert_int_equal(told_clock, 40 + round);
        }
        for (uint32_t slot = 0; slot < ROWS; slot++) {
            unsigned steps = slot % 4 == 1 || slot % 4 == 2 ? 1 : 2;
            const float *row = (const void *)cache_row(table, slot);
            assert_true(row[0] == 0 && row[1] == (float)(steps * slot) && row[2] == 0);
            assert_true(((float *)(void *)cache_sum(table, slot))[1] == 0);
            assert_int_equal(table->updated.base[slot], 0);
            assert_int_equal(table->touched.base[slot], 1);
            assert_int_equal(cache.tables[PLAIN].touched.base[slot], 0);
            if (states) {
                const float *noted = (const void *)cache_row(&cache.tables[STATES], slot);
                assert_true(noted[0] == (float)steps && noted[1] == (float)slot);
                assert_int_equal(cache.tables[STATES].touched.base[slot], 1);
            }
        }
        cache_close(&cache);
    }
}

TEST(failures_are_told) {
    struct job job;
    struct cache cache;
    struct error error;
    make_job(&job, true, true, true);
    cache_open(&cache, &job, 1);
    for (unsigned t = 0; t < job.table_count; t++) {
        assert_int_equal(cache_add(&cache, t, 0), 0);
    }
    struct client client = {.job = &job, .cache = &cache};
    cache_marks(&cache.tables[STEPPED])[3] = 1;
    fails = true;
    assert_int_equal(client_step(&client, 1, 0, 1, &error), AML_EINPUT);
    fails = false;
    assert_string_equal(error.text, "table rows: apply_rows: no luck");
    cache_close(&cache);
}

/* Steps of servers: workers have no states, and the sums go to the servers. */
TEST(servers_steps_are_not_made_here) {
    struct job job;
    struct cache cache;
    make_job(&job, false, false, true);
    cache_open(&cache, &job, 1);
    assert_false(job_steps_locally(&job));
    assert_true(table_hidden(&job.tables[STATES]));
    assert_ptr_equal(cache_marks(&cache.tables[STEPPED]), cache.tables[STEPPED].touched.base);
    assert_int_equal(job_unkept_table(&job), STEPPED);
    make_job(&job, true, false, true);
    assert_false(table_hidden(&job.tables[STATES]));
    assert_int_equal(job_unkept_table(&job), job.table_count);
    assert_int_equal(job_app_tables(&job), STATES);
    cache_close(&cache);
}
