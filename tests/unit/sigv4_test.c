/* Tests of agileml/cloud/sigv4.h: AWS's test suite if its folder exists, and some of AWS's published examples. */
#include "agileml/cloud/sigv4.h"
#include "tests/test.h"

#include <dirent.h>
#include <strings.h>
#include <sys/stat.h>

#define SECRET "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"

enum { FILE_MAX = 1 << 14, PATH_TEXT = 1024 };

static const struct sigv4_scope SUITE_SCOPE = {"20150830T123600Z", "us-east-1", "service"};

/* ---- The suite: folders with files .req, .creq, .sts, .authz ---- */

/* Reads a file's text without its last line end; false: there is no such file. */
static bool read_text(const char *folder, const char *name, const char *suffix, char text[FILE_MAX]) {
    char path[PATH_TEXT + 600];
    snprintf(path, sizeof path, "%s/%s.%s", folder, name, suffix);
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return false;
    }
    size_t size = fread(text, 1, FILE_MAX - 1, file);
    fclose(file);
    text[size] = '\0';
    return true;
}

/* A request, parsed in place. */
struct parsed {
    struct sigv4_request request;
    struct sigv4_header headers[SIGV4_HEADERS_MAX];
    char text[FILE_MAX];
};

static void parse(struct parsed *parsed) {
    char *line_end = strchr(parsed->text, '\n');
    char *head = line_end != NULL ? line_end + 1 : parsed->text + strlen(parsed->text);
    char *body = strstr(head, "\n\n");
    if (line_end != NULL) {
        *line_end = '\0';
    }
    if (body != NULL) {
        *body = '\0';
        body += 2;
    }
    char *path = strchr(parsed->text, ' ');
    assert_non_null(path);
    *path++ = '\0';
    char *version = strstr(path, " HTTP/1.1"); /* a path may hold spaces */
    assert_non_null(version);
    *version = '\0';
    char *query = strchr(path, '?');
    if (query != NULL) {
        *query++ = '\0';
    }
    struct sigv4_request *request = &parsed->request;
    *request = (struct sigv4_request){.method = parsed->text, .path = path, .query = query, .headers = parsed->headers};
    request->body = body != NULL ? body : "";
    request->body_size = strlen(request->body);
    while (*head != '\0') {
        char *end = strchr(head, '\n');
        while (end != NULL && (end[1] == ' ' || end[1] == '\t')) {
            end = strchr(end + 1, '\n'); /* the value continues on the next line */
        }
        char *next = end != NULL ? end + 1 : head + strlen(head);
        if (end != NULL) {
            *end = '\0';
        }
        char *colon = strchr(head, ':');
        assert_non_null(colon);
        *colon = '\0';
        assert_true(request->header_count < SIGV4_HEADERS_MAX);
        parsed->headers[request->header_count++] = (struct sigv4_header){head, colon + 1};
        head = next;
    }
}

static void check_case(const char *folder, const char *name) {
    static struct parsed parsed;
    char wanted[FILE_MAX];
    char token[] = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";
    struct error error = {0};
    FREED char *canonical;
    assert_true(read_text(folder, name, "req", parsed.text));
    parse(&parsed);
    if (strcmp(name, "get-vanilla-with-session-token") == 0) { /* the .req lacks the token */
        parsed.headers[parsed.request.header_count++] = (struct sigv4_header){"X-Amz-Security-Token", token};
    }
    assert_int_equal(sigv4_canonical(&parsed.request, &canonical, &error), 0);
    assert_true(read_text(folder, name, "creq", wanted));
    if (strcmp(canonical, wanted) != 0) {
        fail_msg("%s: canonical request\n%s\nwanted\n%s", name, canonical, wanted);
    }
    FREED char *string_to_sign = sigv4_string_to_sign(&SUITE_SCOPE, canonical);
    assert_true(read_text(folder, name, "sts", wanted));
    if (strcmp(string_to_sign, wanted) != 0) {
        fail_msg("%s: string to sign\n%s\nwanted\n%s", name, string_to_sign, wanted);
    }
    FREED char *authorization;
    assert_int_equal(sigv4_authorization(&parsed.request, &SUITE_SCOPE, "AKIDEXAMPLE", SECRET, &authorization, &error),
                     0);
    assert_true(read_text(folder, name, "authz", wanted));
    if (strcmp(authorization, wanted) != 0) {
        fail_msg("%s: authorization\n%s\nwanted\n%s", name, authorization, wanted);
    }
}

/* Checks every folder NAME below, at any depth, that contains NAME.req. Returns their number. */
static unsigned check_folder(const char *folder) {
    unsigned count = 0;
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        char path[PATH_TEXT];
        char request[PATH_TEXT + 600];
        struct stat about;
        if (entry->d_name[0] == '.' ||
            (size_t)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= sizeof path ||
            stat(path, &about) != 0 || !S_ISDIR(about.st_mode)) {
            continue;
        }
        snprintf(request, sizeof request, "%s/%s.req", path, entry->d_name);
        if (stat(request, &about) == 0) {
            check_case(path, entry->d_name);
            count++;
        } else {
            count += check_folder(path);
        }
    }
    closedir(entries);
    return count;
}

TEST(suite) {
    const char *source = getenv("PROTEUS_SOURCE");
    char folder[PATH_TEXT];
    struct stat about;
    snprintf(folder, sizeof folder, "%s/../shared/data/sigv4", source != NULL ? source : ".");
    if (stat(folder, &about) != 0) {
        print_message("AWS's signature test suite is not there (%s): skipped\n", folder);
        skip();
    }
    assert_int_equal(check_folder(folder), 34);
}

/* ---- Without the suite ---- */

/* AWS's documentation, "Signature Version 4 signing process": ListUsers of IAM. */
TEST(published_example) {
    const struct sigv4_header headers[] = {
        {"Host", "iam.amazonaws.com"},
        {"Content-Type", "application/x-www-form-urlencoded; charset=utf-8"},
        {"X-Amz-Date", "20150830T123600Z"},
    };
    const struct sigv4_request request = {.method = "GET",
                                          .path = "/",
                                          .query = "Action=ListUsers&Version=2010-05-08",
                                          .headers = headers,
                                          .header_count = 3};
    const struct sigv4_scope scope = {"20150830T123600Z", "us-east-1", "iam"};
    struct error error = {0};
    FREED char *canonical;
    assert_int_equal(sigv4_canonical(&request, &canonical, &error), 0);
    FREED char *string_to_sign = sigv4_string_to_sign(&scope, canonical);
    assert_string_equal(string_to_sign, "AWS4-HMAC-SHA256\n20150830T123600Z\n20150830/us-east-1/iam/aws4_request\n"
                                        "f536975d06c0309214f805bb90ccff089219ecd68b2577efef23edd43b7e1a59");
    char signature[SIGV4_HEX];
    sigv4_sign(&scope, SECRET, string_to_sign, signature);
    assert_string_equal(signature, "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7");
}

static void check_canonical(const char *path, const char *query, const char *wanted) {
    const struct sigv4_request request = {.method = "GET", .path = path, .query = query};
    struct error error = {0};
    FREED char *canonical;
    assert_int_equal(sigv4_canonical(&request, &canonical, &error), 0);
    assert_memory_equal(canonical, wanted, strlen(wanted));
}

TEST(paths_and_queries) {
    check_canonical("", NULL, "GET\n/\n\n");
    check_canonical("/a/./b/../c", NULL, "GET\n/a/c\n\n");
    check_canonical("/../../a/..", NULL, "GET\n/\n\n");
    check_canonical("/a/.", NULL, "GET\n/a/\n\n");
    check_canonical("//a//b//", NULL, "GET\n/a/b/\n\n");
    check_canonical("/a%20b", NULL, "GET\n/a%2520b\n\n"); /* encoded twice, as for every service except S3 */
    check_canonical("/", "b=2&a=&c&a=1", "GET\n/\na=&a=1&b=2&c=\n");
    check_canonical("/", "x=%7e%2f%2B+%&&y=a=b", "GET\n/\nx=~%2F%2B%2B%25&y=a%3Db\n");
    /* "a" sorts before "a-b", although "-" sorts before "=". */
    check_canonical("/", "a-b=1&a=2", "GET\n/\na=2&a-b=1\n");
}

TEST(dates) {
    char date[SIGV4_DATE];
    sigv4_date(1440938160, date);
    assert_string_equal(date, "20150830T123600Z");
    sigv4_date(0, date);
    assert_string_equal(date, "19700101T000000Z");
}

TEST(limits) {
    struct sigv4_header headers[SIGV4_HEADERS_MAX + 1];
    for (size_t i = 0; i <= SIGV4_HEADERS_MAX; i++) {
        headers[i] = (struct sigv4_header){"x", "y"};
    }
    struct sigv4_request request = {
        .method = "GET", .path = "/", .headers = headers, .header_count = SIGV4_HEADERS_MAX + 1};
    struct error error = {0};
    char *text;
    assert_int_equal(sigv4_canonical(&request, &text, &error), AML_EINPUT);
    assert_null(text);
    request.header_count--;
    error = (struct error){0};
    assert_int_equal(sigv4_canonical(&request, &text, &error), 0);
    free(text);

    char query[4096] = "";
    for (int i = 0; i < 300; i++) {
        strcat(query, "a=b&");
    }
    request.query = query;
    assert_int_equal(sigv4_canonical(&request, &text, &error), AML_EINPUT);
    request.query = NULL;

    char secret[400];
    memset(secret, 's', sizeof secret - 1);
    secret[sizeof secret - 1] = '\0';
    error = (struct error){0};
    assert_int_equal(sigv4_authorization(&request, &SUITE_SCOPE, "KEY", secret, &text, &error), AML_EINPUT);
    assert_null(strstr(error.text, "sss"));
}
