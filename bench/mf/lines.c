/* rating_lines: writes made-up ratings (user, item, value, separated by tabs) to standard output, the same in each run.
 * By default it writes about as many ratings, users and items as MovieLens 25M has. */
#include "bench/measure.h"
#include "bench/mf/synthetic.h"

#include <stdio.h>

int main(int argc, char **argv) {
    int64_t lines = 24000000;
    int64_t users = 162541;
    int64_t items = 59047;
    const struct aml_option options[] = {
        {"lines", "N", AML_OPTION_INTEGER, &lines, 1, 1e15, "how many to write"},
        {"users", "N", AML_OPTION_INTEGER, &users, 1, 1e9, "who rate, about as often each"},
        {"items", "N", AML_OPTION_INTEGER, &items, 1, 1e9, "that are rated, few of them often"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    int status = measure_options(options, "rating_lines: made-up ratings onto standard output", argc, argv);
    if (status >= 0) {
        return status;
    }
    synthetic_write(stdout, (uint32_t)users, (uint32_t)items, (uint64_t)lines);
    return measure_written("rating_lines");
}
