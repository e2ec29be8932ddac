/* proteus keygen: makes a job's key file, and tokens from a key file. */
#include "agileml/base/log.h"
#include "agileml/base/options.h"
#include "agileml/net/key.h"
#include "agileml/wire/message.h"
#include "proteus/command.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DAY_S = 24 * 60 * 60, LIFETIME_MAX_DAYS = 3650 };

struct keygen {
    bool help;
    const char *role, *tier, *key, *lifetime;
    int64_t nodes;
};

static const char USAGE[] = "usage: proteus keygen [FILE]\n"
                            "       proteus keygen --role ROLE --key JOB.KEY [OPTIONS] FILE\n\n"
                            "Writes a new key to FILE (default: job.key), mode 0600. Connections of a job\n"
                            "with a key are encrypted. The key gives every right in the job; the controller\n"
                            "needs it. With --role it writes a token instead, which gives a part of these\n"
                            "rights and is used in the same way, by --key FILE:\n"
                            "  node      may join, read and change the job's parameters, and leave\n"
                            "  operator  may look at the job, evict nodes, write checkpoints, stop the job\n"
                            "  observer  may look at the job: proteus status, top, follow";

static unsigned role_of(const char *name) {
    return strcmp(name, "node") == 0       ? ROLE_NODE
           : strcmp(name, "operator") == 0 ? ROLE_OPERATOR
           : strcmp(name, "observer") == 0 ? ROLE_OBSERVER
                                           : 0;
}

static unsigned tier_of(const char *name) {
    enum node_tier tier;
    return tier_of_name(name, &tier) ? 1U << tier : 0;
}

/* Returns the seconds of a lifetime such as 90m, 12h or 7d; 0: malformed. */
static uint64_t lifetime_of(const char *text) {
    static const struct {
        char unit;
        uint64_t seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 60 * 60}, {'d', DAY_S}};
    char *end;
    unsigned long number = text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;
    for (size_t u = 0; number > 0 && u < sizeof units / sizeof units[0]; u++) {
        if (end[0] == units[u].unit && end[1] == '\0' &&
            number <= LIFETIME_MAX_DAYS * (uint64_t)DAY_S / units[u].seconds) {
            return number * units[u].seconds;
        }
    }
    return 0;
}

static int make_token(const struct keygen *keygen, const char *path, struct error *error) {
    struct net_key job;
    struct net_token_terms terms = {.roles = role_of(keygen->role), .nodes = (uint32_t)keygen->nodes};
    uint64_t lifetime = lifetime_of(keygen->lifetime);
    if (terms.roles == 0) {
        return error_set(error, AML_EINPUT, "--role '%.100s': expected node, operator or observer", keygen->role);
    }
    if (keygen->key == NULL || path == NULL) {
        return error_set(error, AML_EINPUT, "--role needs --key, the job's key file, and the name of a new file");
    }
    if (lifetime == 0) {
        return error_set(error, AML_EINPUT,
                         "--lifetime '%.100s': expected a time up to %d days, such as 90m, 12h or 7d", keygen->lifetime,
                         LIFETIME_MAX_DAYS);
    }
    if (keygen->tier != NULL && tier_of(keygen->tier) == 0) {
        return error_set(error, AML_EINPUT, "--tier '%.100s': expected " TIER_NAMES, keygen->tier);
    }
    if (keygen->tier != NULL && terms.roles != ROLE_NODE) {
        return error_set(error, AML_EINPUT, "--tier is for --role node alone");
    }
    terms.tiers = keygen->tier != NULL ? tier_of(keygen->tier) : 0;
    terms.expires = (uint64_t)time(NULL) + lifetime;
    int result = net_key_load(keygen->key, &job, error);
    if (result == 0 && net_key_is_token(&job)) {
        result = error_set(error, AML_EINPUT, "--key %s: a token, expected the job's key", keygen->key);
    }
    result = result == 0 ? net_token_issue(&job, terms, path, error) : result;
    result = result == 0 ? net_key_load(path, &job, error) : result; /* the token, with its serial number */
    terms = net_token_terms(job.token);
    explicit_bzero(&job, sizeof job);
    if (result == 0) {
        char title[NET_TOKEN_TITLE_MAX];
        net_token_title(&terms, title);
        printf("wrote %s, a token %s: give it by --key\nits serial number is %016" PRIx64 "\n", path, title,
               terms.serial);
    }
    return result;
}

static int make_key(const char *path, struct error *error) {
    path = path != NULL ? path : "job.key";
    int result = net_key_generate(path, error);
    if (result == 0) {
        printf("wrote %s: whoever can read it has every right in the job; give it to the controller by --key, and to\n"
               "nodes tokens made from it (--role node)\n",
               path);
    }
    return result;
}

int command_keygen(int argc, char **argv) {
    static const char LIFETIME[] = "24h";
    struct keygen keygen = {.lifetime = LIFETIME, .nodes = 1};
    const struct aml_option table[] = {
        {"role", "ROLE", AML_OPTION_STRING, &keygen.role, 0, 0, "make a token for a node, an operator or an observer"},
        {"key", "FILE", AML_OPTION_STRING, &keygen.key, 0, 0, "the job's key, which a token is made from"},
        {"lifetime", "TIME", AML_OPTION_STRING, &keygen.lifetime, 0, 0,
         "how long new nodes and commands are let in by a token: 90m, 12h, 7d"},
        {"nodes", "N", AML_OPTION_INTEGER, &keygen.nodes, 0, WIRE_NODES_MAX,
         "nodes that may be in the job by a token at a time; 0: any number"},
        {"tier", "TIER", AML_OPTION_STRING, &keygen.tier, 0, 0,
         "a node's token is for reliable or transient nodes or feeders only"},
        {.name = "help", .type = AML_OPTION_FLAG, .target = &keygen.help, .help = "this text"},
        {0},
    };
    const struct aml_option *const tables[] = {table};
    struct error error = {0};
    int operand;
    int result = options_parse_mixed(tables, 1, argc, argv, &operand, &error);
    if (result == 0 && keygen.help) {
        options_write_help(stdout, USAGE, tables, 1, NULL, &error);
        return 0;
    }
    const char *path = operand < argc ? argv[operand] : NULL;
    if (result == 0 && operand < argc - 1) {
        result = error_set(&error, AML_EINPUT, "keygen: unexpected '%.100s' after the file", argv[operand + 1]);
    } else if (result == 0 && keygen.role == NULL &&
               (keygen.key != NULL || keygen.tier != NULL || keygen.lifetime != LIFETIME || keygen.nodes != 1)) {
        result = error_set(&error, AML_EINPUT,
                           "keygen: --key, --lifetime, --nodes and --tier are for tokens, expected --role too");
    } else if (result == 0) {
        result = keygen.role != NULL ? make_token(&keygen, path, &error) : make_key(path, &error);
    }
    if (result != 0) {
        log_error("%s", error.text);
        return error_exit_status(result);
    }
    return 0;
}
