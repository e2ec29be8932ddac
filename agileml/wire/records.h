/* The records in payload frames: typed views of messages, and functions that append frames. For frames of rows see
 * rows.h, for those of PLAN plan.h. */
#ifndef AGILEML_WIRE_RECORDS_H
#define AGILEML_WIRE_RECORDS_H

#include "agileml/wire/message.h"

/* The payload frames of messages that have several frames of records. */
enum { REGISTER_ENDPOINTS, REGISTER_METRICS, REGISTER_OPTIONS };
enum { INPUT_SHARDS, INPUT_FILES, INPUT_RANGES };
/* The only payload frame of all other messages. */
enum { RECORDS_FRAME };
enum { FEED_BATCHES, FEED_BYTES };

/* Defines FUNCTION(message, count), which returns the records in that frame and sets *count to their number. The
 * message owns the records. */
#define RECORDS_VIEW(function, record, frame)                                                                          \
    static inline const record *function(const struct message *message, size_t *count) {                               \
        *count = message->frames[frame]->size / sizeof(record);                                                        \
        return (const void *)message->frames[frame]->data;                                                             \
    }

RECORDS_VIEW(register_metrics, struct wire_metric, REGISTER_METRICS)
RECORDS_VIEW(input_ranges, struct wire_input_range, INPUT_RANGES)
RECORDS_VIEW(progress_metrics, struct wire_metric_sum, RECORDS_FRAME)
RECORDS_VIEW(lot_metrics, struct wire_metric_sum, message->frame_count - 1) /* LOT_DONE: after the rows */
RECORDS_VIEW(waits_servers, struct wire_server_wait, RECORDS_FRAME)
RECORDS_VIEW(records_totals, double, RECORDS_FRAME)    /* LOADED, START: WIRE_TOTALS of them */
RECORDS_VIEW(save_metrics, double, RECORDS_FRAME)      /* in the order of REGISTER's */
RECORDS_VIEW(evaluate_shards, uint32_t, RECORDS_FRAME) /* at least one */
RECORDS_VIEW(peer_shards, uint32_t, RECORDS_FRAME)     /* FETCH_ASK_HOLDINGS, FETCH_HOLDINGS, PARTS_ASK, FEED_ASK */
RECORDS_VIEW(feed_batches, struct wire_batch, FEED_BATCHES) /* at least one */
RECORDS_VIEW(checkpoint_partitions, uint32_t, RECORDS_FRAME)
RECORDS_VIEW(records_restore_points, struct wire_restore_point, RECORDS_FRAME) /* FENCED, REPLICAS */
RECORDS_VIEW(records_names, struct wire_name, RECORDS_FRAME)                   /* EVICT, GONE */
RECORDS_VIEW(allocation_machines, struct wire_machine, RECORDS_FRAME)
RECORDS_VIEW(records_text, char, RECORDS_FRAME) /* REPORT, STATUS, NOTE: without a final 0 */

#undef RECORDS_VIEW

/* Appends a frame. Takes over its reference. */
static inline void message_add(struct message *message, struct buffer *frame) {
    message->frames[message->frame_count++] = frame;
}

/* Appends a frame with a copy of `bytes` bytes of records. */
static inline void message_add_copy(struct message *message, const void *records, size_t bytes) {
    message_add(message, buffer_copy(records, bytes));
}

#endif
