/* A summary of labelled samples in one line. A pure function. */
#ifndef APPS_SAMPLES_SUMMARY_H
#define APPS_SAMPLES_SUMMARY_H

#include "apps/samples/samples.h"

#include <stddef.h>

/* Writes the numbers of samples, features and classes, the classes with their counts, the format, and the meaning of
 * columns to text[room]: "iris.csv: 150 samples of 4 features, csv (line 1 is a header, the label is column 5
 * ('species')), 3 classes: setosa 50, versicolor 50, virginica 50". */
void samples_summary(const struct samples_file *file, const struct samples_survey *survey, char *text, size_t room);

#endif
