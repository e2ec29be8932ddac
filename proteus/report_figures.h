/* The figures of jobs' reports as SVG files, for papers: objective and metrics, items and bytes a second, a timeline of
 * nodes for each report, and with BidBrain dollars and prices. Reports are laid over one another, a curve each. */
#ifndef PROTEUS_REPORT_FIGURES_H
#define PROTEUS_REPORT_FIGURES_H

#include "agileml/base/error.h"

struct report_figures;

struct report_figures *report_figures_new(void);
void report_figures_free(struct report_figures *figures);

/* Reads a report; the figures call it `name`. Returns 0, or what report_read returns. */
int report_figures_add(struct report_figures *figures, const char *path, const char *name, struct error *error);

/* Writes the figures that the reports have values for into the folder, which is made if it is not there. Files of the
 * same names are replaced, each as a whole. Returns 0 or AML_EINPUT, AML_EFAIL. *count: figures that were written. */
int report_figures_write(const struct report_figures *figures, const char *folder, unsigned *count,
                         struct error *error);

#endif
