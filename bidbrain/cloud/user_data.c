/* See user_data.h. */
#include "bidbrain/cloud/user_data.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "agileml/net/key.h"
#include "agileml/wire/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { USER_DATA_NAME_MAX = 32 };

/* The machine shuts down at the end in any case: an idle machine costs as much as a working one. Machines of spotmarket
 * call PROTEUS_SHUTDOWN instead. Only the node's own output goes to the console. */
const char USER_DATA_TEMPLATE[] =
    "#!/bin/bash\n"
    "# Starts a node of a Proteus job on this machine, and shuts the machine down when the node has ended.\n"
    "set -u\n"
    "umask 077\n"
    "trap '${PROTEUS_SHUTDOWN:-shutdown -h now}' EXIT\n"
    "\n"
    "say() { printf 'proteus: %s\\n' \"$*\" >&2; }\n"
    "\n"
    "# Where things are put: here, if started by spotmarket; cloud-init starts scripts in the root folder.\n"
    "folder=$PWD\n"
    "[ \"$folder\" != / ] || folder=/var/lib/proteus\n"
    "mkdir -p \"$folder\" && cd \"$folder\" || exit 1\n"
    "\n"
    "# The metadata service, version 2.\n"
    "endpoint=${AWS_EC2_METADATA_SERVICE_ENDPOINT:-http://169.254.169.254}\n"
    "metadata() {\n"
    "    local attempt session\n"
    "    for attempt in 1 2 3 4 5 6 7 8; do\n"
    "        session=$(curl -fsS -m 5 --noproxy '*' -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' \\\n"
    "            \"${endpoint%/}/latest/api/token\") &&\n"
    "            printf 'X-aws-ec2-metadata-token: %s\\n' \"$session\" |\n"
    "            curl -fsS -m 5 --noproxy '*' -H @- \"${endpoint%/}/latest/$1\" && return 0\n"
    "        sleep \"$attempt\"\n"
    "    done\n"
    "    say \"no answer from the metadata service for $1\"\n"
    "    return 1\n"
    "}\n"
    "instance=$(metadata meta-data/instance-id) && [ -n \"$instance\" ] || exit 1\n"
    "address=$(metadata meta-data/local-ipv4) && [ -n \"$address\" ] || exit 1\n"
    "# What a price or a lack of room takes away together: a type in a zone.\n"
    "zone=$(metadata meta-data/placement/availability-zone) && type=$(metadata meta-data/instance-type) || exit 1\n"
    "group=$zone/$type\n"
    "\n"
    "# The program.\n"
    "fetch() { curl -fsSL --proto =https --retry 10 --retry-delay 2 --retry-connrefused -m 900 -o program \"$1\"; }\n"
    "binary=${binary}\n"
    "case $binary in\n"
    "s3://*)\n"
    "    if command -v aws >/dev/null; then\n"
    "        for attempt in 1 2 3 4 5; do\n"
    "            aws s3 cp --only-show-errors \"$binary\" program && break\n"
    "            rm -f program\n"
    "            sleep \"$attempt\"\n"
    "        done\n"
    "    else\n"
    "        path=${binary#s3://}\n"
    "        region=$(metadata meta-data/placement/region) &&\n"
    "            fetch \"https://s3.$region.amazonaws.com/${path%%/*}/${path#*/}\"\n"
    "    fi\n"
    "    program=$folder/program\n"
    "    ;;\n"
    "https://*)\n"
    "    fetch \"$binary\"\n"
    "    program=$folder/program\n"
    "    ;;\n"
    "*)\n"
    "    program=${binary#file://}\n"
    "    ;;\n"
    "esac\n"
    "[ \"$program\" != \"$folder/program\" ] || chmod 700 program\n"
    "if [ ! -x \"$program\" ]; then\n"
    "    say \"no program at $binary\"\n"
    "    exit 1\n"
    "fi\n"
    "\n"
    "# The node. The token goes by a file that nobody else may read.\n"
    "set -- --controller ${controller} --tier ${tier} --name \"$instance\" --group \"${group:0:31}\" \\\n"
    "    --listen \"$address\" --poll-notice 5\n"
    "cat >job.key <<'PROTEUS_KEY'\n"
    "${key}\n"
    "PROTEUS_KEY\n"
    "if grep -q . job.key; then\n"
    "    set -- \"$@\" --key job.key\n"
    "else\n"
    "    rm -f job.key\n"
    "fi\n"
    "threads=${threads}\n"
    "[ \"$threads\" != 0 ] || threads=$(nproc)\n"
    "say \"launch \"${token}\" of job \"${job}\": starting \"${app}\" as $instance\"\n"
    "\"$program\" \"$@\" --threads \"$threads\" ${arguments}\n"
    "status=$?\n"
    "say \"the node has ended with status $status\"\n"
    "\n"
    "# Its hour is paid, and free if the cloud takes the machine before it ends: bidbrain gives it back in time.\n"
    "[ \"$status\" != 0 ] || sleep ${linger}\n";

/* ---- Text that grows ---- */

struct user_data_text {
    char *bytes;
    size_t size;
    bool full;
};

static void user_data_add(struct user_data_text *text, const char *from, size_t size) {
    if (text->full || text->size + size > USER_DATA_MAX) {
        text->full = true;
        return;
    }
    memcpy(text->bytes + text->size, from, size);
    text->size += size;
}

/* Appends one word for a shell: in single quotes, with each single quote in it as '\''. */
static void user_data_quote(struct user_data_text *text, const char *word) {
    user_data_add(text, "'", 1);
    for (; *word != '\0'; word++) {
        if (*word == '\'') {
            user_data_add(text, "'\\''", 4);
        } else {
            user_data_add(text, word, 1);
        }
    }
    user_data_add(text, "'", 1);
}

static void user_data_arguments(struct user_data_text *text, const char *const *arguments) {
    for (size_t i = 0; arguments != NULL && arguments[i] != NULL; i++) {
        user_data_add(text, " ", i > 0);
        user_data_quote(text, arguments[i]);
    }
}

/* ---- Values ---- */

/* Writes the text of a node's token for the machines of this launch, without its last newline; "" if the job has no
 * key. The token is the same each time, since EC2 rejects a retry with other user data. */
static int user_data_key(const char *path, const struct provider_launch *launch, char text[NET_TOKEN_FILE_MAX],
                         struct error *error) {
    struct net_key key;
    text[0] = '\0';
    if (path == NULL) {
        return 0;
    }
    int result = net_key_load(path, &key, error);
    if (result != 0) {
        return result;
    }
    const struct net_token_terms terms = {
        .roles = ROLE_NODE,
        .tiers = 1U << (launch->reliable ? TIER_RELIABLE : TIER_TRANSIENT),
        .nodes = launch->count,
        .serial = hash_bytes((const unsigned char *)launch->token, strlen(launch->token), 0) | 1,
        .expires = (uint64_t)launch->join_until,
    };
    int size = net_token_text(&key, terms, text, error);
    explicit_bzero(&key, sizeof key);
    if (size < 0) {
        return size;
    }
    text[size - 1] = '\0';
    return 0;
}

static bool user_data_binary_known(const char *binary) {
    return binary != NULL && (strncmp(binary, "s3://", 5) == 0 || strncmp(binary, "https://", 8) == 0 ||
                              strncmp(binary, "file:///", 8) == 0 || binary[0] == '/');
}

struct user_data_values {
    const struct provider_options *options;
    const struct provider_launch *launch;
    char key[NET_TOKEN_FILE_MAX];
    char threads[24], linger[24];
    char group[WIRE_NAME_MAX];
};

/* Returns false if there is no such name. */
static bool user_data_value(struct user_data_text *text, const struct user_data_values *values, const char *name) {
    const struct {
        const char *name, *value;
    } words[] = {{"app", values->options->app},
                 {"binary", values->options->binary},
                 {"controller", values->options->controller},
                 {"group", values->group},
                 {"job", values->options->job},
                 {"linger", values->linger},
                 {"threads", values->threads},
                 {"tier", values->launch->reliable ? "reliable" : "transient"},
                 {"token", values->launch->token}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i].name, name) == 0) {
            user_data_quote(text, words[i].value);
            return true;
        }
    }
    if (strcmp(name, "arguments") == 0) {
        user_data_arguments(text, values->options->arguments);
    } else if (strcmp(name, "key") == 0) {
        user_data_add(text, values->key, strlen(values->key));
    } else {
        return false;
    }
    return true;
}

/* ---- Rendering ---- */

/* Returns the length of "${name}" at `at`, and copies its name. Returns 0 for other text, such as a shell's
 * "${NAME:-word}". A long name is cut. */
static size_t user_data_name(const char *at, char name[USER_DATA_NAME_MAX]) {
    size_t length = strspn(at + 2, "abcdefghijklmnopqrstuvwxyz_");
    if (strncmp(at, "${", 2) != 0 || length == 0 || at[2 + length] != '}') {
        return 0;
    }
    snprintf(name, USER_DATA_NAME_MAX, "%.*s", (int)length, at + 2);
    return length + 3;
}

static int user_data_fill(struct user_data_text *text, const char *template, const struct user_data_values *values,
                          struct error *error) {
    char name[USER_DATA_NAME_MAX];
    unsigned line = 1;
    for (const char *at = template; *at != '\0';) {
        size_t length = at[0] == '$' && at[1] == '{' ? user_data_name(at, name) : 0;
        if (length == 0) {
            line += *at == '\n';
            user_data_add(text, at++, 1);
        } else if (user_data_value(text, values, name)) {
            at += length;
        } else {
            return error_set(
                error, AML_EINPUT,
                "user data, line %u: no value is named ${%s}, expected app, arguments, binary, controller, "
                "group, job, key, linger, threads, tier or token (a variable of the shell: $%s)",
                line, name, name);
        }
    }
    return text->full
               ? error_set(error, AML_EINPUT, "the user data is longer than the %d bytes that EC2 takes", USER_DATA_MAX)
               : 0;
}

int user_data_render(const struct provider_options *options, const struct provider_launch *launch, char **text,
                     struct error *error) {
    struct user_data_values values = {.options = options, .launch = launch};
    *text = NULL;
    if (!user_data_binary_known(options->binary)) {
        return error_set(error, AML_EINPUT,
                         "the node's binary is '%.100s', expected s3://..., https://... or an absolute path",
                         options->binary == NULL ? "" : options->binary);
    }
    if (options->app == NULL || options->controller == NULL || options->job == NULL) {
        return error_set(error, AML_EINPUT,
                         "user data needs the app's name, the controller's address and the job's name");
    }
    snprintf(values.threads, sizeof values.threads, "%lld", (long long)options->threads);
    snprintf(values.linger, sizeof values.linger, "%lld",
             launch->kind == PROVIDER_SPOT ? (long long)options->linger_seconds : 0);
    char group[2 * MARKET_TEXT_MAX];
    snprintf(group, sizeof group, "%s/%s", launch->zone, launch->type);
    snprintf(values.group, sizeof values.group, "%.*s", WIRE_NAME_MAX - 1, launch->zone[0] != '\0' ? group : "");
    int result = user_data_key(options->key, launch, values.key, error);
    struct user_data_text made = {.bytes = memory_zeroed(USER_DATA_MAX + 1, 1)};
    if (result == 0) {
        result =
            user_data_fill(&made, options->user_data == NULL ? USER_DATA_TEMPLATE : options->user_data, &values, error);
    }
    explicit_bzero(values.key, sizeof values.key);
    if (result != 0) {
        explicit_bzero(made.bytes, made.size);
        free(made.bytes);
        return result;
    }
    *text = made.bytes;
    return 0;
}
