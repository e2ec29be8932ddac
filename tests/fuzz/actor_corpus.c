/* Writes the seeds of controller_fuzz, server_fuzz and node_fuzz into the folder that is its only argument: one message
 * of every type from every sender. No seed is stored in the repository. */
#include "tests/fuzz/corpus.h"

#include "tests/forge.h"

enum { SENDERS = 7, SEED_MAX = 4096, HEADER_BYTES = 16 };

static bool write_seed(const char *folder, unsigned type, unsigned sender) {
    unsigned char seed[SEED_MAX] = {(unsigned char)sender, (unsigned char)type, 0};
    unsigned char head[WIRE_HEAD_MAX];
    char name[32];
    struct message message;
    size_t size = 3;
    if (!forge_message(type, &message)) {
        return true;
    }
    size_t fields = message_encode_head(&message, head) - HEADER_BYTES;
    memcpy(seed + size, head + HEADER_BYTES, fields);
    size += fields;
    for (unsigned f = 0; f < message.frame_count && size + message.frames[f]->size + 1 <= sizeof seed; f++) {
        seed[size++] = 0;
        memcpy(seed + size, message.frames[f]->data, message.frames[f]->size);
        size += message.frames[f]->size;
    }
    message_close(&message);
    snprintf(name, sizeof name, "seed-%03u-%u", type, sender);
    return corpus_write(folder, name, seed, size);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: actor_corpus FOLDER\n");
        return 2;
    }
    for (unsigned type = 1; type < FORGE_TYPES; type++) {
        for (unsigned sender = 0; sender < SENDERS; sender++) {
            if (!write_seed(argv[1], type, sender)) {
                fprintf(stderr, "actor_corpus: cannot write a seed of type %u into %s\n", type, argv[1]);
                return 1;
            }
        }
    }
    return 0;
}
