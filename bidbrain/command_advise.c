#include "bidbrain/command.h"
int command_advise(int argc, char **argv) {
    (void)argc;
    (void)argv;
    return 2;
}
int command_calibrate(int argc, char **argv) {
    (void)argc;
    (void)argv;
    return 2;
}
