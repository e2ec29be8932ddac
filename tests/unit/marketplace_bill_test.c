/* proteus/marketplace_bill: the market's bill against that of bidbrain's ledger, from made-up ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proteus/marketplace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DOLLAR INT64_C(3600000000)

static char report[] = "/tmp/marketplace_bill_test.XXXXXX";

/* A spot machine that ran two hours, the first of them free. */
static void add_machine(char *bill, size_t size, const char *id, int64_t amount) {
    size_t used = strlen(bill);
    snprintf(bill + used, size - used,
             "%s{\"id\": \"%s\", \"kind\": \"spot\", \"type\": \"c4.xlarge\", \"token\": \"t\", \"how\": \"released\", "
             "\"start\": \"2016-03-03T00:00:00Z\", \"end\": \"2016-03-03T02:00:00Z\", \"cost\": {\"ec2-2016\": "
             "{\"amount_units\": %lld, \"paid_seconds\": 3600, \"free_seconds\": 3600}}}",
             used > 0 ? ", " : "", id, (long long)amount);
}

static void write_report(const char *text) {
    FILE *file = fopen(report, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* Compares the market's bill of these machines with the report. */
static json_t *compare(const char *machines, bool *agree, char text[MARKETPLACE_APART_TEXT]) {
    struct marketplace place = {.rules = &MARKET_EC2_2016, .start = 1456963200, .region = "us-east-1"};
    struct error error = {0};
    char bill[4096];
    snprintf(bill, sizeof bill, "{\"now\": \"2016-03-03T03:00:00Z\", \"instances\": [%s]}", machines);
    catalog_open(&place.catalog, CATALOG_2016);
    json_t *line = marketplace_bill(&place, bill, strlen(bill), &error);
    assert_non_null(line);
    *agree = marketplace_compare(line, bill, strlen(bill), report, text);
    catalog_close(&place.catalog);
    return line;
}

static double number(const json_t *line, const char *key) {
    assert_true(json_is_number(json_object_get(line, key)));
    return json_number_value(json_object_get(line, key));
}

static void equal_bills_are_said_to_be(void **state) {
    (void)state;
    char machines[2048] = "";
    char text[MARKETPLACE_APART_TEXT];
    char summary[MARKETPLACE_SUMMARY_TEXT];
    bool agree = false;
    add_machine(machines, sizeof machines, "i-1", DOLLAR);
    add_machine(machines, sizeof machines, "i-2", DOLLAR / 2);
    write_report("{\"type\":\"bill\",\"id\":\"i-1\",\"amount_units\":7}\n{\"type\":\"summary\"}\n" /* of one before */
                 "{\"type\":\"bill\",\"id\":\"i-1\",\"amount_units\":3600000000}\n"
                 "{\"type\":\"bill\",\"id\":\"i-2\",\"amount_units\":1800000000}\n{\"type\":\"summary\"}\n");
    json_t *line = compare(machines, &agree, text);
    assert_true(agree);
    assert_int_equal((int)number(line, "ledger_machines_apart"), 0);
    assert_true(number(line, "ledger_dollars") == 1.5 && number(line, "dollars") == 1.5);
    assert_true(number(line, "spot_hours") == 4 && number(line, "free_hours") == 2); /* free ones are spot hours too */
    assert_true(number(line, "all_on_demand_dollars") > 0.8 && number(line, "all_on_demand_dollars") < 0.9);
    marketplace_bill_text(line, summary);
    assert_non_null(strstr(summary, "machines       0 on demand; 2 spot in 1 acquisition, 0 of them evicted\n"));
    assert_non_null(strstr(summary, "machine-hours  0.00 on demand, 4.00 spot (2.00 of them free)\n"));
    assert_non_null(strstr(summary, " % more was paid\n")); /* never a negative part that was saved */
    json_decref(line);
}

static void differences_name_the_machines(void **state) {
    (void)state;
    char machines[2048] = "";
    char text[MARKETPLACE_APART_TEXT];
    bool agree = true;
    add_machine(machines, sizeof machines, "i-1", DOLLAR);
    add_machine(machines, sizeof machines, "i-2", DOLLAR / 2);
    write_report("{\"type\":\"bill\",\"id\":\"i-1\",\"amount_units\":1800000000}\n"
                 "{\"type\":\"bill\",\"id\":\"i-3\",\"amount_units\":3600000000}\n{\"type\":\"summary\"}\n");
    json_t *line = compare(machines, &agree, text); /* all together they are the same: each machine counts */
    assert_false(agree);
    assert_int_equal((int)number(line, "ledger_machines_apart"), 3);
    assert_string_equal(text, "the bills differ: $1.5000 by the market, $1.5000 by bidbrain's ledger; 3 machines: "
                              "i-1 $1.0000 and $0.5000, i-2 $0.5000 and $0.0000, i-3 $0.0000 and $1.0000");
    json_decref(line);
}

static void less_than_a_cent_is_counted_alone(void **state) {
    (void)state;
    char machines[2048] = "";
    char text[MARKETPLACE_APART_TEXT];
    bool agree = false;
    add_machine(machines, sizeof machines, "i-1", DOLLAR + DOLLAR / 200);
    write_report("{\"type\":\"bill\",\"id\":\"i-1\",\"amount_units\":3600000000}\n{\"type\":\"summary\"}\n");
    json_t *line = compare(machines, &agree, text);
    assert_true(agree);
    assert_int_equal((int)number(line, "ledger_machines_apart"), 1);
    json_decref(line);
}

static void a_missing_bill_is_told(void **state) {
    (void)state;
    static const char *const reports[] = {"", "{\"type\":\"bill\",\"id\":\"i-1\",\"amount_units\":3600000000}\n",
                                          "{\"ty"};
    for (size_t r = 0; r < sizeof reports / sizeof *reports; r++) {
        char machines[2048] = "";
        char text[MARKETPLACE_APART_TEXT];
        bool agree = true;
        add_machine(machines, sizeof machines, "i-1", DOLLAR);
        write_report(reports[r]); /* it was killed before it ended */
        json_t *line = compare(machines, &agree, text);
        assert_false(agree);
        assert_string_equal(text, "the bill can't be checked: bidbrain has not written its own");
        json_decref(line);
    }
}

static int set_up(void **state) {
    (void)state;
    int file = mkstemp(report);
    return file < 0 ? -1 : close(file);
}

static int tear_down(void **state) {
    (void)state;
    return unlink(report);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_bills_are_said_to_be),
        cmocka_unit_test(differences_name_the_machines),
        cmocka_unit_test(less_than_a_cent_is_counted_alone),
        cmocka_unit_test(a_missing_bill_is_told),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
