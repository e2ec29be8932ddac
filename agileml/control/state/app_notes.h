/* The feature that shows the app's notes (APP_NOTE) to the people who run the job. Several nodes may send the same
 * text: the report has each text once, even after restarts of the controller. */
#ifndef AGILEML_CONTROL_APP_NOTES_H
#define AGILEML_CONTROL_APP_NOTES_H

#include "agileml/control/state/feature.h"

/* Hashes of the notes that the report has; part of the job's progress. */
struct app_notes_kept {
    uint64_t hashes[WIRE_APP_NOTES_MAX];
    uint32_t count;
    uint32_t left_out; /* 1: the report says that there are more texts */
};

extern const struct feature app_notes_feature;

#endif
