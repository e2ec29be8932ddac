/* What was read of labelled samples, in one line for people. A pure function. */
#ifndef APPS_SAMPLES_SUMMARY_H
#define APPS_SAMPLES_SUMMARY_H

#include "apps/mlr/samples.h"

#include <stddef.h>

/* Writes how many samples, features and classes there are, the classes with their counts, the format, and what was
 * taken for what, to text[room]: "iris.csv: 150 samples of 4 features, csv (line 1 is a header, the label is column 5
 * ('species')), 3 classes: setosa 50, versicolor 50, virginica 50". */
void samples_summary(const struct samples_file *file, const struct samples_survey *survey, char *text, size_t room);

#endif
