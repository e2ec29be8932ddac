/* Numbers in model files: little-endian, floats and doubles by their IEEE 754 bits. `bytes` need not be aligned. */
#ifndef APPS_LITTLE_ENDIAN_H
#define APPS_LITTLE_ENDIAN_H

#include <stdint.h>
#include <string.h>

static inline void put32(unsigned char *bytes, uint32_t value) {
    for (unsigned i = 0; i < 4; i++) {
        bytes[i] = (unsigned char)(value >> (8 * i));
    }
}

static inline void put64(unsigned char *bytes, uint64_t value) {
    put32(bytes, (uint32_t)value);
    put32(bytes + 4, (uint32_t)(value >> 32));
}

static inline void put_float(unsigned char *bytes, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put32(bytes, bits);
}

static inline void put_double(unsigned char *bytes, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put64(bytes, bits);
}

static inline uint32_t get32(const unsigned char *bytes) {
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static inline uint64_t get64(const unsigned char *bytes) {
    return (uint64_t)get32(bytes) | (uint64_t)get32(bytes + 4) << 32;
}

static inline float get_float(const unsigned char *bytes) {
    uint32_t bits = get32(bytes);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline double get_double(const unsigned char *bytes) {
    uint64_t bits = get64(bytes);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
