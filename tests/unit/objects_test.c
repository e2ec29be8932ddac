/* agileml/cloud/objects and its users, against a fake S3 server that checks signatures and fails in every way. */

#include "agileml/cloud/object_read.h"
#include "agileml/cloud/object_write.h"
#include "agileml/cloud/storage.h"
#include "agileml/control/state/manifest.h"
#include "agileml/input/list.h"
#include "agileml/input/source_text.h"
#include "tests/test.h"
#include "tests/unit/fake_s3.h"

#include <unistd.h>

static const struct objects_options quick = {.attempts = 4, .delay_ms = 1, .timeout_ms = 10 * 1000, .stall_s = 5};

static int setup(void **state) {
    struct fake_s3 *fake = calloc(1, sizeof *fake);
    fake_s3_open(fake);
    *state = fake;
    return 0;
}

static int teardown(void **state) {
    fake_s3_close(*state);
    free(*state);
    return 0;
}

/* ---- Addresses and answers ---- */

TEST(addresses) {
    static const struct {
        const char *path;
        int code;
        const char *bucket, *key;
    } examples[] = {
        {"s3://bucket/a/b c.csv", 0, "bucket", "a/b c.csv"},
        {"s3://bucket", 0, "bucket", ""},
        {"s3://my.bucket/", 0, "my.bucket", ""},
        {"", AML_EINPUT, "", ""},
        {"/a/path", AML_EINPUT, "", ""},
        {"s3:///key", AML_EINPUT, "", ""},
        {"s3://ab/key", AML_EINPUT, "", ""},
        {"s3://b@cket/key", AML_EINPUT, "", ""},
        {"https://host.example/data.csv?a=b", 0, "", ""},
        {"https://host.example:8443/d", 0, "", ""},
        {"https://host.example", AML_EINPUT, "", ""},
        {"https://user:word@host.example/d", AML_EINPUT, "", ""},
        {"https:///d", AML_EINPUT, "", ""},
        {"https://host.example/a b", AML_EINPUT, "", ""},
        {"http://127.0.0.1:9/d", 0, "", ""},
        {"http://localhost/d", 0, "", ""},
        {"http://host.example/d", AML_EINPUT, "", ""},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        struct object_url url;
        struct error error = {0};
        assert_int_equal(object_url_parse(examples[i].path, &url, &error), examples[i].code);
        assert_int_equal(error.text[0] != '\0', examples[i].code != 0);
        assert_null(strstr(error.text, "word"));
        if (examples[i].code == 0) {
            assert_string_equal(url.bucket, examples[i].bucket);
            assert_string_equal(url.key, examples[i].key);
        }
    }
    char shown[OBJECT_NAME_SHOWN];
    object_url_show("https://host/d?X-Amz-Signature=secret", shown);
    assert_string_equal(shown, "https://host/d");
    setenv("PROTEUS_PLAIN_HTTP", "1", 1);
    struct object_url url;
    assert_int_equal(object_url_parse("http://host.example/d", &url, NULL), 0);
    unsetenv("PROTEUS_PLAIN_HTTP");
}

TEST(ranges) {
    struct object_range range;
    assert_true(object_range_parse("bytes 0-99/1000", &range));
    assert_true(range.first == 0 && range.last == 99 && range.total == 1000 && !range.empty);
    assert_true(object_range_parse("bytes 5-5/*", &range) && range.total == UINT64_MAX);
    assert_true(object_range_parse("bytes */0", &range) && range.empty && range.total == 0);
    static const char *const wrong[] = {"",
                                        "bytes",
                                        "bytes 0-9",
                                        "bytes 9-0/10",
                                        "bytes 0-10/10",
                                        "bytes a-b/c",
                                        "items 0-9/10",
                                        "bytes -9/10",
                                        "bytes 0-9/10x",
                                        "bytes */*",
                                        "bytes 0-9/99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(object_range_parse(wrong[i], &range));
    }
}

/* ---- Reading ---- */

/* Reads bytes of "s3://bucket/KEY" in pieces, and compares them with the object's. Returns the result code. */
static int read_and_compare(struct fake_s3 *fake, const char *key, uint64_t offset, uint64_t length, size_t piece,
                            struct error *error) {
    struct object_reader *reader;
    const struct fake_object *object = fake_s3_find(fake, key);
    char path[300];
    FREED char *bytes = malloc(piece);
    size_t got = piece;
    uint64_t at = offset;
    snprintf(path, sizeof path, "s3://bucket/%s", key);
    assert_int_equal(object_reader_open(&reader, path, UINT64_MAX, "", offset, length, &quick, error), 0);
    int code = 0;
    while (code == 0 && got == piece) {
        code = object_reader_read(reader, bytes, piece, &got, error);
        if (code == 0) {
            assert_true(at + got <= object->size);
            assert_memory_equal(bytes, object->bytes + at, got);
            at += got;
        }
    }
    uint64_t end = length > object->size - offset ? object->size : offset + length;
    assert_true(code != 0 || at == end);
    object_reader_close(reader);
    return code;
}

TEST_WITH(read, setup, teardown) {
    struct fake_s3 *fake = *state;
    struct error error = {0};
    fake_s3_put(fake, "data/a b+c.csv", 9 << 20, 1);
    fake_s3_put(fake, "empty", 0, 1);
    fake_s3_put(fake, "small", 10, 1);
    assert_int_equal(read_and_compare(fake, "data/a b+c.csv", 0, UINT64_MAX, 100000, &error), 0);
    assert_in_range(fake->requests, 7, 12);
    assert_int_equal(fake_s3_count(fake, "GET /bucket/data/a%20b%2Bc.csv"), fake->requests);
    assert_int_equal(read_and_compare(fake, "data/a b+c.csv", 12345, 3000001, 7 << 20, &error), 0);
    fake->requests = 0;
    assert_int_equal(read_and_compare(fake, "data/a b+c.csv", 100, 16, 16, &error), 0);
    assert_int_equal(fake->requests, 1); /* the bytes of a header cost one request, for no more bytes */
    assert_int_equal(read_and_compare(fake, "small", 0, UINT64_MAX, 3, &error), 0);
    assert_int_equal(read_and_compare(fake, "empty", 0, UINT64_MAX, 16, &error), 0);
}

TEST_WITH(passing_faults, setup, teardown) {
    static const struct fake_fault faults[] = {
        {.count = 2, .status = 500, .code = "InternalError"},
        {.count = 3, .status = 503, .code = "SlowDown"},
        {.count = 1, .status = 429, .code = ""},
        {.count = 1, .status = 408, .code = ""},
        {.count = 1, .status = 400, .code = "RequestTimeout"},
        {.count = 2, .cut = true},
        {.count = 3, .wrong_range = true},
        {.count = 1, .lost = true},
    };
    struct fake_s3 *fake = *state;
    fake_s3_put(fake, "a", 300000, 1);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct error error = {0};
        fake->fault = faults[i];
        assert_int_equal(read_and_compare(fake, "a", 0, UINT64_MAX, 1 << 20, &error), 0);
        assert_int_equal(fake->fault.count, 0);
    }
}

TEST_WITH(lasting_faults, setup, teardown) {
    static const struct {
        struct fake_fault fault;
        int code;
        unsigned requests;
        const char *says;
    } faults[] = {
        {{.status = 500, .code = "InternalError"}, AML_EFAIL, 4, "status 500, InternalError: What is said."},
        {{.status = 503, .code = "SlowDown"}, AML_EFAIL, 4, "tried again in vain"},
        {{.status = 501, .code = "NotImplemented"}, AML_EFAIL, 1, "status 501"},
        {{.status = 403, .code = "AccessDenied"},
         AML_EINPUT,
         1,
         "expected credentials that allow s3:GetObject; used those of environment"},
        {{.status = 404, .code = "NoSuchBucket"}, AML_EINPUT, 1, "expected a bucket that is there"},
        {{.status = 404, .code = "NoSuchKey"}, AML_EINPUT, 1, "expected an object"},
        {{.status = 401, .code = ""}, AML_EINPUT, 1, "expected valid credentials"},
        {{.cut = true}, AML_EFAIL, 4, "tried again in vain"},
        {{.wrong_range = true}, AML_EFAIL, 4, "bytes 0 to 65535 of 300000 came as 65536 bytes from 1 on"},
    };
    struct fake_s3 *fake = *state;
    fake_s3_put(fake, "a", 300000, 1);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct error error = {0};
        fake->fault = faults[i].fault;
        fake->fault.count = UINT32_MAX;
        fake->requests = 0;
        assert_int_equal(read_and_compare(fake, "a", 0, UINT64_MAX, 1 << 20, &error), faults[i].code);
        assert_int_equal(fake->requests, faults[i].requests);
        if (strstr(error.text, faults[i].says) == NULL || strncmp(error.text, "s3://bucket/a: ", 15) != 0) {
            fail_msg("%s", error.text);
        }
        assert_null(strstr(error.text, FAKE_S3_SECRET));
    }
}

TEST_WITH(stall, setup, teardown) {
    struct fake_s3 *fake = *state;
    struct error error = {0};
    struct objects_options options = quick;
    struct object_reader *reader;
    char bytes[100];
    size_t got;
    options.timeout_ms = 100;
    fake_s3_put(fake, "a", 100, 1);
    fake->fault = (struct fake_fault){.count = 1, .silent = true};
    assert_int_equal(object_reader_open(&reader, "s3://bucket/a", 100, "", 0, 100, &options, &error), 0);
    assert_int_equal(object_reader_read(reader, bytes, sizeof bytes, &got, &error), 0);
    assert_int_equal(got, 100);
    object_reader_close(reader);
}

static void change_object(struct fake_s3 *fake, const struct http_server_request *request) {
    char value[1024];
    if (strncmp(http_server_header(request, "Range", value), "bytes=65536-", 12) == 0) {
        fake_s3_put(fake, "a", 300000, 2);
        fake->before = NULL;
    }
}

TEST_WITH(changed, setup, teardown) {
    struct fake_s3 *fake = *state;
    struct error error = {0};
    struct object_reader *reader;
    char bytes[1000];
    size_t got;
    fake_s3_put(fake, "a", 300000, 1);
    fake->before = change_object;
    struct object_reader *other;
    assert_int_equal(object_reader_open(&other, "s3://bucket/a", UINT64_MAX, "", 0, UINT64_MAX, &quick, &error), 0);
    FREED char *whole = malloc(300000);
    assert_int_equal(object_reader_read(other, whole, 300000, &got, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "it has changed while it was read"));
    object_reader_close(other);
    /* The same if another size or version was expected from the start, or if the object became shorter. */
    static const struct {
        uint64_t total, offset;
        const char *tag;
    } wrong[] = {{300001, 0, ""}, {300000, 0, "\"v0\""}, {400000, 350000, ""}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct error again = {0};
        assert_int_equal(object_reader_open(&reader, "s3://bucket/a", wrong[i].total, wrong[i].tag, wrong[i].offset,
                                            UINT64_MAX, &quick, &again),
                         0);
        assert_int_equal(object_reader_read(reader, bytes, sizeof bytes, &got, &again), AML_EINPUT);
        assert_non_null(strstr(again.text, "it has changed"));
        object_reader_close(reader);
    }
}

/* ---- Credentials ---- */

TEST_WITH(wrong_signature, setup, teardown) {
    struct fake_s3 *fake = *state;
    struct error error = {0};
    fake_s3_put(fake, "a", 10, 1);
    setenv("AWS_SECRET_ACCESS_KEY", "another-secret", 1);
    assert_int_equal(read_and_compare(fake, "a", 0, 10, 10, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "SignatureDoesNotMatch"));
    assert_non_null(strstr(error.text, "expected valid credentials; used those of environment"));
    assert_null(strstr(error.text, "another-secret"));
    assert_null(strstr(error.text, FAKE_S3_KEY));
    assert_int_equal(fake->requests, 1);
}

TEST_WITH(no_credentials, setup, teardown) {
    struct fake_s3 *fake = *state;
    struct error error = {0};
    fake_s3_put(fake, "a", 10, 1);
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SECRET_ACCESS_KEY");
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    assert_int_equal(read_and_compare(fake, "a", 0, 10, 10, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "s3://bucket/a: no credentials"));
    assert_int_equal(fake->requests, 0);
    unsetenv("AWS_EC2_METADATA_DISABLED");
}

static char credentials_file[64];

static void write_credentials(const char *key) {
    FILE *file = fopen(credentials_file, "w");
    assert_non_null(file);
    fprintf(file, "[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", key, FAKE_S3_SECRET);
    assert_int_equal(fclose(file), 0);
}

static void renew_credentials(struct fake_s3 *fake, const struct http_server_request *request) {
    char value[1024];
    if (strstr(http_server_header(request, "Authorization", value), "OLDKEY") != NULL) {
        fake->fault = (struct fake_fault){.count = 1, .status = 400, .code = "ExpiredToken"};
        write_credentials(FAKE_S3_KEY);
    }
}

TEST_WITH(expired_credentials, setup, teardown) {
    struct fake_s3 *fake = *state;
    struct error error = {0};
    snprintf(credentials_file, sizeof credentials_file, "/tmp/objects_test.%d", (int)getpid());
    write_credentials("OLDKEY");
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SECRET_ACCESS_KEY");
    setenv("AWS_SHARED_CREDENTIALS_FILE", credentials_file, 1);
    fake_s3_put(fake, "a", 10, 1);
    fake->before = renew_credentials;
    assert_int_equal(read_and_compare(fake, "a", 0, 10, 10, &error), 0);
    assert_int_equal(fake->requests, 2);
    unlink(credentials_file);
}

TEST_WITH(region, setup, teardown) {
    struct fake_s3 *fake = *state;
    struct error error = {0};
    fake_s3_put(fake, "a", 10, 1);
    fake->region = "eu-west-3";
    assert_int_equal(read_and_compare(fake, "a", 0, 10, 10, &error), 0); /* follows the bucket to its region */
    assert_int_equal(fake->requests, 2);
    setenv("AWS_REGION", "eu-west-3", 1);
    fake->requests = 0;
    assert_int_equal(read_and_compare(fake, "a", 0, 10, 10, &error), 0);
    assert_int_equal(fake->requests, 1);
    fake->requests = 0;
    setenv("AWS_REGION", "eu/west", 1);
    assert_int_equal(read_and_compare(fake, "a", 0, 10, 10, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "AWS_REGION: 'eu/west' is not a region"));
    unsetenv("AWS_REGION");
    setenv("AWS_ENDPOINT_URL_S3", "http://host.example", 1); /* plain http to another machine is refused */
    assert_int_equal(read_and_compare(fake, "a", 0, 10, 10, NULL), AML_EINPUT);
    assert_int_equal(fake->requests, 0);
}

TEST_WITH(hosts_of_s3, setup, teardown) {
    static const struct {
        const char *host, *region; /* "": not an address of S3 */
    } examples[] = {
        {"bucket.s3.eu-west-3.amazonaws.com", "eu-west-3"},
        {"s3.eu-west-3.amazonaws.com", "eu-west-3"},
        {"my.s3.bucket.s3-us-west-2.amazonaws.com", "us-west-2"},
        {"S3.amazonaws.com", "us-east-1"},
        {"bucket.s3.dualstack.ap-south-1.amazonaws.com", "ap-south-1"},
        {"s3-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"},
        {"bucket.s3.cn-north-1.amazonaws.com.cn", "cn-north-1"},
        {"bucket.s3-website-us-east-1.amazonaws.com", ""},
        {"s3.eu-west-3.amazonaws.com.example.org", ""},
        {"s3.eu-west-3.example.org", ""},
        {"s3.eu-west-3amazonaws.com", ""},
        {"ec2.eu-west-3.amazonaws.com", ""},
        {"eu-west-3.amazonaws.com", ""},
        {"s3.eu west-3.amazonaws.com", ""},
        {".amazonaws.com", ""},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        char region[OBJECT_REGION_MAX];
        assert_int_equal(object_host_region(examples[i].host, region), examples[i].region[0] != '\0');
        assert_string_equal(region, examples[i].region);
    }
}

static void check_redirect(const char *head, const char *body, const char *region, const char *location) {
    struct object_failure failure;
    struct http_answer answer = {.status = 307, .head = head, .body = body, .body_size = strlen(body)};
    object_failure_read(&answer, &failure);
    assert_string_equal(failure.region, region);
    assert_string_equal(failure.location, location);
}

/* S3 names a bucket's other place by a header with the region, by an address, or by an endpoint. */
TEST_WITH(redirects, setup, teardown) {
    check_redirect("HTTP/1.1 307 x\r\nLocation: https://b.s3.us-west-2.amazonaws.com/k?sig=secret\r\n\r\n", "",
                   "us-west-2", "https://b.s3.us-west-2.amazonaws.com/k");
    check_redirect("HTTP/1.1 307 x\r\nLocation: https://b.s3.us-west-2.amazonaws.com/k\r\n"
                   "x-amz-bucket-region: eu-west-1\r\n\r\n",
                   "", "eu-west-1", "https://b.s3.us-west-2.amazonaws.com/k");
    check_redirect("HTTP/1.1 301 x\r\n\r\n",
                   "<Error><Code>PermanentRedirect</Code><Endpoint>b.s3-eu-west-1.amazonaws.com</Endpoint></Error>",
                   "eu-west-1", "");
    check_redirect("HTTP/1.1 301 x\r\nLocation: https://s3.us-west-2.amazonaws.com.evil.example/k\r\n\r\n", "", "",
                   "https://s3.us-west-2.amazonaws.com.evil.example/k");
    check_redirect("HTTP/1.1 301 x\r\nLocation: /login\r\n\r\n", "", "", "/login");
}

/* A redirect to a foreign host is not followed: a signature by the credentials must not leave S3. */
TEST_WITH(redirect_elsewhere, setup, teardown) {
    struct fake_s3 *fake = *state;
    struct error error = {0};
    fake_s3_put(fake, "a", 10, 1);
    fake->fault = (struct fake_fault){
        .count = 1, .status = 307, .code = "TemporaryRedirect", .head = "Location: https://evil.example/a\r\n"};
    assert_int_equal(read_and_compare(fake, "a", 0, 10, 10, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "it redirects to https://evil.example/a"));
    assert_int_equal(fake->requests, 1);
}

/* A path of a bucket alone is not an object. */
TEST_WITH(no_key, setup, teardown) {
    struct fake_s3 *fake = *state;
    static const char *const buckets[] = {"s3://bucket", "s3://bucket/"};
    for (size_t i = 0; i < sizeof buckets / sizeof *buckets; i++) {
        struct objects *objects;
        struct object_url url;
        struct error error = {0};
        uint64_t bytes;
        char tag[OBJECT_TAG_MAX];
        assert_int_equal(objects_open(&objects, &quick, NULL), 0);
        assert_int_equal(object_url_parse(buckets[i], &url, NULL), 0);
        assert_int_equal(object_head(objects, &url, &bytes, tag, &error), AML_EINPUT);
        assert_non_null(strstr(error.text, "s3://bucket: a bucket without an object's key: expected s3://BUCKET/KEY"));
        objects_close(objects);
    }
    struct storage_reader *reader;
    struct error error = {0};
    uint64_t bytes;
    assert_int_equal(storage_open(&reader, "s3://bucket", &bytes, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "expected s3://BUCKET/KEY"));
    assert_int_equal(fake->requests, 0);
}

/* ---- Web servers ---- */

static int read_web(struct fake_s3 *fake, const char *path, size_t wanted, struct error *error) {
    struct object_reader *reader;
    char address[200];
    char bytes[200];
    size_t got;
    snprintf(address, sizeof address, "%s/%s", http_server_url(fake->server), path);
    assert_int_equal(object_reader_open(&reader, address, UINT64_MAX, "", 0, UINT64_MAX, &quick, error), 0);
    int code = object_reader_read(reader, bytes, sizeof bytes, &got, error);
    assert_true(code != 0 || got == wanted);
    object_reader_close(reader);
    return code;
}

TEST_WITH(web, setup, teardown) {
    struct fake_s3 *fake = *state;
    struct error error = {0};
    struct error large = {0};
    struct error denied = {0};
    assert_int_equal(read_web(fake, "files_/none", 100, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "status 404"));
    fake->no_ranges = true; /* enough for files that fit into one range */
    fake_s3_put(fake, "page", 100, 1);
    fake_s3_put(fake, "large", 1 << 20, 1);
    struct error small = {0};
    assert_int_equal(read_web(fake, "files_/page", 100, &small), 0);
    assert_int_equal(read_web(fake, "files_/large", 200, &large), AML_EINPUT);
    assert_non_null(strstr(large.text, "does not send ranges of bytes"));
    struct error moved = {0};
    fake->fault = (struct fake_fault){
        .count = 1, .status = 302, .code = "", .head = "Location: https://host.example/new?sig=secret\r\n"};
    assert_int_equal(read_web(fake, "files_/page", 100, &moved), AML_EINPUT);
    assert_non_null(strstr(moved.text, "it redirects to https://host.example/new: expected that address"));
    struct error odd = {0};
    fake_s3_put(fake, "x]", 100, 1);
    assert_int_equal(read_web(fake, "files_/x]?a=[1]&b=*", 100, &odd), 0);
    setenv("AWS_PROFILE", "nobody", 1); /* credentials are for S3 only */
    assert_int_equal(read_web(fake, "files_/page", 100, &odd), 0);
    unsetenv("AWS_PROFILE");
    fake->fault = (struct fake_fault){.count = 1, .status = 403, .code = ""};
    assert_int_equal(read_web(fake, "files_/page?X-Amz-Signature=secret", 100, &denied), AML_EINPUT);
    assert_non_null(strstr(denied.text, "expected an address that anyone may read"));
    assert_null(strstr(denied.text, "secret"));
}

/* ---- Writing ---- */

static int write_object(size_t size, size_t piece, struct error *error) {
    struct object_writer *writer;
    FREED char *bytes = calloc(piece, 1);
    int code = object_writer_open(&writer, "s3://bucket/out/model", true, &quick, error);
    assert_int_equal(code, 0);
    for (size_t at = 0; at < size && code == 0; at += piece) {
        code = object_writer_write(writer, bytes, piece < size - at ? piece : size - at, error);
    }
    object_writer_rewrite(writer, "new", size < 3 ? 0 : 3);
    code = object_writer_commit(writer, error);
    return code;
}

TEST_WITH(write, setup, teardown) {
    struct fake_s3 *fake = *state;
    struct error error = {0};
    assert_int_equal(write_object(10000, 999, &error), 0);
    assert_int_equal(fake_s3_find(fake, "out/model")->size, 10000);
    assert_memory_equal(fake_s3_find(fake, "out/model")->bytes, "new", 3);
    assert_int_equal(fake_s3_count(fake, "PUT"), 1);
    assert_int_equal(write_object(0, 1, &error), 0);
    assert_int_equal(fake_s3_find(fake, "out/model")->size, 0);
    assert_int_equal(write_object((20 << 20) + 5, 1 << 20, &error), 0);
    assert_int_equal(fake_s3_find(fake, "out/model")->size, (20 << 20) + 5);
    assert_int_equal(fake_s3_uploads(fake), 0);
    assert_int_equal(write_object(16 << 20, 3 << 20, &error), 0); /* the last part is full */
    assert_int_equal(fake_s3_find(fake, "out/model")->size, 16 << 20);
}

TEST_WITH(write_faults, setup, teardown) {
    static const struct fake_fault faults[] = {
        {.count = 2, .of = "PUT", .status = 503, .code = "SlowDown"},
        {.count = 1, .of = "POST", .status = 500, .code = "InternalError"},
        {.count = 1, .of = "POST /bucket/out/model?uploadId", .no_xml = true},
        {.count = 1, .of = "PUT", .lost = true},
    };
    struct fake_s3 *fake = *state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct error error = {0};
        fake->fault = faults[i];
        assert_int_equal(write_object(18 << 20, 1 << 20, &error), 0);
        assert_int_equal(fake->fault.count, 0);
        assert_int_equal(fake_s3_uploads(fake), 0);
    }
}

TEST_WITH(write_is_whole, setup, teardown) {
    static const struct fake_fault faults[] = {
        {.of = "PUT", .status = 500, .code = "InternalError"},
        {.of = "PUT", .status = 403, .code = "AccessDenied"},
        {.of = "POST /bucket/out/model?uploads", .status = 403, .code = "AccessDenied"},
        {.of = "POST /bucket/out/model?uploadId", .no_xml = true},
    };
    struct fake_s3 *fake = *state;
    struct error none = {0};
    assert_int_equal(write_object(100, 100, &none), 0);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct error error = {0};
        fake->fault = faults[i];
        fake->fault.count = UINT32_MAX;
        assert_int_equal(write_object(18 << 20, 1 << 20, &error), AML_EFAIL);
        assert_non_null(strstr(error.text, "s3://bucket/out/model: status"));
        assert_int_equal(fake_s3_find(fake, "out/model")->size, 100); /* the old object is unchanged */
        assert_int_equal(fake_s3_uploads(fake), 0);                   /* and no upload is left */
    }
}

TEST_WITH(write_refused, setup, teardown) {
    static const char *const wrong[] = {"s3://bucket", "s3://bucket/folder/", "https://host.example/model"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct object_writer *writer;
        struct error error = {0};
        assert_int_equal(object_writer_open(&writer, wrong[i], false, &quick, &error), AML_EINPUT);
        assert_non_null(strstr(error.text, "expected s3://BUCKET/KEY"));
    }
}

TEST_WITH(write_check, setup, teardown) {
    struct fake_s3 *fake = *state;
    struct error error = {0};
    assert_int_equal(object_write_check("s3://bucket/out/model", &error), 0);
    assert_int_equal(fake_s3_uploads(fake), 0);
    assert_null(fake_s3_find(fake, "out/model"));
    fake->fault = (struct fake_fault){.count = 1, .of = "POST", .status = 403, .code = "AccessDenied"};
    assert_int_equal(object_write_check("s3://bucket/out/model", &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "s3:PutObject"));
}

/* ---- Lists and sweeps ---- */

static int note_item(void *context, const struct object_item *item, struct error *error) {
    char *text = context;
    snprintf(text + strlen(text), 400 - strlen(text), "%s ", item->key);
    return 0;
}

static void list(const char *path, bool folders, char text[400]) {
    struct objects *objects;
    struct object_url url;
    struct error error = {0};
    text[0] = '\0';
    assert_int_equal(objects_open(&objects, &quick, &error), 0);
    assert_int_equal(object_url_parse(path, &url, &error), 0);
    int code = object_list(objects, &url, folders, note_item, text, &error);
    objects_close(objects);
    assert_int_equal(code, 0);
}

TEST_WITH(lists, setup, teardown) {
    struct fake_s3 *fake = *state;
    char text[400];
    static const char *const keys[] = {"d/1", "d/2", "d/3", "d/4", "d/5", "d/e/1", "d/e/2", "e"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        fake_s3_put(fake, keys[i], 10, 1);
    }
    list("s3://bucket/d/", false, text);
    assert_string_equal(text, "d/1 d/2 d/3 d/4 d/5 d/e/1 d/e/2 ");
    assert_int_equal(fake_s3_count(fake, "GET /bucket?list-type=2"), 4);
    list("s3://bucket/d/", true, text);
    assert_non_null(strstr(text, "d/5 d/e/ "));
    list("s3://bucket/x", false, text);
    assert_string_equal(text, "");
    struct objects *objects;
    struct object_url url;
    uint64_t bytes;
    char tag[OBJECT_TAG_MAX];
    assert_int_equal(objects_open(&objects, &quick, NULL), 0);
    assert_int_equal(object_url_parse("s3://bucket/d/1", &url, NULL), 0);
    assert_int_equal(object_head(objects, &url, &bytes, tag, NULL), 0);
    assert_int_equal(bytes, 10);
    assert_string_equal(tag, "\"v1\"");
    assert_int_equal(object_exists(objects, &url, NULL), 1);
    assert_int_equal(object_delete(objects, &url, NULL), 0);
    assert_int_equal(object_exists(objects, &url, NULL), 0);
    assert_int_equal(object_delete(objects, &url, NULL), 0);
    objects_close(objects);
}

/* A writer that is killed, as by kill -9, leaves its upload. */
static void leave_upload(struct fake_s3 *fake, const char *key) {
    for (unsigned i = 0; i < FAKE_S3_UPLOADS; i++) {
        if (fake->uploads[i].id == 0) {
            fake->uploads[i].id = ++fake->last_upload;
            snprintf(fake->uploads[i].key, sizeof fake->uploads[i].key, "%s", key);
            return;
        }
    }
}

TEST_WITH(sweep, setup, teardown) {
    struct fake_s3 *fake = *state;
    struct error error = {0};
    struct objects *objects;
    struct object_url url;
    unsigned count;
    leave_upload(fake, "out/model");
    leave_upload(fake, "out/model");
    leave_upload(fake, "out/model-of-another");
    leave_upload(fake, "else");
    assert_int_equal(write_object(100, 100, &error), 0);
    assert_int_equal(fake_s3_uploads(fake), 2); /* the same key's uploads are removed, others stay */
    assert_int_equal(objects_open(&objects, &quick, NULL), 0);
    assert_int_equal(object_url_parse("s3://bucket/out/", &url, NULL), 0);
    assert_int_equal(object_uploads_sweep(objects, &url, true, &count, &error), 0);
    assert_int_equal(count, 1);
    assert_int_equal(fake_s3_uploads(fake), 1);
    fake->fault = (struct fake_fault){.count = 1, .of = "GET /bucket?uploads", .status = 403, .code = "AccessDenied"};
    /* without the right to list uploads, sweeping does nothing */
    assert_int_equal(object_uploads_sweep(objects, &url, true, &count, &error), 0);
    objects_close(objects);
}

/* ---- Inputs ---- */

/* Lists the files that `value` names, without their folder. Returns the result code. */
static int list_input(const char *value, char text[400], struct error *error) {
    CLOSED_BY(input_list_close) struct input_list input = {0};
    int code = input_list_add(&input, value, error);
    text[0] = '\0';
    for (size_t n = 0; n < input.count; n++) {
        assert_int_equal(input.names[n].identity.bytes, 10);
        snprintf(text + strlen(text), 400 - strlen(text), "%s ", strrchr(input.names[n].path, '/') + 1);
    }
    return code;
}

TEST_WITH(input_lists, setup, teardown) {
    struct fake_s3 *fake = *state;
    char text[400];
    struct error error = {0};
    static const char *const keys[] = {"d/a.csv", "d/b.csv", "d/c.txt", "d/.hidden", "d/x.gzi", "f/sub/a", "f/b"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        fake_s3_put(fake, keys[i], 10, 1);
    }
    assert_int_equal(list_input("s3://bucket/d/", text, &error), 0);
    assert_string_equal(text, "a.csv b.csv c.txt ");
    assert_int_equal(list_input("s3://bucket/d/*.csv", text, &error), 0);
    assert_string_equal(text, "a.csv b.csv ");
    assert_int_equal(list_input("s3://bucket/d/c.txt,s3://bucket/d/a.csv", text, &error), 0);
    assert_string_equal(text, "c.txt a.csv ");
    assert_int_equal(list_input("s3://bucket/none/*", text, &error), AML_EINPUT);
    struct error within = {0};
    assert_int_equal(list_input("s3://bucket/f/", text, &within), AML_EINPUT);
    assert_non_null(strstr(within.text, "a folder within the input"));
}

/* A name that exists as written means that object; other names may be patterns. */
TEST_WITH(input_names, setup, teardown) {
    struct fake_s3 *fake = *state;
    char text[400];
    struct error error = {0};
    static const char *const keys[] = {
        "br[1].csv", "br1.csv", "a?.csv", "ab.csv", "s*r", "star", ".d[x]", "p+q%20#1", "\xc3\xa4 [\xc3\xb6].csv",
        "e/../f[0]"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char path[200];
        char expected[200];
        fake_s3_put(fake, keys[i], 10, 1);
        snprintf(path, sizeof path, "s3://bucket/%s", keys[i]);
        snprintf(expected, sizeof expected, "%s ", strrchr(path, '/') + 1);
        assert_int_equal(list_input(path, text, &error), 0);
        assert_string_equal(text, expected);
        if (strstr(keys[i], "..") == NULL) {
            assert_int_equal(read_and_compare(fake, keys[i], 0, 10, 10, &error), 0);
        }
    }
    assert_int_equal(list_input("s3://bucket/br[12].csv", text, &error), 0);
    assert_string_equal(text, "br1.csv ");
    assert_int_equal(list_input("S3://bucket/a[b].csv", text, &error), 0);
    assert_string_equal(text, "ab.csv ");
    struct error none = {0};
    assert_int_equal(list_input("s3://bucket/zz[1].csv", text, &none), AML_EINPUT);
    assert_non_null(strstr(none.text, "nothing there that matches"));
    struct error bucket = {0};
    assert_int_equal(list_input("s3://bucket", text, &bucket), AML_EINPUT);
    assert_non_null(strstr(bucket.text, "expected s3://BUCKET/KEY"));
    fake->fault = (struct fake_fault){.count = 1, .of = "GET /bucket?list-type", .status = 403, .code = "AccessDenied"};
    assert_int_equal(list_input("s3://bucket/br[1].csv", text, &error), 0); /* without the right to list */
    assert_string_equal(text, "br[1].csv ");
}

TEST_WITH(input_text, setup, teardown) {
    struct fake_s3 *fake = *state;
    struct text_lines lines;
    struct error error = {0};
    char *line;
    size_t length;
    fake_s3_put(fake, "text", 16, 1);
    memcpy(fake_s3_find(fake, "text")->bytes, "one\ntwo\r\nthree\n", 16);
    assert_int_equal(source_lines_open(&lines, "s3://bucket/text", 100, &error), 0);
    static const char *const expected[] = {"one", "two", "three"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(text_lines_next(&lines, &line, &length, &error), 0);
        assert_string_equal(line, expected[i]);
    }
    text_lines_close(&lines);
    assert_int_equal(source_lines_open(&lines, "s3://bucket/none", 100, &error), AML_EINPUT);
    text_lines_close(&lines);
}

/* ---- Checkpoints ---- */

static void put_file(const char *folder, const char *name, size_t size) {
    struct storage_file *file;
    struct error error = {0};
    char path[600];
    char bytes[100] = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(storage_create(&file, path, false, &error), 0);
    assert_int_equal(storage_write(file, bytes, size, &error), 0);
    assert_int_equal(storage_commit(file, &error), 0);
}

/* A manifest of two partitions of 10 and 20 bytes. */
static struct manifest make_manifest(uint64_t clock, struct manifest_file files[2]) {
    files[0] = (struct manifest_file){.bytes = 10};
    files[1] = (struct manifest_file){.bytes = 20};
    struct manifest manifest = {.job = {.app = "app", .clocks_per_iteration = 1, .local_steps = 1},
                                .clock = clock,
                                .partitions = 2,
                                .shards = 1,
                                .files = files};
    return manifest;
}

/* Writes a checkpoint; `path` gets its path. */
static void write_checkpoint(uint64_t clock, char path[WIRE_PATH_MAX]) {
    struct manifest_file files[2];
    struct manifest manifest = make_manifest(clock, files);
    struct error error = {0};
    char folder[WIRE_PATH_MAX];
    if (manifest_begin("s3://bucket/root", clock, 1, folder, &error) != 0) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(manifest_place("s3://bucket/root", clock, folder, &error), 0);
    put_file(folder, "partition-0", 10);
    put_file(folder, "partition-1", 20);
    assert_int_equal(manifest_find("s3://bucket/root", path, NULL) == 0 && strcmp(path, folder) == 0, 0);
    size_t size = 0;
    FREED char *text = manifest_text(&manifest, &size, &error);
    if (text == NULL || manifest_finish("s3://bucket/root", folder, clock, text, size, path, &error) != 0) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(manifest_prune("s3://bucket/root", 2, &error), 0);
}

static unsigned objects_of(struct fake_s3 *fake, const char *prefix) {
    unsigned count = 0;
    for (unsigned i = 0; i < FAKE_S3_OBJECTS; i++) {
        const struct fake_object *object = &fake->objects[i];
        count += object->bytes != NULL && strncmp(object->key, prefix, strlen(prefix)) == 0;
    }
    return count;
}

TEST_WITH(checkpoints, setup, teardown) {
    struct fake_s3 *fake = *state;
    struct manifest found;
    struct error error = {0};
    char path[WIRE_PATH_MAX], newest[WIRE_PATH_MAX], folder[WIRE_PATH_MAX];
    fake_s3_put(fake, "root/mine.txt", 5, 1); /* an object outside checkpoints stays */
    for (uint64_t clock = 10; clock <= 40; clock += 10) {
        write_checkpoint(clock, newest);
    }
    assert_int_equal(objects_of(fake, "root/clock-"), 2 * 3); /* the two newest */
    assert_int_equal(manifest_find("s3://bucket/root", path, &error), 0);
    assert_string_equal(path, newest);
    if (manifest_read(path, &found, &error) != 0) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(found.clock, 40);
    manifest_close(&found);
    /* A killed attempt leaves objects and an upload. It is no checkpoint, and the next attempt sweeps it. */
    assert_int_equal(manifest_begin("s3://bucket/root", 50, 1, folder, &error), 0);
    assert_int_equal(manifest_place("s3://bucket/root", 50, folder, &error), 0);
    put_file(folder, "partition-0", 10);
    leave_upload(fake, strchr(folder + strlen("s3://"), '/') + 1);
    assert_int_equal(manifest_find("s3://bucket/root", path, &error), 0);
    assert_string_equal(path, newest);
    write_checkpoint(50, newest);
    assert_int_equal(fake_s3_uploads(fake), 0);
    assert_int_equal(objects_of(fake, "root/clock-"), 2 * 3);
    /* A partition's file is incomplete. */
    snprintf(path, sizeof path, "%s/partition-1", newest + strlen("s3://bucket/"));
    fake_s3_put(fake, path, 19, 1);
    struct error damaged = {0};
    assert_int_equal(manifest_read(newest, &found, &damaged), AML_EINPUT);
    assert_non_null(strstr(damaged.text, "expected a file of 20 bytes, found 19"));
    assert_int_equal(manifest_begin("s3://bucket/root", 20, 1, folder, NULL), AML_EINPUT); /* an earlier clock */
    assert_non_null(fake_s3_find(fake, "root/mine.txt"));
}

/* While the storage does not answer, a checkpoint must not be taken for an unfinished one and removed. */
TEST_WITH(discard_is_sure, setup, teardown) {
    struct fake_s3 *fake = *state;
    char path[WIRE_PATH_MAX];
    write_checkpoint(10, path);
    fake->fault = (struct fake_fault){.count = UINT32_MAX, .of = "HEAD", .status = 403, .code = "AccessDenied"};
    assert_int_not_equal(manifest_discard("s3://bucket/root", NULL), 0);
    assert_int_not_equal(manifest_prune("s3://bucket/root", 1, NULL), 0);
    fake->fault.count = 0;
    assert_int_equal(objects_of(fake, "root/clock-"), 3);
}
