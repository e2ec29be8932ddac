/* Tools of apps that need no job, such as `mf --predict`: command line, help and error message. */
#ifndef APPS_TOOL_H
#define APPS_TOOL_H

#include "agileml/base/error.h"
#include "agileml/types.h"

#include <stdbool.h>
#include <stdio.h>

struct tool {
    const char *app;                  /* the program's name, such as "mf" */
    const char *option;               /* the option that selects the tool, without "--", such as "predict" */
    const char *usage;                /* text for --help: the usage line, and what the tool prints */
    const struct aml_option *options; /* without --help */
    int (*run)(void *context, struct error *error); /* returns 0, or a code with *error set */
    void *context;
};

/* The destination of a tool's lines. */
struct tool_output {
    const char *path; /* the value of --out; NULL: standard output */
    FILE *file;
};

/* Opens the output. Returns 0, and tool_output_close must follow; or AML_EINPUT. */
int tool_output_open(struct tool_output *output, struct error *error);
/* Sets the error of a write to `file` that has just failed, and returns AML_EFAIL. */
int tool_output_failed(const struct tool_output *output, struct error *error);
/* Closes the output. `result` is the tool's result so far, and is returned; but AML_EFAIL if it is 0 and a write has
 * failed. */
int tool_output_close(struct tool_output *output, int result, struct error *error);

/* Returns whether the arguments have --`option` or --`option`=VALUE. */
bool tool_is_asked(const char *option, int argc, char **argv);

/* Reads the options, runs the tool and returns the exit status. Rejects arguments that `proteus run` adds, and says
 * what to do instead. */
int tool_main(const struct tool *tool, int argc, char **argv);

#endif
