/* The common part of the actors' fuzz targets. A controller, a server or a node in the middle of a job (tests/actors.h)
 * receives messages made from the input: of any type, from any actor of the job or a stranger.
 *
 * For each message the input has sender, type and epoch (1 byte each), then the fields as in the head frame. For each
 * payload frame that forge_message makes, a size (1 byte) and the frame's bytes follow. Input that is missing counts as
 * zeros. */
#ifndef TESTS_FUZZ_ACTOR_FUZZ_H
#define TESTS_FUZZ_ACTOR_FUZZ_H

#include "tests/actors.h"

#include <stdlib.h>
#include <string.h>

/* ACTOR_FUZZ_PASS, in place of a sender, lets time pass. */
enum { ACTOR_FUZZ_MESSAGES_MAX = 32, ACTOR_FUZZ_HEADER_BYTES = 16, ACTOR_FUZZ_PASS = 0xFF };

struct actor_input {
    const uint8_t *data;
    size_t size;
};

static void input_take(struct actor_input *input, void *to, size_t size) {
    size_t there = size < input->size ? size : input->size;
    memset(to, 0, size);
    if (there > 0) {
        memcpy(to, input->data, there);
    }
    input->data += there;
    input->size -= there;
}

static uint8_t input_byte(struct actor_input *input) {
    uint8_t byte;
    input_take(input, &byte, 1);
    return byte;
}

static actor_id input_sender(uint8_t byte) {
    const actor_id senders[] = {ACTOR_CONTROLLER, actors_node(0),   actors_node(1), actors_node(2),
                                actors_server(0), actors_server(1), 0x770000};
    return senders[byte % (sizeof senders / sizeof *senders)];
}

/* Replaces the content of the message's frames by the input's bytes. */
static void input_frames(struct actor_input *input, struct message *message) {
    for (unsigned f = 0; f < message->frame_count; f++) {
        size_t size = message->frames[f]->size;
        size_t units = input_byte(input) % 8; /* 0: the present size; n: n - 1 times that size */
        size = units == 0 ? size : size * (units - 1);
        buffer_drop(message->frames[f]);
        message->frames[f] = buffer_new(size);
        input_take(input, message->frames[f]->data, size);
    }
}

/* Makes the input's next message. Returns false when the decoder rejects it. */
static bool input_message(struct actor_input *input, struct message *message) {
    unsigned char head[WIRE_HEAD_MAX];
    struct message made;
    struct error error = {0};
    uint8_t type = input_byte(input);
    uint64_t epoch = ACTORS_EPOCH + input_byte(input) % 3;
    if (!forge_message(type, &made)) {
        message_close(&made);
        return false;
    }
    made.epoch = epoch;
    size_t size = message_encode_head(&made, head);
    input_take(input, head + ACTOR_FUZZ_HEADER_BYTES, size - ACTOR_FUZZ_HEADER_BYTES);
    input_frames(input, &made);
    memset(message, 0, sizeof *message);
    message->frame_count = made.frame_count;
    memcpy(message->frames, made.frames, sizeof made.frames);
    if (message_decode_head(message, head, size, &error) != 0) {
        message_close(message);
        return false;
    }
    return true;
}

static int actor_fuzz(enum actors_kind kind, const uint8_t *data, size_t size) {
    struct actor_input input = {.data = data, .size = size};
    struct actors *actors = memory_zeroed(1, sizeof *actors);
    actors_open(actors, kind);
    for (unsigned m = 0; m < ACTOR_FUZZ_MESSAGES_MAX && input.size > 0; m++) {
        struct message message;
        uint8_t sender = input_byte(&input);
        if (sender == ACTOR_FUZZ_PASS) {
            actors_pass(actors, (uint64_t)input_byte(&input) * 10000);
        } else if (input_message(&input, &message)) {
            actors_receive(actors, input_sender(sender), &message);
            message_close(&message);
        }
    }
    actors_close(actors);
    free(actors);
    return 0;
}

#endif
