/* bidbrain/market/interruption: draws follow their data and repeat with their seed. The probability given to a
 * policy agrees with the draws. Wrong files are explained. */

#include "bidbrain/market/interruption.h"
#include "tests/files.h"
#include "tests/test.h"

#include <math.h>

static struct markets markets;

static int set_up(void **state) {
    (void)markets_add(&markets, "c4.large", "us-east-1a", "p", (struct market_point){1600000000, 1000}, NULL);
    (void)markets_add(&markets, "zz.large", "us-east-1a", "p", (struct market_point){1600000000, 1000}, NULL);
    markets_finish(&markets);
    return files_open(state);
}

static int tear_down(void **state) {
    markets_close(&markets);
    return files_close(state);
}

static const char *spec_of(const char *kind, const char *name, const char *text) {
    static char spec[256];
    snprintf(spec, sizeof spec, "%s:%s", kind, write_text(name, text));
    return spec;
}

/* The share of draws that end within `hours`, over many starts and seeds. */
static double drawn_share(const struct interruptions *risks, size_t m, double hours) {
    int ended = 0;
    enum { DRAWS = 20000 };
    for (uint64_t i = 0; i < DRAWS; i++) {
        int64_t start = 1600000000 + (int64_t)(i * 37);
        int64_t end = interruption_time(risks, m, start, i, i / 7);
        assert_true(end >= start);
        assert_true(end == interruption_time(risks, m, start, i, i / 7));
        ended += end != MARKET_NEVER && (double)(end - start) <= hours * HOUR;
    }
    return (double)ended / DRAWS;
}

TEST(lifetimes_are_drawn_as_measured) {
    CLOSED_BY(interruptions_close) struct interruptions risks;
    struct error error = {0};
    const char *spec = spec_of("lifetimes", "l.txt", "0.5\t0.25\n1.5 0.5\n10\t0.75\n20 1\n");
    assert_int_equal(interruptions_open(&risks, spec, &markets, &error), 0);
    assert_true(fabs(drawn_share(&risks, 0, 1) - 0.25) < 0.02);
    assert_true(fabs(drawn_share(&risks, 0, 2) - 0.5) < 0.02);
    assert_true(fabs(interruption_probability(&risks, 0, 0, 1) - 0.25) < 1e-12);
    /* of the three machines that are left */
    assert_true(fabs(interruption_probability(&risks, 0, 1, 1) - 1.0 / 3) < 1e-12);
    assert_true(interruption_probability(&risks, 0, 25, 1) == 1);
}

TEST(the_advisor_tells_rates) {
    CLOSED_BY(interruptions_close) struct interruptions risks;
    struct error error = {0};
    const char *spec = spec_of("advisor", "a.json",
                               "{\"spot_advisor\": {\"us-east-1\": {\"Linux\": {\"c4.large\": {\"r\": 1, "
                               "\"s\": 60}}}}}");
    assert_int_equal(interruptions_open(&risks, spec, &markets, &error), 0);
    /* A month of 730 hours: 7.5 % for the band of 5 to 10 %, 30 % where nothing is known. */
    assert_true(fabs(interruption_probability(&risks, 0, 5, 730) - 0.075) < 1e-9);
    assert_true(fabs(interruption_probability(&risks, 1, 5, 730) - 0.30) < 1e-9);
    assert_true(fabs(drawn_share(&risks, 1, 730) - 0.30) < 0.02);
}

TEST(traces_are_replayed) {
    struct interruptions risks;
    struct error error = {0};
    /* Four machines, then two for a while, then none, then four again. Within a lap each machine is lost by hour 3. */
    const char *spec =
        spec_of("replay", "t.json", "{\"metadata\": {\"gap_seconds\": 3600}, \"data\": [4, 4, 2, 0, 4, 4]}");
    assert_int_equal(interruptions_open(&risks, spec, &markets, &error), 0);
    assert_true(fabs(risks.replay_hazard - 4.0 / 18) < 1e-9);
    for (uint64_t seed = 0; seed < 50; seed++) {
        bool was_open = interruption_open_at(&risks, 0, 1600000000, seed);
        int closed = 0;
        for (int64_t t = 1600000000; t < 1600000000 + 6 * HOUR; t += 600) {
            bool open = interruption_open_at(&risks, 0, t, seed);
            closed += !open;
            if (open) {
                int64_t end = interruption_time(&risks, 0, t, 1, seed);
                assert_true(end > t && end <= t + 6 * HOUR + HOUR);
            }
        }
        assert_int_equal(closed, 6);
        assert_true(was_open == interruption_open_at(&risks, 0, 1600000000 + 6 * HOUR, seed)); /* laps repeat */
    }
    interruptions_close(&risks);
    spec = spec_of("replay", "events.csv", "0,add,a\n0,add,b\n3600000,remove,a\n7200000,add,c\n");
    assert_int_equal(interruptions_open(&risks, spec, &markets, &error), 0);
    assert_int_equal(risks.traces[0].count, 3);
    assert_true(fabs(risks.replay_hazard - 1.0 / 3) < 1e-9);
    interruptions_close(&risks);
}

TEST(wrong_files_are_explained) {
    static const struct {
        const char *kind, *name, *text, *message;
    } examples[] = {
        {"lifetimes", "l.txt", "1.5\t0.5\nabc\n", ":2: expected hours to preemption and their cdf"},
        {"lifetimes", "l.txt", "", ": no lifetimes in this file"},
        {"advisor", "a.json", "{}", ": no spot_advisor object: expected the Spot Advisor's data"},
        {"advisor", "a.json", "{", ":1: string or '}' expected near end of file"},
        {"replay", "t.json", "{\"data\": []}", ": expected {\"metadata\": {\"gap_seconds\": N}, \"data\": [...]}"},
        {"replay", "t.json", "{\"metadata\": {\"gap_seconds\": 9}, \"data\": [1, -1]}",
         ": data[1]: expected a count of machines"},
        {"replay", "t.json", "{\"metadata\": {\"gap_seconds\": 9}, \"data\": [1, 2]}",
         ": a trace of less than an hour"},
        {"replay", "t.csv", "0,remove,x\n", ":1: expected 'x,count' or 'milliseconds,add|remove,node'"},
        {"replay", "t.csv", "0,1\nx\n", ":2: expected 'x,count' or 'milliseconds,add|remove,node'"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        struct interruptions risks;
        struct error error = {0};
        const char *spec = spec_of(examples[i].kind, examples[i].name, examples[i].text);
        assert_int_equal(interruptions_open(&risks, spec, &markets, &error), AML_EINPUT);
        const char *path = strchr(spec, ':') + 1;
        assert_true(strncmp(error.text, path, strlen(path)) == 0);
        assert_string_equal(error.text + strlen(path), examples[i].message);
    }
}

int main(void) {
    return tests_run(set_up, tear_down);
}
