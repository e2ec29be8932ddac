/* The main function of test programs without their own. */
#include "tests/test.h"

int main(void) {
    return tests_run(NULL, NULL);
}
