/* See ec2_request.h. */
#include "bidbrain/cloud/aws/ec2_request.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EC2_NAME_TEXT = 128 }; /* bytes of a parameter's name */

/* Copies by hand: realloc would leave a copy of secrets behind. */
static void ec2_request_room(struct ec2_request *request, size_t size) {
    if (request->size + size < request->capacity) {
        return;
    }
    size_t capacity = (request->size + size + 1) * 2;
    char *form = memory_zeroed(capacity, 1);
    if (request->form != NULL) {
        memcpy(form, request->form, request->size);
        explicit_bzero(request->form, request->size);
        free(request->form);
    }
    request->form = form;
    request->capacity = capacity;
}

static void ec2_request_encode(struct ec2_request *request, const char *text) {
    static const char digits[] = "0123456789ABCDEF";
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    ec2_request_room(request, strlen(text) * 3);
    char *to = request->form + request->size;
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (strchr(plain, byte) != NULL) {
            *to++ = *text;
        } else {
            *to++ = '%';
            *to++ = digits[byte >> 4];
            *to++ = digits[byte & 15];
        }
    }
    *to = '\0';
    request->size = (size_t)(to - request->form);
}

static void ec2_request_add(struct ec2_request *request, const char *name, const char *value) {
    ec2_request_room(request, 2);
    if (request->size > 0) {
        request->form[request->size++] = '&';
    }
    ec2_request_encode(request, name);
    ec2_request_room(request, 2);
    request->form[request->size++] = '=';
    ec2_request_encode(request, value);
}

struct ec2_request *ec2_request_new(const char *action) {
    struct ec2_request *request = memory_zeroed(1, sizeof *request);
    assert(strlen(action) < sizeof request->action);
    strcpy(request->action, action);
    ec2_request_add(request, "Action", action);
    ec2_request_add(request, "Version", EC2_VERSION);
    return request;
}

void ec2_request_free(struct ec2_request *request) {
    if (request != NULL) {
        explicit_bzero(request->form, request->size);
        free(request->form);
        free(request);
    }
}

static void ec2_request_set(struct ec2_request *request, const char *value, const char *format, va_list arguments) {
    char name[EC2_NAME_TEXT];
    int length = vsnprintf(name, sizeof name, format, arguments);
    assert(length > 0 && length < (int)sizeof name);
    if (value == NULL || value[0] == '\0') {
        return;
    }
    request->filtered |= strncmp(name, "Filter.", 7) == 0 || strncmp(name, "InstanceId.", 11) == 0 ||
                         strncmp(name, "SpotInstanceRequestId.", 22) == 0;
    request->has_token |= strcmp(name, "ClientToken") == 0;
    ec2_request_add(request, name, value);
}

void ec2_set(struct ec2_request *request, const char *value, const char *name, ...) {
    va_list arguments;
    va_start(arguments, name);
    ec2_request_set(request, value, name, arguments);
    va_end(arguments);
}

void ec2_set_number(struct ec2_request *request, int64_t value, const char *name, ...) {
    char text[24];
    va_list arguments;
    snprintf(text, sizeof text, "%" PRId64, value);
    va_start(arguments, name);
    ec2_request_set(request, text, name, arguments);
    va_end(arguments);
}

void ec2_set_base64(struct ec2_request *request, const void *bytes, size_t size, const char *name, ...) {
    size_t room = (size + 2) / 3 * 4 + 1;
    char *text = memory_zeroed(room, 1);
    (void)EVP_EncodeBlock((unsigned char *)text, bytes, (int)size);
    va_list arguments;
    va_start(arguments, name);
    ec2_request_set(request, text, name, arguments);
    va_end(arguments);
    explicit_bzero(text, room);
    free(text);
}
