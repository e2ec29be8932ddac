/* proteus/marketplace_bill: compares the market's bill with that of bidbrain's ledger, both made up. */

#include "proteus/marketplace.h"
#include "tests/files.h"
#include "tests/test.h"

#include <unistd.h>

#define DOLLAR INT64_C(3600000000)

static const char report[] = "report";

/* Adds a spot machine that ran for two hours, the first of them free. */
static void add_machine(char *bill, size_t size, const char *id, int64_t amount) {
    size_t used = strlen(bill);
    snprintf(bill + used, size - used,
             "%s{\"id\": \"%s\", \"kind\": \"spot\", \"type\": \"c4.xlarge\", \"token\": \"t\", \"how\": \"released\", "
             "\"start\": \"2016-03-03T00:00:00Z\", \"end\": \"2016-03-03T02:00:00Z\", \"cost\": {\"ec2-2016\": "
             "{\"amount_units\": %lld, \"paid_seconds\": 3600, \"free_seconds\": 3600}}}",
             used > 0 ? ", " : "", id, (long long)amount);
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

TEST(equal_bills_are_said_to_be) {
    char machines[2048] = "";
    char text[MARKETPLACE_APART_TEXT];
    char summary[MARKETPLACE_SUMMARY_TEXT];
    bool agree = false;
    add_machine(machines, sizeof machines, "i-1", DOLLAR);
    add_machine(machines, sizeof machines, "i-2", DOLLAR / 2);
    write_text(report,
               "{\"type\":\"bill\",\"id\":\"i-1\",\"amount_units\":7}\n{\"type\":\"summary\"}\n" /* an earlier run */
               "{\"type\":\"bill\",\"id\":\"i-1\",\"amount_units\":3600000000}\n"
               "{\"type\":\"bill\",\"id\":\"i-2\",\"amount_units\":1800000000}\n{\"type\":\"summary\"}\n");
    json_auto_t *line = compare(machines, &agree, text);
    assert_true(agree);
    assert_int_equal((int)number(line, "ledger_machines_apart"), 0);
    assert_true(number(line, "ledger_dollars") == 1.5 && number(line, "dollars") == 1.5);
    assert_true(number(line, "spot_hours") == 4 && number(line, "free_hours") == 2); /* free hours are spot hours too */
    assert_true(number(line, "all_on_demand_dollars") > 0.8 && number(line, "all_on_demand_dollars") < 0.9);
    struct report_line *read = report_line_of(line);
    marketplace_bill_text(read, summary);
    report_line_drop(read);
    assert_non_null(strstr(summary, "machines       0 on demand; 2 spot in 1 acquisition, 0 of them evicted\n"));
    assert_non_null(strstr(summary, "machine-hours  0.00 on demand, 4.00 spot (2.00 of them free)\n"));
    assert_non_null(strstr(summary, " % more was paid\n")); /* no negative saving */
}

TEST(differences_name_the_machines) {
    char machines[2048] = "";
    char text[MARKETPLACE_APART_TEXT];
    bool agree = true;
    add_machine(machines, sizeof machines, "i-1", DOLLAR);
    add_machine(machines, sizeof machines, "i-2", DOLLAR / 2);
    write_text(report, "{\"type\":\"bill\",\"id\":\"i-1\",\"amount_units\":1800000000}\n"
                       "{\"type\":\"bill\",\"id\":\"i-3\",\"amount_units\":3600000000}\n{\"type\":\"summary\"}\n");
    json_auto_t *line = compare(machines, &agree, text); /* the totals are equal: each machine is compared */
    assert_false(agree);
    assert_int_equal((int)number(line, "ledger_machines_apart"), 3);
    assert_string_equal(text, "the bills differ: $1.5000 by the market, $1.5000 by bidbrain's ledger; 3 machines: "
                              "i-1 $1.0000 and $0.5000, i-2 $0.5000 and $0.0000, i-3 $0.0000 and $1.0000");
}

TEST(less_than_a_cent_is_counted_alone) {
    char machines[2048] = "";
    char text[MARKETPLACE_APART_TEXT];
    bool agree = false;
    add_machine(machines, sizeof machines, "i-1", DOLLAR + DOLLAR / 200);
    write_text(report, "{\"type\":\"bill\",\"id\":\"i-1\",\"amount_units\":3600000000}\n{\"type\":\"summary\"}\n");
    json_auto_t *line = compare(machines, &agree, text);
    assert_true(agree);
    assert_int_equal((int)number(line, "ledger_machines_apart"), 1);
}

TEST(a_missing_bill_is_told) {
    static const char *const reports[] = {"", "{\"type\":\"bill\",\"id\":\"i-1\",\"amount_units\":3600000000}\n",
                                          "{\"ty"};
    for (size_t r = 0; r < sizeof reports / sizeof *reports; r++) {
        char machines[2048] = "";
        char text[MARKETPLACE_APART_TEXT];
        bool agree = true;
        add_machine(machines, sizeof machines, "i-1", DOLLAR);
        write_text(report, reports[r]); /* killed before its end */
        json_auto_t *line = compare(machines, &agree, text);
        assert_false(agree);
        assert_string_equal(text, "the bill can't be checked: bidbrain has not written its own");
    }
}

int main(void) {
    return tests_run(files_open, files_close);
}
