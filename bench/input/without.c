/* A second copy of workers/data/data.c, under other names and without the fingerprint. See main.c. */
#define data_open            without_data_open
#define data_input_news      without_data_input_news
#define data_close           without_data_close
#define data_read_begin      without_data_read_begin
#define data_read_part_begin without_data_read_part_begin
#define data_read_end        without_data_read_end
#define data_chunk_open      without_data_chunk_open
#define data_next_order      without_data_next_order
#define data_chunk_close     without_data_chunk_close
#define data_stretch_begin   without_data_stretch_begin
#define data_chunk_open_own  without_data_chunk_open_own
#define data_chunk_full      without_data_chunk_full
#define data_emit            without_data_emit
#define data_emit_numbered   without_data_emit_numbered
#define data_emit_varied     without_data_emit_varied
#define data_totals          without_data_totals
#define DATA_FINGERPRINT     0
#include "workers/data/data.c"

#include "bench/input/variant.h"

const struct variant variant_without = VARIANT_HERE;
