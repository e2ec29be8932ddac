/* See figures.h. gnuplot gets its program and the data on standard input. The file's name is quoted for gnuplot; there
 * is no shell. */
#include "bidbrain/study/figures.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int figures_check(struct error *error) {
    const char *path = getenv("PATH");
    while (path != NULL && *path != '\0') {
        char program[1024];
        int length = (int)strcspn(path, ":");
        if (snprintf(program, sizeof program, "%.*s/gnuplot", length, path) < (int)sizeof program &&
            access(program, X_OK) == 0) {
            return 0;
        }
        path += length + (path[length] == ':');
    }
    return error_set(error, AML_EINPUT, "--plot: gnuplot is not installed: expected it in PATH (Debian: gnuplot-nox)");
}

static void figures_data(FILE *out, const struct study *study, const struct scheme_summary *summaries) {
    fprintf(out, "$data << EOD\n");
    for (size_t s = 0; s < study->scheme_count; s++) {
        const struct scheme_summary *x = &summaries[s];
        fprintf(out, "\"%s\" %g %g %g %g %g %g %g\n", x->scheme->name, 100 * x->relative.mean, 100 * x->relative.ci95,
                x->hours.mean, x->hours.ci95, x->on_demand_hours.mean, x->spot_hours.mean, x->free_hours.mean);
    }
    fprintf(out, "EOD\n");
}

static void figures_script(FILE *out, const struct study *study, const struct scheme_summary *summaries,
                           const char *path) {
    double most = 1; /* most machine-hours of a scheme; the axis ends above it, to leave room for the key */
    for (size_t s = 0; s < study->scheme_count; s++) {
        const struct scheme_summary *x = &summaries[s];
        most = fmax(most, x->on_demand_hours.mean + x->spot_hours.mean + x->free_hours.mean);
    }
    fprintf(out, "set terminal svg size 1200,420 font 'sans,11'\nset output \"");
    for (const char *c = path; *c != '\0'; c++) {
        fprintf(out, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    }
    fprintf(out,
            "\"\nset multiplot layout 1,3\nset style fill solid 0.7 border -1\nset boxwidth 0.7\nset yrange [0:*]\n"
            "set xtics rotate by 55 right font ',9'\nset grid ytics\nset tmargin 3\nset bmargin 9\nset lmargin 12\n"
            "set rmargin 2\nset xrange [-1:%zu]\nset bars small\n"
            "set title 'Cost, %% of on-demand (jobs of %g hours)'\n"
            "plot $data using 0:2:3:xtic(1) with boxerrorbars lc rgb '#4477aa' notitle\n"
            "set title 'Runtime, hours'\n"
            "plot $data using 0:4:5:xtic(1) with boxerrorbars lc rgb '#66aa77' notitle\n"
            "set title 'Machine-hours'\nset yrange [0:%g]\nset style data histograms\nset style histogram rowstacked\n"
            "plot $data using 6:xtic(1) title 'on demand' lc rgb '#bb5555', '' using 7 title 'spot' lc rgb '#4477aa', "
            "'' using 8 title 'free' lc rgb '#66aa77'\n",
            study->scheme_count, study->options.job_hours, 1.6 * most);
}

int figures_plot(const struct study *study, const struct scheme_summary *summaries, const char *path,
                 struct error *error) {
    int ends[2];
    if (pipe(ends) != 0) {
        return error_set(error, AML_EFAIL, "--plot: %s", strerror(errno));
    }
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[0], STDIN_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp("gnuplot", "gnuplot", "-", (char *)NULL);
        _exit(127);
    }
    close(ends[0]);
    FILE *out = child > 0 ? fdopen(ends[1], "w") : NULL;
    if (out == NULL) {
        close(ends[1]);
        return error_set(error, AML_EFAIL, "--plot: can't start gnuplot: %s", strerror(errno));
    }
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    figures_data(out, study, summaries);
    figures_script(out, study, summaries, path);
    (void)fclose(out);
    signal(SIGPIPE, before);
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || access(path, R_OK) != 0) {
        return error_set(error, AML_EINPUT, "--plot: gnuplot could not write %s", path);
    }
    return 0;
}
