/* Figures 8 to 10 of the paper as one SVG, drawn by gnuplot if it is installed. */
#ifndef BIDBRAIN_STUDY_FIGURES_H
#define BIDBRAIN_STUDY_FIGURES_H

#include "bidbrain/study/study.h"

/* Returns AML_EINPUT with one line when gnuplot is not installed. */
int figures_check(struct error *error);
/* Draws three figures over the schemes: cost relative to on-demand and runtime, both with confidence intervals, and
 * machine-hours by kind. */
int figures_plot(const struct study *study, const struct scheme_summary *summaries, const char *path,
                 struct error *error);

#endif
