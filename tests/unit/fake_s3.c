/* See fake_s3.h. */
#include "tests/unit/fake_s3.h"
#include "tests/test.h"

#include "agileml/cloud/sigv4.h"

static const char bucket[] = "/bucket";

static void answer_error(struct http_server_reply *reply, int status, const char *code, const char *more) {
    reply->status = status;
    snprintf(reply->text, sizeof reply->text,
             "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>What is\nsaid.</Message>%s</Error>", code, more);
    reply->body = reply->text;
}

struct fake_object *fake_s3_find(struct fake_s3 *fake, const char *key) {
    for (unsigned i = 0; i < FAKE_S3_OBJECTS; i++) {
        if (fake->objects[i].bytes != NULL && strcmp(fake->objects[i].key, key) == 0) {
            return &fake->objects[i];
        }
    }
    return NULL;
}

static struct fake_object *object_new(struct fake_s3 *fake, const char *key, size_t size) {
    struct fake_object *object = fake_s3_find(fake, key);
    for (unsigned i = 0; i < FAKE_S3_OBJECTS && object == NULL; i++) {
        object = fake->objects[i].bytes == NULL ? &fake->objects[i] : NULL;
    }
    assert_non_null(object);
    free(object->bytes);
    snprintf(object->key, sizeof object->key, "%s", key);
    object->bytes = calloc(size + 1, 1);
    object->size = size;
    object->version++;
    return object;
}

void fake_s3_put(struct fake_s3 *fake, const char *key, size_t size, unsigned seed) {
    struct fake_object *object = object_new(fake, key, size);
    for (size_t i = 0; i < size; i++) {
        object->bytes[i] = (char)((i * 2654435761U + seed) >> 13);
    }
}

unsigned fake_s3_uploads(const struct fake_s3 *fake) {
    unsigned count = 0;
    for (unsigned i = 0; i < FAKE_S3_UPLOADS; i++) {
        count += fake->uploads[i].id != 0;
    }
    return count;
}

unsigned fake_s3_count(const struct fake_s3 *fake, const char *begin) {
    unsigned count = 0;
    for (const char *line = fake->log; *line != '\0'; line += strcspn(line, "\n") + 1) {
        count += strncmp(line, begin, strlen(begin)) == 0;
    }
    return count;
}

/* ---- Signatures ---- */

/* Whether the key has signed the request: computes the signature over the same headers again. */
static bool is_signed(const struct fake_s3 *fake, const struct http_server_request *request) {
    char given[1024], names[256], values[16][1024], date[1024], hash[1024], path[1024];
    struct sigv4_header headers[16];
    struct error error = {0};
    size_t count = 0;
    http_server_header(request, "Authorization", given);
    const char *list = strstr(given, "SignedHeaders=");
    if (list == NULL || sscanf(list, "SignedHeaders=%255[^,]", names) != 1) {
        return false;
    }
    char *rest = NULL;
    for (char *name = strtok_r(names, ";", &rest); name != NULL && count < 16; name = strtok_r(NULL, ";", &rest)) {
        headers[count] = (struct sigv4_header){name, http_server_header(request, name, values[count])};
        count++;
    }
    http_server_header(request, "x-amz-date", date);
    http_server_header(request, "x-amz-content-sha256", hash);
    if (request->body_size < HTTP_SERVER_TEXT) {
        char own[SIGV4_HEX];
        sigv4_hash(request->body, request->body_size, own);
        assert_string_equal(own, hash);
    }
    snprintf(path, sizeof path, "%s", request->path);
    char *query = strchr(path, '?');
    if (query != NULL) {
        *query++ = '\0';
    }
    const struct sigv4_request signing = {.method = request->method,
                                          .path = path,
                                          .path_as_is = true,
                                          .query = query,
                                          .headers = headers,
                                          .header_count = count,
                                          .body_hash = hash};
    struct sigv4_scope scope = {.region = fake->region, .service = "s3"};
    snprintf(scope.date, sizeof scope.date, "%.16s", date);
    FREED char *expected = NULL;
    assert_int_equal(sigv4_authorization(&signing, &scope, FAKE_S3_KEY, FAKE_S3_SECRET, &expected, &error), 0);
    bool same = strcmp(expected, given) == 0;
    return same;
}

/* ---- Objects ---- */

static void answer_get(struct fake_s3 *fake, const struct http_server_request *request, struct http_server_reply *reply,
                       const struct fake_object *object) {
    char value[1024], tag[64];
    size_t first = 0;
    size_t last = object->size > 0 ? object->size - 1 : 0;
    snprintf(tag, sizeof tag, "\"v%u\"", object->version);
    bool ranged = sscanf(http_server_header(request, "Range", value), "bytes=%zu-%zu", &first, &last) == 2;
    if (http_server_header(request, "If-Match", value)[0] != '\0' && strcmp(value, tag) != 0) {
        answer_error(reply, 412, "PreconditionFailed", "");
        return;
    }
    if (ranged && first >= object->size) {
        answer_error(reply, 416, "InvalidRange", "");
        snprintf(reply->head, sizeof reply->head, "Content-Range: bytes */%zu\r\n", object->size);
        return;
    }
    last = last >= object->size && object->size > 0 ? object->size - 1 : last;
    free(fake->lent);
    fake->lent = NULL;
    if (!ranged || fake->no_ranges) {
        snprintf(reply->head, sizeof reply->head, "ETag: %s\r\n", tag);
        reply->body = object->bytes;
        reply->size = object->size;
        return;
    }
    reply->status = 206;
    reply->body = object->bytes + first;
    reply->size = last - first + 1;
    first += fake->fault.wrong_range && fake->fault.count > 0;
    snprintf(reply->head, sizeof reply->head, "ETag: %s\r\nContent-Range: bytes %zu-%zu/%zu\r\n", tag, first, last,
             object->size);
}

static void answer_object(struct fake_s3 *fake, const struct http_server_request *request,
                          struct http_server_reply *reply, const char *key) {
    struct fake_object *object = fake_s3_find(fake, key);
    if (strcmp(request->method, "PUT") == 0) {
        object = object_new(fake, key, request->body_size);
        memcpy(object->bytes, request->body,
               request->body_size < HTTP_SERVER_TEXT ? request->body_size : HTTP_SERVER_TEXT - 1);
        snprintf(reply->head, sizeof reply->head, "ETag: \"v%u\"\r\n", object->version);
    } else if (strcmp(request->method, "DELETE") == 0) {
        if (object != NULL) {
            free(object->bytes);
            object->bytes = NULL;
        }
        reply->status = 204;
    } else if (object == NULL) {
        answer_error(reply, 404, "NoSuchKey", "");
    } else if (strcmp(request->method, "HEAD") == 0) {
        static char raw[300];
        snprintf(raw, sizeof raw, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nETag: \"v%u\"\r\n\r\n", object->size,
                 object->version);
        reply->raw = raw;
    } else {
        answer_get(fake, request, reply, object);
    }
    if (strcmp(request->method, "HEAD") == 0 && reply->raw == NULL) {
        reply->raw = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    }
}

/* ---- Uploads ---- */

static struct fake_upload *upload_find(struct fake_s3 *fake, const char *query, const char *key) {
    unsigned id = 0;
    const char *at = strstr(query, "uploadId=up%2F");
    if (at == NULL || sscanf(at, "uploadId=up%%2F%u", &id) != 1) {
        return NULL;
    }
    for (unsigned i = 0; i < FAKE_S3_UPLOADS; i++) {
        if (id != 0 && fake->uploads[i].id == id && strcmp(fake->uploads[i].key, key) == 0) {
            return &fake->uploads[i];
        }
    }
    return NULL;
}

static void answer_begin(struct fake_s3 *fake, struct http_server_reply *reply, const char *key) {
    for (unsigned i = 0; i < FAKE_S3_UPLOADS; i++) {
        if (fake->uploads[i].id == 0) {
            fake->uploads[i] = (struct fake_upload){.id = ++fake->last_upload};
            snprintf(fake->uploads[i].key, sizeof fake->uploads[i].key, "%s", key);
            snprintf(reply->text, sizeof reply->text,
                     "<InitiateMultipartUploadResult xmlns=\"x\"><Bucket>bucket</Bucket><UploadId>up/%u</UploadId>"
                     "</InitiateMultipartUploadResult>",
                     fake->last_upload);
            reply->body = reply->text;
            return;
        }
    }
    fail_msg("too many uploads");
}

static void answer_upload(struct fake_s3 *fake, const struct http_server_request *request,
                          struct http_server_reply *reply, const char *key, const char *query) {
    struct fake_upload *upload = upload_find(fake, query, key);
    unsigned number = 0;
    if (upload == NULL) {
        answer_error(reply, 404, "NoSuchUpload", "");
    } else if (strcmp(request->method, "PUT") == 0) {
        assert_int_equal(sscanf(query, "partNumber=%u", &number), 1);
        assert_in_range(number, 1, FAKE_S3_PARTS);
        upload->sizes[number - 1] = request->body_size;
        snprintf(reply->head, sizeof reply->head, "ETag: \"p%u\"\r\n", number);
    } else if (strcmp(request->method, "DELETE") == 0) {
        upload->id = 0;
        reply->status = 204;
    } else {
        size_t size = 0;
        for (unsigned p = 0; p < FAKE_S3_PARTS; p++) {
            char part[80];
            snprintf(part, sizeof part, "<Part><PartNumber>%u</PartNumber><ETag>\"p%u\"</ETag></Part>", p + 1, p + 1);
            assert_int_equal(strstr(request->body, part) != NULL, upload->sizes[p] > 0);
            size += upload->sizes[p];
        }
        (void)object_new(fake, key, size);
        upload->id = 0;
        reply->body = "<CompleteMultipartUploadResult><ETag>\"x-3\"</ETag></CompleteMultipartUploadResult>";
    }
}

/* ---- Lists ---- */

/* Copies a parameter of a query and decodes %XX; "" if there is none. */
static void parameter(const char *query, const char *name, char value[256]) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, "&%s=", name);
    const char *at = strstr(query, wanted);
    value[0] = '\0';
    size_t length = 0;
    for (at = at != NULL ? at + strlen(wanted) : ""; *at != '\0' && *at != '&' && length < 255; at++) {
        unsigned byte;
        bool encoded = sscanf(at, "%%%2x", &byte) == 1;
        value[length++] = encoded ? (char)byte : *at;
        at += encoded ? 2 : 0;
    }
    value[length] = '\0';
}

static int key_compare(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Lists FAKE_S3_PAGE objects at a time in the order of keys. Folders are cut off at a delimiter only. */
static void answer_list(struct fake_s3 *fake, struct http_server_reply *reply, const char *query) {
    const char *keys[FAKE_S3_OBJECTS];
    char prefix[256], delimiter[256], from[256], last[256] = "";
    size_t count = 0;
    parameter(query, "prefix", prefix);
    parameter(query, "delimiter", delimiter);
    parameter(query, "continuation-token", from);
    for (unsigned i = 0; i < FAKE_S3_OBJECTS; i++) {
        if (fake->objects[i].bytes != NULL && strncmp(fake->objects[i].key, prefix, strlen(prefix)) == 0) {
            keys[count++] = fake->objects[i].key;
        }
    }
    qsort(keys, count, sizeof *keys, key_compare);
    size_t skipped = strtoul(from, NULL, 10);
    char *text = reply->text;
    size_t at = (size_t)snprintf(text, sizeof reply->text, "<ListBucketResult><EncodingType>url</EncodingType>");
    size_t k = 0;
    for (; k < count && k < skipped + FAKE_S3_PAGE; k++) {
        const char *slash = delimiter[0] != '\0' ? strchr(keys[k] + strlen(prefix), '/') : NULL;
        size_t length = slash != NULL ? (size_t)(slash - keys[k]) + 1 : strlen(keys[k]);
        bool again = slash != NULL && strncmp(last, keys[k], length) == 0 && strlen(last) == length;
        snprintf(last, sizeof last, "%.*s", (int)length, keys[k]);
        if (again || k < skipped) {
            continue;
        }
        const char *form = slash != NULL ? "<CommonPrefixes><Prefix>%s</Prefix></CommonPrefixes>"
                                         : "<Contents><Key>%s</Key><Size>%zu</Size></Contents>";
        char encoded[3 * sizeof last];
        assert_true(sigv4_encode(last, "/", encoded, sizeof encoded));
        at += (size_t)snprintf(text + at, sizeof reply->text - at, form, encoded, fake_s3_find(fake, keys[k])->size);
    }
    snprintf(text + at, sizeof reply->text - at,
             k < count ? "<IsTruncated>true</IsTruncated><NextContinuationToken>%zu</NextContinuationToken>"
                         "</ListBucketResult>"
                       : "<IsTruncated>false</IsTruncated><X>%zu</X></ListBucketResult>",
             k);
    reply->body = text;
}

static void answer_uploads(struct fake_s3 *fake, struct http_server_reply *reply, const char *query) {
    char prefix[256];
    parameter(query, "prefix", prefix);
    char *text = reply->text;
    size_t at = (size_t)snprintf(text, sizeof reply->text, "<ListMultipartUploadsResult>");
    for (unsigned i = 0; i < FAKE_S3_UPLOADS; i++) {
        if (fake->uploads[i].id != 0 && strncmp(fake->uploads[i].key, prefix, strlen(prefix)) == 0) {
            at += (size_t)snprintf(text + at, sizeof reply->text - at,
                                   "<Upload><Key>%s</Key><UploadId>up/%u</UploadId></Upload>", fake->uploads[i].key,
                                   fake->uploads[i].id);
        }
    }
    snprintf(text + at, sizeof reply->text - at, "<IsTruncated>false</IsTruncated></ListMultipartUploadsResult>");
    reply->body = text;
}

/* ---- The server ---- */

static void decode(char *text) {
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        unsigned byte;
        bool encoded = sscanf(from, "%%%2x", &byte) == 1;
        *to++ = encoded ? (char)byte : *from;
        from += encoded ? 2 : 0;
    }
    *to = '\0';
}

static void route(struct fake_s3 *fake, const struct http_server_request *request, struct http_server_reply *reply) {
    char key[1024], query[1024];
    snprintf(key, sizeof key, "%s", request->path + strlen(bucket));
    snprintf(query, sizeof query, "&%s", strchr(key, '?') != NULL ? strchr(key, '?') + 1 : "");
    key[strcspn(key, "?")] = '\0';
    decode(key);
    const char *name = key[0] == '/' ? key + 1 : key;
    if (strncmp(query, "&uploads=", 9) == 0 && strcmp(request->method, "POST") == 0) {
        answer_begin(fake, reply, name);
    } else if (strstr(query, "uploadId=") != NULL) {
        answer_upload(fake, request, reply, name, query + 1);
    } else if (strncmp(query, "&uploads=", 9) == 0) {
        answer_uploads(fake, reply, query);
    } else if (strncmp(query, "&list-type=2", 12) == 0) {
        answer_list(fake, reply, query);
    } else {
        answer_object(fake, request, reply, name);
    }
}

/* Whether a fault has replaced the answer. */
static bool answer_fault(struct fake_s3 *fake, const char *line, struct http_server_reply *reply) {
    struct fake_fault *fault = &fake->fault;
    if (fault->count == 0 || (fault->of != NULL && strncmp(line, fault->of, strlen(fault->of)) != 0)) {
        return false;
    }
    if (fault->wrong_range || fault->cut || fault->lost) {
        return false;
    }
    fault->count--;
    reply->silent = fault->silent;
    if (fault->no_xml) {
        reply->status = 200;
        reply->body = "<Error><Code>InternalError</Code></Error>";
    } else if (!fault->silent) {
        answer_error(reply, fault->status, fault->code, "");
        snprintf(reply->head, sizeof reply->head, "%s", fault->head != NULL ? fault->head : "");
    }
    return true;
}

static void answer(void *context, const struct http_server_request *request, struct http_server_reply *reply) {
    struct fake_s3 *fake = context;
    char line[1100];
    int length = snprintf(line, sizeof line, "%s %s", request->method, request->path);
    size_t used = strlen(fake->log);
    fake->requests++;
    if (used + (size_t)length + 2 < sizeof fake->log) {
        snprintf(fake->log + used, sizeof fake->log - used, "%s\n", line);
    }
    if (fake->before != NULL) {
        fake->before(fake, request);
    }
    if (answer_fault(fake, line, reply)) {
        return;
    }
    char given[1024];
    bool wrong_region = strstr(http_server_header(request, "Authorization", given), fake->region) == NULL;
    if (strncmp(request->path, bucket, strlen(bucket)) != 0) {
        route(fake, request, reply); /* addresses outside the bucket need no signature */
    } else if (wrong_region && given[0] != '\0') {
        char more[100];
        snprintf(more, sizeof more, "<Region>%s</Region>", fake->region);
        answer_error(reply, 400, "AuthorizationHeaderMalformed", more);
    } else if (!is_signed(fake, request)) {
        answer_error(reply, 403, "SignatureDoesNotMatch", "");
    } else {
        route(fake, request, reply);
    }
    struct fake_fault *fault = &fake->fault;
    if (fault->count > 0 && (fault->of == NULL || strncmp(line, fault->of, strlen(fault->of)) == 0)) {
        fault->count--;
        reply->cut = fault->cut ? 1 : 0;
        reply->raw = fault->lost ? "" : reply->raw;
    }
}

void fake_s3_open(struct fake_s3 *fake) {
    *fake = (struct fake_s3){.region = "us-east-1"};
    fake->server = http_server_open(answer, fake);
    setenv("AWS_ENDPOINT_URL_S3", http_server_url(fake->server), 1);
    setenv("AWS_ACCESS_KEY_ID", FAKE_S3_KEY, 1);
    setenv("AWS_SECRET_ACCESS_KEY", FAKE_S3_SECRET, 1);
    setenv("AWS_CONFIG_FILE", "/nonexistent", 1);
    setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent", 1);
    unsetenv("AWS_SESSION_TOKEN");
    unsetenv("AWS_PROFILE");
    unsetenv("AWS_REGION");
    unsetenv("AWS_DEFAULT_REGION");
}

void fake_s3_close(struct fake_s3 *fake) {
    http_server_close(fake->server);
    for (unsigned i = 0; i < FAKE_S3_OBJECTS; i++) {
        free(fake->objects[i].bytes);
    }
    free(fake->lent);
}
