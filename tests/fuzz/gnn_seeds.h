/* The form of gnn_input_fuzz's data: a byte of these options, then six parts, each with its length in two bytes: edges,
 * features, labels, and the split in one part or, with GNN_SEED_THREE, in three. */
#ifndef TESTS_FUZZ_GNN_SEEDS_H
#define TESTS_FUZZ_GNN_SEEDS_H

enum { GNN_SEED_THREE = 1, GNN_SEED_CHOICE = 2, GNN_SEED_DIRECTED = 4, GNN_SEED_PREDICT = 8 };

#endif
