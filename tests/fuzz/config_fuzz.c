/* libFuzzer target for bidbrain/daemon/config: any text gives a configuration within its limits, or an error of one
 * line. */
#include "bidbrain/daemon/config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct config config;
    struct findings findings = {.file = "fuzz.json"};
    char region[MARKET_TEXT_MAX];
    int code = config_parse(&config, (const char *)data, size, &findings);
    FUZZ_CHECK(code == 0 ? findings.errors == 0 : code == AML_EINPUT && findings.errors > 0);
    FUZZ_CHECK(findings.count == 0 || findings.list[0].text[0] != '\0');
    if (code == 0) {
        FUZZ_CHECK(strlen(config.job) <= CONFIG_JOB_MAX && config.limits.most_vcpus >= 1 &&
                   config.periods.decision_seconds >= 1);
        FUZZ_CHECK(config.application.phi > 0 && config.application.phi <= 1 && config.clock.speed > 0 &&
                   config.reliable.count >= 0);
        config_region(&config, region);
        (void)config_subnet(&config, "us-east-1a");
        FUZZ_CHECK(config.state != NULL && config.folder != NULL && config.controller != NULL);
    }
    config_close(&config);
    findings_close(&findings);
    return 0;
}
