/* A program with several commands, such as proteus: finds the command that the command line names, and runs it. */
#ifndef AGILEML_BASE_PROGRAM_H
#define AGILEML_BASE_PROGRAM_H

/* The list ends with a command without a name. */
struct program_command {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the command's own name; returns the exit status */
    const char *help;
};

struct program {
    const char *name, *version;
    const struct program_command *commands;
    int column;           /* column at which the list of commands in --help has its texts */
    const char *help;     /* printed below that list */
    const char *expected; /* the end of messages about an unknown command */
};

/* Returns the exit status. Also handles --help and --version, and fails when standard output can't be written to. */
int program_main(const struct program *program, int argc, char **argv);

#endif
