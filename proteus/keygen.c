/* proteus keygen: makes a job's key file. */
#include "agileml/base/log.h"
#include "agileml/base/options.h"
#include "agileml/net/key.h"
#include "proteus/command.h"

#include <stdbool.h>

int command_keygen(int argc, char **argv) {
    bool help = false;
    const struct aml_option table[] = {
        {.name = "help", .type = AML_OPTION_FLAG, .target = &help, .help = "this text"},
        {0},
    };
    const struct aml_option *const tables[] = {table};
    struct error error = {0};
    const char *path = "job.key";
    int operand;
    int result = options_parse(tables, 1, argc, argv, &operand, &error);
    if (result == 0 && help) {
        printf("usage: proteus keygen [FILE]\n\n"
               "Writes a new key to FILE (default: job.key), mode 0600. Every process of a job gets it by --key FILE:\n"
               "connections are then encrypted, and only holders of the key can join the job.\n\n");
        options_help(stdout, table);
        return 0;
    }
    if (result == 0 && operand < argc - 1) {
        result = error_set(&error, AML_EINPUT, "keygen: unexpected '%.100s' after the file", argv[operand + 1]);
    }
    if (result == 0) {
        path = operand < argc ? argv[operand] : path;
        result = net_key_generate(path, &error);
    }
    if (result != 0) {
        log_error("%s", error.text);
        return error_exit_status(result);
    }
    printf("wrote %s: whoever can read it can join the job; copy it to the job's machines, give it by --key\n", path);
    return 0;
}
