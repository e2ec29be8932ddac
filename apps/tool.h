/* What an app does without a job, such as `mf --predict`: its command line, its help and its one line of error. */
#ifndef APPS_TOOL_H
#define APPS_TOOL_H

#include "agileml/base/error.h"
#include "agileml/types.h"

#include <stdbool.h>
#include <stdio.h>

struct tool {
    const char *app;                  /* the program's name, such as "mf" */
    const char *option;               /* the option that asks for the tool, without "--", such as "predict" */
    const char *usage;                /* for --help: the usage line, behind "usage: ", and what the tool prints */
    const struct aml_option *options; /* --help is not among them */
    int (*run)(void *context, struct error *error); /* 0, or a code with *error set */
    void *context;
};

/* Where a tool's lines go. */
struct tool_output {
    const char *path; /* the value of --out; NULL: to standard output */
    FILE *file;
};

/* 0, and tool_output_close must follow; or AML_EINPUT. */
int tool_output_open(struct tool_output *output, struct error *error);
/* What a tool returns when writing to `file` has just failed: AML_EFAIL. */
int tool_output_failed(const struct tool_output *output, struct error *error);
/* Returns `result`, the tool's so far, or AML_EFAIL when that is 0 and what was written did not arrive. */
int tool_output_close(struct tool_output *output, int result, struct error *error);

/* Whether the arguments hold --`option` or --`option`=VALUE. */
bool tool_is_asked(const char *option, int argc, char **argv);

/* Sets the options' targets, runs the tool and returns the exit status. Arguments that `proteus run` adds are refused,
 * with what to do instead. */
int tool_main(const struct tool *tool, int argc, char **argv);

#endif
